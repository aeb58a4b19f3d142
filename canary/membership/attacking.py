"""Attack one model of a table by name; and the metric attacks, by a signal and thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import EstimationError, InputError
from canary.membership.association import (
    check_both_kinds,
    knows_answers,
    shadows_of,
    warn_of_flags,
)
from canary.membership.attacks import ATTACKS, Attack, AttackScores, with_many_models
from canary.membership.many import attack_models
from canary.registry import called, near_names
from canary.signals.definitions import SIGNALS
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS
from canary.statistics.tails import check_level

_BY_MANY = "ask for it by canary membership models, in Python survey_models"

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def applicable(table: SignalTable) -> list[str]:
    """Names of the attacks by a shadow that read what the table has."""
    return [name for name, kind in ATTACKS.items() if kind.judge is None and kind.reads(table)]


def known_names(asked: str) -> list[str]:
    """The names of a list with commas; an InputError if one is unknown."""
    try:
        return ATTACKS.names(asked, where="attacks")
    except InputError as error:
        for one in asked.split(","):
            if near := near_names(one.strip(), with_many_models()):
                error.cure += f". {near[0]} compares many models: {_BY_MANY}"
        raise


def named_attacks(
    table: SignalTable, asked: str, *, shadow: SignalTable | None = None
) -> list[str]:
    """The attacks of a list with commas, or all that the tables allow for ``all``.

    An InputError if one of them does not exist, is not by a shadow, or its signal is not there.
    """
    if asked.strip() == "all":
        theirs = applicable(table if shadow is None else shadow)
        return [name for name in applicable(table) if name in theirs]
    names = known_names(asked)
    for name in names:
        kind = ATTACKS[name]
        if kind.judge is not None:
            raise InputError(
                f"the attack {name} compares the target with many models",
                cure=_BY_MANY,
                where="attacks",
            )
        if kind.signal != "outputs":  # of which the attack itself says what it lacks
            table.signal(kind.signal)
    return names


def attack(
    table: SignalTable,
    name: str,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    alpha: float = 0.1,
    seed: int = 0,
) -> AttackScores:
    """Say of each sample how much it looks like a member of the target model.

    Parameters
    ----------
    table : SignalTable
    name : str
        One of `canary.membership.attacks.ATTACKS`: a signal with a threshold for each class
        (``modified-entropy``), or with one for all (``modified-entropy-one-threshold``), or
        ``correctness``; ``neural`` and ``neural-per-class``, for tables with outputs; or one that
        compares with many models, ``S`` to ``rmia-offline``, with the defaults of
        `canary.membership.many.attack_models`. On a table of texts a signal of
        `canary.signals.text`, with one threshold for all.
    shadow : SignalTable, optional
        Models whose members the attacker knows, all of which serve as shadows; the other models
        of `table` unless given. A table of texts needs none; without one there are no guesses.
    target : int
        The model of `table` that is attacked.
    alpha : float
        Of attacks that compare with many models: the share of non-members that they may call
        members by mistake. Online LiRA calls a sample a member where that is more likely.
    seed : int
        Of the neural attacks; the others draw nothing.

    Returns
    -------
    AttackScores
        With class-dependent thresholds the score of a sample is its margin, the distance
        of its signal above the threshold of its class: 0 and more is a guess of "member".
        Otherwise it is the signal itself, turned so that members are high.

    Warns
    -----
    UserWarning
        If the flags of target or shadow look swapped, by the check of `canary.survey`.

    Raises
    ------
    InputError
        If there is no such attack, signal, target or shadow, the shadow has another number
        of classes, it is the target itself (`canary.membership.sharing.shared_rows`), or it was
        trained on the target's samples or split.
    EstimationError
        If the shadow has no members or no non-members.

    Notes
    -----
    Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning Models, USENIX
    Security 2021, sections 3.1.1 to 3.1.3. Thresholds maximise the balanced accuracy on the shadow
    and never look at the members of the target; attacks that compare with many models may, and
    their scores say so (`blind`).

    Examples
    --------
    >>> import numpy as np
    >>> from canary import measure
    >>> given = {"y": [0] * 6, "member": [1, 1, 1, 0, 0, 0], "outputs": "losses"}
    >>> shadow = measure(np.array([0.1, 0.2, 0.3, 1.0, 1.1, 1.2]), **given)
    >>> target = measure(np.array([0.1, 0.2, 1.3, 0.9, 1.4, 1.2]), **given)
    >>> attack(target, "loss", shadow=shadow).guess.tolist()
    [True, True, False, False, False, False]
    """
    found = scored(table, name, shadow=shadow, target=target, alpha=alpha, seed=seed)
    if (
        shadow is not None
        and not found.blind
        and not table.of_texts
        and ATTACKS[name].judge is None
    ):
        raise knows_answers("the attack", found.notes)
    return found


def scored(
    table: SignalTable,
    name: str,
    *,
    shadow: SignalTable | None = None,
    target: int = 0,
    alpha: float = 0.1,
    seed: int = 0,
) -> AttackScores:
    """`attack`, also by a shadow that shares samples or splits: the scores are not blind then."""
    if table.of_texts:
        text = TEXT_SIGNALS[name]
        kind = Attack(name=name, help=text.help, signal=name, thresholds="one")
    else:
        kind = ATTACKS[name]
    if not 0 <= target < table.models:
        raise InputError(
            f"there is no model {target} in a table of {table.models}",
            cure="count them from 0",
            where="attack",
        )
    if kind.judge is None:
        warn_of_flags(table, shadow, row=target)
    if kind.score is not None:
        what = f"attack {name!r}"
        found = called(what, kind.score, table, kind, shadow=shadow, target=target, seed=seed)
        if not isinstance(found, AttackScores) or found.scores.shape != (table.samples,):
            raise InputError(
                f"the {what} gave no AttackScores with a score for each of {table.samples} samples",
                cure="correct its function score",
            )
        return found
    if kind.judge is None:
        return _by_threshold(table, kind, shadow=shadow, target=target)
    check_level(alpha, "attack")
    many = attack_models(table, name, shadow=shadow, targets=[target])
    scores = many.scores[0]
    guess = many.guess(alpha)[0] if many.calibrated else scores >= 0
    notes = many.notes
    if many.calibrated and not guess.any():
        notes += (
            f"Attack {name} calls nobody a member at a level of {alpha:g}, perhaps for want of "
            "models: give more, a higher alpha, or rule='gaussian' to attack_models",
        )
    return AttackScores(name, many.signal, scores, guess, None, notes, many.blind)


def _by_threshold(
    table: SignalTable, attack: Attack, *, shadow: SignalTable | None, target: int
) -> AttackScores:
    """Scores of one target, with the thresholds that its shadow teaches; see `attack`."""
    name, signal, per_class = attack.name, attack.signal, attack.thresholds == "class"
    sign = (TEXT_SIGNALS if table.of_texts else SIGNALS)[signal].sign
    scores = sign * table.signal(signal)[target]
    if attack.thresholds is None:
        return AttackScores(name, signal, scores, scores > 0, None, (), blind=True)
    if table.of_texts and shadow is None and table.models == 1:
        return AttackScores(name, signal, scores, None, None, (), blind=True)
    shadows = shadows_of(table, shadow=shadow, target=target)
    values, member, label = shadows.samples(signal, table.classes)
    learned = learn_thresholds(
        sign * values,
        member,
        label if per_class else np.zeros_like(label),
        classes=table.classes if per_class else 1,
    )
    classes = table.label if per_class else np.zeros_like(table.label)
    threshold = learned.values[classes]
    with np.errstate(invalid="ignore"):
        # Equal infinities are 0 apart.
        margin = np.where(scores == threshold, 0.0, scores - threshold)
    margin = np.where(np.isnan(threshold), -np.inf, margin)
    notes = shadows.notes
    pooled = np.intersect1d(np.flatnonzero(learned.pooled), classes)
    if len(pooled):
        shown = ", ".join(map(str, pooled[:10])) + (" and more" if len(pooled) > 10 else "")
        notes += (
            f"The shadow lacks members or non-members of {len(pooled)} "
            f"class{'es' if len(pooled) > 1 else ''} ({shown}): the threshold of all classes "
            "together is used for them",
        )
    return AttackScores(
        name,
        signal,
        margin if per_class else scores,
        margin >= 0,
        sign * learned.values,
        notes,
        shadows.blind,
    )


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A threshold for each class: a sample is called a member from that value on.

    `values` has the shape (classes,); NaN calls nobody a member: no threshold does better than a
    coin. `pooled` flags classes that lack members or non-members: they take the threshold of all
    classes.
    """

    values: Floats
    pooled: Flags


