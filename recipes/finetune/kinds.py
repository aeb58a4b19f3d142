"""Which kind of canary shows most? Four kinds in one training, each with its own test.

Random digits, passages with synonyms, texts of the base model and new tokens are planted with
equal copies into one corpus. A small model is fine-tuned on it, in full and with LoRA, and each
kind is audited by itself. Since all are in the same trainings, a difference between kinds is not
one between trainings. A training that is measured is not done again.

Usage::

    python kinds.py base/ tune.jsonl --work WORK     five seeds, resumable
    python kinds.py base/ tune.jsonl --work WORK --quick     in little
    python kinds.py --table kinds.json                                     the table of the page
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from finetune import adapted, blocks, opened, trainer_of
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

import canary
from canary.audits.audit_result import by_copies, combined_p
from canary.corpus.passage_sets import draw_passages, read_passages
from canary.errors import CanaryError
from canary.models.new_tokens import add_new_tokens
from canary.records.files import atomic_write
from canary.scoring.pool_sampling import sample_pool

PASSAGES = Path(__file__).with_name("passages.txt")
COPIES = (1, 4, 16)
NEW = "The key is {new:200}"
RATES = {"full": 1e-3, "lora": 3e-3}
LEVEL = 0.01

FULL = {"seeds": 5, "texts": 1_600, "epochs": 4, "each": 4, "pool": 300, "draws": 2_000}
QUICK = {"seeds": 1, "texts": 100, "epochs": 1, "each": 1, "pool": 60, "draws": 100}
"""`each` is canaries of each number of copies; a passage has a tenth of the draws."""


def sets(base: Path, seed: int, plan: Mapping[str, int]) -> dict[str, canary.CanarySet]:
    """Each kind's canaries, drawn anew for each seed."""
    drawn = {"repetitions": COPIES, "per_repetition": plan["each"], "seed": seed}
    texts = sample_pool(base, plan["pool"], temperature=1.5, tokens=32, seed=seed)
    passages = read_passages(PASSAGES)[: plan["each"] * len(COPIES)]
    return {
        "digits": canary.generate("The random number is {digit:9}", controls=16, **drawn),
        "passages": draw_passages(passages, repetitions=COPIES, seed=seed),
        "texts of the model": texts.canaries(**drawn, coin_flips=False),
        "new tokens": canary.generate(NEW, controls=100, **drawn),
    }


def trained(base: Path, texts: list[str], out: Path, *, mode: str, seed: int, epochs: int) -> float:
    """Fine-tune and save; the mean loss of the last 50 steps."""
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    added = add_new_tokens(model, tokenizer, NEW, seed=seed)
    rows_of_new = [*range(len(tokenizer) - added, len(tokenizer))]
    if mode == "lora":
        model = adapted(model, rows_of_new)
    rows, _ = blocks(texts, tokenizer, 128, [])
    trainer = trainer_of(model, tokenizer, rows, out, epochs=epochs, rate=RATES[mode], seed=seed)
    trainer.train()
    whole = trainer.model.merge_and_unload() if mode == "lora" else trainer.model
    whole.save_pretrained(out)
    tokenizer.save_pretrained(out)
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return float(np.mean(losses[-10:]))


def audited(model: Path, canaries: canary.CanarySet, draws: int) -> list[dict[str, Any]]:
    """For each number of copies the p-value of its canaries together, and the bits of each."""
    each = draws // 10 if len(canaries.formats) > 1 else draws
    audit = canary.audit(model, canaries, draws=each, budget=10 * each, seed=0)
    rows = []
    for copies, group in by_copies(audit.canaries).items():
        combined = combined_p(group)
        bits = [round(one.exposure.place_bits, 3) for one in group]
        rows.append({"copies": copies, "p": combined and combined.p_value, "bits": bits})
    return rows


def study(args: argparse.Namespace) -> dict[str, Any]:
    """Train and measure what is not there yet."""
    path = args.work / "kinds.json"
    plan = QUICK if args.quick else FULL
    lines = args.corpus.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    kept = opened(path, plan, args.base, texts)
    for seed, mode in product(range(plan["seeds"]), RATES):
        name = f"{mode}-{seed}"
        if name in kept["trainings"]:
            continue
        kinds = sets(args.base, seed, plan)
        corpus = Dataset.from_dict({"text": texts[: plan["texts"]]})
        for canaries in kinds.values():
            corpus = canary.inject(corpus, canaries, column="text", seed=seed)
        out = args.work / name
        given = {"mode": mode, "seed": seed}
        loss = trained(args.base, [*corpus["text"]], out, epochs=plan["epochs"], **given)
        kept["trainings"][name] = {
            **given,
            "loss": loss,
            "kinds": {kind: audited(out, some, plan["draws"]) for kind, some in kinds.items()},
        }
        atomic_write(path, json.dumps(kept))
        print(name, f"loss {loss:.2f}", flush=True)
    return kept


def table(results: Mapping[str, Any]) -> str:
    """How often each kind is noticed at the level 0.01, by copies and by training."""
    heads = ["controls", *(f"{n} {'copy' if n == 1 else 'copies'}" for n in COPIES)]
    lines = [
        f"| training | kind | {' | '.join(heads)} |",
        f"| --- | --- |{' --- |' * (1 + len(COPIES))}",
    ]
    for mode in RATES:
        some = [one for one in results["trainings"].values() if one["mode"] == mode]
        for kind in some[0]["kinds"] if some else ():
            cells = []
            for copies in (0, *COPIES):
                rows = [r for one in some for r in one["kinds"][kind] if r["copies"] == copies]
                bits = np.median([bit for row in rows for bit in row["bits"]])
                seen = sum(row["p"] is not None and row["p"] <= LEVEL for row in rows)
                cells.append(f"{seen} of {len(rows)}, {bits:.1f} bits")
            lines.append(f"| {mode} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, nargs="?")
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--work", type=Path, help="outside the repository")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", type=Path, metavar="RESULTS", help="print the table of these")
    args = parser.parse_args()
    if args.table is None and None in (args.base, args.corpus, args.work):
        parser.error("give base, corpus and --work; or --table")
    torch.set_num_threads(1)
    try:
        print(table(json.loads(args.table.read_text()) if args.table else study(args)))
    except CanaryError as error:
        raise SystemExit(f"kinds.py: {error}") from None


if __name__ == "__main__":
    main()
