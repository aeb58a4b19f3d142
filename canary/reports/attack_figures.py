"""The figures of membership attacks as numbers: ROC curves, risks, growth, losses, thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.aggregate import Across
from canary.membership.diagnostics import Growth, NullLosses, Scatter
from canary.membership.evaluation import Evaluation
from canary.membership.shadow_survey import ShadowSurvey
from canary.membership.survey import Attacked
from canary.membership.text_survey import TextSurvey
from canary.reports.builders import PlotOptions, figure_of
from canary.reports.document import Axis, Figure, Mark, Panel, Table, Text, mark, said_in_one
from canary.reports.palette import (
    CONTROL,
    CURVE,
    DASHED,
    INK,
    MUTED,
    PAPER,
    SERIES,
    across,
    line,
    steps,
)
from canary.statistics.numbers import percent_of, plural
from canary.statistics.roc import Estimate, Roc

Floats = NDArray[np.float64]
_Of = TypeVar("_Of", Attacked, Across)

_MOST_POINTS = 300
_FEW = 4
_RISK_BINS = 20
_LOSS_BINS = 40
_LEAST_LOSS = 1e-8
"""Nats: losses below are drawn there."""


@figure_of.register(Across)
@figure_of.register(Growth)
@figure_of.register(NullLosses)
@figure_of.register(Scatter)
@figure_of.register(list)
@figure_of.register(tuple)
def many_figure(given: Any, options: PlotOptions) -> Figure:
    """That of `canary.plot`: of one result of attacks on many models, or of several of a kind.

    Raises
    ------
    InputError
        If they are of several kinds, there are several scatters, more than the palette has
        colours for, or losses of several samples.
    """
    group = list(given) if isinstance(given, list | tuple) else [given]
    kinds = sorted({type(item) for item in group}, key=lambda kind: kind.__name__)
    name, problem, cure = " and ".join(kind.__name__ for kind in kinds), "", "draw one"
    if len(kinds) > 1:
        problem, cure = f"{name} cannot share axes", "draw one kind at a time"
    elif kinds[0] not in _FIGURES:
        problem = f"there is no figure of several of {name}"
    elif len(group) > (most := 1 if kinds[0] is Scatter else len(SERIES)):
        problem = f"{len(group)} results of the kind {name}, at most {most} fit"
        cure = "draw fewer at a time"
    elif options != PlotOptions():
        problem = "results of attacks on many models have one figure each"
        cure = "leave kind and all other options away"
    if problem:
        raise InputError(problem, cure=cure, where="plot")
    return _FIGURES[kinds[0]](group)


def drawn_of(group: Sequence[_Of], area: Callable[[_Of], float]) -> tuple[list[_Of], str]:
    """Those with the largest areas, as many as there are colours, in order; the others' names."""
    places = sorted(range(len(group)), key=lambda place: -area(group[place]))
    drawn, others = sorted(places[: len(SERIES)]), sorted(places[len(SERIES) :])
    return [group[place] for place in drawn], ", ".join(group[place].name for place in others)


def rocs_figure(group: Sequence[Across], order: Sequence[str] = ()) -> Figure:
    """The mean ROC of each attack, with its standard deviation over targets.

    Attacks have the colours of their places in `order`, so that figures of a page agree.
    """
    least = float(min(found.fprs[found.fprs > 0].min() for found in group))
    several = any(found.auc.count > 1 for found in group)
    marks = [_coin(least)]
    for found, colour in zip(group, _colours(group, order), strict=True):
        mean, name = found.average_tpr, f"{found.name}: AUC {found.auc.mean:.3f}"
        if found.auc.count > 1:
            name += f" ± {found.auc.sd:.3f}"
            sd = found.tprs.std(axis=0, ddof=1)
            ends = found.fprs, np.maximum(mean - sd, least), np.minimum(mean + sd, 1.0)
            marks.append(mark("fill_between", *ends, color=colour, alpha=0.15, linewidth=0))
        marks.append(line(found.fprs, np.maximum(mean, least), colour, label=name))
    areas = "; ".join(f"{found.name}: {found.auc.mean:.3f}" for found in group)
    over = ", the mean over models" if several else ""
    return Figure(
        "roc",
        f"True against false positive rate of each attack{over}. Areas under the curves, {areas}.",
        [_roc_panel(marks, least, ", mean over targets" if several else "", legend="best")],
    )


