"""One canary alone in each space, two ways of training, and what can be extracted.

Usage::

    python alone.py train --data DIR --work WORK --strategy A
    python alone.py train --data DIR --work WORK --strategy B
    python alone.py measure --work WORK
    python alone.py train --quick --work WORK --strategy A       (in little, on Python's prose)

As `run.py`, but with twelve formats of one canary each, so that no canary stands in
another's way: what limits its exposure is the model. `measure` audits the model of every
epoch of A and the last one of B, and searches each format for its likeliest candidates; it
goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from corpus import character_tokenizer, penn_treebank, prose, refuse_other, shortened, written
from model import build
from run import QUICK, START, audit_of, kept_canaries, set_of, with_canaries
from train import Settings, read_epoch, train

import canary
from canary.audits.completing import completions

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
TOP = 100


def canaries_of(path: Path, seed: int, *, quick: bool) -> canary.CanarySet:
    """One canary and one control per format, generated into `path` if they are not there."""
    pairs = list(zip(FORMATS, COPIES, strict=True))[:: 11 if quick else 1]
    formats = [text.replace("{digit:9}", "{digit:4}") if quick else text for text, _ in pairs]
    return kept_canaries(path, one_each(formats, [copies for _, copies in pairs], seed))


def one_each(formats: Sequence[str], copies: Sequence[int], seed: int) -> canary.CanarySet:
    """A canary of each format, with the number of copies at its place, and a control."""
    drawn = canary.generate(formats, repetitions=[1], per_repetition=1, controls=1, seed=seed)
    copied = [replace(c, repetitions=copies[c.format] if c.repetitions else 0) for c in drawn]
    return replace(drawn, canaries=tuple(copied))


def train_strategy(args: argparse.Namespace) -> None:
    """Train with one strategy; every epoch's model lies in a folder of its own."""
    work = args.work / args.strategy
    work.mkdir(parents=True, exist_ok=True)
    canaries = canaries_of(args.work / "canaries.json", args.seed, quick=args.quick)
    texts = shortened(prose(), QUICK["lines"]) if args.quick else penn_treebank(args.data)
    tokenizer = character_tokenizer(texts, set().union(*(f.alphabet for f in canaries.formats)))
    texts["train"] = with_canaries(texts["train"], canaries, args.seed)
    config = {
        "vocabulary": tokenizer.get_vocab_size(),
        **(QUICK["model"] if args.quick else MODEL),
        **STRATEGIES[args.strategy],
    }
    settings = QUICK["training"] if args.quick else Settings(epochs=EPOCHS)
    for epoch in train(config, tokenizer, texts, replace(settings, seed=args.seed), work):
        print(
            f"epoch {epoch.number}: {epoch.test_nats:.3f} nats/char on test, {epoch.seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )


def measure(args: argparse.Namespace) -> None:
    """Audit, extraction and completion of every epoch, into `alone.json`."""
    canaries = canary.CanarySet.load(args.work / "canaries.json")
    points: list[dict[str, Any]] = []
    losses: dict[str, list[float]] = {}
    for strategy in STRATEGIES:
        for folder in finished(args.work / strategy, last=strategy != "A"):
            epoch = read_epoch(folder)
            losses.setdefault(strategy, []).append(epoch.test_nats)
            points += [
                {"strategy": strategy, "epoch": epoch.number, **point}
                for point in measured(folder, canaries, args)
            ]
    results = {
        "space_bits": canaries.formats[0].bits,
        "budget": args.budget,
        "test_nats": losses,
        "points": points,
    }
    written(args.work / "alone.json", results)


def finished(work: Path, *, last: bool = False) -> list[Path]:
    """The epochs of a training in order, or the last; an error if it has not come to its end."""
    begun = work / "training.json"
    planned = json.loads(begun.read_text())["epochs"] if begun.exists() else EPOCHS
    first = planned if last else 1
    folders = [work / f"epoch-{number:02d}" for number in range(first, planned + 1)]
    if missing := sum(not folder.exists() for folder in folders):
        sys.exit(
            f"{work}: {missing} of {planned} epochs are missing; "
            f"run `alone.py train --strategy {work.name}` again until it ends"
        )
    return folders


def measured(
    folder: Path, canaries: canary.CanarySet, args: argparse.Namespace
) -> list[dict[str, Any]]:
    """What is known of each canary of one model: from its file, or measured now."""
    path = folder / "measured.json"
    options = {"budget": args.budget, "draws": args.draws, "seed": args.seed}
    if path.exists():
        kept = json.loads(path.read_text())
        kept = kept if isinstance(kept, dict) else {"points": kept}  # of an earlier version
        refuse_other(path, kept, set_of(canaries) | options)
        return list(kept["points"])
    model = canary.load(folder, factory=build)
    audit, _ = audit_of(folder, "audit.json", canaries, **options)
    found = []
    for result in audit.canaries:
        format = canaries.formats[result.format]
        exposure = result.exposure.to_dict()
        kept = ("method", "bits", "lower_bits", "upper_bits", "rank", "p_value")
        point = {
            "id": result.id,
            "copies": result.repetitions,
            "px_bits": result.px_bits,
            "below_bits": result.px_bits - (result.context_bits or 0.0),
            **{name: exposure.get(name) for name in kept},
        }
        if not result.control:
            point |= extracted(model, format, result.id, canaries, args.budget)
        found.append(point)
        print(folder, point, file=sys.stderr, flush=True)
    written(path, set_of(canaries) | options | {"points": found})
    return found


def extracted(
    model: Any, format: canary.Format, name: str, canaries: canary.CanarySet, budget: int
) -> dict[str, Any]:
    """At which place and after how many queries the search gave the canary, if at all.

    And how many first characters must be known until greedy search gives the rest.
    """
    search = canary.extract(
        model, format, top=TOP, budget=budget, canaries=canaries, start_token=START
    )
    place = next((i for i, c in enumerate(search.candidates, 1) if c.canary == name), None)
    secret = {name: next(c.fill for c in canaries if c.id == name)}
    return {
        "place": place,
        "found_after": None if place is None else search.candidates[place - 1].found_after,
        "queries": search.queries,
        "stopped": search.stopped,
        "first_proven": bool(search.candidates) and search.candidates[0].proven,
        "known_greedy": next(known_until(model, format, secret, "greedy"), None),
        "known_beam": next(known_until(model, format, secret, "beam"), None),
    }


def known_until(
    model: Any, format: canary.Format, secret: Mapping[str, str], search: str
) -> Iterator[int]:
    """Numbers of known characters with which a search gives the rest, ascending."""
    for known in range(len(next(iter(secret.values())))):
        done = completions(model, format, dict(secret), known=known, start_token=START)[0]
        if getattr(done, search):
            yield known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["train", "measure"])
    parser.add_argument("--data", type=Path, help="holds ptb/ptb.train.txt or .txt.xz")
    parser.add_argument("--work", type=Path, required=True, help="outside the repository")
    parser.add_argument("--strategy", choices=list(STRATEGIES), help="which one to train")
    parser.add_argument("--budget", type=int, default=100_000, help="queries per format")
    parser.add_argument("--draws", type=int, default=20_000, help="uniform draws per format")
    parser.add_argument("--quick", action="store_true", help="in little, four digits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.step == "measure":
        measure(args)
    elif args.strategy and (args.data or args.quick):
        train_strategy(args)
    else:
        parser.error("train needs --data and --strategy")


if __name__ == "__main__":
    main()
