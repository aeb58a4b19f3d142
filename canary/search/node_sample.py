"""What a walk down some nodes of a tree found, and what it tells of all leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from canary.search.bounds import most_leaves
from canary.statistics.importance import ImportanceCount, count_deviation
from canary.statistics.units import LN2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNIFORM = 0.1
"""Part of the width that is kept for uniform draws."""

# The weights of the next leaves beyond a limit tell what those below it may weigh: of a hundred
# and three for each that was found, but not beyond ten times its rank if those are more.
_NEXT, _TIMES, _RANKS = 100, 4, 10.0
_LEAST_UNIFORM = 4  # uniform draws of a level, for each level


@dataclass(frozen=True, eq=False)
class NodeSample:
    """Nodes that were entered, and the leaves right below them.

    Parameters
    ----------
    costs : float64 array of shape (m,)
        Of the leaves, ascending, in nats.
    numbers : int64 array of shape (m,)
        Their numbers in the tree.
    nodes : int64 array of shape (m,)
        The node right above each leaf.
    weights : float64 array of shape (n,)
        Of the nodes, the root first, level by level: one over the chance of being entered.
    parents : int64 array of shape (n,)
        The node above each; the root's is itself.
    levels : tuple of int
        Nodes of each level.
    passed_costs : float64 array of shape (p,)
        Of the nodes that were passed over, ascending, in nats.
    passed_leaves : int64 array of shape (p,)
        Leaves below them.
    excess_bits : float
        By how much probabilities may exceed 1 in sum below a node.
    queries : int
        Tokens computed below the context.
    """

    costs: Floats
    numbers: Ints
    nodes: Ints
    weights: Floats
    parents: Ints
    levels: tuple[int, ...]
    passed_costs: Floats
    passed_leaves: Ints
    excess_bits: float
    queries: int

    def count(
        self, limit: float, *, known: Ints | None = None, ties: bool = True
    ) -> ImportanceCount:
        """How many leaves cost at most `limit` nats, leaving out those with `known` numbers.

        Without `ties` those that cost less. O(n + m + p).
        """
        found = int(np.searchsorted(self.costs, limit, side="right" if ties else "left"))
        here = np.ones(found, np.bool_)
        if known is not None:
            here = ~np.isin(self.numbers[:found], known)
        counts = np.bincount(self.nodes[:found][here], minlength=len(self.weights))
        return ImportanceCount(
            total=float(self.weights @ counts),
            deviation=count_deviation(counts, self.weights, self.parents, self.levels),
            found=int(here.sum()),
            heaviest=self._heaviest(found) if self._tells else None,
            unseen=self._unseen(limit),
        )

    @cached_property
    def _tells(self) -> bool:
        """Whether the sample tells what it may have missed.

        It takes some leaves, and on each level several uniform draws for every level on which
        nodes are drawn: totals drift from level to level, by one over those draws in relative
        variance, and few draws may have drifted far without a trace in what they found.
        """
        ends = np.cumsum(self.levels)
        drift = sum(
            1.0 / (UNIFORM * size)
            for size, end in zip(self.levels, ends.tolist(), strict=True)
            if (self.weights[end - size : end] > 1.0).any()
        )
        return len(self.costs) >= _NEXT and drift * _LEAST_UNIFORM <= 1.0

    @cached_property
    def _estimated(self) -> Floats:
        """Estimated number of leaves up to each one found, itself included."""
        return np.cumsum(self.weights[self.nodes])

    def _heaviest(self, found: int) -> float:
        """What a node may weigh that was missed, of those that hold leaves like the first ones.

        The largest weight among the first leaves, `found` of them and some beyond, for each of
        as many leaves as such nodes hold on average. Leaves come in clusters: where one child of
        a node is likely because its siblings cost so much, so are the others.
        """
        so_far = self._estimated[found - 1] if found else 0.0
        beyond = int(np.searchsorted(self._estimated, _RANKS * so_far))
        near = min(_TIMES * found + _NEXT, max(found + _NEXT, beyond))
        nodes = np.unique(self.nodes[: found + _NEXT])
        cluster = self._estimated[: found + _NEXT][-1] / float(self.weights[nodes].sum())
        return float(self.weights[self.nodes[:near]].max() * cluster)

    def _unseen(self, limit: float) -> int:
        """At least as many leaves as may cost at most `limit` below nodes passed over."""
        open_ = int(np.searchsorted(self.passed_costs, limit, side="right"))
        bits = (limit - self.passed_costs[:open_]) / LN2
        leaves = self.passed_leaves[:open_]
        return int(most_leaves(bits, leaves, excess_bits=self.excess_bits).sum())
