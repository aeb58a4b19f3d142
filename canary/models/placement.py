"""Which worker computes which node of a batch, and what one worker alone would have computed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_RUN = 8
"""Nodes side by side that stay together: they share ancestors. Fewer are not worth a worker."""

_UNEVEN = 1.5
"""A worker gives nodes away if it has so many times its share: elsewhere they cost more."""


def divided(workers: Ints, room: Ints) -> Ints:
    """The worker of each node of a batch.

    Nodes stay where their states are, unless that worker has far more than its share: then it
    gives the excess away, in runs spread over all that it has, so that the children of any
    part of the batch are spread as well. What stands nowhere fills the others up. A batch of
    a few nodes goes to one worker as far as its states let it.

    Parameters
    ----------
    workers : int64 array of shape (n,)
        Where the state below each node is; -1 for nowhere.
    room : int64 array of shape (k,)
        How many more states each worker can hold.

    Returns
    -------
    int64 array of shape (n,), from 0 to k - 1
    """
    n, k = len(workers), len(room)
    to = workers.copy()
    held = np.bincount(workers[workers >= 0], minlength=k)
    if n < 2 * _RUN:
        to[workers < 0] = np.lexsort((room, held))[-1]
        return to
    share = max(-(-n // k), _RUN)
    for worker in np.flatnonzero(held > _UNEVEN * share):
        own = np.flatnonzero(workers == worker)
        part = (len(own) - share) / len(own)
        run = np.arange(len(own)) // _RUN
        given = np.floor((run + 1) * part) > np.floor(run * part)
        to[own[given]] = -1
        held[worker] -= np.count_nonzero(given)
    free = np.flatnonzero(to < 0)
    wanted = np.maximum(share - held, 0)
    # Workers in turn, each as often as it has room for below its share.
    turn = np.repeat(np.arange(k), wanted)
    number = np.arange(len(turn)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    order = turn[np.argsort((number + 0.5) / wanted[turn], kind="stable")]
    runs = np.arange(len(free)) // _RUN * _RUN
    to[free] = order[np.minimum(runs, len(order) - 1)]
    return to


def rows_below(paths: NDArray[np.int32], lengths: Ints) -> int:
    """Tokens that one walker computes for nodes without states: shared ancestors once."""
    rows = int(np.count_nonzero(lengths))
    for depth in range(1, int(lengths.max(initial=0))):
        through = paths[lengths > depth, :depth]
        rows += len(np.unique(through, axis=0))
    return rows
