"""Exposure against training for too long, on a twentieth of the Penn Treebank (figure 8).

Usage::

    python overtraining.py --data DIR --work WORK
    python overtraining.py --quick --work WORK           (in little, on Python's prose)

Four formats with one canary each, which stands in the text once. The model of every epoch
is ranked against all candidates of each format by branch and bound; `overtraining.json` and
`overtraining.svg` appear in WORK. It goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import torch
from alone import FORMATS, MODEL
from corpus import character_tokenizer, penn_treebank, prose, shortened
from matplotlib import pyplot as plt
from model import build
from run import QUICK, START, with_canaries
from train import Epoch, Settings, train

import canary

SHARE = 20
SETTINGS = Settings(epochs=40, batch=16)


def canaries_of(path: Path, seed: int, *, quick: bool) -> canary.CanarySet:
    """Four canaries and four controls, one each per format: read from `path`, or drawn."""
    if not path.exists():
        formats = [text.replace("{digit:9}", "{digit:4}") if quick else text for text in FORMATS]
        canary.generate(formats[:4], repetitions=[1], per_repetition=1, controls=1, seed=seed).save(
            path
        )
    return canary.CanarySet.load(path)


def measured(epoch: Epoch, canaries: canary.CanarySet, args: argparse.Namespace) -> dict[str, Any]:
    """Losses of an epoch, and what is certain of each canary's exposure."""
    path = epoch.folder / "exposures.json"
    if not path.exists():
        found = canary.exposure(
            canary.load(epoch.folder, factory=build),
            canaries,
            method="rank",
            start_token=START,
            budget=args.budget,
            seed=args.seed,
        )
        points = [
            {
                "id": result.id,
                "copies": result.repetitions,
                "lower_bits": result.exposure.lower_bits,
                "upper_bits": result.exposure.upper_bits,
                "rank": result.exposure.rank,
            }
            for result in found
        ]
        path.write_text(json.dumps(points))
    return {
        "epoch": epoch.number,
        "train_nats": epoch.train_nats,
        "valid_nats": epoch.valid_nats,
        "test_nats": epoch.test_nats,
        "canaries": json.loads(path.read_text()),
    }


def figure(results: dict[str, Any], path: Path) -> None:
    """Losses above, exposure below: lines between the medians of what is certain."""
    epochs = [e["epoch"] for e in results["epochs"]]
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for name, color in (("train", "#767676"), ("test", "#1f5fa8")):
        above.plot(epochs, [e[f"{name}_nats"] for e in results["epochs"]], color=color, label=name)
    above.set_ylabel("loss, nats per character")
    above.legend(frameon=False)
    for injected, color, label in ((True, "#b3541e", "canaries"), (False, "#767676", "controls")):
        ends = [
            [
                statistics.median(c[end] for c in e["canaries"] if bool(c["copies"]) is injected)
                for e in results["epochs"]
            ]
            for end in ("lower_bits", "upper_bits")
        ]
        below.fill_between(epochs, *ends, color=color, alpha=0.25, lw=0)
        below.plot(epochs, ends[0], color=color, label=f"{label}, median")
    below.axhline(results["space_bits"], color="black", lw=0.6, ls=":")
    below.set_xlabel("epochs")
    below.set_ylabel("exposure, bits")
    below.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="holds ptb/; not needed with --quick")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=int, default=200_000, help="queries per epoch and format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    if not args.quick and not args.data:
        parser.error("--data is needed, or --quick")
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)

    canaries = canaries_of(args.work / "canaries.json", args.seed, quick=args.quick)
    texts = prose() if args.quick else penn_treebank(args.data)
    texts = shortened(texts, QUICK["lines"] if args.quick else len(texts["train"]) // SHARE)
    tokenizer = character_tokenizer(texts, set().union(*(f.alphabet for f in canaries.formats)))
    texts["train"] = with_canaries(texts["train"], canaries, args.seed)
    config = {
        "vocabulary": tokenizer.get_vocab_size(),
        **(QUICK["model"] if args.quick else MODEL),
    }
    settings = replace(QUICK["training"] if args.quick else SETTINGS, seed=args.seed)
    epochs = []
    for epoch in train(config, tokenizer, texts, settings, args.work):
        epochs.append(measured(epoch, canaries, args))
        found = [c["lower_bits"] for c in epochs[-1]["canaries"] if c["copies"]]
        print(
            f"epoch {epoch.number}: {epoch.train_nats:.3f} nats/char in training, "
            f"{epoch.test_nats:.3f} on test; at least {statistics.median(found):.1f} bits",
            file=sys.stderr,
            flush=True,
        )
    results = {"space_bits": canaries.formats[0].bits, "epochs": epochs}
    (args.work / "overtraining.json").write_text(json.dumps(results, indent=1) + "\n")
    figure(results, args.work / "overtraining.svg")


if __name__ == "__main__":
    main()
