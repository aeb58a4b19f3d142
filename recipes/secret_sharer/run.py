"""The Secret Sharer's experiment on the Penn Treebank, from the text to the figure.

Usage::

    python run.py --data DIR --work DIR            the whole experiment
    python run.py --work DIR --quick               the same in little, on Python's own prose

`--work` must lie outside the repository: it holds the secrets and a checkpoint of every
epoch. Run again, the command goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from corpus import character_tokenizer, penn_treebank, prose, refuse_other, shortened, written
from datasets import Dataset
from figure import draw
from model import build, parameters
from train import Epoch, Settings, train

import canary
from canary.audits.audit_result import CANARY_SET, Audit

START = "\n"  # what stood before every line in training stands before a candidate
FULL: dict[str, Any] = {
    "format": "The random number is {digit:9}",
    "repetitions": [1, 2, 4, 10, 30, 100],
    "per_repetition": 4,
    "controls": 16,
    "model": {"embedding": 128, "units": 200, "layers": 2},
    "training": Settings(epochs=12),
    "draws": 20_000,
    "budget": 200_000_000,  # 10^9 candidates take 1.1e8 queries
}
QUICK: dict[str, Any] = {
    "format": "The random number is {digit:4}",
    "repetitions": [1, 10, 100],
    "per_repetition": 2,
    "controls": 16,
    "model": {"embedding": 16, "units": 64, "layers": 1},
    "training": Settings(epochs=2, batch=16, window=50, learning_rate=1e-2, warmup_steps=20),
    "draws": 500,
    "budget": 20_000,
    "lines": 1500,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="holds ptb/ptb.train.txt or .txt.xz")
    parser.add_argument("--work", type=Path, required=True, help="outside the repository")
    parser.add_argument("--quick", action="store_true", help="a slice, four digits")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="for results.json and figures; else --work")
    return parser.parse_args()


def canaries_of(plan: Mapping[str, Any], work: Path, seed: int) -> canary.CanarySet:
    """The run's canary set, generated into `work` if it is not there."""
    planned = canary.generate(
        plan["format"],
        repetitions=plan["repetitions"],
        per_repetition=plan["per_repetition"],
        controls=plan["controls"],
        seed=seed,
    )
    return kept_canaries(work / "canaries.json", planned)


def kept_canaries(path: Path, planned: canary.CanarySet) -> canary.CanarySet:
    """The planned canaries, saved there; an error if others are."""
    if not path.exists():
        planned.save(path)
    there = canary.CanarySet.load(path)
    refuse_other(path, {"canaries": there.fingerprint}, {"canaries": planned.fingerprint})
    return planned


def canaries_for(model: Path, path: Path) -> canary.CanarySet:
    """The canaries of a file, one of those beside the model's training if it has any."""
    beside = [model.resolve().parent / f"{name}.json" for name in ("canaries", "company")]
    there = [one for one in beside if one.exists()]
    given = canary.CanarySet.load(path)
    if there and given not in [canary.CanarySet.load(one) for one in there]:
        sys.exit(f"{path}: the model has other canaries; give {' or '.join(map(str, there))}")
    return given


def set_of(canaries: canary.CanarySet) -> dict[str, Any]:
    """What tells a canary set from others, as audits keep it."""
    return {CANARY_SET: canaries.fingerprint}


def with_canaries(lines: Sequence[str], canaries: canary.CanarySet, seed: int) -> list[str]:
    """The lines with every canary injected, each copy a line of its own, and verified."""
    injected = canary.inject(Dataset.from_dict({"text": lines}), canaries, seed=seed)
    found = canary.verify(injected, canaries)
    if not found.ok:
        sys.exit(found.summary())
    return list(injected["text"])


def audit_of(
    folder: Path, name: str, canaries: canary.CanarySet, **options: Any
) -> tuple[Audit, float]:
    """The audit of an epoch's model, from its file or made now; and its seconds.

    A file of other canaries or options is an error.
    """
    path = folder / name
    if not path.exists():
        model = canary.load(folder, factory=build)
        canary.audit(model, canaries, start_token=START, **options).save(path)
    audit = Audit.load(path)
    refuse_other(path, audit.settings, set_of(canaries) | options)
    return audit, sum(f.seconds for f in audit.formats)


def losses(epoch: Epoch) -> dict[str, Any]:
    """What is kept of an epoch."""
    return {
        "epoch": epoch.number,
        "train_nats": epoch.train_nats,
        "valid_nats": epoch.valid_nats,
        "test_nats": epoch.test_nats,
        "seconds": epoch.seconds,
    }


def exposures(audit: Audit) -> list[dict[str, Any]]:
    """What may be kept of an audit's canaries: ordinal ids, never a secret."""
    kept = ("bits", "lower_bits", "upper_bits", "p_value", "rank", "hits")
    return [
        {
            "id": c.id,
            "repetitions": c.repetitions,
            "px_bits": c.px_bits,
            **{k: v for k, v in c.exposure.to_dict().items() if k in kept},
        }
        for c in audit.canaries
    ]


def main() -> None:
    args = arguments()
    plan = QUICK if args.quick else FULL
    training = replace(plan["training"], seed=args.seed)
    if args.epochs:
        training = replace(training, epochs=args.epochs)
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)

    if args.data:
        texts = penn_treebank(args.data)
    elif args.quick:
        texts = prose()
    else:
        sys.exit("--data is missing: the folder that holds ptb/; see README.md")
    if "lines" in plan:
        texts = shortened(texts, plan["lines"])
    canaries = canaries_of(plan, args.work, args.seed)
    alphabet = set().union(*(f.alphabet for f in canaries.formats))
    tokenizer = character_tokenizer(texts, alphabet)
    texts["train"] = with_canaries(texts["train"], canaries, args.seed)
    config = {"vocabulary": tokenizer.get_vocab_size(), **plan["model"]}

    results: dict[str, Any] = {
        "format": plan["format"],
        "space_bits": canaries.formats[0].bits,
        "settings": {**asdict(training), **config, "draws": plan["draws"]},
        "parameters": parameters(build(config)),
        "characters": sum(len(line) + 1 for line in texts["train"]),
        "epochs": [],
    }
    for epoch in train(config, tokenizer, texts, training, args.work):
        audit, seconds = audit_of(
            epoch.folder,
            "draws.json",
            canaries,
            method="sampling",
            draws=plan["draws"],
            seed=args.seed,
        )
        results["epochs"].append(
            {**losses(epoch), "audit_seconds": seconds, "canaries": exposures(audit)}
        )
        print(
            f"epoch {epoch.number}: {epoch.test_nats:.3f} nats/char on test, "
            f"{epoch.seconds:.0f} s\n{audit.summary()}",
            file=sys.stderr,
            flush=True,
        )
    whole, seconds = audit_of(
        epoch.folder, "enumeration.json", canaries, method="enumeration", budget=plan["budget"]
    )
    print(f"the whole space, {seconds:.0f} s\n{whole.summary()}", file=sys.stderr)
    results["enumeration"] = {
        "candidates": whole.formats[0].candidates,
        "queries": whole.formats[0].queries,
        "noise_bits": whole.formats[0].noise_bits,
        "seconds": seconds,
        "injected_p": whole.injected_p and whole.injected_p.to_dict(),
        "controls_p": whole.controls_p and whole.controls_p.to_dict(),
        "canaries": exposures(whole),
    }
    out = args.out or args.work
    out.mkdir(parents=True, exist_ok=True)
    written(out / "results.json", results)
    draw(results, out)


if __name__ == "__main__":
    main()
