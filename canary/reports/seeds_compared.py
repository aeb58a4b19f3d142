"""Ways of training side by side, each by the audits of several seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

from canary.audits.audit_result import CANARY_SET, Audit
from canary.audits.designs import Design, differences
from canary.audits.group_medians import MEDIAN_CONFIDENCE
from canary.errors import InputError
from canary.gate.regression import SEEDS
from canary.records.validation import brief, one_or_more
from canary.reports.comparison import Strategy, View, check_weights
from canary.reports.ranked_models import RANK_LEVEL
from canary.reports.sentences import answer
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import Shown, bits, clean, count, plural, probability
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
    space_bits : float
        The largest exposure that there is.
    full : tuple of bool
        For each group, whether a median is as high as it can be, so that differences to it may be
        larger than they look.
    """

    format: int
    repetitions: int
    medians: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[bool, ...], ...]
    space_bits: float
    full: tuple[bool, ...]

    @property
    def bounded(self) -> bool:
        """Whether any median is only a lower bound, so that no mean is known."""
        return any(map(any, self.bounds))

    @property
    def usable(self) -> bool:
        """Whether the groups can be ranked by it."""
        return bool(self.repetitions) and not (self.bounded or any(self.full))


@dataclass(frozen=True)
class Pair:
    """How many bits more the canaries of one group are exposed than those of another.

    The interval is Welch's over seeds. `shown` says whether `more` is shown to memorize more: the
    intervals of the two groups do not overlap, and the p-value times the number of pairs is 0.05
    at most.
    """

    more: str
    less: str
    bits: Estimated
    shown: bool


