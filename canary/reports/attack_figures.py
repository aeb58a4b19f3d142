"""The figures of membership attacks as numbers: ROC curves, risks, growth, losses, thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.aggregate import Across
from canary.membership.diagnostics import Growth, NullLosses, Scatter
from canary.reports.builders import PlotOptions, figure_of
from canary.reports.document import Axis, Figure, Mark, Panel, mark
from canary.reports.exposure_figures import DASHED
from canary.reports.palette import CONTROL, CURVE, INK, MUTED, PAPER, SERIES
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.membership.shadow_survey import ShadowSurvey
    from canary.membership.survey import Attacked
    from canary.membership.text_survey import TextSurvey
    from canary.statistics.roc import Roc

Floats = NDArray[np.float64]

_MOST_POINTS = 300
_FEW = 4
_RISK_BINS = 20
_LOSS_BINS = 40
_LEAST_LOSS = 1e-8
"""Nats: losses below are drawn there."""

_FPR = "nonmembers called members (false positive rate)"
_PLAIN = PlotOptions()


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
    kinds = {type(one) for one in group}
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"{names} cannot share axes", cure="draw one kind at a time", where="plot")
    (kind,) = kinds
    if kind not in _FIGURES:
        raise InputError(
            f"there is no figure of several of {kind.__name__}", cure="draw one", where="plot"
        )
    if options != _PLAIN:
        raise InputError(
            "results of attacks on many models have one figure each",
            cure="leave kind and all other options away",
        )
    most = 1 if kind is Scatter else len(SERIES)
    if len(group) > most:
        raise InputError(
            f"{len(group)} results of the kind {kind.__name__}, at most {most} fit",
            cure="draw fewer at a time",
            where="plot",
        )
    return _FIGURES[kind](group)


def rocs_figure(group: Sequence[Across], order: Sequence[str] = ()) -> Figure:
    """The mean ROC of each attack, with its standard deviation over targets.

    Attacks have the colours of their places in `order`, so that figures of a page agree.
    """
    least = float(min(one.fprs[one.fprs > 0].min() for one in group))
    several = any(one.auc.count > 1 for one in group)
    marks = [_coin(least)]
    for one, colour in zip(group, _colours(group, order), strict=True):
        mean, name = one.average_tpr, f"{one.name}: AUC {one.auc.mean:.3f}"
        if one.auc.count > 1:
            name += f" ± {one.auc.sd:.3f}"
            sd = one.tprs.std(axis=0, ddof=1)
            low, high = np.maximum(mean - sd, least), np.minimum(mean + sd, 1.0)
            style = {"color": colour, "alpha": 0.15, "linewidth": 0}
            marks.append(mark("fill_between", one.fprs, low, high, **style))
        marks.append(
            mark("plot", one.fprs, np.maximum(mean, least), color=colour, linewidth=1.5, label=name)
        )
    areas = "; ".join(f"{one.name}: {one.auc.mean:.3f}" for one in group)
    over = ", the mean over models" if several else ""
    return Figure(
        "roc",
        f"True against false positive rate of each attack{over}. Areas under the curves, {areas}.",
        [_roc_panel(marks, least, ", mean over targets" if several else "", legend="best")],
    )


def roc_figure(found: ShadowSurvey | TextSurvey) -> Figure:
    """True against false positive rate of each attack, both logarithmic."""
    least = 0.7 / max(found.attacked[0].evaluation.roc.nonmembers, 2)
    marks = [_coin(least)]
    for one, colour in zip(curves_of(found), SERIES, strict=False):
        x, y = _points(one.evaluation.roc)
        name = one.attack.name
        if len(x) <= _FEW:  # correctness has one point beside the corners
            dots = {"color": colour, "markersize": 6, "label": name}
            marks.append(mark("plot", x[1:-1], y[1:-1], "o", **dots))
        else:
            marks.append(_curve(x, y, least=least, color=colour, label=name))
    if (words := getattr(found, "words", None)) is not None:
        style: dict[str, Any] = {"color": INK, "linestyle": (0, (1, 1.5))}
        style["label"] = "words alone, no model"
        marks.append(_curve(*_points(words.roc), least=least, **style))
    areas = "; ".join(f"{a.attack.name}: {a.evaluation.auc.value:.3f}" for a in found.attacked)
    return Figure(
        "roc",
        "True against false positive rate of each attack. Areas under the curves, " + f"{areas}.",
        [_roc_panel(marks, least)],
    )


def curves_of(found: ShadowSurvey | TextSurvey) -> list[Attacked]:
    """The attacks whose curves are drawn: those with class-dependent thresholds or none.

    Of more than there are colours, those of the largest area.
    """
    chosen = [a for a in found.attacked if not a.attack.name.endswith("-one-threshold")]
    chosen = chosen or list(found.attacked)
    if len(chosen) > len(SERIES):
        chosen.sort(key=lambda a: -a.evaluation.auc.value)
    return chosen[: len(SERIES)]


def risks_figure(found: ShadowSurvey) -> Figure:
    """Risk scores of members and nonmembers, and beside them how far they can be trusted."""
    inside, outside, edges = risk_counts(found)
    stairs = [
        mark(
            "stairs", counts / max(counts.sum(), 1), edges, color=colour, linewidth=1.8, label=name
        )
        for counts, colour, name in (
            (inside, SERIES[1], "members"),
            (outside, CONTROL, "nonmembers"),
        )
    ]
    score = Axis("risk score", limits=(0, 1))
    trust = found.reliability
    assert trust is not None
    ideal = {"color": MUTED, "linewidth": 1.0, "linestyle": DASHED, "label": "ideal"}
    measured = {"color": CURVE, "linewidth": 1.5, "marker": "o", "markersize": 5}
    face = {"markerfacecolor": PAPER, "markeredgecolor": INK, "label": "measured"}
    trusted = [
        mark("plot", [0, 1], [0, 1], **ideal),
        mark("plot", trust.score, trust.share, **measured, **face),
    ]
    return Figure(
        "risk",
        f"Risk scores of {plural(int(inside.sum()), 'member')} and "
        f"{plural(int(outside.sum()), 'nonmember')}, and the share of members at each score.",
        [
            Panel(
                stairs,
                score,
                Axis("share of the samples", limits=(0, None)),
                grid="y",
                legend="best",
            ),
            Panel(trusted, score, Axis("share that are members", limits=(0, 1.02)), legend="best"),
        ],
    )


def risk_counts(found: ShadowSurvey) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Members and nonmembers in bins of risk from 0 to 1, and the edges."""
    assert found.risks is not None
    member, edges = found.target.member[0], np.linspace(0, 1, _RISK_BINS + 1)
    inside, _ = np.histogram(found.risks.scores[member], edges)
    outside, _ = np.histogram(found.risks.scores[~member], edges)
    return inside, outside, edges


