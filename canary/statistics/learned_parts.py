"""Whether secrets were learned up to some place only, as after a length limit in training."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHOWN_LEARNED = 0.01
"""At this p-value the canaries with the most copies show that the model was trained on them."""

CONTROLS_LEVEL = 0.001
"""Controls that look learned at this level make an audit unfit for a verdict."""

LEVEL = 1e-3
"""How often, at most, secrets that were learned as well at the end are said to be cut."""

_FEWEST = 4  # canaries
_SIDE = 2  # places before the cut, and behind it, at least
_CLEAR = 0.05  # p-value of each place before the cut
_NOT_AT_ALL = 0.01  # the places behind it have a larger p-value
_LESS = 1 / 3  # and are learned less than this part of what the others are


def learned_until(shares: ArrayLike) -> int | None:
    """How many first places of the secrets look learned where those behind do not at all.

    Parameters
    ----------
    shares : array_like of float, shape (canaries, places)
        The share of random candidates that cost less than the canary at this place of the secret;
        ties count half. Uniform in (0, 1) where the place was not learned, near 0 where it was.

    Returns
    -------
    int or None
        None for what a training without a cut may look like, and for fewer than four canaries or
        places.

    Notes
    -----
    A model learns the end of a secret no later than its beginning: what came before identifies
    the canary. So the places behind a cut are compared with those before it by the test of Mann
    and Whitney, one-sided, at `LEVEL` divided by the number of cuts. Canaries and places count as
    independent; what is learned of one canary as a whole makes the test stricter. Besides, each
    place before the cut must look learned, and those behind it must not. O(canaries places^2).
    """
    from scipy.stats import mannwhitneyu, norm

    learned = 1.0 - 2.0 * np.asarray(shares, np.float64)
    canaries, places = learned.shape
    cuts = range(_SIDE, places - _SIDE + 1)
    if canaries < _FEWEST:
        return None

    def p_value(part: NDArray[np.float64]) -> float:
        # A sum of uniform numbers from -1 to 1 has a variance of 1/3 for each.
        return float(norm.sf(part.sum() / np.sqrt(part.size / 3.0)))

    found = []
    for cut in cuts:
        head, tail = learned[:, :cut], learned[:, cut:]
        p = mannwhitneyu(head, tail, axis=None, alternative="greater", method="asymptotic").pvalue
        clear = max(p_value(place) for place in head.T) <= _CLEAR
        if clear and p_value(tail) > _NOT_AT_ALL and tail.mean() < _LESS * head.mean():
            found.append((float(p) * len(cuts), cut))
    p, cut = min(found, default=(1.0, 0))
    return cut if p <= LEVEL else None
