"""A study: trainings that differ in few things, each measured after every epoch, resumable.

The state of a study is its folder: `results.json` has what is measured so far, and a folder
for each training has the secrets and the last models. A killed study goes on when it is
started again; it loses at most the epoch that was being trained.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
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
from datasets import Dataset
from model import build
from run import QUICK, START, kept_canaries, with_canaries
from safetensors.torch import load_file, save_file
from scipy import stats
from tokenizers import Tokenizer
from torch import Tensor
from train import Settings, encode, loss, train, with_defaults

import canary

Weights = Mapping[str, Tensor]
Texts = Mapping[str, Sequence[str]]
Pace = dict[tuple[Any, ...], tuple[float, float]]
"""Seconds of an epoch and of its measurement, by `cost_of` a training."""
NODES = 4_000  # per level of importance draws: an interval of 0.3 bits at 17 bits
PROBE = 2_000  # lines


@dataclass(frozen=True)
class Training:
    """One training: its name, what sets it apart, and how it is done.

    `company` are further canaries in the text; they need not have the format of `canaries`.
    `variants` make other models of the last epoch's weights, which are measured as well.
    `views` are the same secrets as one sees them who knows other parts of the text around
    them; they are measured half-way and at the end. A `curve` has the exposures after each
    epoch; without it they are measured at the end and at the least validation loss.
    """

    name: str
    about: Mapping[str, Any]
    settings: Settings
    canaries: canary.CanarySet
    company: canary.CanarySet | None = None
    model: Mapping[str, Any] = field(default_factory=lambda: MODEL)
    variants: Mapping[str, Callable[[Weights], Weights]] = field(default_factory=dict)
    views: Mapping[str, canary.CanarySet] = field(default_factory=dict)
    curve: bool = False

    @property
    def planted(self) -> list[canary.CanarySet]:
        """All canary sets that are in the text."""
        return [self.canaries] if self.company is None else [self.canaries, self.company]

    @property
    def kept(self) -> dict[str, Any]:
        """What the results keep of how it is done, to refuse those of another one."""
        seen = {"canaries": self.canaries, "company": self.company, **self.views}
        marks = [f"{name} {one.fingerprint}" for name, one in seen.items() if one]
        settings = asdict(self.settings)
        return {"settings": settings, "model": dict(self.model), "canaries": digest(marks)}

    def also(self, folder: Path, model: Any) -> dict[str, Any]:
        """What else is measured of a model, whose folder may keep files of it."""
        return {}


@dataclass(frozen=True)
class Study:
    """A question: its trainings, full or quick, and what its results say, in Markdown.

    `share` is the part of the Penn Treebank's lines that it trains on. `tokenizer` makes one
    vocabulary of the texts and of the characters that the canaries need.
    """

    name: str
    trainings: Callable[..., Sequence[Training]]
    summary: Callable[[Mapping[str, Any]], str]
    share: float = 1.0
    tokenizer: Callable[[Texts, Iterable[str]], Tokenizer] = character_tokenizer


def own_formats(_: Texts, seed: int, *, quick: bool, count: int = 8) -> canary.CanarySet:
    """Some formats, two if quick, with one canary of one copy and one control each."""
    digits = "{digit:4}" if quick else "{digit:9}"
    formats = [text.replace("{digit:9}", digits) for text in FORMATS[: 2 if quick else count]]
    return canary.generate(formats, repetitions=[1], per_repetition=1, controls=1, seed=seed)


def sweep(
    name: str,
    changes: Mapping[str, Mapping[str, Any]],
    *,
    share: float,
    base: Settings,
    seeds: int = 3,
    drawn: Callable[..., canary.CanarySet] = own_formats,
    **options: Any,
) -> Study:
    """The study of some `changes` by their label, some seeds of each; quick, the ends alone.

    A change has new `settings`, `model` or `variants`. Trainings of one seed have the same
    canaries, which are `drawn` for the texts, unless a change has options of its own for that
    (`canaries`).
    """

    def trainings(texts: Texts, *, quick: bool) -> list[Training]:
        labels = [*changes][:: max(1, len(changes) - 1)] if quick else [*changes]
        start, model = (QUICK["training"], QUICK["model"]) if quick else (base, MODEL)
        return [
            Training(
                name=f"{label.replace(' ', '-')}-seed-{seed}",
                about={name: label, "seed": seed},
                settings=replace(start, seed=seed, **changes[label].get("settings", {})),
                canaries=drawn(texts, seed, quick=quick, **changes[label].get("canaries", {})),
                model={**model, **changes[label].get("model", {})},
                variants=changes[label].get("variants", {}),
            )
            for seed in range(1 if quick else seeds)
            for label in labels
        ]

    return Study(name, trainings, lambda results: table_by(results, name), share, **options)


def run(study: Study, data: Path | None, work: Path, *, quick: bool) -> str:
    """Train and measure what is not there yet; the summary of the whole."""
    work.mkdir(parents=True, exist_ok=True)
    trainings, texts, tokenizer = prepared(study, data, quick=quick)
    path = work / "results.json"
    length = sum(len(line) + 1 for line in texts["train"])
    text = digest([line for split in texts.values() for line in split])
    given = {"study": study.name, "characters": length, "text": text}
    results: dict[str, Any] = {"trainings": {}}
    if path.exists():
        results = json.loads(path.read_text())
    refuse_other(path, results, given)
    results |= given | {"planned": len(trainings)}
    left = [t for t in trainings if not is_done(t, results, work)]
    if left:
        say(f"{study.name}: an epoch on a few lines, to see how long {len(left)} trainings take")
    pace = probed(left, texts, tokenizer)
    to_do = f"{len(left)} of {len(trainings)} trainings to do"
    say(f"{study.name}: {to_do}; {hours(left, pace, results):.1f} h")
    for place, training in enumerate(left):
        row = results["trainings"].setdefault(training.name, {})
        row |= {"about": training.about, **training.kept, "epochs": []}
        for epoch in trained(training, texts, tokenizer, work / training.name):
            row["epochs"].append(epoch)
            cost = cost_of(training)
            audit = audited(training, epoch) if epoch["audit_seconds"] else pace[cost][1]
            pace[cost] = epoch["seconds"], audit
            bits = f", {epoch['canaries'][0]['bits']:.1f} bits" if "canaries" in epoch else ""
            say(
                f"{study.name} {training.name}, epoch {epoch['epoch']}: test "
                f"{epoch['test_nats']:.3f} nats/token{bits}; "
                f"{hours(left[place:], pace, results):.1f} h left"
            )
            written(path, results)
        best = best_of(row["epochs"])
        best |= measured(work / training.name / f"epoch-{best['epoch']:02d}", training)
        row["variants"] = dict(variants_of(training, texts, tokenizer, work / training.name))
        written(path, results)
        written(work / "summary.md", study.summary(only(trainings, results)))
    return study.summary(only(trainings, results))


def only(trainings: Sequence[Training], results: Mapping[str, Any]) -> dict[str, Any]:
    """The results of these trainings, in their order."""
    rows = results["trainings"]
    return {**results, "trainings": {t.name: rows[t.name] for t in trainings if t.name in rows}}


def prepared(
    study: Study, data: Path | None, *, quick: bool
) -> tuple[Sequence[Training], Texts, Tokenizer]:
    """The trainings, the texts without canaries, and one vocabulary for all of them."""
    if not quick and data is None:
        sys.exit("--data is missing: the folder that holds ptb/; see README.md")
    texts = prose() if data is None else penn_treebank(data)
    texts = shortened(texts, QUICK["lines"] if quick else round(study.share * len(texts["train"])))
    trainings = study.trainings(texts, quick=quick)
    spaces = [f for t in trainings for s in (t.canaries, t.company) if s for f in s.formats]
    return trainings, texts, study.tokenizer(texts, set().union(*(f.alphabet for f in spaces)))


def is_done(training: Training, results: Mapping[str, Any], where: Path) -> bool:
    """Whether the results have the training to its end; an error if it was another one."""
    row = results["trainings"].get(training.name)
    if row is None:
        return False
    kept = {**row, "settings": with_defaults(row["settings"])}
    refuse_other(where / training.name, kept, training.kept)
    return "variants" in row


def trained(
    training: Training, texts: Texts, tokenizer: Tokenizer, work: Path
) -> Iterator[dict[str, Any]]:
    """Train; each epoch's losses, and exposures if they are due.

    Weights of earlier epochs are removed, except those of the least validation loss.
    """
    work.mkdir(parents=True, exist_ok=True)
    kept_canaries(work / "canaries.json", training.canaries)
    if training.company is not None:
        kept_canaries(work / "company.json", training.company)
    lines = with_canaries(texts["train"], training.canaries, training.settings.seed)
    company = training.company
    added = [company.text(c) for c in company for _ in range(c.repetitions)] if company else []
    if company is not None and not canary.verify(Dataset.from_dict({"text": added}), company).ok:
        sys.exit(f"{training.name}: the company is not in the text as planned")
    config = {"vocabulary": tokenizer.get_vocab_size(), **training.model}
    planted = {**texts, "train": lines, "company": added}
    done: list[dict[str, Any]] = []
    for epoch in train(config, tokenizer, planted, training.settings, work):
        last = epoch.number == training.settings.epochs
        views = training.views if epoch.number * 2 % training.settings.epochs == 0 else {}
        found: dict[str, Any] = {"audit_seconds": 0.0}
        if last or views or training.curve:
            found = measured(epoch.folder, training, views)
        kept = asdict(epoch) | {"epoch": epoch.number, **found}
        done.append({k: value for k, value in kept.items() if k not in ("number", "folder")})
        for old in done[:-1]:
            folder = work / f"epoch-{old['epoch']:02d}"
            (folder / "optimizer.pt").unlink(missing_ok=True)
            if old is not best_of(done):
                (folder / "model.safetensors").unlink(missing_ok=True)
        yield done[-1]


def best_of(epochs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The epoch of the least validation loss."""
    return min(epochs, key=lambda epoch: epoch["valid_nats"])


