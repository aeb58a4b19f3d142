"""What a sample of nodes tells: of all leaves, and of how much unseen nodes are worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canary.search.rank_counter import most_leaves
from canary.statistics.importance import ImportanceCount, count_deviation
from canary.statistics.number_checks import LN2

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNIFORM = 0.1
"""Part of the width that is kept for uniform draws."""

# The weights of the next leaves beyond a limit tell what those below it may weigh: of a hundred
# and three for each that was found, but not beyond ten times its rank if those are more.
_NEXT, _TIMES, _RANKS = 100, 4, 10.0
_LEAST_UNIFORM = 4  # uniform draws of a level, for each level

_STEPS_PER_SPREAD = 16
_MOST_STEPS = 2**16  # where a few edges cost much and the others hardly differ
_BELOW, _ABOVE = 1280, 256  # grid points kept on the cheap and on the dear side
_CLASSES = 32
_ROUNDS = 4
# Half of the belief is in a normal curve a little wider than what was seen: edges that depend
# on each other have other tails than independent ones.
_DOUBT, _WIDER = 0.5, 1.1
_BEYOND = 1_000


@dataclass(frozen=True, eq=False)
class NodeSample:
    """Nodes that were entered, and the leaves right below them.

    Parameters
    ----------
    costs, numbers, nodes : arrays of shape (m,)
        Of the leaves: costs in nats, ascending, numbers in the tree, and the nodes right above.
    weights, parents : arrays of shape (n,)
        Of the nodes, the root first, level by level: one over the chance of being entered, and
        the node above each; the root's is itself.
    levels : tuple of int
        Nodes of each level.
    passed_costs, passed_leaves : arrays of shape (p,)
        Of the nodes that were passed over: costs in nats, ascending, and leaves below them.
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
        passed = int(np.searchsorted(self.passed_costs, limit, side="right"))
        bits = (limit - self.passed_costs[:passed]) / LN2
        unseen = most_leaves(bits, self.passed_leaves[:passed], excess_bits=self.excess_bits)
        return ImportanceCount(
            total=float(self.weights @ counts),
            deviation=count_deviation(counts, self.weights, self.parents, self.levels),
            found=int(here.sum()),
            heaviest=self._heaviest(found) if self._tells else None,
            unseen=int(unseen.sum()),
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


class Edges(NamedTuple):
    """Edges that a walk has seen, one entry each in float64 arrays of shape (m,).

    `above` and `below` are the leaves below the node and below its child, 0 where the child is a
    leaf; `nats` is what the edge costs, forced tokens of the node included; `weights` are of the
    nodes: one over the chance of having been entered.
    """

    above: Floats
    below: Floats
    nats: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class Guide:
    """Worth of a node by the leaves below it and by its cost, in tables.

    Parameters
    ----------
    log_leaves : float64 array of shape (c,)
        Classes of nodes, ascending.
    first : float64 array of shape (c,)
        Cost of the first entry of each class's row, in nats.
    step : float
        Nats between entries.
    table : float64 array of shape (c, t)
        Logarithm of the worth.
    """

    log_leaves: Floats
    first: Floats
    step: float
    table: Floats

    def log_worth(self, costs: Floats, leaves: Floats) -> Floats:
        """Logarithm of the worth of nodes of these costs (nats) and leaves, shape (m,)."""
        logs = np.log(leaves)
        kind = _nearest(self.log_leaves, logs)
        entry = np.rint((costs - self.first[kind]) / self.step)
        entry = np.clip(entry, 0, self.table.shape[1] - 1).astype(np.int64)
        worth: Floats = self.table[kind, entry] + (logs - self.log_leaves[kind])
        return worth


def guide_from(edges: Edges, size: int, *, context: float, ceiling: float) -> Guide:
    """The guide that a uniform pilot gives for the ranks 1, 10, 100, ... up to the whole space.

    Its edges, taken as independent of each other, add up to the distribution of what is still to
    be paid below a node, tail included. It is a guide only: whatever it says, the weights of the
    draws keep every count unbiased.

    Parameters
    ----------
    edges : Edges
        Of nodes that were drawn uniformly.
    size : int
        Leaves of the tree.
    context, ceiling : float
        Nats: the cost of the root; and counts up to the ceiling matter, and those a little
        beyond.

    Notes
    -----
    ``m(v, c) = leaves(v) P(what is still to be paid <= c - cost(v))`` is the number of
    leaves below a node v that cost at most c. A node is entered with a chance proportional
    to the root of the mean square of what it would add to the counts in units of their
    ranks r: ``worth(v)**2 = sum over r of (m + m**2) / r**2`` with c the cost at rank r. It
    minimizes the sum of the relative variances at all ranks, as Neyman's allocation (Journal of
    the Royal Statistical Society 97, 1934) does for one, where leaves fall below nodes like
    Poisson counts.
    """
    edges = Edges(*(column[np.isfinite(edges.nats)] for column in edges))
    kinds = np.unique(np.log(edges.above))
    if len(kinds) > _CLASSES:
        kinds = kinds[np.rint(np.linspace(0, len(kinds) - 1, _CLASSES)).astype(np.int64)]
    kind = _nearest(kinds, np.log(edges.above))
    child = np.where(edges.below == 0, -1, _nearest(kinds, np.log(np.maximum(edges.below, 1))))

    # About the variance of a leaf's cost, robust to heavy tails, and what the dearest way costs.
    variance, reach = 0.0, 0.0
    for k in range(len(kinds)):
        here = kind == k
        low, high = np.quantile(edges.nats[here], [0.1, 0.9])
        variance += float((high - low) / 2.56) ** 2
        ways = [np.median(edges.nats[here & (child == below)]) for below in np.unique(child[here])]
        reach += max(0.0, *map(float, ways))
    step = max(max(math.sqrt(variance), 1e-6) / _STEPS_PER_SPREAD, reach / _MOST_STEPS)
    rows = _still_to_pay(edges, kind, child, len(kinds), step)

    whole = rows[-1]
    ladder = np.power(10.0, np.arange(int(math.log10(size)) + 1, dtype=np.float64))
    below = np.cumsum(whole.mass)
    places = np.searchsorted(below, ladder / float(size) * below[-1])
    limits = context + step * (whole.first + places.astype(np.float64))
    if ceiling < context + step * whole.last:
        share = np.exp(whole.log_share(np.array([(ceiling - context) / step])))
        rank = max(size * float(share[0]), 1.0)
        # Leaves just beyond the ceiling tell how those below it are weighted.
        kept = ladder <= _BEYOND * rank
        limits, ladder = np.append(limits[kept], ceiling), np.append(ladder[kept], rank)

    # One cost grid per class: from where the last leaf is cheap enough for the lowest
    # limit, up to where hardly any is for the highest.
    first = np.array([limits.min() - step * row.last for row in rows])
    ends = np.array([limits.max() - step * row.first for row in rows])
    grid = np.arange(int(np.ceil((ends - first).max() / step)) + 1)
    table = np.empty((len(rows), len(grid)))
    for k, row in enumerate(rows):
        left = (limits[:, None] - first[k] - step * grid) / step
        log_m = kinds[k] + row.log_share(left)
        terms = np.logaddexp(log_m, 2 * log_m) - 2 * np.log(ladder)[:, None]
        table[k] = np.logaddexp.reduce(terms, axis=0) / 2
    return Guide(kinds, first, step, table)


@dataclass(frozen=True, eq=False)
class _Row:
    """Distribution of what is still to be paid, on a grid: `mass[j]` at ``first + j``."""

    first: int
    mass: Floats

    @property
    def last(self) -> int:
        return self.first + len(self.mass) - 1

    def log_share(self, steps: Floats) -> Floats:
        """Logarithm of the share that costs at most this many grid steps, with doubt."""
        from scipy.special import log_ndtr

        places = self.first + np.arange(len(self.mass))
        total = self.mass.sum()
        mean = float(places @ self.mass) / total
        sd = max(np.sqrt(float((places - mean) ** 2 @ self.mass) / total), 0.5)
        below = np.concatenate([[0.0], np.cumsum(self.mass)])
        where = np.clip(np.floor(steps + 0.5) - self.first + 1, 0, len(self.mass)).astype(np.int64)
        with np.errstate(divide="ignore"):
            seen = np.log(below[where])
        doubt = log_ndtr((steps - mean) / (_WIDER * sd))
        share: Floats = np.logaddexp(np.log1p(-_DOUBT) + seen, np.log(_DOUBT) + doubt)
        return share


def _nearest(kinds: Floats, logs: Floats) -> Ints:
    """The class of each logarithm of a number of leaves."""
    nearest: Ints = np.searchsorted((kinds[1:] + kinds[:-1]) / 2, logs)
    return nearest


def _still_to_pay(edges: Edges, kind: Ints, child: Ints, count: int, step: float) -> list[_Row]:
    """One row per class: the costs of its edges, spread by the rows of their children."""
    # A leaf below the node, uniformly: edges count by the leaves below them.
    shares = edges.weights * np.maximum(edges.below, 1)
    places = np.rint(edges.nats / step).astype(np.int64)
    rows: list[_Row] = []
    for k in range(count):
        here = kind == k
        parts = []
        for below in np.unique(child[here]).tolist():
            among = here & (child == below)
            order = np.argsort(places[among])
            middle = np.searchsorted(np.cumsum(shares[among][order]), shares[among].sum() / 2)
            center = int(places[among][order[middle]])
            kept = among & (places <= center + _ABOVE)
            steps = np.maximum(places[kept], center - _BELOW)
            first = int(steps.min())
            mass = np.bincount(steps - first, shares[kept]).astype(np.float64)
            parts.append((below, first, mass))
        row = _Row(0, np.ones(1))
        # A class may hold children of its own nodes: the first rounds leave them out.
        for turn in range(_ROUNDS if any(below >= k for below, *_ in parts) else 1):
            spread = []
            for below, first, mass in parts:
                if below < 0:
                    spread.append(_Row(first, mass))
                elif turn or below < k or len(parts) == 1:
                    under = rows[below] if below < k else row
                    costs = np.convolve(mass, under.mass / under.mass.sum())
                    spread.append(_Row(first + under.first, costs))
            row = _sum_of(spread)
        rows.append(row)
    return rows


def _sum_of(parts: list[_Row]) -> _Row:
    first, last = min(part.first for part in parts), max(part.last for part in parts)
    mass = np.zeros(last - first + 1)
    for part in parts:
        mass[part.first - first : part.last - first + 1] += part.mass
    mass /= mass.sum()
    # What is far cheaper is lumped together, and what is far dearer too.
    middle = int(np.searchsorted(np.cumsum(mass), 0.5))
    low, high = max(0, middle - _BELOW), min(len(mass), middle + _ABOVE + 1)
    trimmed = mass[low:high].copy()
    trimmed[0] += mass[:low].sum()
    trimmed[-1] += mass[high:].sum()
    return _Row(first + low, trimmed)
