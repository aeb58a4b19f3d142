"""The figures of attacks on many models: average ROC, growth, null losses, threshold scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from canary.errors import InputError
from canary.membership.aggregate import Across
from canary.membership.diagnostics import Growth, NullLosses, Scatter
from canary.reports.canvas import NARROW, WIDE, canvas, log_rates, svg_element
from canary.reports.palette import CONTROL, GRID, MUTED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ManyResult", "draw_many", "many_drawing", "of_many"]

ManyResult = Across | Growth | NullLosses | Scatter
"""What can be drawn: one of these, or several of one kind."""

_KINDS = (Across, Growth, NullLosses, Scatter)
_BINS = 40
_LEAST = 1e-8
"""Nats: losses below are drawn there."""


def of_many(given: object) -> TypeGuard[ManyResult | Sequence[ManyResult]]:
    """Whether this is a result of attacks on many models, or several."""
    if isinstance(given, _KINDS):
        return True
    several = isinstance(given, list | tuple) and len(given) > 0
    return several and any(isinstance(one, _KINDS) for one in given)  # type: ignore[attr-defined]


def many_drawing(
    given: ManyResult | Sequence[ManyResult], *, order: Sequence[str] = ()
) -> Callable[[Axes], None]:
    """What draws a result, or several of one kind, on axes.

    Parameters
    ----------
    given : Across, Growth, NullLosses or Scatter, or several of one kind
    order : sequence of str
        Of attacks: average ROCs and growth have the colours of their places in it. Without it
        they have those of their own order.

    Raises
    ------
    InputError
        If they are of several kinds, there are several scatters, more than the palette has
        colours for, or losses of several samples.
    """
    group: list[Any] = [given] if isinstance(given, _KINDS) else list(given)
    kinds = {type(one) for one in group}
    if len(kinds) > 1:
        shown = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"{shown} cannot share axes", cure="draw one kind at a time", where="plot")
    kind = kinds.pop()
    most = 1 if kind is Scatter else len(SERIES)
    if len(group) > most:
        raise InputError(
            f"{len(group)} results of the kind {kind.__name__}, at most {most} fit",
            cure="draw fewer at a time",
            where="plot",
        )
    if kind is NullLosses and len({(one.sample, one.member) for one in group}) > 1:
        raise InputError(
            "losses of several samples", cure="draw one sample at a time", where="plot"
        )
    drawings: dict[type, Callable[[Axes, list[Any]], None]] = {
        Across: partial(_rocs_on, order=order),
        Growth: partial(_growth_on, order=order),
        NullLosses: _losses_on,
        Scatter: _scatter_on,
    }
    draw = drawings[kind]
    return lambda axes: draw(axes, group)


def draw_many(
    given: ManyResult | Sequence[ManyResult],
    name: str,
    *,
    size: tuple[float, float] = WIDE,
    order: Sequence[str] = (),
) -> str:
    """A result, or several of one kind, as one ``svg`` of a page in which it has this name.

    Attacks have the colours of their places in `order`, so that figures of a page agree.
    """
    with canvas(size) as figure:
        many_drawing(given, order=order)(figure.subplots())
        return svg_element(figure, f"{name} {size}")


def _colours(group: Sequence[Across | Growth], order: Sequence[str]) -> list[str]:
    return [
        SERIES[(order.index(one.name) if one.name in order else at) % len(SERIES)]
        for at, one in enumerate(group)
    ]


def _is_wide(axes: Axes) -> bool:
    return bool(axes.bbox.width > NARROW[0] * axes.figure.dpi)


def _rocs_on(axes: Axes, group: list[Across], *, order: Sequence[str]) -> None:
    least = float(min(one.fprs[one.fprs > 0].min() for one in group))
    axes.plot(
        [least, 1], [least, 1], color=MUTED, linewidth=1.0, linestyle=(0, (5, 3)), label="a coin"
    )
    for one, colour in zip(group, _colours(group, order), strict=True):
        mean = one.average_tpr
        if one.auc.count > 1:
            sd = one.tprs.std(axis=0, ddof=1)
            low, high = np.maximum(mean - sd, least), np.minimum(mean + sd, 1.0)
            axes.fill_between(one.fprs, low, high, color=colour, alpha=0.15, linewidth=0)
        name = f"{one.name}: AUC {one.auc.mean:.3f}"
        if one.auc.count > 1:
            name += f" ± {one.auc.sd:.3f}"
        axes.plot(one.fprs, np.maximum(mean, least), color=colour, linewidth=1.5, label=name)
    log_rates(axes, least)
    axes.set_xlabel("nonmembers called members (false positive rate)")
    several = any(one.auc.count > 1 for one in group)
    axes.set_ylabel("members called members" + (", mean over targets" if several else ""))
    axes.grid(color=GRID, linewidth=0.8)
    above: dict[str, Any] = (
        {} if _is_wide(axes) else {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    )
    axes.legend(fontsize=8.5, frameon=False, **above)


def _growth_on(axes: Axes, group: list[Growth], *, order: Sequence[str]) -> None:
    axes.axhline(0.5, color=MUTED, linewidth=1.0, linestyle=(0, (5, 3)))
    for one, colour in zip(group, _colours(group, order), strict=True):
        axes.errorbar(
            one.sizes,
            [auc.mean for auc in one.auc],
            [auc.sd for auc in one.auc],
            color=colour,
            linewidth=1.5,
            marker="o",
            markersize=4,
            capsize=2,
            label=one.name,
        )
    axes.set_xscale("log")
    sizes = sorted({size for one in group for size in one.sizes})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel(" or ".join(sorted({one.what for one in group})))
    axes.set_ylabel("AUC, mean over targets")
    axes.grid(color=GRID, linewidth=0.8)
    # Above the axes: wherever curves and the line at 0.5 lie, they do not cross names.
    axes.legend(
        fontsize=9,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=3 if _is_wide(axes) else 2,
    )


def _losses_on(axes: Axes, group: list[NullLosses]) -> None:
    shown = [one.losses[np.isfinite(one.losses)] for one in group]
    ends = [one.observed for one in group if np.isfinite(one.observed)]
    everything = np.concatenate([*shown, ends])
    # Losses of one sample and of others lie decades apart; the first bin has those of 0, too.
    least = max(float(everything[everything > 0].min(initial=1.0)), _LEAST)
    edges = np.geomspace(least, max(float(everything.max(initial=0.0)), 10 * least), _BINS + 1)
    for one, losses, colour in zip(group, shown, SERIES, strict=False):
        counts, _ = np.histogram(np.clip(losses, edges[0], edges[-1]), edges)
        name = f"{one.name}, target {one.target}"
        axes.stairs(
            counts / max(len(one.losses), 1), edges, color=colour, linewidth=1.6, label=name
        )
        if np.isfinite(one.threshold):
            at = max(one.threshold, least)
            axes.axvline(at, color=colour, linewidth=1.0, linestyle=(0, (5, 3)))
    kind = "member" if group[0].member else "nonmember"
    for at in sorted({max(end, least) for end in ends}):
        axes.axvline(at, color=CONTROL, linewidth=1.6, label=f"sample {group[0].sample}, a {kind}")
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xlabel(f"loss in nats; dashed: threshold at alpha = {group[0].alpha:g}")
    axes.set_ylabel("share of the losses")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8.5, frameon=False)


def _scatter_on(axes: Axes, group: list[Scatter]) -> None:
    (one,) = group
    shown = np.isfinite(one.margins).all(axis=0)
    for inside, colour, name in ((False, CONTROL, "nonmembers"), (True, SERIES[1], "members")):
        chosen = shown & (one.member == inside)
        axes.plot(*one.margins[:, chosen], ".", color=colour, markersize=3, alpha=0.6, label=name)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    of = [f"loss less the threshold of {name}, nats (alpha = {one.alpha:g})" for name in one.names]
    axes.set_xlabel(of[0])
    axes.set_ylabel(of[1])
    axes.grid(color=GRID, linewidth=0.8)
    axes.legend(fontsize=9, frameon=False)