class Reach(NamedTuple):
    """An attack, or what is no attack and beside them: what it finds, and its average in words."""

    name: str
    found: Estimate
    average: str
    attack: bool = True


def best_first(reached: Sequence[Reach]) -> tuple[list[Reach], list[Reach]]:
    """Those that a figure has bars for, the best attack first; and the attacks beyond these."""
    best = sorted(reached, key=lambda one: (not one.attack, -one.found.value))
    number = sum(one.attack for one in best)
    return [*best[: min(number, len(SERIES))], *best[number:]], best[len(SERIES) : number]


def reached_figure(
    drawn: Sequence[Reach],
    undrawn: Sequence[Reach],
    fpr: float | None,
    caption: Text,
    *,
    what: str,
    average: str,
) -> Figure:
    """The share of the members that each attack finds at a rate, of those that `best_first` gives.

    Without a rate it is the share of right guesses on average. The table has them all; `average`
    is what its last column is called.
    """
    guessing, shown = 0.5 if fpr is None else fpr, drawn[::-1]
    attacks = sum(one.attack for one in drawn)
    best = [*drawn[:attacks], *undrawn, *drawn[attacks:]]
    heights = list(range(len(shown)))
    lengths = [one.found.value for one in shown]
    colours = [SERIES[0] if one.attack else CONTROL for one in shown]
    marks = [
        mark("barh", heights, lengths, 0.5, color=colours, alpha=0.8),
        across("axvline", guessing, label="guessing"),
    ]
    for height, one in enumerate(shown):
        marks.append(line([one.found.lower, one.found.upper], [height, height], INK, 1.6))
    most = max(one.found.upper for one in shown)
    step = next(
        step
        for step in (*(m * 10.0**k for k in range(-4, 2) for m in (1, 2, 5)),)
        if 100 * most <= 6 * step or step == 20
    )
    last = max(math.ceil(100 * most / step - 1e-9), 1)  # above the longest line is a number
    ticks = {k * step / 100: f"{k * step:g} %" for k in range(last + 1)}
    most = max(ticks)
    names = {float(height): one.name for height, one in enumerate(shown)}
    shares = "right guesses" if fpr is None else f"training {what} found"
    x = Axis(shares, limits=(-0.01 * most, 1.01 * most), ticks=ticks)
    y = Axis(limits=(-0.7, len(shown) - 0.3), ticks=names, ruled=False)
    rows = [
        (
            one.name,
            percent_of(one.found.value),
            f"{100 * one.found.lower:.1f} to {percent_of(one.found.upper)}",
            *((one.average,) if fpr is not None else ()),
        )
        for one in best
    ]
    words = "; ".join(f"{one.name}: {percent_of(one.found.value)}" for one in shown)
    columns: tuple[str, ...] = ("Attack", "Right", "Interval")
    if fpr is not None:
        columns = ("Attack", f"Found at FPR {100 * fpr:.3g} %", "Interval", average)
    return Figure(
        "reached",
        f"Share of {shares} by each attack, where guessing has {100 * guessing:.3g} %. {words}.",
        [Panel(marks, x, y, grid="x", legend="above")],
        caption,
        Table("What each attack finds", columns, rows),
    )


@figure_of.register(ShadowSurvey)
@figure_of.register(TextSurvey)
def roc_figure(survey: ShadowSurvey | TextSurvey, _: PlotOptions | None = None) -> Figure:
    """True against false positive rate of each attack, both logarithmic.

    Of attacks with thresholds for each class, or none; of many, those of `drawn_of`.
    """
    attacked = survey.attacked
    least = 0.7 / max(attacked[0].evaluation.roc.nonmembers, 2)
    chosen = [a for a in attacked if not a.attack.name.endswith("-one-threshold")] or [*attacked]
    chosen, undrawn = drawn_of(chosen, lambda a: a.evaluation.auc.value)
    marks = [_coin(least)]
    for drawn, colour in zip(chosen, SERIES, strict=False):
        x, y = _points(drawn.evaluation.roc)
        name = drawn.attack.name
        if len(x) <= _FEW:  # correctness has one point beside the corners
            dots = {"color": colour, "markersize": 6, "label": name}
            marks.append(mark("plot", x[1:-1], y[1:-1], "o", **dots))
        else:
            marks.append(_curve(x, y, least, colour, label=name))
    if (words := getattr(survey, "words", None)) is not None:
        style: dict[str, Any] = {"linestyle": (0, (1, 1.5)), "label": "words alone, no model"}
        marks.append(_curve(*_points(words.roc), least, INK, **style))
    areas = "; ".join(f"{a.attack.name}: {a.evaluation.auc.value:.3f}" for a in attacked)
    words = f"True against false positive rate of each attack. Areas under the curves, {areas}."
    caption = said_in_one("survey.roc", alone=True, words="words" in vars(survey), undrawn=undrawn)
    return Figure("roc", words, [_roc_panel(marks, least)], caption)