def measured(
    folder: Path, training: Training, views: Mapping[str, canary.CanarySet] | None = None
) -> dict[str, Any]:
    """Exposures by importance draws of all that is planted: from a file, or found now."""
    path = folder / "exposures.json"
    if not path.exists():
        began = time.monotonic()
        model = canary.load(folder, factory=build)
        canaries = [one for planted in training.planted for one in exposures(model, planted)]
        seen = {name: exposures(model, view) for name, view in (views or {}).items()}
        also = training.also(folder, model)
        found = {"audit_seconds": time.monotonic() - began, "canaries": canaries} | also
        written(path, found | ({"views": seen} if seen else {}))
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def exposures(model: Any, planted: canary.CanarySet) -> list[dict[str, Any]]:
    """Each canary's exposure. Without an estimate, `bits` is the middle of what is certain."""
    # Fewer draws in the small space of a quick run.
    nodes = min(NODES, planted.formats[0].size // 20)
    found = []
    for result in canary.exposure(
        model, planted, method="importance", draws=nodes, start_token=START, seed=0
    ):
        at = result.exposure
        ends = {"lower_bits": at.lower_bits, "upper_bits": at.upper_bits}
        bits = sum(ends.values()) / 2 if at.bits is None else at.bits
        found.append({"id": result.id, "copies": result.repetitions, "bits": bits, **ends})
    return found


def variants_of(
    training: Training, texts: Texts, tokenizer: Tokenizer, work: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each variant of the last epoch's model: its test loss and exposures."""
    last = work / f"epoch-{training.settings.epochs:02d}"
    config = json.loads((last / "config.json").read_text())
    start = np.asarray(tokenizer.encode(START).ids, np.int64)
    test = np.concatenate([start, *encode(tokenizer, texts["test"])])
    for name, change in training.variants.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for same in ("config.json", "tokenizer.json"):
                (folder / same).write_bytes((last / same).read_bytes())
            weights = dict(change(load_file(last / "model.safetensors")))
            save_file(weights, folder / "model.safetensors")
            model = build(config)
            model.load_state_dict(weights)
            yield name, {"test_nats": loss(model.eval(), test), **measured(folder, training)}


def cost_of(training: Training) -> tuple[Any, ...]:
    """What the seconds of an epoch depend on."""
    return (
        *training.model.values(),
        training.settings.batch,
        len(training.planted),
        *training.views,
    )


def probed(trainings: Sequence[Training], texts: Texts, tokenizer: Tokenizer) -> Pace:
    """Seconds of an epoch and of its measurement, from an epoch on a few lines."""
    pace: Pace = {}
    lines = min(PROBE, len(texts["train"]) // 2)
    for training in trainings:
        if cost_of(training) not in pace:
            small = replace(training, settings=replace(training.settings, epochs=1))
            with tempfile.TemporaryDirectory() as folder:
                (epoch,) = trained(small, shortened(texts, lines), tokenizer, Path(folder))
            whole = epoch["seconds"] * len(texts["train"]) / lines
            pace[cost_of(training)] = whole, audited(training, epoch)
    return pace


def audited(training: Training, epoch: Mapping[str, Any]) -> float:
    """Seconds of measurement for each epoch: without a curve, two are measured in all."""
    seconds: float = epoch["audit_seconds"]
    return seconds if training.curve else 2 * seconds / training.settings.epochs


def hours(trainings: Sequence[Training], pace: Pace, results: Mapping[str, Any]) -> float:
    """How long the epochs take that the results do not have."""
    rows = results["trainings"]
    done = {t.name: len(rows[t.name]["epochs"]) if t.name in rows else 0 for t in trainings}
    seconds = ((t.settings.epochs - done[t.name]) * sum(pace[cost_of(t)]) for t in trainings)
    return sum(seconds) / 3600


def asked(about: str | None, holds: str) -> argparse.Namespace:
    """The options of a recipe on real data, or in little without; its folder is made.

    `about` is the recipe's docstring, and `holds` the folder that ``--data`` has.
    """
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help=f"holds {holds}; not needed with --quick")
    parser.add_argument("--work", type=Path, required=True, help="outside the repository")
    parser.add_argument("--quick", action="store_true", help="in little, on made-up texts")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if args.data is None and not args.quick:
        sys.exit(f"--data is missing: the folder that holds {holds}; see README.md")
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    return args


def say(line: str) -> None:
    """A line of progress with its time."""
    print(time.strftime("%m-%d %H:%M"), line, file=sys.stderr, flush=True)


def interval(values: Sequence[float]) -> str:
    """Mean and 95 % t interval over independent trainings."""
    if not values:
        return "-"
    mean = np.mean(values)
    if len(values) == 1:
        return f"{mean:.1f}"
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{mean:.1f} ({mean - half:.1f} to {mean + half:.1f})"


def difference(values: Sequence[float], first: Sequence[float]) -> str:
    """Mean difference of two groups of trainings that share nothing, and Welch's 95 % interval."""
    if min(len(values), len(first)) < 2:
        return "-"
    low, high = stats.ttest_ind(values, first, equal_var=False).confidence_interval()
    return f"{np.mean(values) - np.mean(first):.1f} ({low:.1f} to {high:.1f})"


def injected_bits(measurement: Mapping[str, Any], *, controls: bool = False) -> float:
    """Median exposure of the canaries that were in the text, or of the controls."""
    return float(
        np.median([c["bits"] for c in measurement["canaries"] if controls != (c["copies"] > 0)])
    )


def table_by(results: Mapping[str, Any], key: str) -> str:
    """Utility beside exposure for each value of ``about[key]``, over the finished trainings.

    The epoch of the least validation loss is shown beside the last one: a setting that
    overtrains is judged where its user would stop. Variants are made of the last epoch alone.
    The change of the last exposure against the first row is of trainings with the same seed.
    """
    rows: dict[str, dict[int, tuple[Mapping[str, Any] | None, Mapping[str, Any]]]] = {}
    for row in results["trainings"].values():
        if "variants" in row:
            seed = row["about"]["seed"]
            best, last = best_of(row["epochs"]), row["epochs"][-1]
            rows.setdefault(row["about"][key], {})[seed] = best, last
            for name, variant in row["variants"].items():
                rows.setdefault(name, {})[seed] = None, variant
    lines = [
        f"| {key} | trainings | test loss, nats/token, at least validation loss | exposure, bits "
        "| test loss at the end | exposure, bits | of controls | change against the first row, "
        "bits |",
        "| --- | ---: | ---: | --- | ---: | --- | --- | --- |",
    ]
    first = next(iter(rows.values()))
    for value, seeds in rows.items():
        cells = [
            f"{np.mean([m['test_nats'] for m in side]):.3f} | "
            f"{interval([injected_bits(m) for m in side])}"
            if None not in side
            else "- | -"
            for side in zip(*seeds.values(), strict=True)
        ]
        change = [
            injected_bits(seeds[seed][1]) - injected_bits(first[seed][1])
            for seed in seeds.keys() & first
            if seeds is not first
        ]
        cells += [interval([injected_bits(last, controls=True) for _, last in seeds.values()])]
        lines.append(f"| {value} | {len(seeds)} | {' | '.join(cells)} | {interval(change)} |")
    return "\n".join(lines) + "\n"
