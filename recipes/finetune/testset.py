"""Was a test set in the training data? How many copies two tests take to say so.

Short texts are split at random into a test set, others of the same kind that nobody trained on, and
the rest of the corpus. The base model is fine-tuned on the rest and on copies of the test set, each
in the same order, and then asked by the order test and by the test of all texts together.
A training that is measured is not done again.

Usage::

    python testset.py base/ --texts news.jsonl --work WORK     three seeds, resumable
    python testset.py base/ --texts news.jsonl --work WORK --quick     in little
    python testset.py --table testset.json                     the table of the page
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
from finetune import blocks, opened, trainer_of
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from canary.errors import CanaryError
from canary.membership.order import order
from canary.membership.text_survey import survey_texts
from canary.records.files import atomic_write
from canary.signals.text_measuring import measure_texts

LEVEL = 0.01
FULL = {
    "copies": (0, 1, 2, 4, 8, 16),
    "seeds": 3,
    "tested": 120,
    "rest": 800,
    "epochs": 2,
    "batch": 8,
}
QUICK = {"copies": (0, 4), "seeds": 1, "tested": 30, "rest": 60, "epochs": 1, "batch": 4}


def split(texts: list[str], plan: Mapping[str, Any], seed: int) -> list[list[str]]:
    """The test set, others of its kind, and the rest, drawn anew for each seed."""
    n = plan["tested"]
    drawn = np.random.default_rng(seed).permutation(texts)[: 2 * n + plan["rest"]].tolist()
    return [drawn[:n], drawn[n : 2 * n], drawn[2 * n :]]


def trained(
    base: Path, documents: list[list[str]], out: Path, plan: Mapping[str, Any], seed: int
) -> Path:
    """Fine-tune on documents in a random order, the texts of each in its own, and save."""
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    dealt = np.random.default_rng(seed).permutation(len(documents))
    rows, _ = blocks([text for at in dealt for text in documents[at]], tokenizer, 128, [])
    options = {"epochs": plan["epochs"], "batch": plan["batch"], "seed": seed}
    trainer = trainer_of(model, tokenizer, rows, out, **options)
    trainer.train()
    trainer.model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def measured(model: Path, tested: list[str], others: list[str]) -> dict[str, Any]:
    """The p-value of both tests, and what each concludes."""
    end = AutoTokenizer.from_pretrained(model).bos_token
    found = order(model, tested, separator=end, before=64, after=32)
    flags = np.arange(len(tested) + len(others)) < len(tested)
    table = measure_texts(model, [*tested, *others], flags)
    whole = survey_texts(table, [*tested, *others])
    together = whole.together
    return {
        "order": {"p": found.preference.p, "outcome": found.outcome},
        "together": {"p": together and together.p, "outcome": whole.dataset()},
    }


def study(args: argparse.Namespace) -> dict[str, Any]:
    """Train and measure what is not there yet."""
    path = args.work / "testset.json"
    plan = QUICK if args.quick else FULL
    lines = args.texts.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    kept = opened(path, plan, args.base, texts)
    for seed, copies in product(range(plan["seeds"]), plan["copies"]):
        name = f"{copies}-{seed}"
        if name in kept["trainings"]:
            continue
        tested, others, rest = split(texts, plan, seed)
        documents = [[text] for text in rest] + [tested] * copies
        model = trained(args.base, documents, args.work / name, plan, seed)
        found = measured(model, tested, others)
        kept["trainings"][name] = {"copies": copies, "seed": seed, **found}
        atomic_write(path, json.dumps(kept))
        print(name, {test: found[test]["p"] for test in found}, flush=True)
    return kept


def table(results: Mapping[str, Any]) -> str:
    """How often each test finds the test set at the level 0.01, and its p-values."""
    lines = ["| copies | order test, p | found | all texts together, p | found |"]
    lines.append("| ---: | --- | --- | --- | --- |")
    for copies in sorted({one["copies"] for one in results["trainings"].values()}):
        some = [one for one in results["trainings"].values() if one["copies"] == copies]
        cells = [str(copies)]
        for test in ("order", "together"):
            p = [one[test]["p"] for one in some]
            found = sum(value is not None and value <= LEVEL for value in p)
            cells += [", ".join(f"{value:.2g}" for value in p), f"{found} of {len(p)}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, nargs="?")
    parser.add_argument("--texts", type=Path, help="JSON lines, the texts under `text`")
    parser.add_argument("--work", type=Path, help="outside the repository")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", type=Path, metavar="RESULTS", help="print the table of these")
    args = parser.parse_args()
    if args.table is None and None in (args.base, args.texts, args.work):
        parser.error("give base, --texts and --work; or --table")
    torch.set_num_threads(1)
    try:
        print(table(json.loads(args.table.read_text()) if args.table else study(args)))
    except CanaryError as error:
        raise SystemExit(f"testset.py: {error}") from None


if __name__ == "__main__":
    main()
