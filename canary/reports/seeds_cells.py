"""What ways of training have in numbers: medians over seeds, their differences, and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from canary.records.validation import brief
from canary.statistics.numbers import bits, plural, probability
from canary.statistics.welch import Estimated, difference_of, mean_of


@dataclass(frozen=True, eq=False)
class Cell:
    """The canaries of one format and number of copies, in each audit of each group.

    Parameters
    ----------
    format, repetitions : int
        Position of the format, and number of copies; 0 for controls.
    medians : tuple of tuple of float
        For each group the median exposure in each of its audits, in bits.
    bounds : tuple of tuple of bool
        Whether that is only a lower bound.
    full : tuple of tuple of bool
        Whether that is within half a bit of the highest possible, so that differences to it may be
        larger than they look.
    most : float
        The highest possible median.
    """

    format: int
    repetitions: int
    medians: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[bool, ...], ...]
    full: tuple[tuple[bool, ...], ...]
    most: float = math.inf

    @property
    def bounded(self) -> bool:
        """Whether any median is only a lower bound, so that no mean is known."""
        return any(map(any, self.bounds))

    @property
    def known(self) -> bool:
        """Whether no median is only a bound, or near the highest possible."""
        return not (self.bounded or any(map(any, self.full)))

    @property
    def usable(self) -> bool:
        """Whether the groups can be ranked by it."""
        return bool(self.repetitions) and self.known


@dataclass(frozen=True)
class Pair:
    """How many bits more the canaries of one group are exposed than those of another.

    The interval is Welch's over seeds. `shown` says whether `more` is shown to memorize more: the
    intervals of the two groups do not overlap (`apart`), and the p-value times the number of pairs
    is 0.05 at most (`sure`).
    """

    more: str
    less: str
    bits: Estimated
    shown: bool
    apart: bool
    sure: bool


def listed(names: Sequence[str]) -> str:
    """``A, B and C``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def estimate(cell: Cell, at: int, confidence: float) -> Estimated:
    """The mean of a group in a cell; without an interval where a median is only a bound."""
    if any(cell.bounds[at]):
        return Estimated(fmean(cell.medians[at]))
    return mean_of(cell.medians[at], confidence)


def difference(cell: Cell, at: int, confidence: float) -> Estimated | None:
    """How much more a group is exposed in a cell than the first one, where that is known.

    Without a p-value for controls: it would be about their few strings, and not about training.
    """
    if not at or not cell.known:
        return None
    found = difference_of(cell.medians[at], cell.medians[0], confidence)
    return found if cell.repetitions else replace(found, p_value=None)


def mean_words(cell: Cell, at: int, confidence: float) -> str:
    """``7.1 bits (6.2 to 8.0)``, or what it is at least."""
    mean = estimate(cell, at, confidence)
    least = "at least " if any(cell.bounds[at]) else ""
    ends = f" ({ends_of(mean, cell.most)})"
    if mean.lower is None or mean.upper is None:
        ends = "" if least or len(cell.medians[at]) < 2 else " (no interval: all seeds alike)"
    return f"{least}{bits(mean.value)} bits{ends}"


def near_words(cell: Cell, at: int) -> str:
    """``1 of 3 seeds near the highest possible``, or nothing."""
    near, seeds = sum(cell.full[at]), len(cell.full[at])
    return f"{near} of {plural(seeds, 'seed')} near the highest possible" if near else ""


def cut(value: float, low: float, high: float, most: float) -> tuple[float, float]:
    """The ends of an interval of exposures, cut at 0 and at the highest possible median."""
    return max(low, 0.0), max(value, min(high, most))


def ends_of(found: Estimated, most: float | None = None) -> str:
    """``6.2 to 8.0``, or a dash for no interval.

    With `most`, it is of exposures, and is cut at 0 and at the highest possible median.
    """
    low, high = found.lower, found.upper
    if low is None or high is None:
        return "–"
    if most is not None and (low < 0.0 or high > most):
        where = [*["0"] * (low < 0.0), *["the highest possible"] * (high > most)]
        low, high = cut(found.value, low, high, most)
        return f"{bits(low)} to {bits(high)}, cut at {listed(where)}"
    if any(end < 0.0 and bits(end) == "0.0" for end in (low, high)):  # the sign decides
        return f"{low:.2f} to {high:.2f}"
    return f"{bits(low)} to {bits(high)}"


def gap_words(pair: Pair, labels: Sequence[str], of: str, level: str) -> str:
    """``'b' minus 'a', mean: -2.3 bits (90 % interval -3.5 to -1.1, p = 0.003, Welch)``.

    The later one of `labels` minus the earlier one, as in tables.
    """
    found, (less, more) = pair.bits, sorted((pair.less, pair.more), key=labels.index)
    if more == pair.less:
        low, high = (None if end is None else -end for end in (found.upper, found.lower))
        found = replace(found, value=-found.value, lower=low, upper=high)
    how = "no interval: the seeds have no spread, or are too few"
    if found.lower is not None:
        how = f"{level} {ends_of(found)}, p = {probability(found.p_value)}, Welch's t over seeds"
    return f"{brief(more)} minus {brief(less)}, {of}: {bits(found.value)} bits ({how})"


def loss_words(found: Estimated) -> str:
    """``1.43 (1.40 to 1.46)``, in nats per token."""
    ends = "" if found.lower is None else f" ({loss_ends(found)})"
    return f"{found.value:.3f}{ends}"


def loss_ends(found: Estimated) -> str:
    """``1.40 to 1.46``, or a dash for no interval."""
    if found.lower is None or found.upper is None:
        return "–"
    return f"{found.lower:.3f} to {found.upper:.3f}"
