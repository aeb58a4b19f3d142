"""Counts of weighted leaves: their variance, and intervals that respect skewed weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["WeightedCount", "count_variance"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedCount:
    """An unbiased count of leaves, from a sample of them.

    Parameters
    ----------
    total : float
        Sum of the weights of the leaves found.
    variance : float
        Estimate of its variance.
    found : int
        Leaves found: so many there are at least.
    heaviest : float
        The largest weight among them and the next leaves beyond.
    unseen : int
        So many more there are at most, for certain.
    """

    total: float
    variance: float
    found: int
    heaviest: float
    unseen: int

    @property
    def exact(self) -> bool:
        """Whether all leaves that count were found."""
        return self.unseen == 0

    @property
    def effective(self) -> float | None:
        """Effective sample size: Poisson hits of the same relative variance; None if exact."""
        if self.variance <= 0.0:
            return None
        return self.total**2 / self.variance

    def interval(self, confidence: float) -> tuple[float, float]:
        """Ends of the interval for the number of leaves, each for half of the error.

        Notes
        -----
        The gamma interval of Fay and Feuer [1]_ for sums of weighted Poisson counts: the
        lower end is a quantile of the gamma distribution with mean `total` and variance
        `variance`, the upper one of that with one more leaf of weight `heaviest` in both.
        The leaf stands for those that the sample missed. Then certain facts: `found` and
        `unseen`.

        References
        ----------
        .. [1] Fay and Feuer, Confidence intervals for directly standardized rates,
           Statistics in Medicine 16, 1997.
        """
        if self.exact:
            return float(self.found), float(self.found)
        tail = (1.0 - confidence) / 2.0
        low = self.total
        if self.variance > 0.0:
            low = _gamma_quantile(tail, self.total, self.variance)
        high = _gamma_quantile(
            1.0 - tail, self.total + self.heaviest, self.variance + self.heaviest**2
        )
        most = float(self.found + self.unseen)
        return min(max(low, float(self.found)), most), min(max(high, float(self.found)), most)


def _gamma_quantile(share: float, mean: float, variance: float) -> float:
    from scipy.special import gammaincinv

    return float(gammaincinv(mean**2 / variance, share)) * variance / mean


def count_variance(
    counts: Ints, weights: Floats, parents: Ints, levels: Sequence[int]
) -> float:
    """Variance of ``weights @ counts``, estimated without bias for independent draws.

    Parameters
    ----------
    counts : int64 array of shape (n,)
        Leaves right below each node.
    weights : float64 array of shape (n,)
        One over the chance that the node was entered; the root's is 1.
    parents : int64 array of shape (n,)
        The node above; nodes stand level by level, the root first.
    levels : sequence of int
        Nodes of each level.

    Notes
    -----
    Two nodes are entered together with the chance ``p_u p_v / p_a``, a being where their
    paths part. So the Horvitz-Thompson estimate of the variance [1]_ is
    ``sum over u, v of (1 - p_a) s_u s_v`` with ``s = weight * count``, and in one pass up the
    tree ``sum over v of (1 / w_parent(v) - 1 / w_v) S_v**2``, S_v being the sum of s below v.
    Draws that are spread evenly over a level vary less. O(n).

    References
    ----------
    .. [1] Horvitz and Thompson, A generalization of sampling without replacement from a
       finite universe, Journal of the American Statistical Association 47, 1952.
    """
    sums = weights * counts
    shares = 1.0 / weights
    variance, stop = 0.0, len(sums)
    for size in reversed(levels[1:]):
        here = slice(stop - size, stop)
        lost = shares[parents[here]] - shares[here]
        variance += float(lost @ sums[here] ** 2)
        before = stop - size
        np.add.at(sums, parents[here], sums[here])
        stop = before
    return variance
