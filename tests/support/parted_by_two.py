"""An audit of a model whose layers are parted over two processes (tensor parallelism)."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from two_processes import two

import canary


def audit(folder: Path) -> dict[str, object]:
    """What each process finds; it loads its part of the model in `folder`."""
    from transformers import AutoModelForCausalLM

    torch.distributed.init_process_group("gloo")
    module = AutoModelForCausalLM.from_pretrained(folder / "model", tp_plan="auto")
    whole = sum(part.numel() for part in module.parameters())
    here = sum(getattr(p, "_local_tensor", p).numel() for p in module.parameters())
    return {"share": here / whole, **found(canary.load(module, tokenizer=folder / "model"))}


def found(model: object) -> dict[str, object]:
    """The numbers of an audit, which takes two seconds of a tiny model."""
    canaries = canary.generate("the pin is {digit:4}", repetitions=[1, 4], per_repetition=4, seed=0)
    result = canary.audit(model, canaries, start_token="<|im_start|>", seed=0)
    bits = result.to_frame()["bits"].tolist()
    return {"bits": bits, "fingerprint": model.facts.fingerprint}


if __name__ == "__main__":
    sys.exit(two(audit, Path(sys.argv[1])))
