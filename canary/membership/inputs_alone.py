"""Can members be told from non-members without any model? By the inputs alone.

`other_source` is for classifiers what `canary.membership.words_alone` is for texts. `near_copies`
finds non-members that nearly are members, `exact_copies` those that are. The first two look at
2,000 samples of a kind at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.statistics.numbers import count, percent_of

DIFFER = "differ without any model"
"""What a doubt says of members and non-members of which no attack can show anything."""

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

_MOST, _FEWEST = 2000, 50
"""Samples of a kind that are looked at, at most and at least."""

_FEATURES = 128
"""Inputs of more numbers are projected at random to so many."""

_FOLDS, _DEALT, _PENALTY = 5, 200, 0.1
_NEAR, _NEAR_SHARE = 0.25, 0.01


def other_source(inputs: NDArray[Any], member: Flags, what: str, *, level: float) -> str | None:
    """A note if a classifier that sees the inputs and no model finds the members of `what`.

    Notes
    -----
    Ridge regression of the flag on the inputs and their squares, so that other means and other
    spreads are both seen, in 5-fold cross-validation. The AUC within the folds is compared with
    those of 200 dealings of the flags, each learned anew, as a normal variable at `level`.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    chosen = _chosen(member)
    if chosen is None:
        return None
    points, rng = _points(inputs[chosen]), np.random.default_rng(1)
    rows = _standardised(np.concatenate([points, points**2], axis=1))
    flags = np.repeat(member[chosen][:, None], _DEALT + 1, axis=1)
    flags[:, 1:] = rng.permuted(flags[:, 1:], axis=0)
    fold = rng.permutation(len(rows)) % _FOLDS
    above, pairs = np.zeros((2, _DEALT + 1))
    for number in range(_FOLDS):
        judged = fold == number
        known, wanted = rows[~judged], flags[~judged] - flags[~judged].mean(axis=0)
        gram = known.T @ known
        gram[np.diag_indices_from(gram)] += _PENALTY * len(known)
        ranks = rankdata(rows[judged] @ np.linalg.solve(gram, known.T @ wanted), axis=0)
        inside = flags[judged].sum(axis=0)
        above += (ranks * flags[judged]).sum(axis=0) - inside * (inside + 1) / 2
        pairs += inside * (judged.sum() - inside)
    auc = above / pairs
    spread = float(np.sqrt(np.mean((auc[1:] - 0.5) ** 2)))
    if auc[0] - 0.5 <= -float(ndtri(level)) * spread:
        return None
    return (
        f"Members and non-members of the {what} {DIFFER}: a classifier that sees only the inputs "
        f"picks the member in {percent_of(auc[0])} of pairs of a member and a non-member, where "
        "chance is 50 %. Attacks may see that difference and no memorization. Draw both at random "
        "from one source"
    )


def near_copies(inputs: NDArray[Any], member: Flags, what: str, *, level: float) -> str | None:
    """A note if non-members of `what` are near copies of members.

    Notes
    -----
    Near is at less than a quarter of the distance to the nearest other non-member. Were flags dealt
    by chance, as many would be as near to a non-member and as far from all members: the two numbers
    are compared by a sign test at `level`. As many samples of both kinds are looked at.
    """
    from scipy.spatial.distance import cdist
    from scipy.special import bdtrc

    chosen = _chosen(member)
    if chosen is None:
        return None
    points, flags = _points(inputs[chosen]), member[chosen]
    size = min(int(flags.sum()), int((~flags).sum()))
    inside, outside = points[flags][:size], points[~flags][:size]
    among = cdist(outside, outside)
    np.fill_diagonal(among, np.inf)
    to_member, to_other = cdist(outside, inside).min(axis=1), among.min(axis=1)
    near = int((to_member < _NEAR * to_other).sum())
    far = int((to_other < _NEAR * to_member).sum())
    if near < _NEAR_SHARE * size or bdtrc(near - 1, near + far, 0.5) >= level:
        return None
    return (
        f"{count(near)} of {count(size)} non-members of the {what} are near copies of a member, "
        "far closer to it than to any other non-member. A copy of a member is no non-member: the "
        "model remembers both alike, so attacks find no difference. Leave such copies out"
    )


def exact_copies(inputs: NDArray[Any], label: NDArray[Any], member: Flags, what: str) -> str | None:
    """A note if more than a hundredth of the non-members of `what` are copies of members.

    A copy has the input, to the last bit, and the label of a member. All samples are looked at.
    """
    rows = [
        (np.ascontiguousarray(row).tobytes(), int(name))
        for row, name in zip(inputs, label, strict=True)
    ]
    trained = {row for row, inside in zip(rows, member, strict=True) if inside}
    outside = [row for row, inside in zip(rows, member, strict=True) if not inside]
    copies = sum(row in trained for row in outside)
    if copies < _NEAR_SHARE * len(outside) or not copies:
        return None
    return (
        f"{count(copies)} of {count(len(outside))} non-members of the {what} have the input and "
        "the label of a member: a copy of a member is no non-member, so attacks find less than "
        "there is. Leave copies out, also where samples are alike by nature"
    )


def _chosen(member: Flags) -> NDArray[np.intp] | None:
    """Samples of both kinds that are looked at, in a random order; None where there are too few."""
    rng, places = np.random.default_rng(0), []
    for kind in (member, ~member):
        there = np.flatnonzero(kind)
        if len(there) < _FEWEST:
            return None
        places.append(rng.permutation(there)[:_MOST])
    return rng.permutation(np.concatenate(places))


def _points(inputs: NDArray[Any]) -> Floats:
    """A row of at most 128 standardised numbers for each input; what is not finite counts as 0."""
    rows = np.nan_to_num(inputs.reshape(len(inputs), -1).astype(np.float64), posinf=0.0, neginf=0.0)
    rows = _standardised(rows)
    if rows.shape[1] > _FEATURES:
        drawn = np.random.default_rng(2).normal(size=(rows.shape[1], _FEATURES))
        rows = _standardised(rows @ drawn)
    return rows


def _standardised(rows: Floats) -> Floats:
    spread = rows.std(axis=0)
    return np.asarray((rows - rows.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def names_on_both_sides(ids: NDArray[Any] | None, member: Flags, what: str) -> str | None:
    """A note on samples of equal names (ids) with both flags."""
    if ids is None or not len(both := np.intersect1d(ids[member], ids[~member])):
        return None
    those = f"id of the {what} is" if len(both) == 1 else f"ids of the {what} are"
    return (
        f"{len(both):,} {those} of members and of non-members: a sample that was trained on is no "
        "non-member. Leave it out of the non-members, or give each sample an id that no other "
        "sample has"
    )
