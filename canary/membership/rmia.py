"""The robust membership inference attack (RMIA), by sorting.

Zarifzadeh et al. [1]_ compare a sample x with population points z, pair by pair. With
``ratio(x) = Pr(x | target) / Pr(x)`` the score of x is the share of z with
``ratio(x) / ratio(z) >= gamma`` (equations 3 and 4). Since that is the share of z whose ratio
is at most ``ratio(x) / gamma``, one sorted list of ratios serves all x: no matrix of pairs.

``Pr(x | model)`` is the probability of the label. ``Pr(x)`` is its mean over models with and
without x: **online** half the mean over references that were trained on x and half of that over
those that were not; **offline** the first is taken to be ``a m + 1 - a`` with m the second, so
that ``Pr(x) = ((1 + a) m + 1 - a) / 2``. With ``a = 1`` training changes nothing, with ``a = 0``
members get probability 1. The same rule serves x and z.

References
----------
.. [1] Zarifzadeh, Liu and Shokri, Low-Cost High-Power Membership Inference Attacks, ICML 2024.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.attacks import Attack, Tuning
from canary.membership.references import Compared, References
from canary.signals.signal_table import SignalTable

Floats = NDArray[np.float64]


def rmia(bench: References, tuning: Tuning, *, online: bool) -> Floats:
    """Scores from 0 to 1, of shape (targets, samples); see the module. O(nK + n log n).

    A point of the population is compared with itself, too: were it left out, k of n - 1 and k of n
    would distinguish non-members from members of equal ratios.
    """
    gamma, a = tuning.gamma, tuning.a
    if not 0.0 < gamma < np.inf:
        raise InputError(f"gamma must be above 0, got {gamma!r}", cure="2 is usual", where="rmia")
    if not 0.0 <= a <= 1.0:
        raise InputError(f"a must be from 0 to 1, got {a!r}", cure="0.3 is usual", where="rmia")
    table = bench.table
    ratios = np.empty((len(bench.targets), table.samples))
    for part in bench.parts():
        shown = _probabilities(bench.source, bench.rows, part)
        without = _mean(shown, bench.compared(part, "outside"))
        if online:
            inside = bench.compared(part, "inside")
            usual = np.where(inside.count == 0, without, (without + _mean(shown, inside)) / 2.0)
        else:
            usual = ((1.0 + a) * without + (1.0 - a)) / 2.0
        seen = _probabilities(table, bench.targets, part)
        ratios[:, part] = seen / np.maximum(usual, np.finfo(np.float64).tiny)
    for i, row in enumerate(bench.targets):
        null = np.sort(ratios[i, bench.points(row, "rmia")])
        ratios[i] = np.searchsorted(null, ratios[i] / gamma, side="right") / len(null)
    return ratios


def _mean(shown: Floats, compared: Compared) -> Floats:
    """Mean probability over the references, for each target without those it lacks; 0 of none."""
    kept = np.where(compared.flags, shown, 0.0)
    rest = kept.sum(axis=0) - compared.left_out(kept, 0.0).sum(axis=0)
    return np.asarray(np.maximum(rest, 0.0) / np.maximum(compared.count, 1))


def _probabilities(table: SignalTable, rows: NDArray[np.intp], part: slice) -> Floats:
    if "confidence" in table.values:
        return table.values["confidence"][:, part][rows]
    return np.exp(-table.signal("loss")[:, part][rows])


BUILT_IN = tuple(
    Attack(
        name=f"rmia{'' if online else '-offline'}",
        help=f"the robust attack, {'online' if online else 'offline'}",
        signal="confidence",
        judge=partial(rmia, online=online),
        inside=online,
        points=True,
        # Of shares, 1 - alpha of the population have to be dominated.
        threshold=lambda alpha: 1.0 - alpha - 1e-12,
        usual=("online",) if online else ("offline",),
    )
    for online in (True, False)
)
"""The robust attacks, for `canary.membership.attacks.ATTACKS`."""
