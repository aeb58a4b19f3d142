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
    Panel,
    Report,
    Table,
    Tile,
    mark,
    said,
    said_in_one,
)
from canary.reports.palette import CONTROL, CURVE, FILL, SERIES, across, line
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
    labels = {
        "Something is left of it": found.remembered,
        "Forgotten, and it shows": found.unlike,
        "Not forgotten, or never seen": found.unproven,
        "Like models that never saw it": found.alike,
        found.answer.capitalize(): True,
    }
    open_to_doubt = found.unlike or found.unproven or found.remembered
    upper = f"{found.upper:.2f}" if math.isfinite(found.upper) else "no upper end"
    near = "of a distance as small, if the target were to the query set as a calibration model is"
    tiles = [
        Tile("rho", f"{found.rho:.2f}", f"{found.lower:.2f} to {upper}; forgotten from 1 on"),
        Tile("p", probability(found.p), near),
    ]
    if found.p_unlike is not None:
        like = "that the target answers as the calibration models do"
        tiles.append(Tile("p, any difference", probability(found.p_unlike), like))
    if (auc := found.auc) is not None:
        ends = f"AUC, {100 * auc.lower:.1f} to {100 * auc.upper:.1f}; 50 % is a coin"
        tiles.append(Tile("Membership attack", f"{100 * auc.value:.1f} %", ends))
    return Report(
        title=f"Has {name or 'the target'} forgotten?",
        label=next(label for label, holds in labels.items() if holds),
        tone="undecided" if open_to_doubt else _TONES[found.answer],
        sentences=[found.summary()],
        tiles=tiles,
        notes=[f"{note}." for note in found.notes],
        sections=sections_of(found),
    )


@section(Forgetting, "Distances")
def distances(found: Forgetting) -> Iterator[Block]:
    """The losses of all models, and their distances from the query model."""
    yield said_in_one("forgetting.distances")
    mean = float(found.calibration.mean())
    known = [("Target", found.target, found.rho)]
    for name in ("calibration", "retrained"):
        models = getattr(found, name)
        for number, distance in enumerate(() if models is None else models, 1):
            known.append((f"{name.capitalize()} model {number}", distance, distance / mean))
    if found.floor is not None:
        known.append(("Query models, from each other", found.floor, found.floor / mean))
    rows = [(name, f"{distance:.4f}", f"{share:.3f}") for name, distance, share in known]
    columns = ("Model", "Distance", "Over the calibration models")
    yield replace(
        forgetting_figure(found),
        caption=said_in_one("forgetting.caption", chance=f"{found.chance:.3f}"),
        table=Table("Distances from the query model", columns, rows),
    )


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
def forgetting_figure(found: Forgetting, _: PlotOptions | None = None) -> Figure:
    """Losses on the query set, and beside them the distances; `canary.plot` draws the losses."""
    curves = []
    for name, (label, colour) in _DRAWN.items():
        width, alpha = (0.9, 0.6) if name == "calibration" else (1.8, 1.0)
        for number, losses in enumerate(found.losses.get(name, ())):
            style = {"alpha": alpha, "label": None if number else label}
            curves.append(line(*_cumulated(losses), colour, width, drawstyle="steps-post", **style))
    rows = {"calibration": found.calibration, "target": np.array([found.target])}
    if found.retrained is not None:
        rows = {"retrained": found.retrained, **rows}
    points = []
    for height, (name, some) in enumerate(rows.items()):
        size, alpha = (9, 1.0) if name == "target" else (6, 0.7)
        style = {"color": _DRAWN[name][1], "markersize": size, "alpha": alpha}
        points.append(mark("plot", some, np.full(len(some), height), "o", **style))
    points += [
        mark("axvspan", 0, found.chance, color=FILL, linewidth=0),
        across("axvline", float(found.calibration.mean())),
    ]
    loss = Axis("loss of a sample of the query set (nats)", log=True)
    share = Axis("share of samples at or below", limits=(0, 1.02))
    distance = Axis("distance from the query model", limits=(0, 1.02))
    names = {float(height): _DRAWN[name][0] for height, name in enumerate(rows)}
    models = Axis(limits=(-0.6, len(rows) - 0.4), ticks=names)
    ends = f"{found.calibration.min():.3f} to {found.calibration.max():.3f}"
    return Figure(
        "forgetting",
        "Distribution of the losses of each model on the query set, and distances from the query "
        f"model: target {found.target:.3f}, calibration models {ends}.",
        [Panel(curves, loss, share, legend="best"), Panel(points, distance, models, grid="x")],
    )


def _cumulated(losses: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of an empirical distribution function, not too many; infinite losses have none."""
    x = np.sort(np.maximum(losses[np.isfinite(losses)], _LEAST_LOSS))
    at = np.unique(np.linspace(0, len(x) - 1, min(_MOST_POINTS, len(x))).astype(np.int64))
    return x[at], (at + 1) / len(losses)
