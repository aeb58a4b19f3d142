"""The report of whether a query set was forgotten, and its figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from canary.membership.forgetting_result import Forgetting
from canary.reports.builders import PlotOptions, figure_of, report_of, section, sections_of
from canary.reports.document import (
    Axis,
    Block,
    Facts,
    Figure,
    Heading,
    Mark,
    Panel,
    Report,
    Table,
    Tile,
    mark,
)
from canary.reports.exposure_figures import DASHED
from canary.reports.long_words import said, said_in_one
from canary.reports.palette import CONTROL, CURVE, FILL, MUTED, SERIES
from canary.reports.wording import software
from canary.statistics.numbers import count, probability

_TONES = {"forgotten": "not-found", "not forgotten": "memorized", "undecided": "undecided"}
_MOST_POINTS = 150
_LEAST_LOSS = 1e-6
_DRAWN = {
    "calibration": ("calibration models", CONTROL),
    "retrained": ("retrained models", SERIES[2]),
    "query": ("query model", SERIES[0]),
    "target": ("target", CURVE),
}


@report_of.register
def forgetting_report(found: Forgetting, *, name: str | None = None) -> Report:
    """What there is to say about whether a query set was forgotten."""
    open_to_doubt = found.unlike or found.unproven or found.remembered
    return Report(
        title=f"Has {name or 'the target'} forgotten?",
        label=_label(found),
        tone="undecided" if open_to_doubt else _TONES[found.answer],
        sentences=[found.summary()],
        tiles=[*_tiles(found)],
        notes=[f"{note}." for note in found.notes],
        sections=sections_of(found),
    )


def _label(found: Forgetting) -> str:
    if found.remembered:
        return "Something is left of it"
    if found.unlike:
        return "Forgotten, and it shows"
    if found.unproven:
        return "Not forgotten, or never seen"
    if found.alike:
        return "Like models that never saw it"
    return found.answer.capitalize()


def _tiles(found: Forgetting) -> Iterator[Tile]:
    upper = f"{found.upper:.2f}" if math.isfinite(found.upper) else "no upper end"
    ends = f"{found.lower:.2f} to {upper}"
    yield Tile("rho", f"{found.rho:.2f}", f"{ends}; forgotten from 1 on")
    yield Tile(
        "p",
        probability(found.p),
        "of a distance as small, if the target were to the query set as a calibration model is",
    )
    if found.p_unlike is not None:
        like = "that the target answers as the calibration models do"
        yield Tile("p, any difference", probability(found.p_unlike), like)
    if (auc := found.auc) is not None:
        ends = f"{100 * auc.lower:.1f} to {100 * auc.upper:.1f}"
        share = f"{100 * auc.value:.1f} %"
        yield Tile("Membership attack", share, f"AUC, {ends}; 50 % is a coin")


@section(Forgetting, "Distances")
def distances(found: Forgetting) -> Iterator[Block]:
    """The losses of all models, and their distances from the query model."""
    yield said_in_one("forgetting.distances")
    columns = ("Model", "Distance", "Over the calibration models")
    yield replace(
        forgetting_figure(found),
        caption=said_in_one("forgetting.caption", chance=f"{found.chance:.3f}"),
        table=Table("Distances from the query model", columns, _rows(found)),
    )


def _rows(found: Forgetting) -> list[tuple[str, str, str]]:
    mean = float(found.calibration.mean())
    rows = [("Target", found.target, found.rho)]
    groups = (("Calibration model", found.calibration), ("Retrained model", found.retrained))
    for name, some in groups:
        known = () if some is None else some
        rows += [(f"{name} {k}", value, value / mean) for k, value in enumerate(known, 1)]
    if found.floor is not None:
        rows.append(("Query models, from each other", found.floor, found.floor / mean))
    return [(name, f"{distance:.4f}", f"{share:.3f}") for name, distance, share in rows]


@section(Forgetting, "How to read it")
def reading(found: Forgetting) -> Iterator[Block]:
    """What rho and p say."""
    yield from said(
        "forgetting.reading",
        retrained=found.retrained is not None,
        attack=found.auc,
        confidence=f"{100 * found.confidence:g} %",
    )


@section(Forgetting, "How it was measured", specialist=True)
def how(found: Forgetting) -> Iterator[Block]:
    """Numbers of samples and models."""
    facts = {
        "Samples of the query set": count(found.samples),
        "Query models": count(len(found.losses["query"])),
        "Calibration models": count(len(found.calibration)),
        "Resamples": count(found.resamples),
        "Seed": str(found.seed),
    }
    if found.retrained is not None:
        facts["Retrained models"] = count(len(found.retrained))
    yield Facts(facts)
    yield Heading("Software")
    yield software()


@figure_of.register
def plotted(found: Forgetting, _: PlotOptions) -> Figure:
    """That of `canary.plot`: the losses."""
    return forgetting_figure(found)


def forgetting_figure(found: Forgetting) -> Figure:
    """Losses on the query set, and beside them the distances."""
    ends = f"{found.calibration.min():.3f} to {found.calibration.max():.3f}"
    return Figure(
        "forgetting",
        "Distribution of the losses of each model on the query set, and distances from the query "
        f"model: target {found.target:.3f}, calibration models {ends}.",
        [_losses_panel(found), _distances_panel(found)],
    )


def _losses_panel(found: Forgetting) -> Panel:
    marks = []
    for name, (label, colour) in _DRAWN.items():
        one_of_many = name == "calibration"
        for number, losses in enumerate(found.losses.get(name, ())):
            marks.append(
                mark(
                    "plot",
                    *_steps(losses),
                    color=colour,
                    linewidth=0.9 if one_of_many else 1.8,
                    alpha=0.6 if one_of_many else 1.0,
                    label=None if number else label,
                    drawstyle="steps-post",
                )
            )
    x = Axis("loss of a sample of the query set (nats)", log=True)
    y = Axis("share of samples at or below", limits=(0, 1.02))
    return Panel(marks, x, y, legend="best")


def _steps(losses: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of an empirical distribution function, not too many; infinite losses have none."""
    x = np.sort(np.maximum(losses[np.isfinite(losses)], _LEAST_LOSS))
    at = np.unique(np.linspace(0, len(x) - 1, min(_MOST_POINTS, len(x))).astype(np.int64))
    return x[at], (at + 1) / len(losses)


def _distances_panel(found: Forgetting) -> Panel:
    rows = {"calibration": found.calibration, "target": np.array([found.target])}
    if found.retrained is not None:
        rows = {"retrained": found.retrained, **rows}
    marks: list[Mark] = []
    for height, (name, some) in enumerate(rows.items()):
        size, alpha = (9, 1.0) if name == "target" else (6, 0.7)
        style = {"color": _DRAWN[name][1], "markersize": size, "alpha": alpha}
        marks.append(mark("plot", some, np.full(len(some), height), "o", **style))
    mean = float(found.calibration.mean())
    marks += [
        mark("axvspan", 0, found.chance, color=FILL, linewidth=0),
        mark("axvline", mean, color=MUTED, linewidth=1.0, linestyle=DASHED),
    ]
    names = {float(height): _DRAWN[name][0] for height, name in enumerate(rows)}
    y = Axis(limits=(-0.6, len(rows) - 0.4), ticks=names)
    return Panel(marks, Axis("distance from the query model", limits=(0, 1.02)), y, grid="x")