def growth_figure(group: Sequence[Growth], order: Sequence[str] = ()) -> Figure:
    """AUC against the number of models."""
    marks = [mark("axhline", 0.5, color=MUTED, linewidth=1.0, linestyle=DASHED)]
    for one, colour in zip(group, _colours(group, order), strict=True):
        means, sds = [auc.mean for auc in one.auc], [auc.sd for auc in one.auc]
        style = {"color": colour, "linewidth": 1.5, "marker": "o", "markersize": 4, "capsize": 2}
        marks.append(mark("errorbar", one.sizes, means, sds, label=one.name, **style))
    sizes = {float(size): f"{size:,}" for size in sorted({s for one in group for s in one.sizes})}
    words = "; ".join(
        f"{one.name}: {one.auc[0].mean:.3f} with {one.sizes[0]} models, "
        f"{one.auc[-1].mean:.3f} with {one.sizes[-1]}"
        for one in group
    )
    x = Axis(" or ".join(sorted({one.what for one in group})), ticks=sizes, log=True)
    return Figure(
        "growth", words, [Panel(marks, x, Axis("AUC, mean over targets"), legend="above")]
    )


def losses_figure(group: Sequence[NullLosses]) -> Figure:
    """Losses of one sample under models that were trained without it."""
    if len({(one.sample, one.member) for one in group}) > 1:
        raise InputError(
            "losses of several samples", cure="draw one sample at a time", where="plot"
        )
    shown = [one.losses[np.isfinite(one.losses)] for one in group]
    ends = [one.observed for one in group if np.isfinite(one.observed)]
    everything = np.concatenate([*shown, ends])
    # Losses of one sample and of others lie decades apart; the first bin has those of 0, too.
    least = max(float(everything[everything > 0].min(initial=1.0)), _LEAST_LOSS)
    most = max(float(everything.max(initial=0.0)), 10 * least)
    edges = np.geomspace(least, most, _LOSS_BINS + 1)
    marks = []
    for one, losses, colour in zip(group, shown, SERIES, strict=False):
        counts, _ = np.histogram(np.clip(losses, edges[0], edges[-1]), edges)
        shares = counts / max(len(one.losses), 1)
        name = f"{one.name}, target {one.target}"
        marks.append(mark("stairs", shares, edges, color=colour, linewidth=1.6, label=name))
        if np.isfinite(one.threshold):
            place = max(one.threshold, least)
            marks.append(mark("axvline", place, color=colour, linewidth=1.0, linestyle=DASHED))
    kind = "member" if group[0].member else "nonmember"
    name = f"sample {group[0].sample}, a {kind}"
    marks += [
        mark("axvline", place, color=CONTROL, linewidth=1.6, label=name)
        for place in sorted({max(end, least) for end in ends})
    ]
    x = Axis(f"loss in nats; dashed: threshold at alpha = {group[0].alpha:g}", log=True)
    y = Axis("share of the losses", limits=(0, None))
    return Figure("losses", f"Losses of {name}.", [Panel(marks, x, y, grid="", legend="best")])