def learn_thresholds(values: Floats, member: Flags, label: Ints, *, classes: int) -> Thresholds:
    """For each class the threshold with the best balanced accuracy on these samples. O(n log n).

    Parameters
    ----------
    values : float64 array of shape (samples,)
        Higher for what looks like a member; may be infinite.
    member : bool array of shape (samples,)
    label : int64 array of shape (samples,)
        From 0 to classes - 1.
    classes : int

    Returns
    -------
    Thresholds
        Each is one of the values, or "nobody". Of equally good ones it is the highest, which
        calls the fewest samples members.

    Raises
    ------
    EstimationError
        If a value is NaN, or all samples together are of one kind.
    """
    where = "learn_thresholds"
    if np.isnan(values).any():
        raise EstimationError(
            f"{int(np.isnan(values).sum())} of {len(values)} values are NaN",
            cure="leave out samples that have no value",
            where=where,
        )
    check_both_kinds(member, where)
    order = np.argsort(-values)  # ties in any order
    together = _best(values[order], member[order], np.zeros(len(order), np.int64), 1)[0]
    if classes == 1:
        return Thresholds(np.array([together]), np.zeros(1, np.bool_))
    # Labels of 16 bits are sorted by counting.
    small = label[order].astype(np.uint16 if classes <= 1 << 16 else np.int64)
    order = order[np.argsort(small, kind="stable")]
    own = _best(values[order], member[order], label[order], classes)
    members = np.bincount(label[member], minlength=classes)
    nonmembers = np.bincount(label, minlength=classes) - members
    pooled = (members == 0) | (nonmembers == 0)
    return Thresholds(np.where(pooled, together, own), pooled)


def _best(values: Floats, member: Flags, label: Ints, classes: int) -> Floats:
    """The best threshold of each class, of samples by class and falling value; NaN for nobody."""
    sizes = np.bincount(label, minlength=classes)
    ends = np.cumsum(sizes)
    hits = np.cumsum(member, dtype=np.int64)
    before = np.append(0, hits)[ends - sizes]  # members of the classes before
    members = np.append(0, hits)[ends] - before
    nonmembers = sizes - members
    # A threshold calls all samples of one value together: only the last of them counts.
    last = np.ones(len(values), np.bool_)
    last[:-1] = (values[1:] != values[:-1]) | (label[1:] != label[:-1])
    at = np.flatnonzero(last)
    of = label[at]
    called = at + 1 - (ends - sizes)[of]
    true = hits[at] - before[of]
    gain = true * nonmembers[of] - (called - true) * members[of]
    there = np.flatnonzero(sizes)
    most = np.zeros(classes, np.int64)
    most[there] = np.maximum.reduceat(gain, np.searchsorted(of, there))
    winners = np.flatnonzero((gain == most[of]) & (gain > 0))[::-1]  # the highest is written last
    best = np.full(classes, np.nan)
    best[of[winners]] = values[at[winners]]
    return best
