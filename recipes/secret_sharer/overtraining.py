"""Exposure while a model is trained: within its first epochs, and for too long.

Figures 7 and 8 of the paper, on a twentieth of its text: four formats with one canary of one
copy and one control each, three seeds. For figure 8 every epoch is measured, and the ranks have
the skew-normal estimate beside them, with which the paper goes beyond what it could count. For
figure 7 every fifth of an epoch is measured, to see what changes when a canary has been read.

`python overtraining.py results.json` draws figure 8 from the results of `overtraining`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import torch
from alone import MODEL
from matplotlib import pyplot as plt
from run import QUICK, START, with_canaries
from study import Study, Texts, Training, best_of, injected_bits, interval, own_formats
from torch import nn
from train import Lines, Settings

import canary

SHOWN = (1, 5, 10, 15, 20, 25, 30, 35, 40)
DRAWS = 5_000
PASSES = 10
BASE = Settings(epochs=40, batch=16)


class WithCurve(Training):
    """A training whose canaries have the skew-normal estimate as well."""

    def also(self, folder: Path, model: Any) -> dict[str, Any]:
        """The estimate in bits, in the order of the canaries."""
        draws = min(DRAWS, self.canaries.formats[0].size // 20)
        found = canary.exposure(
            model, self.canaries, method="skew-normal", draws=draws, start_token=START, seed=0
        )
        return {"curve": [one.exposure.bits for one in found]}


@dataclass(frozen=True)
class PartSettings(Settings):
    """Each of the `epochs` is one of `parts` of a pass over the lines."""

    parts: int = 5

    def part(self, lines: int, number: int) -> Sequence[int]:
        """The lines that are read in a part; each pass has an order of its own."""
        passes, part = divmod(number - 1, self.parts)
        order = np.random.default_rng((self.seed, passes, self.parts)).permutation(lines)
        return [*map(int, np.array_split(order, self.parts)[part])]

    def one_epoch(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, lines: Lines, number: int
    ) -> float:
        """Train on a part of the lines; the mean loss in nats per character."""
        chosen = [lines.all[i] for i in self.part(len(lines.all), number)]
        return super().one_epoch(model, optimizer, Lines(lines.start, chosen), number)


def too_long(texts: Texts, *, quick: bool) -> list[Training]:
    """The trainings of figure 8."""
    made: list[Training] = []
    for seed in range(1 if quick else 3):
        planted = own_formats(texts, seed, quick=quick, count=4)
        training = WithCurve(
            name=f"seed-{seed}",
            about={"seed": seed, "space_bits": planted.formats[0].bits},
            settings=replace(QUICK["training"] if quick else BASE, seed=seed),
            canaries=planted,
            model=QUICK["model"] if quick else MODEL,
            curve=True,
        )
        made.append(training)
    return made


def first_passes(texts: Texts, *, quick: bool) -> list[Training]:
    """The trainings of figure 7; `read` has the parts in which each canary is read."""
    made: list[Training] = []
    for training in too_long(texts, quick=quick):
        passes = 2 if quick else PASSES
        settings = PartSettings(**vars(training.settings) | {"epochs": passes * PartSettings.parts})
        planted, seed = training.canaries, settings.seed
        lines = with_canaries(texts["train"], planted, seed)
        own = [lines.index(planted.text(c)) for c in planted.injected]
        parts = [settings.part(len(lines), number + 1) for number in range(settings.epochs)]
        read = [[n + 1 for n, part in enumerate(parts) if line in part] for line in own]
        about = {"seed": seed, "parts": settings.parts, "read": read}
        made.append(Training(**vars(training) | {"settings": settings, "about": about}))
    return made


def finished(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The trainings that are done."""
    return [row for row in results["trainings"].values() if "variants" in row]


def by_curve(epoch: Mapping[str, Any]) -> float:
    """Median skew-normal estimate of the canaries that were in the text, in bits."""
    pairs = zip(epoch["canaries"], epoch["curve"], strict=True)
    return float(np.median([bits for one, bits in pairs if one["copies"]]))