@dataclass(frozen=True, eq=False, repr=False)
class SeedsCompared(Shown):
    """Ways of training side by side, each by the audits of several seeds.

    Parameters
    ----------
    labels : tuple of str
        What the groups are called, in their order.
    groups : tuple of tuple of Strategy
        The audits of each group.
    confidence : float
        Of both ends of every interval together.

    Notes
    -----
    The number of a seed is the median exposure of its canaries with one number of copies. The
    interval of a group's mean is Student's over its seeds, and that of a difference Welch's.
    """

    labels: tuple[str, ...]
    groups: tuple[tuple[Strategy, ...], ...]
    confidence: float = MEDIAN_CONFIDENCE

    @property
    def audits(self) -> tuple[Audit, ...]:
        """All audits, group by group."""
        return tuple(one.audit for group in self.groups for one in group)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """A cell for each format and number of copies, in ascending order."""
        made = []
        for at in range(len(self.audits[0].formats)):
            view = View([one for group in self.groups for one in group], at)
            for copies in view.copies:
                pairs = [[view.median(one, copies) for one in group] for group in self.groups]
                medians = tuple(tuple(median for median, _ in some) for some in pairs)
                bounds = tuple(tuple(bound for _, bound in some) for some in pairs)
                full = tuple(View([*some], at).at_ceiling(copies) for some in self.groups)
                made.append(Cell(at, copies, medians, bounds, view.space_bits, full))
        return tuple(made)

    @property
    def usable(self) -> tuple[Cell, ...]:
        """The cells by which the groups are ranked."""
        return tuple(cell for cell in self.cells if cell.usable)

    @property
    def used(self) -> str:
        """The numbers of copies of `usable`, as ``1 and 4 copies``."""
        numbers = [*dict.fromkeys(cell.repetitions for cell in self.usable)]
        if numbers == [1]:
            return "1 copy"
        return f"{listed([*map(count, numbers)])} copies"

    @cached_property
    def overall(self) -> tuple[tuple[float, ...], ...]:
        """For each group and seed the mean of its medians over `usable`, in bits."""
        return tuple(
            tuple(fmean(cell.medians[at][i] for cell in self.usable) for i in range(len(group)))
            for at, group in enumerate(self.groups)
            if self.usable
        )

    @cached_property
    def means(self) -> tuple[Estimated, ...]:
        """The mean of each group over its seeds, of `overall`."""
        return tuple(mean_of(values, self.confidence) for values in self.overall)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair of groups by `overall`, the more exposed group first."""
        order = sorted(range(len(self.means)), key=lambda at: self.means[at].value)
        tests = len(order) * (len(order) - 1) // 2
        found = []
        for less, more in combinations(order, 2):
            gap = difference_of(self.overall[more], self.overall[less], self.confidence)
            high, low = self.means[less].upper, self.means[more].lower
            apart = high is not None and low is not None and low > high
            sure = gap.p_value is not None and gap.p_value * tests <= RANK_LEVEL
            shown = apart and sure and not self.why_not
            found.append(Pair(self.labels[more], self.labels[less], gap, shown))
        return tuple(found)

    @cached_property
    def least(self) -> tuple[str, ...]:
        """The groups that are not shown to memorize more than the least exposed one."""
        best = self.pairs[0].less if self.pairs else self.labels[0]
        worse = {pair.more for pair in self.pairs if pair.less == best and pair.shown}
        return tuple(label for label in self.labels if label not in worse)

    @cached_property
    def why_not(self) -> str:
        """Why nothing can be ranked, whatever the numbers are; empty where they may decide."""
        number = len(self.audits)
        few = [x for x, group in zip(self.labels, self.groups, strict=True) if len(group) < SEEDS]
        suspect = [
            one.label
            for group in self.groups
            for one in group
            if answer(one.audit, audits=number).verdict == "suspect"
        ]
        first = self.audits[0]
        if not first.injected:
            return "the audits have no planted secrets"
        if not first.canaries_in_corpus:
            return "the secrets were left out of the training on purpose"
        if suspect:
            return f"controls look learned in {brief(suspect[0])}, so that audit is suspect"
        if few:
            return f"{brief(few[0])} has fewer than {SEEDS} seeds"
        if self.mixed_sets:
            return "each group has canary sets of its own, so the sets may make the difference"
        if not self.usable:
            return "every median is only a lower bound, or as high as it can be"
        return ""

    @property
    def mixed_sets(self) -> bool:
        """Whether a canary set is in several audits of one group, and not as often in another."""
        known = [Counter(one.audit.settings.get(CANARY_SET) for one in g) for g in self.groups]
        alike = all(set(sets) == set(known[0]) for sets in known)
        return not alike and any(n > 1 for sets in known for n in sets.values())

    def summary(self) -> str:
        """Which group memorizes less, then each number of copies with differences to the first."""
        level = f"{100 * self.confidence:g} % interval"
        gaps = (
            f"{brief(pair.more)} over {brief(pair.less)}, with {self.used}: "
            f"{gap_words(pair.bits, level)}"
            for pair in self.pairs
        )
        lines = [self.answer, *gaps]
        for cell in self.cells:
            name = plural(cell.repetitions, "copy", "copies") if cell.repetitions else "controls"
            number = f"format {cell.format + 1}, " if len(self.audits[0].formats) > 1 else ""
            told = [
                f"{label} {mean_words(cell, at, self.confidence)}"
                + " (as high as it can be)" * cell.full[at]
                for at, label in enumerate(self.labels)
            ]
            bound = "; no interval where a median is only a bound" if cell.bounded else ""
            lines.append(f"{number}{name}: {', '.join(told)}{bound}")
        return "\n".join(lines)

    @property
    def answer(self) -> str:
        """Which group memorizes less, if that is shown, in one line."""
        sizes = [plural(len(group), "seed") for group in self.groups]
        named = zip(self.labels, sizes, strict=True)
        every = listed([f"{brief(label)} ({size})" for label, size in named])
        least, worse = (
            [brief(label) for label in self.labels if (label in self.least) is inside]
            for inside in (True, False)
        )
        if self.why_not:
            return f"{every} cannot be ranked: {self.why_not}"
        if len(least) == 1:
            return f"{least[0]} memorizes {'less' if len(self.labels) == 2 else 'least'}"
        if worse:
            verb = "memorizes" if len(worse) == 1 else "memorize"
            return f"{listed(worse)} {verb} more; {listed(least)} cannot be ranked"
        return f"{every} cannot be ranked: the difference may be chance"

    def _table(self) -> list[dict[str, Any]]:
        rows = []
        for cell in self.cells:
            for at, label in enumerate(self.labels):
                mean = estimate(cell, at, self.confidence)
                gap = difference(cell, at, self.confidence)
                rows.append(
                    {
                        "group": label,
                        "format": cell.format,
                        "repetitions": cell.repetitions,
                        "seeds": len(cell.medians[at]),
                        "mean_bits": mean.value,
                        "bound": any(cell.bounds[at]),
                        "at_ceiling": cell.full[at],
                        "lower_bits": mean.lower,
                        "upper_bits": mean.upper,
                        "difference_bits": gap and gap.value,
                        "difference_lower": gap and gap.lower,
                        "difference_upper": gap and gap.upper,
                        "p_value": gap and gap.p_value,
                        "confidence": self.confidence,
                    }
                )
        return rows

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for label, mean in zip(self.labels, self.means, strict=False):
            yield f"exposure_{label}", mean.value
        for pair in self.pairs:
            yield f"exposure_{pair.more}_over_{pair.less}", pair.bits.value


def listed(names: Sequence[str]) -> str:
    """``A, B and C``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def estimate(cell: Cell, at: int, confidence: float) -> Estimated:
    """The mean of a group in a cell; without an interval where a median is only a bound."""
    if any(cell.bounds[at]):
        return Estimated(fmean(cell.medians[at]))
    mean = mean_of(cell.medians[at], confidence)
    if mean.lower is None or mean.upper is None:
        return mean
    return replace(mean, lower=max(mean.lower, 0.0), upper=min(mean.upper, cell.space_bits))


