"""The figures of membership attacks: ROC on logarithmic axes, risk scores, reliability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from canary.reports.canvas import WIDE, canvas, log_rates, svg_element
from canary.reports.palette import CONTROL, CURVE, GRID, INK, MUTED, PAPER, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from canary.membership.shadow_survey import ShadowSurvey
    from canary.membership.survey import Attacked
    from canary.membership.text_survey import TextSurvey
    from canary.membership.words import WordsAlone
    from canary.statistics.roc import Roc

__all__ = ["curves_of", "draw_risks", "draw_roc", "risk_counts"]

_MOST_POINTS = 300
_FEW = 4
_RISK_BINS = 20


def curves_of(found: ShadowSurvey | TextSurvey) -> list[Attacked]:
    """The attacks whose curves are drawn: those with class-dependent thresholds or none.

    Of more than there are colours, those of the largest area.
    """
    chosen = [a for a in found.attacked if not a.attack.name.endswith("-one-threshold")]
    chosen = chosen or list(found.attacked)
    if len(chosen) > len(SERIES):
        chosen.sort(key=lambda a: -a.evaluation.auc.value)
    return chosen[: len(SERIES)]


def risk_counts(
    found: ShadowSurvey,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Members and nonmembers in bins of risk from 0 to 1, and the edges."""
    assert found.risks is not None
    member, edges = found.target.member[0], np.linspace(0, 1, _RISK_BINS + 1)
    inside, _ = np.histogram(found.risks.scores[member], edges)
    outside, _ = np.histogram(found.risks.scores[~member], edges)
    return inside, outside, edges


def draw_roc(found: ShadowSurvey | TextSurvey, *, size: tuple[float, float] = WIDE) -> str:
    """True against false positive rate of each attack, both logarithmic, as one ``svg``."""
    with canvas(size) as figure:
        axes = figure.subplots()
        _roc_on(axes, found, words=getattr(found, "words", None))
        return svg_element(figure, f"membership roc {size}")


def draw_risks(found: ShadowSurvey, *, size: tuple[float, float] = WIDE) -> str:
    """Risk scores of members and nonmembers, and beside them how far they can be trusted."""
    with canvas(size) as figure:
        upright = size[0] < WIDE[0]
        left, right = figure.subplots(2, 1) if upright else figure.subplots(1, 2)
        _risks_on(left, found)
        _reliability_on(right, found)
        return svg_element(figure, f"membership risk {size}")


def _roc_on(
    axes: Axes, found: ShadowSurvey | TextSurvey, *, words: WordsAlone | None = None
) -> None:
    least = 0.7 / max(found.attacked[0].evaluation.roc.nonmembers, 2)
    axes.plot(
        [least, 1], [least, 1], color=MUTED, linewidth=1.0, linestyle=(0, (5, 3)), label="a coin"
    )
    for one, colour in zip(curves_of(found), SERIES, strict=False):
        x, y = _points(one.evaluation.roc)
        if len(x) <= _FEW:  # correctness has one point beside the corners
            axes.plot(x[1:-1], y[1:-1], "o", color=colour, markersize=6, label=one.attack.name)
            continue
        axes.plot(
            np.maximum(x, least),
            np.maximum(y, least),
            color=colour,
            linewidth=1.5,
            label=one.attack.name,
            drawstyle="steps-post",
        )
    if words is not None:
        x, y = _points(words.roc)
        axes.plot(
            np.maximum(x, least),
            np.maximum(y, least),
            color=INK,
            linewidth=1.5,
            linestyle=(0, (1, 1.5)),
            label="words alone, no model",
            drawstyle="steps-post",
        )
    log_rates(axes, least)
    axes.set_xlabel("nonmembers called members (false positive rate)")
    axes.set_ylabel("members called members")
    axes.grid(color=GRID, linewidth=0.8)
    axes.legend(loc="lower right", fontsize=8.5, frameon=False)


def _points(curve: Roc) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Some points of a curve, evenly spread on a logarithmic axis, the corners among them."""
    x, y = curve.fpr, curve.tpr
    if len(x) > _MOST_POINTS:
        wanted = np.geomspace(0.5 / curve.nonmembers, 1, _MOST_POINTS - 2)
        at = np.unique(np.concatenate([[0], np.searchsorted(x, wanted), [len(x) - 1]]))
        x, y = x[at], y[at]
    return x, y


def _risks_on(axes: Axes, found: ShadowSurvey) -> None:
    inside, outside, edges = risk_counts(found)
    for counts, colour, name in ((inside, SERIES[1], "members"), (outside, CONTROL, "nonmembers")):
        axes.stairs(counts / max(counts.sum(), 1), edges, color=colour, linewidth=1.8, label=name)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("risk score")
    axes.set_ylabel("share of the samples")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.legend(fontsize=9, frameon=False)


def _reliability_on(axes: Axes, found: ShadowSurvey) -> None:
    trust = found.reliability
    assert trust is not None
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.0, linestyle=(0, (5, 3)), label="ideal")
    axes.plot(
        trust.score,
        trust.share,
        color=CURVE,
        linewidth=1.5,
        marker="o",
        markersize=5,
        markerfacecolor=PAPER,
        markeredgecolor=INK,
        label="measured",
    )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("risk score")
    axes.set_ylabel("share that are members")
    axes.grid(color=GRID, linewidth=0.8)
    axes.legend(fontsize=9, frameon=False)