@figure_of.register
def evaluation_figure(found: Evaluation, _: PlotOptions) -> Figure:
    """The ROC curve of one attack, or of bare scores."""
    name, least = found.name or "scores", 0.7 / max(found.roc.nonmembers, 2)
    curve = _curve(*_points(found.roc), least, SERIES[0], label=name)
    words = f"True against false positive rate of {name}; area {found.auc.value:.3f}."
    return Figure("roc", words, [_roc_panel([_coin(least), curve], least)])


def risks_figure(survey: ShadowSurvey) -> Figure:
    """Risk scores of members and non-members, and beside them how far they can be trusted."""
    inside, outside, edges = risk_counts(survey)
    kinds = ((inside, SERIES[1], "members"), (outside, CONTROL, "non-members"))
    stairs = [
        steps(counts / max(counts.sum(), 1), edges, colour, 1.8, label=name)
        for counts, colour, name in kinds
    ]
    trust = survey.reliability
    assert trust is not None
    dots: dict[str, Any] = {
        "marker": "o",
        "markersize": 5,
        "markerfacecolor": PAPER,
        "markeredgecolor": INK,
    }
    trusted = [
        line([0, 1], [0, 1], MUTED, 1.0, linestyle=DASHED, label="ideal"),
        line(trust.score, trust.share, CURVE, label="measured", **dots),
    ]
    score, samples = Axis("risk score", limits=(0, 1)), Axis("share of the samples", (0, None))
    share = Axis("share that are members", limits=(0, 1.02))
    return Figure(
        "risk",
        f"Risk scores of {plural(int(inside.sum()), 'member')} and "
        f"{plural(int(outside.sum()), 'non-member')}, and the share of members at each score.",
        [
            Panel(stairs, score, samples, grid="y", legend="best"),
            Panel(trusted, score, share, legend="best"),
        ],
    )


