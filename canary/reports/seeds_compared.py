"""Ways of training side by side, each by the audits of several seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any, Self

from canary.audits.audit_result import CANARY_SET, Audit
from canary.audits.designs import Design, differences
from canary.audits.group_medians import MEDIAN_CONFIDENCE
from canary.errors import InputError
from canary.gate.regression import SEEDS
from canary.records.validation import brief, one_or_more
from canary.reports.comparison import Strategy, View, check_weights
from canary.reports.group_losses import Losses, losses_of
from canary.reports.ranked_models import RANK_LEVEL
from canary.reports.seeds_alike import alike_in
from canary.reports.seeds_cells import (
    Cell,
    Pair,
    difference,
    ends_of,
    gap_words,
    listed,
    loss_words,
    mean_words,
    near_words,
)
from canary.reports.seeds_doubts import notes_of, open_in, price_of, unfit_in, units_of, unread_of
from canary.reports.seeds_frames import audit_rows, mean_rows
from canary.statistics.number_checks import check_confidence
from canary.statistics.numbers import Shown, clean, count, plural
from canary.statistics.welch import Estimated, difference_of, mean_of

EVERY_END = (
    "each number of copies has a median that is only a lower bound, or near the highest possible"
)
"""Why nothing can be ranked where no cell is usable."""
_OTHER_SETS = "each group has canary sets of its own, so the sets may make the difference"


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
    `to_frame` has a row for each audit and number of copies, with the audit's place in its group
    (`run`, from 1, as given; `audit` is its label), its one number (`overall_bits`) and the
    interval of the mean of these in its group; `means_frame` has one for each group.
    """

    labels: tuple[str, ...]
    groups: tuple[tuple[Strategy, ...], ...]
    confidence: float = MEDIAN_CONFIDENCE

    @property
    def audits(self) -> tuple[Audit, ...]:
        """All audits, group by group."""
        return tuple(one.audit for group in self.groups for one in group)

    def named(self, **names: str | None) -> Self:
        """The same audits with other names in their report; see `canary.records.about.Named`."""
        groups = tuple(
            tuple(replace(one, audit=one.audit.named(**names)) for one in group)
            for group in self.groups
        )
        return replace(self, groups=groups)

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
                full = tuple(
                    tuple(View([one], at).at_ceiling(copies) for one in some)
                    for some in self.groups
                )
                made.append(Cell(at, copies, medians, bounds, full, view.most_bits(copies)))
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
    def losses(self) -> tuple[tuple[float, ...], ...]:
        """For each group and seed the loss on new text, in nats per token; none if not given."""
        kept = (tuple(one.test_loss_nats for one in group) for group in self.groups)
        return tuple(tuple(x for x in some if x is not None) for some in kept if None not in some)

    @cached_property
    def mean_losses(self) -> tuple[Estimated, ...]:
        """The mean of `losses` of each group over its seeds."""
        return tuple(mean_of(values, self.confidence) for values in self.losses)

    @cached_property
    def loss_gaps(self) -> tuple[Estimated, ...]:
        """By how much the loss of each group but the first is above that of the first."""
        return tuple(
            difference_of(values, self.losses[0], self.confidence) for values in self.losses[1:]
        )

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair of groups by `overall`, the more exposed group first.

        None where the canary sets differ: then a difference may be theirs.
        """
        order = sorted(range(len(self.means)), key=lambda at: self.means[at].value)
        tests = len(order) * (len(order) - 1) // 2
        found = []
        for less, more in combinations(order if not self.mixed_sets else [], 2):
            gap = difference_of(self.overall[more], self.overall[less], self.confidence)
            high, low = self.means[less].upper, self.means[more].lower
            apart = high is not None and low is not None and low > high
            sure = gap.p_value is not None and gap.p_value * tests <= RANK_LEVEL
            shown = apart and sure and not self.why_not
            found.append(Pair(self.labels[more], self.labels[less], gap, shown, apart, sure))
        return tuple(found)

    def difference(self, cell: Cell, at: int) -> Estimated | None:
        """How much more a group is exposed in a cell than the first one, where that is known."""
        return None if self.mixed_sets else difference(cell, at, self.confidence)

    def why_not_ranked(self, pair: Pair) -> str:
        """Which of the two conditions of a ranking a pair does not fulfil."""
        more, less = (self.means[self.labels.index(one)] for one in (pair.more, pair.less))
        reasons, most = [], fmean(cell.most for cell in self.usable)
        if not pair.apart and None not in (more.lower, less.lower):
            reasons.append(
                f"their own intervals overlap ({brief(pair.more)} {ends_of(more, most)}, "
                f"{brief(pair.less)} {ends_of(less, most)})"
            )
        if not pair.sure and pair.bits.p_value is not None:
            pairs = f" times {plural(len(self.pairs), 'pair')}" if len(self.pairs) > 1 else ""
            reasons.append(f"p{pairs} is above {RANK_LEVEL:g}")
        return listed(reasons or ["the seeds have no spread"])

    @cached_property
    def least(self) -> tuple[str, ...]:
        """The groups that are not shown to memorize more than the least exposed one."""
        best = self.pairs[0].less if self.pairs else self.labels[0]
        worse = {pair.more for pair in self.pairs if pair.less == best and pair.shown}
        return tuple(label for label in self.labels if label not in worse)

    @cached_property
    def why_not(self) -> str:
        """Why nothing can be ranked, whatever the numbers are; empty where they may decide."""
        few = [x for x, group in zip(self.labels, self.groups, strict=True) if len(group) < SEEDS]
        first = self.audits[0]
        if not first.injected:
            return "the audits have no planted secrets"
        if not first.canaries_in_corpus:
            return "the secrets were left out of the training on purpose"
        if unfit := unfit_in(self.groups):
            return unfit
        verb = "has" if len(few) == 1 else "have"
        reasons = [f"{listed([*map(brief, few)])} {verb} fewer than {SEEDS} seeds"] if few else []
        reasons += [_OTHER_SETS] if self.mixed_sets else []
        if reasons:
            return listed(reasons)
        if self.unread:
            return f"nothing shows that {listed([*map(brief, self.unread)])} read the secrets"
        return "" if self.usable else EVERY_END

    @property
    def mixed_sets(self) -> bool:
        """Whether the groups have other canary sets, and a group not a set for each of its seeds.

        Sets that are drawn anew for each seed vary within the groups, so the intervals have that.
        """
        known = [Counter(one.audit.settings.get(CANARY_SET) for one in g) for g in self.groups]
        alike = all(set(sets) == set(known[0]) for sets in known)
        return not alike and any(len(sets) == 1 or max(sets.values()) > 1 for sets in known)

    def summary(self) -> str:
        """Which group memorizes less, then each number of copies with differences to the first."""
        level = f"{100 * self.confidence:g} % interval"
        of = f"mean of the medians with {self.used}"
        said = self.why_not or len(self.labels) == 2  # in the first line
        gaps = [
            gap_words(pair, self.labels, of, level)
            + ("" if pair.shown or said else f"; not ranked: {self.why_not_ranked(pair)}")
            for pair in self.pairs
        ]
        lines = [self.answer, *gaps]
        for cell in self.cells:
            name = plural(cell.repetitions, "copy", "copies") if cell.repetitions else "controls"
            number = f"format {cell.format + 1}, " if len(self.audits[0].formats) > 1 else ""
            told = [
                f"{label} {mean_words(cell, at, self.confidence)}"
                + (f" ({near})" if (near := near_words(cell, at)) else "")
                for at, label in enumerate(self.labels)
            ]
            bound = "; no interval where a median is only a bound" if cell.bounded else ""
            left = "; not counted in the ranking" if cell.repetitions and not cell.usable else ""
            lines.append(f"{number}{name}: {', '.join(told)}{bound}{left}")
        if self.losses:
            told = [
                f"{label} {loss_words(mean)}"
                for label, mean in zip(self.labels, self.mean_losses, strict=True)
            ]
            lines.append(f"loss on new text, in nats per token: {', '.join(told)}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    @property
    def answer(self) -> str:
        """Which group memorizes less, if that is shown, in one line."""
        named = zip(map(brief, self.labels), self.groups, strict=True)
        every = listed([f"{label} ({plural(len(group), 'seed')})" for label, group in named])
        least, worse = (
            [brief(label) for label in self.labels if (label in self.least) is inside]
            for inside in (True, False)
        )
        if self.why_not:
            return f"{every} cannot be ranked: {self.why_not}"
        alike = listed([*map(brief, self.alike)])
        doubt = f", but seeds of {alike} look like one training" if alike else ""
        if len(least) == 1:
            return f"{least[0]} memorizes {'less' if len(self.labels) == 2 else 'least'}{doubt}"
        if worse:
            verb = "memorizes" if len(worse) == 1 else "memorize"
            return f"{listed(worse)} {verb} more; {listed(least)} cannot be ranked{doubt}"
        for pair in self.pairs if len(self.labels) == 2 else ():
            return f"{every} cannot be ranked: {self.why_not_ranked(pair)}"
        return f"{every} cannot be ranked: the differences may be chance"

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What makes the numbers of a group doubtful: unlearned secrets, notes of its audits."""
        losses = dict(zip(self.labels, self.losses, strict=False))
        price = price_of([] if self.why_not else self.least, losses, self.confidence)
        doubts = (*units_of(losses), *price, *notes_of(self.labels, self.groups))
        return (*doubts, *open_in(self.cells, self.groups))

    @cached_property
    def unread(self) -> tuple[str, ...]:
        """The groups, but the most exposed one, of which nothing shows that they read secrets."""
        most = max((mean.value for mean in self.means), default=0.0)
        some = zip(self.labels, self.groups, self.means, strict=False)
        return tuple(label for label, group, mean in some if mean.value < most and unread_of(group))

    @cached_property
    def alike(self) -> tuple[str, ...]:
        """The groups of which some seeds look like copies or checkpoints of one training."""
        return tuple(self.labels[at] for at in alike_in(self.groups))

    def _table(self) -> list[dict[str, Any]]:
        return audit_rows(self)

    def means_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each group and number of copies.

        `mean_bits` is the mean over seeds of the median exposure, in bits, with its interval, and
        `highest_bits` the highest that is possible. `difference_bits` is that mean minus the one of
        the first group, and not known where the canary sets differ. `bound` and `at_ceiling` say
        that the median of any seed is only a lower bound, or within half a bit of `highest_bits`:
        then no group is `counted` there, or has a difference. Controls never count, and have no
        p-value. Other columns are the same for each number of copies: `overall_bits`, the mean of
        the one number of each seed that ranks groups; `mean_loss`, in nats per token of new text.
        """
        import pandas as pd

        return pd.DataFrame(mean_rows(self))

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for label, mean in zip(self.labels, self.means, strict=False):
            yield f"exposure_{label}", mean.value
        for pair in self.pairs:
            yield f"exposure_{pair.more}_over_{pair.less}", pair.bits.value
        for label, loss in zip(self.labels, self.mean_losses, strict=False):
            yield f"test_loss_{label}", loss.value


def compare(
    groups: Mapping[str, Sequence[Audit]],
    *,
    test_losses: Losses | None = None,
    confidence: float = MEDIAN_CONFIDENCE,
) -> SeedsCompared:
    """Compare ways of training by the audits of several seeds of each.

    Parameters
    ----------
    groups : mapping of str to sequence of Audit
        For each way of training its label and one audit for each seed. Three seeds or more of each
        are needed for a ranking. Differences are to the first group.
    test_losses : mapping of str to sequence of float, optional
        For each label the loss of each of its models on the same new text, in the order of its
        audits; or one sequence, group by group. In nats per token: nothing shows bits in all.
    confidence : float
        Of both ends of every interval together.

    Returns
    -------
    SeedsCompared
        `summary` says which group memorizes less, and `notes` what makes that doubtful.
        `to_frame` has a row for each seed and number of copies: the median exposure, in bits, and
        the loss. `means_frame` has a row for each group and number of copies: the mean over seeds,
        and the difference to the first group.
        Intervals are two-sided: Student's for a mean, Welch's for a difference, both over seeds.

    Raises
    ------
    InputError
        If there are fewer than two groups, a value is not audits, two audits are of the same
        weights, two audits were not made in the same way, or there is not one loss for each.

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
    losses = losses_of(labels, [*groups.values()], test_losses)
    for label, given in zip(labels, groups.values(), strict=True):
        audits = one_or_more(given, Audit, f"audits in the group {brief(label)}", cure=cure)
        first = sum(map(len, kept))
        kept.append(
            tuple(
                Strategy(
                    str(i + 1), audit.file or f"{label}, seed {i + 1 - first}", audit, losses[i], i
                )
                for i, audit in enumerate(audits, first)
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
