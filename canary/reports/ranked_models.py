"""Which of some alike audits memorizes least, as far as chance lets it be known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev

from canary.audits.audit_result import Audit
from canary.gate.baselines import Baseline
from canary.gate.regression import more_than
from canary.reports.comparison import Strategy
from canary.statistics.numbers import count
from canary.statistics.resampling import least_in_pairs

RANK_LEVEL = 0.05
"""Of groups of models that memorize equally, at most this share is ranked."""


@dataclass(frozen=True, eq=False)
class Apart:
    """How much more one of some alike models memorizes than another, `than`.

    `bits` is the mean difference in exposure of the injected canaries, `interval` its 95 %
    interval (Student's, over the canaries), None where an exposure is only bounded; `p_value` is
    the permutation test's, times the number of ordered pairs of models.
    """

    strategy: Strategy
    than: Strategy
    bits: float
    interval: tuple[float, float] | None
    p_value: float


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which of some alike models memorize least, as far as chance lets it be known.

    `least` begins with the model whose canaries are least exposed on average; the others in it
    are not shown to memorize more, and those in `more` are. `open_ends` says whether narrower
    intervals of the exposures might show more, and `too_few` whether so few canaries can show
    nothing.
    """

    least: tuple[Strategy, ...]
    more: tuple[Apart, ...]
    pairs: tuple[Apart, ...]  # all, those with the least first, in the order of their means
    open_ends: bool
    too_few: bool

    @property
    def open_among_more(self) -> tuple[Strategy, ...]:
        """Those in `more` that are not shown to differ from one of the others in it."""
        worse = {one.strategy for one in self.more}
        near = [p for p in self.pairs if {p.strategy, p.than} <= worse and p.p_value > RANK_LEVEL]
        found = {one for pair in near for one in (pair.strategy, pair.than)}
        return tuple(sorted(found, key=lambda one: one.place))


def ranked(group: Sequence[Strategy]) -> Ranking:
    """Compare the models of each pair; the least exposed with the others says which are ranked.

    Notes
    -----
    The tests are those of `canary.gate.regression.more_than`, over all injected canaries. All
    ordered pairs share `RANK_LEVEL` (Bonferroni), as which model is the least is seen in the data.
    """
    kept = {one: Baseline.of(one.audit) for one in group}
    means = {one: mean_bits(one.audit) for one in group}
    best, *others = sorted(group, key=means.__getitem__)
    pairs = max(len(group) * len(others), 1)
    level = RANK_LEVEL / pairs
    least, more, every, open_ends = [best], [], [], False
    for than, one in combinations([best, *others], 2):
        found = more_than(kept[one], kept[than])
        assert found.lower is not None
        assert found.upper is not None
        p_value = min(1.0, found.upper * pairs)
        ends = _interval(one.audit, than.audit)
        every.append(Apart(one, than, means[one] - means[than], ends, p_value))
        if than is best and found.upper <= level:
            more.append(every[-1])
        elif than is best:
            least.append(one)
            open_ends |= found.lower <= level
    too_few = least_in_pairs(len(best.audit.injected)) > level
    return Ranking(tuple(least), tuple(more), tuple(every), open_ends, too_few)


def mean_bits(audit: Audit) -> float:
    """The mean exposure of the planted secrets of an audit, by which models are ranked."""
    return fmean(c.middle_bits for c in Baseline.of(audit).audits[0].canaries)


def _interval(one: Audit, other: Audit) -> tuple[float, float] | None:
    """The 95 % interval of the mean difference in exposure, canary by canary."""
    from scipy.stats import t

    known = {c.id: c.exposure.bits for c in other.injected}
    pairs = [(c.exposure.bits, known.get(c.id)) for c in one.injected]
    more = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    if len(more) < max(len(pairs), 2):
        return None
    half = float(t.ppf(0.975, len(more) - 1)) * stdev(more) / math.sqrt(len(more))
    return fmean(more) - half, fmean(more) + half


def times_of(factor: float) -> str:
    """A factor with two digits."""
    return f"{factor:.1f}" if factor < 10 else count(int(float(f"{factor:.2g}")))
