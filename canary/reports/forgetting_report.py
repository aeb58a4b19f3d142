"""The report of whether a query set was forgotten, and its figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.gate.attacks_written import Interval
from canary.gate.forgetting_limit import Compared
from canary.membership.forgetting_result import ENOUGH, LEVEL, Forgetting
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
    Text,
    basis,
    if_claimed,
    mark,
    said,
    said_in_one,
    sentence,
)
from canary.reports.palette import CONTROL, FILL, INK, SERIES, across, line
from canary.reports.wording import NOT_STATED, about_of, called, ended, no_limit, software
from canary.statistics.numbers import count, percent_of, plural, probability
from canary.statistics.roc import Estimate

_MOST_POINTS = 150
_NEAR = 2 * LEVEL
_LEAST_LOSS = 1e-6
_DRAWN = {
    "calibration": ("calibration models", CONTROL),
    "retrained": ("retrained models", SERIES[2]),
    "query": ("query model", SERIES[0]),
    "target": ("target", INK),
}


_LABELS = {
    "surpasses": ("Not forgotten", "memorized"),
    "remembered": ("Something is left", "memorized"),
    "void": ("The test is void", "suspect"),
    "unseen_known": ("Cannot be decided: check the unseen samples", "undecided"),
    "knowing": ("Cannot be decided: check the models for comparison", "undecided"),
    "unlike": ("Changed, but not as if forgotten", "undecided"),
    "alike": ("No trace was found", "not-found"),
    "unproven": ("Never seen, or not forgotten", "undecided"),
    "not_forgotten": ("Not forgotten", "memorized"),
    "forgotten": ("Forgotten", "not-found"),
    "undecided": ("Not enough data to decide", "undecided"),
}
"""Of each outcome, the label and the tone."""


NEVER_SAW = "the models for comparison never saw the data"
"""What every answer of this test rests on, and nobody checks."""


_ONE_PLACE = 0.01
"""Distances that are drawn at one place."""
_MOST_NAMED = 5
"""Models of a kind that have rows of their own in the table of distances."""


UNTRIED = "No trace was found, but nobody tried to pick the data out"
"""The label where no attack was made on what looks forgotten."""


def remainder(left: float | None, samples: int, queries: int, outcome: str) -> list[str]:
    """How much a test that found no trace cannot exclude; nothing of other tests."""
    if left is None or outcome not in ("alike", "forgotten"):
        return []
    most = math.ceil(left * samples)
    return [sentence("forgetting.remainder", most=most, of=count(samples), queries=queries)]


COARSE = "No trace was found, but the attack to pick the data out had too few samples"
"""The label where the attack on what looks forgotten could not have found it."""


def attacked(
    auc: Estimate | Interval | None, *, void: bool, needed: int | None = None
) -> list[str]:
    """What the attack reached, where unseen samples were given and the test is not void."""
    if auc is None or void:
        return []
    ends = f"{percent_of(auc.lower)} to {percent_of(auc.upper)}"
    return [sentence("forgetting.attack", auc=percent_of(auc.value), ends=ends,
                     weak=needed is not None)]  # fmt: skip


def of_deletion(found: Compared) -> list[str]:
    """What every page of a saved test says: what the attack reached, and what the test may miss."""
    left = remainder(found.most_remainder, found.samples, found.query_models, found.outcome)
    return [*attacked(found.auc, void=found.void, needed=found.unseen_needed), *left]


def _of_unseen(result: Forgetting) -> dict[str, str]:
    """What the answers on unseen samples were read from: nothing shows whose answers they are."""
    names = result.files.get("unseen", {}).get("files", ())
    read = [name for name in names if Path(name).suffix]
    return (
        {"Its answers on unseen samples": f"{read[0]}, not tied to it by any check"} if read else {}
    )


def unchecked(outcome: str, auc: Estimate | Interval | None) -> str:
    """What an answer rests on, and nobody checks: where no trace was found, also whose answers."""
    if outcome not in ("alike", "forgotten"):
        return NEVER_SAW
    tested = "that the tested answers are of the model in use"
    if auc is None:
        return f"{NEVER_SAW}, and {tested}"
    return f"{NEVER_SAW}, {tested} and those on unseen samples of the same one"


def claim_of(outcome: str, auc: Estimate | Interval | None) -> Text:
    """That nobody checked what the answer rests on; nothing of a void test."""
    return "" if outcome == "void" else basis("taken", unchecked(outcome, auc), "this result")


@report_of.register
def forgetting_report(result: Forgetting) -> Report:
    """What there is to say about whether a query set was forgotten."""
    kind = result.outcome
    label, tone = if_claimed(*_LABELS[kind], NEVER_SAW)
    tried = result.auc is not None and result.unseen_needed is None
    if kind in ("alike", "forgotten") and not tried:
        label = UNTRIED if result.auc is None else COARSE
    models, auc = len(result.calibration), result.auc
    few, closer = 1 / (models + 1) > LEVEL, int((result.calibration <= result.target).sum())
    calm = kind in ("alike", "forgotten", "undecided")
    near = LEVEL < result.p <= _NEAR and not few and kind not in ("alike", "forgotten")
    far = result.p > _NEAR and not few
    differs = kind == "undecided" and result.p > LEVEL and not few
    level = sentence(
        "forgetting.level",
        queries=len(result.losses["query"]),
        models=models,
        others=plural(models, "model") + " that never saw the data",
        none=not closer,
        some=closer,
        closer=closer,
        cases=closer + 1,
        of=count(models + 1),
        usual=far and calm and not differs,
        apart=far and (differs or not calm),
        few=few,
        near=near,
        counts=kind == "not_forgotten" and result.p <= LEVEL,
        beside=kind == "not_forgotten" and result.target <= result.chance,
        rare=not far,
        least=not (far or few or closer),
        enough=ENOUGH + 1,
        needed=ENOUGH,
    )
    print_ = result.fingerprint[:12]
    known = kind in ("surpasses", "remembered", "not_forgotten")
    untried = kind in ("alike", "forgotten") and not tried
    done = kind in ("alike", "forgotten") and not untried
    return Report(
        title=f"Has {called(result.model_name)} forgotten the data?",
        label=label,
        tone=tone,
        sentences=[
            sentence(
                f"forgetting.{kind}",
                auc=auc and percent_of(auc.value),
                names=", ".join(result.knowing),
                swapped=result.swapped,
                place=f"{100 * result.rho:.0f}",
                differs=differs,
                p=probability(result.p_unlike or 0.0),
            ),
            *([] if kind in ("void", "knowing") else [level]),
            *attacked(result.auc, void=result.void, needed=result.unseen_needed),
            *remainder(result.most_remainder, result.samples, len(result.losses["query"]), kind),
        ],
        basis=claim_of(kind, auc),
        decide=said(
            "forgetting.decide",
            unshown=not (known or done),
            one_person=not done,
            untried=untried,
            known=known,
            done=done,
            open=not done,
            again=not (done or untried or known),
            stated=kind != "void" and not done,
            named=done and result.model_name,
            nameless=done and not result.model_name,
            samples=result.samples,
        ),
        actions=said(
            "forgetting.actions",
            known=known,
            unlike=kind == "unlike",
            knowing=kind == "knowing",
            unproven=kind == "unproven",
            unseen_known=kind == "unseen_known",
            void=kind == "void",
            few=few,
            needed=ENOUGH,
            wide=kind == "undecided" and not differs,
            differs=differs,
            no_attack=auc is None,
            coarse=untried and bool(result.unseen_needed),
            hopeless=untried and result.unseen_needed == 0,
            unseen=count(result.unseen_needed or 0),
            done=done,
            nameless=done and not result.model_name,
        ),
        about={
            **about_of(result, corpus="Data to be forgotten"),
            "Version of the weights": NOT_STATED,
            **no_limit("forgetting"),
            "Answers of the tested model": f"{Path(result.source).name}, fingerprint {print_}"
            if result.source
            else f"fingerprint {print_}",
            **_of_unseen(result),
            "Samples of the data": count(result.samples),
            "Models that never saw the data": count(models),
        },
        outcome=[distances_figure(result)],
        unsaid=said(
            "forgetting.unsaid",
            samples=result.samples,
            known=kind == "not_forgotten",
            done=done or untried,
        ),
        notes=ended(result.notes),
        sections=sections_of(result),
        brief=[result.summary()],
    )


@section(Forgetting, "Distances", specialist=True)
def distances(result: Forgetting) -> Iterator[Block]:
    """The losses of all models, and their distances from the query model."""
    yield said_in_one("forgetting.distances")
    yield forgetting_figure(result)


@section(Forgetting, "How to read it", specialist=True)
def reading(result: Forgetting) -> Iterator[Block]:
    """What rho and p say."""
    yield result.summary()
    yield Facts(dict(_measures(result)))
    yield from said(
        "forgetting.reading",
        retrained=result.retrained is not None,
        attack=result.auc,
        confidence=f"{100 * result.confidence:g} %",
    )


def _measures(result: Forgetting) -> Iterator[tuple[str, str]]:
    upper = f"{result.upper:.2f}" if math.isfinite(result.upper) else "no upper end"
    yield "rho", f"{result.rho:.2f} ({result.lower:.2f} to {upper}); forgotten from 1 on"
    near = "of a distance as small, if the target were to the query set as a calibration model is"
    yield "p", f"{probability(result.p)}, {near}"
    if result.p_unlike is not None:
        like = "that the target answers as the calibration models do"
        yield "p of any difference", f"{probability(result.p_unlike)}, {like}"
    if (auc := result.auc) is not None:
        ends = f"{100 * auc.lower:.1f} to {100 * auc.upper:.1f}; guessing has 50 %"
        yield "AUC of the membership attack", f"{percent_of(auc.value)} ({ends})"


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
    loss = Axis("loss of a sample of the query set (nats)", log=True)
    share = Axis("share of samples at or below", limits=(0, 1.02))
    beside = distances_figure(result)
    return replace(
        beside,
        name="forgetting",
        words=f"Distribution of the losses of each model on the query set. {beside.words}",
        panels=[Panel(curves, loss, share, legend="best"), *beside.panels],
        caption=said_in_one("forgetting.caption", chance=f"{result.chance:.3f}"),
        table=None,  # that of what came out
    )


def _stacked(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far above its row each point is, so that points of nearly one place can be counted."""
    near = np.round(places / _ONE_PLACE).astype(np.int64)
    order = np.array([int((near[:at] == one).sum()) for at, one in enumerate(near)])
    return order * min(0.14, 0.7 / max(int(order.max()), 1))