def of_too_long(results: Mapping[str, Any]) -> str:
    """Losses and exposures of some epochs; the epochs of the least loss; what the curve does."""
    rows = finished(results)
    space = rows[0]["about"]["space_bits"]
    lines = [
        "| epoch | training loss, nats/char | test loss | exposure, bits | surely the most likely "
        "| skew-normal estimate, bits | of controls, bits |",
        "| ---: | ---: | ---: | --- | ---: | --- | --- |",
    ]
    for number in [n for n in SHOWN if n <= len(rows[0]["epochs"])]:
        at = [row["epochs"][number - 1] for row in rows]
        losses = [f"{np.mean([e[name] for e in at]):.3f}" for name in ("train_nats", "test_nats")]
        planted = [one for epoch in at for one in epoch["canaries"] if one["copies"]]
        likely = sum(one["lower_bits"] > space - 1 for one in planted)
        others = [one["bits"] for epoch in at for one in epoch["canaries"] if not one["copies"]]
        cells = [
            *losses,
            each([injected_bits(epoch) for epoch in at]),
            f"{likely} of {len(planted)}",
            each([by_curve(epoch) for epoch in at]),
            f"{min(others):.1f} to {max(others):.1f}",
        ]
        lines.append(f"| {number} | {' | '.join(cells)} |")
    best = [best_of(row["epochs"]) for row in rows]
    curves = [[by_curve(epoch) for epoch in row["epochs"]] for row in rows]
    tops = [1 + int(np.argmax(curve)) for curve in curves]
    since = [c[-1] - c[e["epoch"] - 1] for c, e in zip(curves, best, strict=True)]
    return "\n".join(
        [
            *lines,
            "",
            f"Least validation loss at epochs {listed(e['epoch'] for e in best)}, with "
            f"{each([injected_bits(epoch) for epoch in best])} bits. From there to the last epoch "
            f"the skew-normal estimate changes by {each(since)} bits; from its own highest, at "
            f"epochs {listed(tops)}, by {each([curve[-1] - max(curve) for curve in curves])}.\n",
        ]
    )


def of_first_passes(results: Mapping[str, Any]) -> str:
    """What changes in a part where a canary is read, and in the parts where it is not."""
    rows = finished(results)
    parts = rows[0]["about"]["parts"]
    lines = [
        "| passes over the text | exposure after them, bits | change in the part that has the "
        "canary, bits | change in all other parts of a pass, bits |",
        "| --- | --- | --- | --- |",
    ]
    passes = len(rows[0]["epochs"]) // parts
    for start in range(0, passes, 2):
        found = [changes(row, start * parts, (start + 2) * parts) for row in rows]
        sides = [[float(np.mean(one[side])) for one in found] for side in (0, 1)]
        after = [injected_bits(row["epochs"][(start + 2) * parts - 1]) for row in rows]
        cells = [each(after), each(sides[0]), each([(parts - 1) * bits for bits in sides[1]])]
        lines.append(f"| {start + 1} and {start + 2} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def changes(
    row: Mapping[str, Any], first: int, after: int
) -> tuple[Sequence[float], Sequence[float]]:
    """Changes in bits of the canaries in some parts: where they are read, and where not.

    The very first part is left out: the untrained model before it was not measured.
    """
    planted = [[c["bits"] for c in e["canaries"] if c["copies"]] for e in row["epochs"]]
    steps = np.diff(planted, axis=0)  # the first is the change in part 1, counted from 0
    read: list[float] = []
    others: list[float] = []
    for number in range(max(first, 1), after):
        for own, bits in zip(row["about"]["read"], steps[number - 1], strict=True):
            (read if number + 1 in own else others).append(float(bits))
    return read, others


def each(values: Sequence[float]) -> str:
    """Mean and interval, and the trainings one by one."""
    return f"{interval(values)}: {listed(f'{value:.1f}' for value in values)}"


def listed(values: Iterable[object]) -> str:
    """With commas."""
    return ", ".join(map(str, values))


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Losses above, medians of the exposure below: a line for each training."""
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for place, row in enumerate(finished(results)):
        epochs = row["epochs"]
        numbers = [epoch["epoch"] for epoch in epochs]
        medians = {
            "canaries": ([injected_bits(epoch) for epoch in epochs], "#b3541e", "-"),
            "canaries, skew-normal estimate": ([*map(by_curve, epochs)], "#b3541e", ":"),
            "controls": ([control_bits(epoch) for epoch in epochs], "#767676", "-"),
        }
        losses = {
            name: ([epoch[f"{name}_nats"] for epoch in epochs], shade, "-")
            for name, shade in (("train", "#767676"), ("test", "#1f5fa8"))
        }
        for axis, of_it in ((above, losses), (below, medians)):
            for label, (values, color, style) in of_it.items():
                name = None if place else label
                axis.plot(numbers, values, style, color=color, alpha=0.8, lw=1.2, label=name)
    below.axhline(row["about"]["space_bits"], color="black", lw=0.6, ls=":")
    above.set_ylabel("loss, nats per character")
    below.set_ylabel("exposure, bits (median of four)")
    below.set_xlabel("epochs")
    for axis in (above, below):
        axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def control_bits(epoch: Mapping[str, Any]) -> float:
    """Median exposure of the controls."""
    return float(np.median([c["bits"] for c in epoch["canaries"] if not c["copies"]]))


TOO_LONG = Study("overtraining", too_long, of_too_long, share=0.05)
FIRST = Study("first-epochs", first_passes, of_first_passes, share=0.05)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_name("overtraining.svg"))
