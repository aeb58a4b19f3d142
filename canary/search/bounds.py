"""Certain bounds of ranks, and of how many leaves below a node can count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.search.rank_counter import Limits
from canary.tokens.token_graph import exact_counts
from canary.tokens.tree import LARGEST, LEAF, TokenTree

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankBounds:
    """What a walk knows of each canary's rank, in the order in which they were given.

    Parameters
    ----------
    lower, upper : integer arrays of shape (k,)
        The rank lies between them: for certain, to within the noise. Python's integers
        (dtype object) where int64 does not hold them.
    rank : int64 array of shape (k,)
        Candidates with Px <= Px(canary), the canary included, where it is `exact`;
        elsewhere those that were found so far.
    exact : bool array of shape (k,)
        Whether every candidate that may count was priced. Then `lower` and `upper`
        differ by the ties only that the noise leaves undecided.
    candidates : int
        Leaves that were priced, those of passes that began anew more than once.
    queries : int
        Tokens computed below the context.
    """

    lower: Ints
    upper: Ints
    rank: Ints
    exact: NDArray[np.bool_]
    candidates: int
    queries: int

    def to_dict(self) -> dict[str, Any]:
        """The bounds as plain data: numbers only, nothing of a fill."""
        arrays = {
            name: getattr(self, name).tolist() for name in ("lower", "upper", "rank", "exact")
        }
        return {**vars(self), **arrays}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankBounds:
        """The inverse of `to_dict`."""
        arrays = {name: exact_counts(data[name]) for name in ("lower", "upper", "rank")}
        return cls(**{**data, **arrays, "exact": np.array(data["exact"], np.bool_)})


def tokens_below(tree: TokenTree) -> int:
    """Most tokens of a candidate below the context of a tree."""
    ahead = 1 + np.diff(tree.forced_offsets)
    inner = tree.targets != LEAF
    depth = np.zeros(len(tree.leaves), np.int64)
    while True:  # one round per token
        below = np.where(inner, depth[tree.targets], 0)
        longer = np.maximum.reduceat(ahead + below, tree.offsets[:-1])
        if (longer == depth).all():
            return int(depth[0])
        depth = longer


def most_leaves(bits: NDArray[np.float64], leaves: Ints, *, excess_bits: float) -> Ints:
    """At least as many leaves below a node as can cost at most so many bits below it.

    Each of them has a probability of at least ``2**-bits`` below its node, and they sum to
    at most ``2**excess_bits`` there.

    Parameters
    ----------
    bits : float64 array of shape (n,)
        0 or more.
    leaves : integer array of shape (n,)
        All leaves below.
    excess_bits : float
        What the arithmetic of the model may add to a sum of 1
        (`canary.models.language_model.ModelFacts.excess_bits`).
    """
    if leaves.dtype == object:
        powers = np.exp2(np.clip(bits, 0.0, math.log2(LARGEST)) + excess_bits)
        return np.minimum(np.frompyfunc(int, 1, 1)(powers), leaves)
    few = bits + excess_bits < 62.0
    bound = np.exp2(np.where(few, bits, 0.0) + excess_bits).astype(np.int64)
    return np.where(few, np.minimum(bound, leaves), leaves)


def bounds_by_place(
    px_bits: NDArray[np.float64],
    leaves: Ints,
    rest_bits: float,
    *,
    size: int,
    context_bits: float,
    noise_bits: float,
    excess_bits: float,
) -> tuple[Ints, Ints]:
    """Least and greatest rank that each of the likeliest leaves can have.

    They are counted among those found. Where leaves that were not found may be as likely, at
    most ``2**B`` can be, B being the bits below the context.

    Parameters
    ----------
    px_bits : float64 array of shape (k,)
        Log-perplexities of the leaves that were found, ascending.
    leaves : int64 array of shape (k,)
        Their numbers in the tree.
    rest_bits : float
        Every other leaf costs at least this.
    size : int
        All candidates.
    context_bits, noise_bits, excess_bits : float

    Returns
    -------
    least, most : int64 arrays of shape (k,)
    """
    limits = Limits(px_bits, leaves, noise_bits=noise_bits)
    everywhere = (0, int(leaves.max(initial=-1)) + 1)
    below, _, not_above = 1 + limits.count(px_bits, px_bits, everywhere, leaves.copy)
    up_to = px_bits + noise_bits
    sizes = exact_counts([size] * len(px_bits))
    free = most_leaves(up_to - context_bits, sizes, excess_bits=excess_bits)
    return below, np.where(up_to < rest_bits, not_above, np.maximum(free, below))
