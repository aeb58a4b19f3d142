"""Attack one model of a table by name, whatever the attack needs."""

from __future__ import annotations

from canary.errors import InputError
from canary.membership.attacks import ATTACKS, Attack, AttackScores
from canary.membership.many import attack_models
from canary.membership.metric import by_threshold
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS
from canary.statistics.tails import check_level


def applicable(table: SignalTable) -> list[str]:
    """Names of the attacks by a shadow that read what the table has."""
    return [name for name, kind in ATTACKS.items() if kind.score is not None and kind.reads(table)]


def named_attacks(
    table: SignalTable, asked: str, *, shadow: SignalTable | None = None
) -> list[str]:
    """The attacks of a list with commas, or all that the tables allow for ``all``.

    Raises
    ------
    InputError
        If one of them does not exist, is not by a shadow, or its signal is not there.
    """
    if asked.strip() == "all":
        theirs = applicable(table if shadow is None else shadow)
        return [name for name in applicable(table) if name in theirs]
    names = ATTACKS.names(asked, where="attacks")
    for name in names:
        kind = ATTACKS[name]
        if kind.score is None:
            raise InputError(
                f"the attack {name} compares the target with many models",
                cure="ask for it by canary membership models",
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
        compares with many models, ``S`` to ``rmia-offline``: see
        `canary.membership.many.attack_models`, which has their options and takes all targets at
        once. On a table of texts a signal of `canary.signals.text`, with one threshold for all.
    shadow : SignalTable, optional
        Models whose members the attacker knows, all of which serve as shadows. Unless
        given, these are the other models of `table`. A table of texts needs none; without
        one there are scores and no guesses.
    target : int
        The model of `table` that is attacked.
    alpha : float
        Of attacks that compare with many models: the share of nonmembers that they may call
        members by mistake. Online LiRA calls a sample a member where that is the likelier.
    seed : int
        Of the neural attacks; the others draw nothing.

    Returns
    -------
    AttackScores
        With class-dependent thresholds the score of a sample is its margin, the distance
        of its signal above the threshold of its class: 0 and more is a guess of "member".
        Otherwise it is the signal itself, turned so that members are high.

    Raises
    ------
    InputError
        If there is no such attack, signal, target or shadow, the shadow has another number
        of classes, or it is the target itself (`canary.membership.sharing.shared_rows`).
    EstimationError
        If the shadow has no members or no nonmembers.

    Notes
    -----
    Song and Mittal [1]_, sections 3.1.1 to 3.1.3: thresholds maximise the balanced accuracy
    on the shadow, per class; equations 5, 6, 7 and 9. Class-independent ones are those of
    the earlier work that they improve on. They never look at the members of the target;
    attacks that compare with many models may, and their scores say so (`blind`).

    References
    ----------
    .. [1] Song and Mittal, Systematic Evaluation of Privacy Risks of Machine Learning
       Models, USENIX Security 2021.
    """
    kind = _on_texts(name) if table.of_texts else ATTACKS[name]
    if not 0 <= target < table.models:
        raise InputError(
            f"there is no model {target} in a table of {table.models}",
            cure="count them from 0",
            where="attack",
        )
    if kind.score is not None:
        return kind.score(table, kind, shadow=shadow, target=target, seed=seed)
    check_level(alpha, "attack")
    many = attack_models(table, name, shadow=shadow, targets=[target])
    scores = many.scores[0]
    guess = many.guess(alpha)[0] if many.calibrated else scores >= 0
    return AttackScores(name, many.signal, scores, guess, None, many.notes, many.blind)


def _on_texts(name: str) -> Attack:
    signal = TEXT_SIGNALS[name]
    return Attack(name=name, help=signal.help, signal=name, score=by_threshold, thresholds="one")
