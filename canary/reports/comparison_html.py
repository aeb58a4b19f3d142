"""Several audits side by side as one HTML file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from canary.reports.cells import (
    EXPOSURE_COLUMNS,
    bound_or_bits,
    copies_cell,
    exposure_cells,
)
from canary.reports.comparison import (
    Comparison,
    Point,
    Strategy,
    exposures_of,
    front,
    has_curves,
    median_of,
    names_of,
    points,
)
from canary.reports.comparison_figures import PANELS, copies_of, injected_of
from canary.reports.pages import page
from canary.reports.palette import SERIES
from canary.reports.sentences import UNLEARNED_95_BITS, answer
from canary.reports.wording import facts_in_words, settings_in_words
from canary.statistics.numbers import bits, count, plural, probability

__all__ = ["render_comparison"]

_TEMPLATE = "comparison.html.j2"
_NONE = "–"


def render_comparison(comparison: Comparison) -> str:
    """The HTML of a comparison, as text."""
    several = len(comparison.groups) > 1
    same, own = _facts(comparison.strategies)
    return page(
        _TEMPLATE,
        number=count(len(comparison.strategies)),
        sentences=[
            (f"{names_of(group)}: " if several else "", _headline(group))
            for group in comparison.groups
            if len(group) > 1
        ],
        reasons=comparison.reasons,
        notes=[*comparison.notes, *_suspects(comparison), *_own_notes(comparison.strategies)],
        rows=[_row(one) for one in comparison.strategies],
        groups=[_group_view(group, several=several) for group in comparison.groups],
        same=same,
        own=own,
        unlearned=bits(UNLEARNED_95_BITS),
        panels=PANELS,
    )


def _own_notes(strategies: Sequence[Strategy]) -> list[str]:
    """What the audits note of their own numbers, each with whose it is."""
    noted = dict.fromkeys(note for one in strategies for note in one.audit.notes)
    return [
        f"{names_of([s for s in strategies if note in s.audit.notes])}: {note}" for note in noted
    ]


def _headline(group: Sequence[Strategy]) -> str:
    """What the reader wants to know first of audits that can be compared; first format."""
    shown = injected_of(group, 0)
    if not shown:
        return "there is no canary to compare them by."
    where = " of the first format" if len(group[0].audit.formats) > 1 else ""
    if all(one.test_loss_nats is not None for one in group):
        best = {n: _in_order(front(points(group, 0, n))) for n in shown}
        if all(len(some) == len(group) for some in best.values()):
            return f"none is beaten by another in both test loss and exposure of canaries{where}."
        each = "; ".join(
            f"with {plural(n, 'copy', 'copies')}, "
            f"{'all' if len(some) == len(group) else names_of(some)}"
            for n, some in best.items()
        )
        return f"beaten by no other in both test loss and exposure of canaries{where}: {each}."
    each = "; ".join(f"with {plural(n, 'copy', 'copies')}, {_extremes(group, n)}" for n in shown)
    return f"median exposure of canaries{where}: {each}."


def _extremes(group: Sequence[Strategy], repetitions: int) -> str:
    """Where the median exposure is least and most, as far as bounds let it be known."""
    medians = {one: median_of(one, 0, repetitions) for one in group}
    values = [value for value, _ in medians.values()]
    if any(medians[one] == (min(values), True) for one in group):
        return f"at least {bits(min(values))} bits in all, and nothing tells them apart"
    least = [one for one in group if medians[one][0] == min(values)]
    text = f"least in {names_of(least)} ({bits(min(values))} bits)"
    if any(bound for _, bound in medians.values()):
        return text
    if min(values) == max(values):
        return f"the same in all ({bits(min(values))} bits)"
    most = [one for one in group if medians[one][0] == max(values)]
    return f"{text} and most in {names_of(most)} ({bits(max(values))} bits)"


def _in_order(best: Sequence[Point]) -> list[Strategy]:
    return sorted((p.strategy for p in best), key=lambda one: one.place)


def _suspects(comparison: Comparison) -> list[str]:
    found = [one for one in comparison.strategies if answer(one.audit).verdict == "suspect"]
    return [
        f"Do not rely on {one.name}: its own report calls the audit suspect, for what was never "
        "in the corpus looks memorized as well."
        for one in found
    ]


def _row(one: Strategy) -> dict[str, Any]:
    combined = one.audit.injected_p
    found = answer(one.audit)
    return {
        "series": one.place % len(SERIES),
        "name": one.name,
        "label": one.label,
        "verdict": found.label,
        "tone": found.verdict.replace(" ", "-"),
        "loss": _NONE if one.test_loss_nats is None else f"{one.test_loss_nats:.4f}",
        "p": _NONE if combined is None else probability(combined.p_value),
    }


def _group_view(group: Sequence[Strategy], *, several: bool) -> dict[str, Any]:
    formats = range(len(group[0].audit.formats))
    priced = sum(one.test_loss_nats is not None for one in group)
    return {
        "names": names_of(group) if several else "",
        "alone": len(group) == 1,
        "priced": priced,
        "formats": [_format_view(group, at) for at in formats if copies_of(group, at)],
    }


def _format_view(group: Sequence[Strategy], at: int) -> dict[str, Any]:
    priced = group[0].audit.formats[at]
    counted: list[bool] = [] if len(group) == 1 else [False]
    if counted and _bounds(group, at, skew_normal=False) and has_curves(group, at):
        counted.append(True)
    return {
        "masked": priced.masked,
        "size": count(priced.space_size),
        "most": bits(math.log2(priced.space_size)),
        "method": priced.method,
        "draws": None if priced.draws is None else count(priced.draws),
        "views": [_measure_view(group, at, skew_normal=curve) for curve in counted],
    }


def _bounds(group: Sequence[Strategy], at: int, *, skew_normal: bool) -> bool:
    """Whether any median is only a lower bound."""
    return any(
        median_of(one, at, n, skew_normal=skew_normal)[1]
        for one in group
        for n in copies_of(group, at)
    )


def _measure_view(group: Sequence[Strategy], at: int, *, skew_normal: bool) -> dict[str, Any]:
    """The figures of one format by exposure as it was counted, or as the curves estimate it."""
    shown = injected_of(group, at)
    failed = [one for one in group if (fit := one.audit.formats[at].skew_normal) and fit.rejected]
    view: dict[str, Any] = {
        "skew_normal": skew_normal,
        "bounds": _bounds(group, at, skew_normal=skew_normal),
        "failed": names_of(failed) if failed else "",
        "columns": ("Audit", *EXPOSURE_COLUMNS),
        "rows": [
            _exposure_row(one, at, n, skew_normal=skew_normal)
            for one in group
            for n in copies_of(group, at)
        ],
        "words": _exposure_words(group, at, skew_normal=skew_normal),
        "utility": None,
        "figures": _drawn("exposures", group, at, skew_normal=skew_normal),
    }
    if shown and sum(one.test_loss_nats is not None for one in group) > 1:
        view["utility"] = _utility_view(group, at, shown, skew_normal=skew_normal)
        view["figures"] |= _drawn("utility", group, at, shown, skew_normal=skew_normal)
    return view


def _exposure_row(
    one: Strategy, at: int, repetitions: int, *, skew_normal: bool
) -> tuple[str, ...]:
    found = exposures_of(one, at, repetitions, skew_normal=skew_normal)
    return one.name, *exposure_cells(repetitions, found)


def _utility_view(
    group: Sequence[Strategy], at: int, shown: Sequence[int], *, skew_normal: bool
) -> dict[str, Any]:
    found = {n: points(group, at, n, skew_normal=skew_normal) for n in shown}
    best = {n: front(some) for n, some in found.items()}
    on_front = (f"{plural(n, 'copy', 'copies')}: {names_of(_in_order(best[n]))}" for n in shown)
    return {
        "columns": ("Audit", "Copies", "Test loss (nats per token)", "Exposure (bits)", "On front"),
        "rows": [_utility_cells(p, n, best[n]) for n, some in found.items() for p in some],
        "words": f"Test loss against median exposure. On the Pareto front: {'; '.join(on_front)}.",
        "bounds": any(p.bound for some in found.values() for p in some),
        "fewer": len(shown) < sum(1 for n in copies_of(group, at) if n),
    }


def _drawn(
    kind: str, group: Sequence[Strategy], at: int, *more: Sequence[int], skew_normal: bool
) -> dict[tuple[str, str], Any]:
    from markupsafe import Markup

    from canary.reports.canvas import NARROW, WIDE
    from canary.reports.comparison_figures import draw_exposures, draw_utility

    draw: Any = {"exposures": draw_exposures, "utility": draw_utility}[kind]
    return {
        # The drawings hold our own numbers, words and letters only.
        (kind, name): Markup(  # noqa: S704
            draw(group, at, *more, skew_normal=skew_normal, size=size)
        )
        for name, size in (("wide", WIDE), ("narrow", NARROW))
    }


def _utility_cells(point: Point, repetitions: int, best: Sequence[Point]) -> tuple[str, ...]:
    exposure = bound_or_bits(point.median_bits, point.bound)
    loss = f"{point.loss_nats:.4f}"
    return point.strategy.name, count(repetitions), loss, exposure, "yes" if point in best else "no"


def _exposure_words(group: Sequence[Strategy], at: int, *, skew_normal: bool) -> str:
    numbers = copies_of(group, at)
    lines = []
    for one in group:
        medians = [
            f"{copies_cell(n)}: {_bits(*median_of(one, at, n, skew_normal=skew_normal))}"
            for n in (numbers[0], numbers[-1])
        ]
        lines.append(f"{one.name} {', '.join(dict.fromkeys(medians))}")
    return (
        f"Median {'skew-normal ' if skew_normal else ''}exposure in bits against number of "
        "copies, a line for each audit. With the "
        f"fewest and the most copies: {'; '.join(lines)}."
    )


def _facts(strategies: Sequence[Strategy]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """What is the same in the models and settings of all audits, and what is not."""
    worded = [
        facts_in_words(one.audit.model) | settings_in_words(one.audit.settings)
        for one in strategies
    ]
    same = {
        title: value
        for title, value in worded[0].items()
        if all(other.get(title) == value for other in worded)
    }
    own = [
        {
            "name": one.name,
            "label": one.label,
            "facts": {t: v for t, v in w.items() if t not in same},
        }
        for one, w in zip(strategies, worded, strict=True)
    ]
    return same, [one for one in own if one["facts"]]


def _bits(value: float, bound: bool) -> str:  # noqa: FBT001 - what median_bits returns
    return f"{'at least ' if bound else ''}{bits(value)}"
