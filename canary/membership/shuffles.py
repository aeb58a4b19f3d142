"""An exact test of an order: is each thing after the one before it, or might it be anywhere?

Things that were put into an order at random are as likely in any other (exchangeable). So for any
number ``fit[i, j]`` that says how well thing ``j`` follows thing ``i``, the sum over neighbours is
one of equally likely ones, those of all orders. Within a shard all ``k!`` orders are made of the
same ``k (k - 1)`` numbers: as many shuffles as are wanted cost no further look at a model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError
from canary.membership.order_result import Preference
from canary.statistics.number_checks import positive_integer

Floats = NDArray[np.float64]

_AT_ONCE = 1 << 20  # numbers of a block of shuffles


def preference(shards: Sequence[Floats], *, shuffles: int = 9999, seed: int = 0) -> Preference:
    """Whether things follow each other better in their order than in shuffled ones.

    Parameters
    ----------
    shards : sequence of float64 arrays of shape (k, k)
        ``fit[i, j]`` of the things of each shard, in their order; the diagonal is not read. Things
        are shuffled within shards only.
    shuffles : int
    seed : int

    Raises
    ------
    EstimationError
        If a number is not finite, or there is no shard of two things.

    Notes
    -----
    ``p = (1 + #{as large or larger}) / (shuffles + 1)`` (Phipson and Smyth 2010): at most `p` with
    at most that probability, whatever the numbers are. Before the sums each matrix loses the means
    of its rows and of its columns, without the diagonal: which thing is first and which is last
    then has little influence. That is the same for every order, so the test stays exact.

    Examples
    --------
    >>> import numpy as np
    >>> from canary.membership.shuffles import preference
    >>> chain = [np.eye(6, k=1)] * 2
    >>> preference(chain, shuffles=999).p
    0.001
    """
    where = "preference"
    number = positive_integer(shuffles, "shuffles", where, cure="9999 make p = 0.0001")
    usable = [np.asarray(fit, np.float64) for fit in shards if len(fit) > 1]
    if not usable:
        raise EstimationError("no shard has two texts", cure="give more texts", where=where)
    rng = np.random.default_rng([seed, 17])
    gains, sums = [], np.zeros(number)
    for fit in map(_centred, usable):
        k = len(fit)
        gains.append(float(_of_orders(fit, np.arange(k)[None])[0]))
        step = max(_AT_ONCE // k, 1)
        for begin in range(0, number, step):
            some = sums[begin : begin + step]
            orders = np.argsort(rng.random((len(some), k)), axis=1)
            some += _of_orders(fit, orders)
    places, seen = np.array([len(fit) - 1 for fit in usable]), sum(gains)
    # Orders of equal sums may differ by rounding.
    tie = 1e-9 * max(1.0, float(np.abs(sums).max()), abs(seen))
    p = (1 + int(np.count_nonzero(sums >= seen - tie))) / (number + 1)
    return Preference(
        gain=seen / int(places.sum()),
        spread=float(sums.std()) / int(places.sum()),
        p=p,
        shuffles=number,
        by_shard=tuple((np.array(gains) / places).tolist()),
    )


def _of_orders(fit: Floats, orders: NDArray[np.int64]) -> Floats:
    """Sum over neighbours of each order, of shape (orders,)."""
    return np.asarray(fit[orders[:, :-1], orders[:, 1:]].sum(axis=1))


def _centred(fit: Floats) -> Floats:
    """Less the means of rows and columns, which the diagonal has no part in."""
    k = len(fit)
    apart = ~np.eye(k, dtype=np.bool_)
    if not np.isfinite(fit[apart]).all():
        raise EstimationError(
            "a text has no finite log-probability after another",
            cure="check the model, its data type and its tokenizer with canary doctor",
            where="preference",
        )
    known = np.where(apart, fit, 0.0)
    if k == 2:  # no number is left beside the effects of first and last
        return np.asarray(known - known.sum() / 2 * apart)
    rows, columns, total = known.sum(axis=1), known.sum(axis=0), known.sum()
    # Least squares of row and column effects without the diagonal: what is left sums to 0 in both.
    grand = total / (k * (k - 1))
    row = ((k - 1) * rows + columns - total) / (k * (k - 2))
    column = ((k - 1) * columns + rows - total) / (k * (k - 2))
    return np.where(apart, known - row[:, None] - column[None, :] - grand, 0.0)