def distances_figure(result: Forgetting) -> Figure:
    """How far each model is from the query model; the target is to be where the others are."""
    rows = {"calibration": result.calibration, "target": np.array([result.target])}
    if result.retrained is not None:
        rows = {"retrained": result.retrained, **rows}
    rows["query"] = np.zeros(1)
    points = []
    for height, (name, some) in enumerate(rows.items()):
        size, alpha = (9, 1.0) if name == "target" else (6, 0.7)
        style = {"color": _DRAWN[name][1], "markersize": size, "alpha": alpha, "clip_on": False}
        points.append(mark("plot", some, height + _stacked(some), "o", **style))
    points += [
        mark("axvspan", 0, result.chance, color=FILL, linewidth=0),
        across("axvline", float(result.calibration.mean())),
    ]
    distance = Axis("difference from the trained model", limits=(0, 1.02))
    words = {
        "calibration": "never saw it",
        "retrained": "retrained without it",
        "target": "tested model",
        "query": "trained on it",
    }
    names = {float(height): words[name] for height, name in enumerate(rows)}
    models = Axis(limits=(-0.6, len(rows) - 0.4), ticks=names)
    ends = f"{result.calibration.min():.3f} to {result.calibration.max():.3f}"
    mean = float(result.calibration.mean())
    kinds = {"calibration": "that never saw it", "retrained": "retrained without it"}
    known = [("Tested model", result.target, result.rho)]
    for name in ("calibration", "retrained"):
        gaps = rows.get(name, np.zeros(0))
        shown = [(f"Model {n} {kinds[name]}", gap) for n, gap in enumerate(gaps, 1)]
        if len(gaps) > _MOST_NAMED:
            many = f"{count(len(gaps))} models {kinds[name]}"
            ends_of = {"closest": gaps.min(), "median": np.median(gaps), "farthest": gaps.max()}
            shown = [(f"{many}, {which}", float(gap)) for which, gap in ends_of.items()]
        known += [(label, gap, gap / mean) for label, gap in shown]
    if result.floor is not None:
        known.append(
            ("Models that were trained on it, from each other", result.floor, result.floor / mean)
        )
    cells = [(name, f"{gap:.4f}", f"{share:.3f}") for name, gap, share in known]
    columns = ("Model", "Difference from the trained model", "Of the others' mean")
    return Figure(
        "distances",
        f"Distances from the query model: target {result.target:.3f}, calibration models {ends}.",
        [Panel(points, distance, models, grid="x")],
        said_in_one("forgetting.picture", scale=result.outcome == "not_forgotten"),
        Table("How differently the models answer", columns, cells),
    )
