"""Equally many references for members and for nonmembers, whatever their numbers.

What a loss is compared with must not tell whose it is. Where losses of all models are alike, the
score of a sample still has a law that depends on the number of its references; members and
nonmembers have scores of one law only if those numbers have one law. In a table they often have
not: of a sample in exactly half of the models, a member of the target is outside one more of the
others than a nonmember; where models failed, or samples were chosen by their number of models,
it is something between.

So each target does without references until the numbers agree. Samples of either kind stand in
the order of their numbers, equal numbers in a random order with a fixed seed. A sample has a
partner of the other kind, the one at the same share of its order, and keeps as many references as
the fewer of the two have. With ``Q1`` and ``Q0`` the quantile functions of both kinds that is
``min(Q1(u), Q0(u))`` at the place u, and no rule that only takes references away keeps more.
References that a sample is a member of have the numbers that are left, so the order is the same
the other way round, the partner the same, and both numbers together agree as well.

The numbers agree in every table, not only on average: in each table with as many members as
nonmembers wholly, else to half a sample at every number.

What follows from equal numbers has a premise. R by its empirical rule, on losses without ties,
ranks a sample among its own references, and such a rank knows nothing of the sample: on noise
members and nonmembers have scores of one law on every split. Other scores (LiRA, RMIA, R by other
rules) have another law for each sample, of its own noise. They have one law in members and
nonmembers if the split was drawn without regard to the samples. If members are mostly of one kind
of samples, whose losses have another law, these scores tell the kinds, as every score does that
is not a rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SEED = 20


def random_order(samples: int) -> Ints:
    """A random order of the samples; always the same."""
    return np.random.default_rng(_SEED).permutation(samples)


def kept(counts: Ints, member: Flags, order: Ints, *, falling: bool = False) -> Ints:
    """How many references each sample keeps, of those that it has. O(n log n).

    Parameters
    ----------
    counts, member : ndarray of int and of bool, of shape (samples,)
    order : ndarray of int
        The samples that are compared, in a random order. The others keep all.
    falling : bool
        Whether samples with the most come first: of the kind of references whose numbers are
        what the other kind leaves.
    """
    found = counts.copy()
    key = -counts if falling else counts
    ranked = []
    for flag in (False, True):
        mine = order[member[order] == flag]
        ranked.append(mine[np.argsort(key[mine], kind="stable")])
    for own, other in (ranked, ranked[::-1]):
        if len(own) and len(other):
            at = (2 * np.arange(len(own)) + 1) * len(other) // (2 * len(own))
            found[own] = np.minimum(counts[own], counts[other[at]])
    return found
