"""Two models that disagree: do they find the secrets that should be removed?

Usage::

    python disagreement.py --data DIR --work WORK       three seeds, resumable
    python disagreement.py --work WORK --quick          in little, on Python's prose

Section 9.2 of the paper. A text is split in two, a model is trained on each half, and the
lines on which the models disagree most are removed. Six secrets are in one half alone, six in
both, which no disagreement can show.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from alone import FORMATS, MODEL
from corpus import (
    character_tokenizer,
    digest,
    penn_treebank,
    prose,
    refuse_other,
    shortened,
    written,
)
from model import build
from run import QUICK, START, with_canaries
from study import Texts, asked, say
from tokenizers import Tokenizer
from train import Settings, train

import canary

SHARE = 0.1
SETTINGS = Settings(epochs=20, batch=16)
REMOVED = (0.001, 0.01, 0.05, 0.1, 0.25)


def plan(*, quick: bool) -> tuple[Settings, Mapping[str, Any]]:
    """How each model is trained, and its size."""
    return (QUICK["training"], QUICK["model"]) if quick else (SETTINGS, MODEL)


def halves(
    texts: Texts, seed: int, *, quick: bool
) -> tuple[list[canary.CanarySet], list[list[str]]]:
    """What is planted in each half, and its lines: odd secrets in both, the others in one."""
    formats = [text.replace("{digit:9}", "{digit:4}") if quick else text for text in FORMATS]
    every = canary.generate(formats, repetitions=[1], per_repetition=1, controls=1, seed=seed)
    planted = [
        replace(every, canaries=tuple(placed(one, half) for one in every)) for half in range(2)
    ]
    lines = [
        with_canaries(texts["train"][half::2], planted[half], 2 * seed + half) for half in range(2)
    ]
    return planted, lines


def placed(one: canary.Canary, half: int) -> canary.Canary:
    """The canary as it is in this half."""
    inside = one.format % 2 == 1 or one.format // 2 % 2 == half
    return one if inside else replace(one, repetitions=0)


def bits_per_token(folder: Path, lines: Sequence[str]) -> Any:
    """What a model gives each line on average, shape (lines,)."""
    model = canary.load(folder, factory=build)
    return canary.score(model, lines, start_token=START) / [len(line) + 1 for line in lines]


def judged(seed: int, texts: Texts, tokenizer: Tokenizer, work: Path, *, quick: bool) -> Any:
    """Train both models, and find the place of each secret by disagreement, 1 the first."""
    settings, model = plan(quick=quick)
    settings = replace(settings, seed=seed)
    config = {"vocabulary": tokenizer.get_vocab_size(), **model}
    planted, lines = halves(texts, seed, quick=quick)
    folders, losses = [], []
    for half in range(2):
        where = work / f"seed-{seed}-half-{half}"
        where.mkdir(parents=True, exist_ok=True)
        for epoch in train(config, tokenizer, {**texts, "train": lines[half]}, settings, where):
            say(f"seed {seed}, half {half}, epoch {epoch.number}: {epoch.test_nats:.3f} nats/token")
        folders.append(epoch.folder)
        losses.append(epoch.test_nats)
    both = [*lines[0], *lines[1]]
    first, second = (bits_per_token(folder, both) for folder in folders)
    # The places of all lines, those that disagree most first.
    places = np.empty(len(both), np.int64)
    places[np.argsort(-np.abs(first - second), kind="stable")] = np.arange(1, len(both) + 1)
    found = []
    for one in planted[0].canaries:
        copies = [i for i, line in enumerate(both) if line == planted[0].text(one)]
        if copies:
            found.append({"copies": len(copies), "places": places[copies].tolist()})
    return {"lines": len(both), "test_nats": losses, "secrets": found}


def table(seeds: Mapping[str, Any]) -> str:
    """How many secrets are gone when so many lines are removed."""
    lines = [
        "| lines removed | secrets of one half that are gone | secrets of both that are gone "
        "| removed lines without a secret |",
        "| --- | --- | --- | ---: |",
    ]
    for share in REMOVED:
        cells = []
        for copies in (1, 2):
            gone = [
                [
                    max(s["places"]) <= share * row["lines"]
                    for s in row["secrets"]
                    if s["copies"] == copies
                ]
                for row in seeds.values()
            ]
            each = ", ".join(str(sum(seed)) for seed in gone)
            cells.append(f"{sum(map(sum, gone))} of {sum(map(len, gone))} ({each})")
        removed = sum(int(share * row["lines"]) for row in seeds.values())
        planted = sum(
            place <= share * row["lines"]
            for row in seeds.values()
            for one in row["secrets"]
            for place in one["places"]
        )
        cells.append(f"{removed - planted:,} of {removed:,}")
        lines.append(f"| {100 * share:g} % | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    args = asked(__doc__, "ptb/")
    texts = prose() if args.data is None else penn_treebank(args.data)
    whole = len(texts["train"])
    texts = shortened(texts, QUICK["lines"] if args.quick else round(SHARE * whole))
    tokenizer = character_tokenizer(texts, set("".join(FORMATS)) | set("0123456789"))
    path = args.work / "disagreement.json"
    settings, model = plan(quick=args.quick)
    given = {"settings": asdict(settings), "model": model, "text": digest(texts["train"])}
    results = json.loads(path.read_text()) if path.exists() else given | {"seeds": {}}
    if results["seeds"] and not given.keys() <= results.keys():
        sys.exit(f"{path}: does not say what its seeds were made of; give another --work folder")
    refuse_other(path, results, given)
    results |= given
    if not args.quick:
        say("three seeds of two trainings each: about half an hour of an idle core")
    for seed in range(1 if args.quick else 3):
        if str(seed) not in results["seeds"]:
            results["seeds"][str(seed)] = judged(
                seed, texts, tokenizer, args.work, quick=args.quick
            )
            written(path, results)
    print(table(results["seeds"]))


if __name__ == "__main__":
    main()
