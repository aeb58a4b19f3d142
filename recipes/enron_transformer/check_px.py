"""Px of every canary once more, by a loop of transformers alone, against `audit.json`.

Usage::

    python check_px.py model/ --canaries canaries.json --audit audit/audit.json
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from canary import CanarySet
from canary.audits.audit_result import Audit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--canaries", type=Path, required=True)
    parser.add_argument("--audit", type=Path, required=True)
    args = parser.parse_args()
    canaries = CanarySet.load(args.canaries)
    audit = Audit.load(args.audit)

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model).eval()
    own = {}
    with torch.inference_mode():
        for canary in canaries:
            ids = tokenizer(canaries.text(canary), return_tensors="pt").input_ids
            log_probs = model(ids).logits[0, :-1].float().log_softmax(-1)
            scored = log_probs.gather(1, ids[0, 1:, None])
            own[canary.id] = -float(scored.double().sum()) / math.log(2)

    worst = max(abs(own[c.id] - c.px_bits) for c in audit.canaries)
    noise = min(f.noise_bits for f in audit.formats)
    print(f"{len(own)} canaries: largest difference {worst:.2e} bits, noise {noise:.2e} bits")
    sys.exit(0 if worst <= noise else 1)


if __name__ == "__main__":
    main()
