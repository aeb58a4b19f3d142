"""Certain bounds of ranks, and of how many leaves below a node can count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RankBounds", "most_leaves"]

# By how much the probabilities below a node may exceed 1 in sum: a float32 softmax is off by
# about 1e-6 a token, and a path has fewer than hundreds of them.
_SLACK_BITS = 1e-3

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankBounds:
    """What a walk knows of each canary's rank, in the order in which they were given.

    Parameters
    ----------
    lower, upper : int64 arrays of shape (k,)
        The rank lies between them: for certain, to within the noise.
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
    passes : int
        Thresholds at which the walk stood.
    """

    lower: Ints
    upper: Ints
    rank: Ints
    exact: NDArray[np.bool_]
    candidates: int
    queries: int
    passes: int

    def to_dict(self) -> dict[str, Any]:
        """The bounds as plain data: numbers only, nothing of a fill."""
        arrays = {
            name: getattr(self, name).tolist() for name in ("lower", "upper", "rank", "exact")
        }
        return {**vars(self), **arrays}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankBounds:
        """The inverse of `to_dict`."""
        arrays = {name: np.array(data[name], np.int64) for name in ("lower", "upper", "rank")}
        return cls(**{**data, **arrays, "exact": np.array(data["exact"], np.bool_)})


def most_leaves(bits: NDArray[np.float64], leaves: Ints) -> Ints:
    """How many leaves below a node can cost at most so many bits below it, rounded up.

    Parameters
    ----------
    bits : float64 array of shape (n,)
        0 or more.
    leaves : int64 array of shape (n,)
        All leaves below.
    """
    few = bits < 62.0
    bound = np.exp2(np.where(few, bits, 0.0) + _SLACK_BITS).astype(np.int64)
    return np.where(few, np.minimum(bound, leaves), leaves)
