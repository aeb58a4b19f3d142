"""The median exposure of some canaries: where it is known, and how high it can be."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from canary.statistics.exposures import Exposure

_NEAR_BITS = 0.5  # below its ceiling, a median is at it


def shown_median(group: Sequence[Exposure]) -> str:
    """The median of some exposures, or what it is at least."""
    median, bound = median_bits(group)
    return f"{'at least ' if bound else ''}{median:z.2f} bits"


def shown_medians(groups: Mapping[int, Sequence[Exposure]]) -> dict[int, str]:
    """The median of each group, or the interval of each where one is only bounded."""
    wide = any(median_bits(group)[1] for group in groups.values())
    return {n: (_interval if wide else shown_median)(group) for n, group in groups.items()}


def _interval(group: Sequence[Exposure]) -> str:
    low, high = _median_ends(group)
    if math.isinf(high):
        return shown_median(group)
    return f"{' to '.join(dict.fromkeys((f'{low:z.2f}', f'{high:z.2f}')))} bits"


def _median_ends(group: Sequence[Exposure]) -> tuple[float, float]:
    low, high = zip(*((e.lower_bits, e.upper_bits) for e in group), strict=True)
    return statistics.median(low), statistics.median(high)


def median_bits(
    group: Sequence[Exposure], of: Callable[[Iterable[float]], float] = statistics.median
) -> tuple[float, bool]:
    """Median of some exposures in bits, and whether it is only a lower bound.

    It is one if it depends on how far the censored exposures are above the draws
    (`Exposure.place_bits`): then it is the median of the lower ends of all intervals, and otherwise
    that of the estimates. `of` takes the place of the median: `min`, `max`.
    """
    least = of([e.place_bits for e in group])
    most = of([e.upper_bits if e.bits is None else e.bits for e in group])
    if most > least:
        return of([e.lower_bits for e in group]), True
    return least, False


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


def ceiling(places: Sequence[tuple[float, int]]) -> float:
    """The largest median exposure of canaries at these ranks, each with the bits of its space."""
    return statistics.median(space_bits - math.log2(place) for space_bits, place in places)


def ceilings(canaries: Sequence[tuple[int, int, Exposure]]) -> dict[int, float]:
    """The groups whose median is at its ceiling, within half a bit, and what that is.

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
