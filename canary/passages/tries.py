r"""From the probability of a suffix to numbers of tries, without sampling.

A suffix of probability ``q`` comes out in at least one of ``n`` independent samples with the chance
``p = 1 - (1 - q)**n``. It is (n, p)-discoverable [1]_ if that is at least ``p``, so if
``n >= log(1 - p) / log(1 - q)``.

References
----------
.. [1] Hayes et al., Measuring memorization in language models via probabilistic extraction,
   NAACL 2025.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.records.validation import as_real, brief, whole_number

Floats = NDArray[np.float64]


def tries_for(log_prob: ArrayLike, chance: float) -> Floats:
    """Samples after which a suffix has come out with this chance; infinity if it never does.

    Parameters
    ----------
    log_prob : array_like of float
        Log-probability of the suffix, in nats.
    chance : float
        Above 0, below 1.

    Examples
    --------
    >>> tries_for(np.log([0.5, 0.001]), 0.5)
    array([  1., 693.])
    """
    if not 0.0 < (wanted := as_real(chance)) < 1.0:
        raise InputError(
            f"a chance of {brief(chance)} makes no sense",
            cure="give a number above 0 and below 1, such as 0.5",
            where="chance",
        )
    with np.errstate(divide="ignore"):
        exact = np.log1p(-wanted) / _log_miss(log_prob)
    # 0.5 and 0.5 must give 1, not 2, whatever the last bit of the two logarithms is.
    tries: Floats = np.maximum(np.ceil(exact * (1.0 - 1e-12)), 1.0)
    return tries


def comes_out(log_prob: ArrayLike, tries: int, chance: float) -> NDArray[np.bool_]:
    """Whether `tries` samples have a suffix of this log-probability with this chance, or more."""
    cure = "give the number of samples that are drawn"
    count = whole_number(tries, "tries", at_least=1, cure=cure)
    found: NDArray[np.bool_] = tries_for(log_prob, chance) <= count
    return found


def _log_miss(log_prob: ArrayLike) -> Floats:
    """The logarithm of ``1 - q``, -0 where q is 0 and minus infinity where it is 1."""
    logs = np.minimum(np.asarray(log_prob, np.float64), 0.0)
    with np.errstate(divide="ignore"):
        # log(1 - e**x): each branch where the other would cancel.
        miss: Floats = np.where(
            logs > -np.log(2.0), np.log(-np.expm1(logs)), np.log1p(-np.exp(logs))
        )
    return miss
