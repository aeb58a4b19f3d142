"""The median exposure of some canaries: where it is known, and how high it can be."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from canary.statistics.exposures import Exposure
from canary.statistics.medians import MedianInterval, median_interval
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import plural


class _Canary(Protocol):
    """A `CanaryResult`, whose module uses this one for its tables."""

    @property
    def repetitions(self) -> int: ...

    @property
    def format(self) -> int: ...

    @property
    def exposure(self) -> Exposure: ...

    @property
    def base(self) -> Any: ...


_ACanary = TypeVar("_ACanary", bound=_Canary)

MEDIAN_CONFIDENCE = 0.9
"""Of both ends of the interval of a median together; each end alone has 0.95."""

_OPEN_BITS = 3.0  # between the ends of an interval: four hits or fewer leave more
_NEAR_BITS = 0.5  # a median this much below its ceiling is near it


def shown_median(group: Sequence[Exposure]) -> str:
    """The median of some exposures, or what it is at least."""
    median, bound = median_bits(group)
    return f"{'at least ' if bound else ''}{median:z.2f} bits"


def shown_medians(
    groups: Mapping[int, Sequence[Exposure]], most: Mapping[int, float] | None = None
) -> dict[int, str]:
    """The median of each group, or the interval of each where one is only bounded.

    `most` are the largest medians that the groups can have.
    """
    if not any(median_bits(group)[1] for group in groups.values()):
        return {n: shown_median(group) for n, group in groups.items()}
    ends = {} if most is None else most
    return {n: _interval(group, ends.get(n, math.inf)) for n, group in groups.items()}


def _interval(group: Sequence[Exposure], most: float) -> str:
    low, high = _median_ends(group)
    high = max(low, min(high, most))
    if math.isinf(high):
        return shown_median(group)
    return f"{' to '.join(dict.fromkeys((f'{low:z.2f}', f'{high:z.2f}')))} bits"


def _median_ends(group: Sequence[Exposure]) -> tuple[float, float]:
    low, high = zip(*((e.lower_bits, e.upper_bits) for e in group), strict=True)
    return statistics.median(low), statistics.median(high)


def median_bits(
    group: Sequence[Exposure],
    of: Callable[[Iterable[float]], float] = statistics.median,
    *,
    ranked: bool = False,
) -> tuple[float, bool]:
    """Median of some exposures in bits, and whether it is only a lower bound.

    It is one if it depends on exposures that no draw reached, and where models are `ranked` by it,
    that few did: then it is the median of the lower ends of all intervals, and otherwise that of
    the estimates. `of` takes the place of the median: `min`, `max`.
    """
    least = of([e.place_bits for e in group])
    most = of([e.upper_bits if e.bits is None or (ranked and _open(e)) else e.bits for e in group])
    if most > least:
        return of([e.lower_bits for e in group]), True
    return least, False


def _open(exposure: Exposure) -> bool:
    """Whether draws leave it open: it may be far above its estimate.

    A few draws that are as likely decide for all canaries and seeds beside them, so their luck is
    not seen in the spread of either. From five hits on, draws leave 3 bits open at most.
    """
    drawn = exposure.confidence is not None and not exposure.unbounded
    return drawn and exposure.upper_bits - exposure.lower_bits > _OPEN_BITS


def median_metrics(groups: Mapping[int, Sequence[Exposure]]) -> Iterator[tuple[str, float]]:
    """Median exposures by number of copies, as `Shown.metrics` names and describes them."""
    for repetitions, exposures in groups.items():
        name = f"exposure_{f'{repetitions}_copies' if repetitions else 'controls'}"
        yield name, statistics.median(e.place_bits for e in exposures)
        if not all(e.exact for e in exposures):
            for end, bits in zip(("lower", "upper"), _median_ends(exposures), strict=True):
                if math.isfinite(bits):
                    yield f"{name}_{end}", bits
            yield f"{name}_censored", float(median_bits(exposures)[1])


def interval_metrics(canaries: Iterable[_Canary]) -> Iterator[tuple[str, float]]:
    """Median exposures by number of copies, with the ends of the intervals of `group_rows`."""
    groups = by_copies(canaries)
    for copies, group in groups.items():
        exposures = [c.exposure for c in group]
        row = group_row(exposures, [c.format for c in group], confidence=MEDIAN_CONFIDENCE)
        known = dict(median_metrics({copies: exposures}))
        name = next(iter(known))
        ends = {f"{name}_{end}": row[f"{end}_bits"] for end in ("lower", "upper")}
        yield from (
            (key, bits)
            for key, bits in {**known, **ends}.items()
            if bits is not None and (key not in ends or math.isfinite(bits))
        )


def ceiling(places: Sequence[tuple[float, int]]) -> float:
    """The largest median exposure of canaries at these ranks, each with the bits of its space."""
    return statistics.median(space_bits - math.log2(place) for space_bits, place in places)


def highest(canaries: Iterable[tuple[int, float]]) -> float:
    """The largest median of canaries, each with its format and the bits of its space.

    Those of one format take each other's ranks; all others are taken to be less exposed.
    """
    seen: Counter[int] = Counter()
    places = []
    for at, space_bits in canaries:
        seen[at] += 1
        places.append((space_bits, seen[at]))
    return ceiling(places)


def ceilings(canaries: Sequence[tuple[int, int, Exposure]]) -> dict[int, float]:
    """The groups whose median is within half a bit of its ceiling, and what that is.

    Canaries are given with their number of copies and their format. Those of one format take each
    other's ranks, so the k-th of them has log2(candidates) - log2(k) bits at most.
    """
    places: dict[int, list[tuple[float, int]]] = {}
    seen: Counter[int] = Counter()
    for copies, at, exposure in sorted(canaries, key=lambda some: -some[2].lower_bits):
        seen[at] += 1
        places.setdefault(copies, []).append((exposure.space_bits, seen[at]))
    found = {}
    for copies in sorted(places):
        median, bound = median_bits([e for n, _, e in canaries if n == copies])
        most = ceiling(places[copies])
        if not bound and median >= most - _NEAR_BITS:
            found[copies] = most
    return found


def near_highest(full: Mapping[int, float], groups: Mapping[int, Iterable[_Canary]]) -> str:
    """The note on the groups of `ceilings`."""
    ends = ", ".join(
        f"{plural(n, 'copy', 'copies')}: "
        f"{median_bits([c.exposure for c in groups[n]])[0]:.2f} of {most:.2f}"
        for n, most in full.items()
    )
    return (
        "the median exposure is near the highest that this number of canaries can show "
        f"({ends} bits), and so is its interval: it does not say which of two such models "
        "memorized more"
    )


def by_copies(canaries: Iterable[_ACanary]) -> dict[int, tuple[_ACanary, ...]]:
    """Some canaries by number of copies, ascending; 0 holds the controls."""
    some = tuple(canaries)
    groups = sorted({c.repetitions for c in some})
    return {n: tuple(c for c in some if c.repetitions == n) for n in groups}


def group_lines(
    canaries: Iterable[_Canary], planned: str = "", control: int | None = None
) -> Iterator[tuple[str, str]]:
    """The canaries of each number of copies, the most first: their median, and its interval.

    `control` is that of the positive control.
    """
    groups = by_copies(canaries)
    most = {n: highest((c.format, c.exposure.space_bits) for c in some)
            for n, some in groups.items()}  # fmt: skip
    medians = shown_medians({n: [c.exposure for c in some] for n, some in groups.items()}, most)
    for repetitions, group in reversed(groups.items()):
        name = plural(repetitions, "copy", "copies") + planned if repetitions else "controls"
        number = plural(len(group), "canary", "canaries")
        number += ", the positive control" * bool(repetitions and repetitions == control)
        under = [c.base.exposure for c in group if c.base]
        base = f"; {shown_median(under)} under the base model" if under else ""
        ends = between_medians([c.exposure for c in group], [c.format for c in group])
        ends = f" ({100 * MEDIAN_CONFIDENCE:g} % interval {ends})" if ends else ""
        yield name, f"{number}, median {medians[repetitions]}{ends}{base}"


def group_rows(canaries: Iterable[_Canary], *, confidence: float) -> list[dict[str, Any]]:
    """The canaries of each number of copies, ascending: their median, and its interval.

    Parameters
    ----------
    canaries : iterable of CanaryResult
    confidence : float
        Of both ends together. A limit of `canary.check` counts the confidence of one end: 0.9
        here is 0.95 there.

    Returns
    -------
    list of dict
        ``repetitions`` (0 for controls) and ``canaries`` are numbers of copies and of canaries.
        ``median_bits`` is the median of these canaries; where ``bound`` is true, a lower bound of
        it. ``lower_bits`` and ``upper_bits`` are the interval of the median of all canaries like
        these; None where ``canaries`` are fewer than ``canaries_needed``, or where no number would
        do. With a skew-normal curve, ``beyond_draws`` are canaries more likely than every draw, of
        which the curve is a guess.

    Raises
    ------
    EstimationError
        If the confidence is not between 0 and 1.
    """
    return [
        {"repetitions": copies}
        | group_row([c.exposure for c in group], [c.format for c in group], confidence=confidence)
        for copies, group in by_copies(canaries).items()
    ]


def group_row(
    exposures: Sequence[Exposure], formats: Sequence[int], *, confidence: float
) -> dict[str, Any]:
    """The row of `group_rows` of some exposures, without the number of copies."""
    check_confidence(confidence, "groups")
    median, bound = median_bits(exposures)
    found = interval_of_median(exposures, (1.0 + confidence) / 2.0, formats=formats)
    guessed = sum(e.unbounded and e.hits == 0 for e in exposures)
    return (
        {"median_bits": median, "canaries": len(exposures)}
        | {"confidence": confidence, "canaries_needed": found.needed}  # pandas hides the middle
        | ({"beyond_draws": guessed} if any(e.unbounded for e in exposures) else {})
        | {"bound": bound, "lower_bits": found.lower_bits, "upper_bits": found.upper_bits}
    )


def interval_of_median(
    exposures: Sequence[Exposure], confidence: float, *, formats: Sequence[int] | None = None
) -> MedianInterval:
    """`median_interval` of exposures in one audit, with the confidence of either end alone."""
    homes, misses = misses_of(exposures, formats)
    ends = [e.lower_bits for e in exposures], [e.upper_bits for e in exposures]
    return median_interval(*ends, formats=homes, misses=misses, confidence=confidence)


def between_medians(
    exposures: Sequence[Exposure],
    formats: Sequence[int] | None = None,
    *,
    each: float = (1.0 + MEDIAN_CONFIDENCE) / 2.0,
) -> str:
    """``7.01 to 9.20``, the interval of a median; empty of too few canaries.

    `each` is the confidence of either end.
    """
    found = interval_of_median(exposures, each, formats=formats)
    if found.lower_bits is None or found.upper_bits is None:
        return ""
    return f"{found.lower_bits:z.2f} to {found.upper_bits:z.2f}"


def misses_of(
    exposures: Sequence[Exposure], formats: Sequence[int] | None = None
) -> tuple[list[int], list[float]]:
    """The format of each exposure, counted from 0 among these, and how often each misses."""
    given = [0] * len(exposures) if formats is None else formats
    present = sorted(set(given))
    misses = [
        max(e.miss for e, at in zip(exposures, given, strict=True) if at == one) for one in present
    ]
    return [present.index(at) for at in given], misses