def difference(cell: Cell, at: int, confidence: float) -> Estimated | None:
    """How much more a group is exposed in a cell than the first one, where that is known."""
    if not at or cell.bounded:
        return None
    return difference_of(cell.medians[at], cell.medians[0], confidence)


def mean_words(cell: Cell, at: int, confidence: float) -> str:
    """``7.1 bits (6.2 to 8.0)``, or what it is at least."""
    mean = estimate(cell, at, confidence)
    least = "at least " if any(cell.bounds[at]) else ""
    ends = "" if mean.lower is None or mean.upper is None else f" ({ends_of(mean)})"
    return f"{least}{bits(mean.value)} bits{ends}"


def ends_of(found: Estimated) -> str:
    """``6.2 to 8.0``, or a dash for no interval."""
    if found.lower is None or found.upper is None:
        return "–"
    return f"{bits(found.lower)} to {bits(found.upper)}"


def gap_words(found: Estimated, level: str) -> str:
    """``2.3 bits more (90 % interval 1.1 to 3.5, p = 0.003, Welch)``."""
    how = "no interval: the seeds have no spread, or are too few"
    if found.lower is not None:
        how = f"{level} {ends_of(found)}, p = {probability(found.p_value)}, Welch's t over seeds"
    return f"{bits(found.value)} bits more ({how})"


def compare(
    groups: Mapping[str, Sequence[Audit]], *, confidence: float = MEDIAN_CONFIDENCE
) -> SeedsCompared:
    """Compare ways of training by the audits of several seeds of each.

    Parameters
    ----------
    groups : mapping of str to sequence of Audit
        For each way of training its label and one audit for each seed. Three seeds or more of each
        are needed for a ranking. Differences are to the first group.
    confidence : float
        Of both ends of every interval together.

    Returns
    -------
    SeedsCompared
        `summary` says which group memorizes less. `to_frame` has a row for each group and number
        of copies: the mean over seeds of the median exposure, and the difference to the first
        group, in bits. Intervals are two-sided: Student's for a mean, Welch's for a difference,
        both over seeds.

    Raises
    ------
    InputError
        If there are fewer than two groups, a value is not audits, two audits are of the same
        weights, or two audits were not made in the same way.

    Examples
    --------
    >>> canary.compare({"without": plain, "with": decayed})  # doctest: +SKIP
    <SeedsCompared: with memorizes less>
    """
    check_confidence(confidence, "compare")
    cure = 'give a mapping such as {"with": [audit, audit], "without": [audit, audit]}; single '
    cure += "audits are compared by report([a, b], path), plot([a, b]) and check(a, baseline=b)"
    if not isinstance(groups, Mapping) or len(groups) < 2:
        raise InputError("two groups of audits or more are compared", cure=cure, where="groups")
    labels = tuple(clean(str(label)).strip() for label in groups)
    if "" in labels or len({*labels}) < len(labels):
        raise InputError(
            "the labels of the groups are not all different", cure=cure, where="groups"
        )
    kept: list[tuple[Strategy, ...]] = []
    for label, given in zip(labels, groups.values(), strict=True):
        audits = one_or_more(given, Audit, f"audits in the group {brief(label)}", cure=cure)
        first = sum(map(len, kept))
        kept.append(
            tuple(
                Strategy(
                    str(first + i), audit.file or f"{label}, seed {i}", audit, None, first + i - 1
                )
                for i, audit in enumerate(audits, 1)
            )
        )
    every = [one for group in kept for one in group]
    check_weights(every)
    for one in every[1:]:
        if apart := [*differences(Design.of(one.audit), Design.of(every[0].audit))]:
            raise InputError(
                f"{brief(one.label)} cannot be compared with {brief(every[0].label)}: "
                f"{'; '.join(apart)}",
                cure="audit all models in the same way, with sets of the same kind",
                where="groups",
            )
    return SeedsCompared(labels, tuple(kept), confidence)


def grouped(result: object) -> bool:
    """Whether it is a mapping of labels to several results each."""
    return isinstance(result, Mapping) and any(
        isinstance(one, list | tuple) and not isinstance(one, Shown) for one in result.values()
    )