def risk_counts(survey: ShadowSurvey) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Members and non-members in bins of risk from 0 to 1, and the edges."""
    assert survey.risks is not None
    member, edges = survey.target.member[0], np.linspace(0, 1, _RISK_BINS + 1)
    inside, _ = np.histogram(survey.risks.scores[member], edges)
    outside, _ = np.histogram(survey.risks.scores[~member], edges)
    return inside, outside, edges


def growth_figure(group: Sequence[Growth], order: Sequence[str] = ()) -> Figure:
    """AUC against the number of models."""
    marks = [across("axhline", 0.5)]
    for grown, colour in zip(group, _colours(group, order), strict=True):
        means, sds = [auc.mean for auc in grown.auc], [auc.sd for auc in grown.auc]
        style = {"color": colour, "linewidth": 1.5, "marker": "o", "markersize": 4, "capsize": 2}
        marks.append(mark("errorbar", grown.sizes, means, sds, label=grown.name, **style))
    sizes = sorted({size for grown in group for size in grown.sizes})
    words = "; ".join(
        f"{grown.name}: {grown.auc[0].mean:.3f} with {grown.sizes[0]} models, "
        f"{grown.auc[-1].mean:.3f} with {grown.sizes[-1]}"
        for grown in group
    )
    what = " or ".join(sorted({grown.what for grown in group}))
    x = Axis(what, ticks={float(size): f"{size:,}" for size in sizes}, log=True)
    panel = Panel(marks, x, Axis("AUC, mean over targets"), legend="above")
    return Figure("growth", words, [panel])


def losses_figure(group: Sequence[NullLosses]) -> Figure:
    """Losses of one sample under models that were trained without it."""
    if len({(null.sample, null.member) for null in group}) > 1:
        raise InputError(
            "losses of several samples", cure="draw one sample at a time", where="plot"
        )
    shown = [null.losses[np.isfinite(null.losses)] for null in group]
    ends = [null.observed for null in group if np.isfinite(null.observed)]
    everything = np.concatenate([*shown, ends])
    # Losses of one sample and of others lie decades apart; the first bin has those of 0, too.
    least = max(float(everything[everything > 0].min(initial=1.0)), _LEAST_LOSS)
    most = max(float(everything.max(initial=0.0)), 10 * least)
    edges = np.geomspace(least, most, _LOSS_BINS + 1)
    marks = []
    for null, losses, colour in zip(group, shown, SERIES, strict=False):
        counts, _ = np.histogram(np.clip(losses, edges[0], edges[-1]), edges)
        name = f"{null.name}, target {null.target}"
        marks.append(steps(counts / max(len(null.losses), 1), edges, colour, label=name))
        if np.isfinite(null.threshold):
            marks.append(across("axvline", max(null.threshold, least), colour))
    name = f"sample {group[0].sample}, a {'member' if group[0].member else 'non-member'}"
    style = {"linestyle": "-", "linewidth": 1.6, "label": name}
    places = sorted({max(end, least) for end in ends})
    marks += [across("axvline", place, CONTROL, **style) for place in places]
    x = Axis(f"loss in nats; dashed: threshold at alpha = {group[0].alpha:g}", log=True)
    y = Axis("share of the losses", limits=(0, None))
    return Figure("losses", f"Losses of {name}.", [Panel(marks, x, y, grid="", legend="best")])


def scatter_figure(group: Sequence[Scatter]) -> Figure:
    """Each sample by its loss less the thresholds of two attacks."""
    (scatter,) = group
    shown = np.isfinite(scatter.margins).all(axis=0)
    marks: list[Mark] = []
    for inside, colour, name in ((False, CONTROL, "non-members"), (True, SERIES[1], "members")):
        chosen = shown & (scatter.member == inside)
        style = {"color": colour, "markersize": 3, "alpha": 0.6, "label": name}
        marks.append(mark("plot", *scatter.margins[:, chosen], ".", **style))
    marks += [mark(call, 0, color=MUTED, linewidth=0.8) for call in ("axhline", "axvline")]
    x, y = (
        Axis(f"loss less the threshold of {name}, nats (alpha = {scatter.alpha:g})")
        for name in scatter.names
    )
    words = f"Losses less the thresholds of {' and '.join(scatter.names)}."
    return Figure("scatter", words, [Panel(marks, x, y, legend="best")])


_FIGURES: dict[type, Callable[[Any], Figure]] = {
    Across: rocs_figure,
    Growth: growth_figure,
    NullLosses: losses_figure,
    Scatter: scatter_figure,
}


def _roc_panel(
    marks: Sequence[Mark], least: float, mean: str = "", *, legend: str = "lower right"
) -> Panel:
    """Both axes as rates on logarithmic scales from `least` to 1, in per cent."""
    powers = range(int(np.ceil(np.log10(least))), 1)
    ticks = {10.0**k: f"{100 * 10.0**k:g} %" for k in powers}
    rate = "non-members mistaken for members (false positive rate)"
    x = Axis(rate, limits=(least, 1), ticks=ticks, log=True)
    y = Axis(f"members found{mean}", limits=(least, 1.15), ticks=ticks, log=True)
    return Panel(marks, x, y, legend=legend)


def _coin(least: float) -> Mark:
    return line([least, 1], [least, 1], MUTED, 1.0, linestyle=DASHED, label="guessing")


def _curve(x: Floats, y: Floats, least: float, colour: str, **style: Any) -> Mark:
    ends = np.maximum(x, least), np.maximum(y, least)
    return line(*ends, colour, drawstyle="steps-post", **style)


def _points(curve: Roc) -> tuple[Floats, Floats]:
    """Some points of a curve, evenly spread on a logarithmic axis, the corners among them."""
    x, y = curve.fpr, curve.tpr
    if len(x) > _MOST_POINTS:
        wanted = np.geomspace(0.5 / curve.nonmembers, 1, _MOST_POINTS - 2)
        at = np.unique(np.concatenate([[0], np.searchsorted(x, wanted), [len(x) - 1]]))
        x, y = x[at], y[at]
    return x, y


def _colours(group: Sequence[Across | Growth], order: Sequence[str]) -> list[str]:
    return [
        SERIES[(order.index(item.name) if item.name in order else place) % len(SERIES)]
        for place, item in enumerate(group)
    ]
