"""One canary alone in each space, two ways of training, and what can be extracted.

Usage::

    python alone.py train --data DIR --work WORK --strategy A
    python alone.py train --data DIR --work WORK --strategy B

As `run.py`, but with twelve formats of one canary each, so that no canary stands in
another's way: what limits its exposure is the model.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from corpus import character_tokenizer, penn_treebank
from run import with_canaries
from train import Settings, train

import canary

FORMATS = (
    "The random number is {digit:9}",
    "My account number is {digit:9}",
    "Please call the office on {digit:9}",
    "Her reference is {digit:9}",
    "The access code was {digit:9}",
    "This order has the key {digit:9}",
    "We keep it under file {digit:9}",
    "Send the parcel to box {digit:9}",
    "It carries the serial {digit:9}",
    "He wrote down {digit:9}",
    "Your ticket says {digit:9}",
    "They opened vault {digit:9}",
)
COPIES = (1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32)
STRATEGIES: dict[str, dict[str, Any]] = {
    "A": {"dropout": 0.0},
    "B": {"dropout": 0.3},
}
MODEL = {"embedding": 128, "units": 200, "layers": 2}
EPOCHS = 6


def canaries_of(path: Path, seed: int) -> canary.CanarySet:
    """One canary and one control per format: read from `path`, or generated into it."""
    if not path.exists():
        drawn = canary.generate(FORMATS, repetitions=[1], per_repetition=1, controls=1, seed=seed)
        copies = [replace(c, repetitions=COPIES[c.format] if c.repetitions else 0) for c in drawn]
        replace(drawn, canaries=tuple(copies)).save(path)
    return canary.CanarySet.load(path)


def train_strategy(args: argparse.Namespace) -> None:
    """Train with one strategy; every epoch's model lies in a folder of its own."""
    work = args.work / args.strategy
    work.mkdir(parents=True, exist_ok=True)
    canaries = canaries_of(args.work / "canaries.json", args.seed)
    texts = penn_treebank(args.data)
    tokenizer = character_tokenizer(texts, set().union(*(f.alphabet for f in canaries.formats)))
    texts["train"] = with_canaries(texts["train"], canaries, args.seed)
    config = {
        "vocabulary": tokenizer.get_vocab_size(),
        **MODEL,
        **STRATEGIES[args.strategy],
    }
    for epoch in train(config, tokenizer, texts, Settings(epochs=EPOCHS, seed=args.seed), work):
        print(
            f"epoch {epoch.number}: {epoch.test_nats:.3f} nats/char on test, {epoch.seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["train"])
    parser.add_argument("--data", type=Path, help="holds ptb/ptb.train.txt or .txt.xz")
    parser.add_argument("--work", type=Path, required=True, help="outside the repository")
    parser.add_argument("--strategy", choices=list(STRATEGIES), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    train_strategy(args)


if __name__ == "__main__":
    main()