def scatter_figure(group: Sequence[Scatter]) -> Figure:
    """Each sample by its loss less the thresholds of two attacks."""
    (one,) = group
    shown = np.isfinite(one.margins).all(axis=0)
    marks: list[Mark] = []
    for inside, colour, name in ((False, CONTROL, "nonmembers"), (True, SERIES[1], "members")):
        chosen = shown & (one.member == inside)
        style = {"color": colour, "markersize": 3, "alpha": 0.6, "label": name}
        marks.append(mark("plot", *one.margins[:, chosen], ".", **style))
    marks += [mark(call, 0, color=MUTED, linewidth=0.8) for call in ("axhline", "axvline")]
    x, y = (
        Axis(f"loss less the threshold of {name}, nats (alpha = {one.alpha:g})")
        for name in one.names
    )
    words = f"Losses less the thresholds of {' and '.join(one.names)}."
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
    x = Axis(_FPR, limits=(least, 1), ticks=ticks, log=True)
    y = Axis(f"members called members{mean}", limits=(least, 1.15), ticks=ticks, log=True)
    return Panel(marks, x, y, legend=legend)


def _coin(least: float) -> Mark:
    style = {"color": MUTED, "linewidth": 1.0, "linestyle": DASHED, "label": "a coin"}
    return mark("plot", [least, 1], [least, 1], **style)


def _curve(x: Floats, y: Floats, *, least: float, **style: Any) -> Mark:
    ends = (np.maximum(x, least), np.maximum(y, least))
    return mark("plot", *ends, linewidth=1.5, drawstyle="steps-post", **style)


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
        SERIES[(order.index(one.name) if one.name in order else at) % len(SERIES)]
        for at, one in enumerate(group)
    ]
