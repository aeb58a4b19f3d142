"""The report of whether a query set was forgotten, and its figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

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
def forgetting_report(result: Forgetting, *, name: str | None = None) -> Report:
    """What there is to say about whether a query set was forgotten."""
    labels = {
        "Something is left of it": result.remembered,
        "Forgotten, and it shows": result.unlike,
        "Not forgotten, or never seen": result.unproven,
        "Like models that never saw it": result.alike,
        result.answer.capitalize(): True,
    }
    open_to_doubt = result.unlike or result.unproven or result.remembered
    upper = f"{result.upper:.2f}" if math.isfinite(result.upper) else "no upper end"
    near = "of a distance as small, if the target were to the query set as a calibration model is"
    tiles = [
        Tile("rho", f"{result.rho:.2f}", f"{result.lower:.2f} to {upper}; forgotten from 1 on"),
        Tile("p", probability(result.p), near),
    ]
    if result.p_unlike is not None:
        like = "that the target answers as the calibration models do"
        tiles.append(Tile("p, any difference", probability(result.p_unlike), like))
    if (auc := result.auc) is not None:
        ends = f"AUC, {100 * auc.lower:.1f} to {100 * auc.upper:.1f}; 50 % is a coin"
        tiles.append(Tile("Membership attack", f"{100 * auc.value:.1f} %", ends))
    return Report(
        title=f"Has {name or 'the target'} forgotten?",
        label=next(label for label, holds in labels.items() if holds),
        tone="undecided" if open_to_doubt else _TONES[result.answer],
        sentences=[result.summary()],
        tiles=tiles,
        notes=[f"{note}." for note in result.notes],
        sections=sections_of(result),
    )


@section(Forgetting, "Distances")
def distances(result: Forgetting) -> Iterator[Block]:
    """The losses of all models, and their distances from the query model."""
    yield said_in_one("forgetting.distances")
    yield forgetting_figure(result)


@section(Forgetting, "How to read it")
def reading(result: Forgetting) -> Iterator[Block]:
    """What rho and p say."""
    yield from said(
        "forgetting.reading",
        retrained=result.retrained is not None,
        attack=result.auc,
        confidence=f"{100 * result.confidence:g} %",
    )


@section(Forgetting, "How it was measured", specialist=True)
def how(result: Forgetting) -> Iterator[Block]:
    """Numbers of samples and models."""
    facts = {
        "Samples of the query set": count(result.samples),
        "Query models": count(len(result.losses["query"])),
        "Calibration models": count(len(result.calibration)),
        "Resamples": count(result.resamples),
        "Seed": str(result.seed),
    }
    if result.retrained is not None:
        facts["Retrained models"] = count(len(result.retrained))
    yield from (Facts(facts), Heading("Software"), software())


@figure_of.register
def forgetting_figure(result: Forgetting, _: PlotOptions | None = None) -> Figure:
    """Losses on the query set, and beside them the distances; `canary.plot` draws the losses."""
    curves = []
    for name, (label, colour) in _DRAWN.items():
        width, alpha = (0.9, 0.6) if name == "calibration" else (1.8, 1.0)
        for number, losses in enumerate(result.losses.get(name, ())):
            # Points of an empirical distribution function; infinite losses have none.
            x = np.sort(np.maximum(losses[np.isfinite(losses)], _LEAST_LOSS))
            some = np.unique(np.linspace(0, len(x) - 1, min(_MOST_POINTS, len(x))).astype(np.int64))
            style: dict[str, Any] = {"label": None if number else label, "alpha": alpha}
            y = (some + 1) / len(losses)
            curves.append(line(x[some], y, colour, width, drawstyle="steps-post", **style))
    rows = {"calibration": result.calibration, "target": np.array([result.target])}
    if result.retrained is not None:
        rows = {"retrained": result.retrained, **rows}
    points = []
    for height, (name, some) in enumerate(rows.items()):
        size, alpha = (9, 1.0) if name == "target" else (6, 0.7)
        style = {"color": _DRAWN[name][1], "markersize": size, "alpha": alpha}
        points.append(mark("plot", some, np.full(len(some), height), "o", **style))
    points += [
        mark("axvspan", 0, result.chance, color=FILL, linewidth=0),
        across("axvline", float(result.calibration.mean())),
    ]
    loss = Axis("loss of a sample of the query set (nats)", log=True)
    share = Axis("share of samples at or below", limits=(0, 1.02))
    distance = Axis("distance from the query model", limits=(0, 1.02))
    names = {float(height): _DRAWN[name][0] for height, name in enumerate(rows)}
    models = Axis(limits=(-0.6, len(rows) - 0.4), ticks=names)
    ends = f"{result.calibration.min():.3f} to {result.calibration.max():.3f}"
    mean = float(result.calibration.mean())
    known = [("Target", result.target, result.rho)]
    for name in ("calibration", "retrained"):
        for number, gap in enumerate(rows.get(name, ()), 1):
            known.append((f"{name.capitalize()} model {number}", gap, gap / mean))
    if result.floor is not None:
        known.append(("Query models, from each other", result.floor, result.floor / mean))
    cells = [(name, f"{gap:.4f}", f"{share:.3f}") for name, gap, share in known]
    columns = ("Model", "Distance", "Over the calibration models")
    return Figure(
        "forgetting",
        "Distribution of the losses of each model on the query set, and distances from the query "
        f"model: target {result.target:.3f}, calibration models {ends}.",
        [Panel(curves, loss, share, legend="best"), Panel(points, distance, models, grid="x")],
        said_in_one("forgetting.caption", chance=f"{result.chance:.3f}"),
        Table("Distances from the query model", columns, cells),
    )
