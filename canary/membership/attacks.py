"""The attacks by name: what each reads, which models it needs, and the function that scores.

A new attack is one `Attack`, added to `ATTACKS` by whoever imports this module, or by an entry
point of the group ``canary.attacks``. A new signal brings its attacks with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from canary.registry import Registry
from canary.signals.definitions import SIGNALS, Signal
from canary.statistics.numbers import Shown

if TYPE_CHECKING:
    from canary.membership.references import References
    from canary.signals.signal_table import SignalTable
    from canary.statistics.tails import Rule


@dataclass(frozen=True, eq=False, repr=False)
class AttackScores(Shown):
    """What an attack says of each sample of its target.

    Parameters
    ----------
    name, signal : str
    scores : ndarray of float64 of shape (samples,)
        Higher for what looks more like a member.
    guess : ndarray of bool of shape (samples,), or None
        Whether the attack calls the sample a member; None without a shadow to learn from.
    thresholds : ndarray of float64 of shape (classes,) or (1,), or None
        In units of the signal; NaN calls nobody a member.
    notes : tuple of str
    blind : bool
        Whether the scores were made without a look at who is a member of the target.
    """

    name: str
    signal: str
    scores: NDArray[np.float64]
    guess: NDArray[np.bool_] | None
    thresholds: NDArray[np.float64] | None
    notes: tuple[str, ...]
    blind: bool

    def summary(self) -> str:
        """Its name, and how many samples it scored."""
        line = f"{self.name}: scores of {len(self.scores):,} samples by {self.signal}"
        return "\n".join([line, *self.notes])

    def guessing(self) -> AttackScores:
        """The same with guesses; without a threshold they are the half with the highest scores."""
        if self.guess is not None:
            return self
        told = f"{self.name} gives scores only: the half with the highest ones are its guesses"
        half = self.scores > np.median(self.scores)
        return replace(self, guess=half, notes=(*self.notes, told))

    def _table(self) -> dict[str, Any]:
        guess = {} if self.guess is None else {"guess": self.guess}
        return {"score": self.scores, **guess}


Split = Literal["online", "offline"]
ALWAYS: tuple[Split, ...] = ("online", "offline")


@dataclass(frozen=True)
class Tuning:
    """Options of attacks with many models.

    The `rule` of the quantile is for S, P, R, D and L, as is `alpha`, the level at which thresholds
    in nats are wanted in place of scores; `gamma` and `a` are of RMIA.
    """

    rule: Rule = "empirical"
    alpha: float | None = None
    gamma: float = 2.0
    a: float = 0.3


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack: what it reads and needs, and who scores.

    Parameters
    ----------
    name, help : str
        The help is one line.
    signal : str
        What it reads of each model: a signal, or ``outputs``.
    score : callable, optional
        ``score(table, attack, shadow=, target=, seed=)`` gives the `AttackScores` of one target
        by what its shadow teaches. Without it, and `judge`, the signal itself is the score.
    thresholds : {"class", "one"} or None
        Whether the shadow teaches a threshold of the signal for each class, or one for all.
    judge : callable, optional
        Of an attack with many models: ``judge(references, tuning)`` gives scores of shape
        (targets, samples).
    others : bool
        Of those, whether it takes models beside the target.
    outside, inside : bool
        Whether each sample needs some that were not trained on it, and some that were.
    points : bool
        Whether it takes population points of the target.
    threshold : callable or None
        The score from which on a sample is called a member, of a level; None if it has none.
    own : str
        The models of each target's own that it needs; empty for none.
    usual : tuple of {"online", "offline"}
        Of attacks with many models: whether ``all`` has it where each sample is a member of some
        of the others, and where not.
    few : bool or None
        Whether ``all`` has it where models are few, or where they are many; None for both.

    Examples
    --------
    >>> import canary
    >>> def second_best(table, attack, *, shadow, target, seed):
    ...     outputs = np.sort(table.outputs[target].astype(float), axis=1)
    ...     return AttackScores(attack.name, "outputs", -outputs[:, -2], None, None, (), blind=True)
    >>> help = "the second class is unlikely"
    >>> mine = Attack(name="second-best", help=help, signal="outputs", score=second_best)
    >>> probs = np.array([[0.9, 0.1, 0.0], [0.5, 0.4, 0.1]])
    >>> how = {"outputs": "probs", "keep_outputs": True}
    >>> table = canary.measure(probs, y=[0, 0], member=[True, False], **how)
    >>> int(mine.score(table, mine, shadow=None, target=0, seed=0).scores.argmax())  # the member
    0

    ``ATTACKS.add("second-best", mine)`` gives it a name for `canary.attack`.
    """

    name: str
    help: str
    signal: str
    score: Callable[..., AttackScores] | None = None
    thresholds: Literal["class", "one"] | None = None
    judge: Callable[[References, Tuning], NDArray[np.float64]] | None = None
    others: bool = True
    outside: bool = True
    inside: bool = False
    points: bool = False
    threshold: Callable[[float], float] | None = None
    own: str = ""
    usual: tuple[Split, ...] = ()
    few: bool | None = None

    def reads(self, table: SignalTable) -> bool:
        """Whether a table has what it reads."""
        return self.signal in table.values or (
            self.signal == "outputs" and table.outputs is not None
        )


def _by_signal(signal: Signal) -> Iterator[Attack]:
    """The attacks by a signal: with a threshold for each class, and with one for all.

    Correctness needs none: it is its own guess.
    """
    own = signal.name == "correctness"
    of_class = Attack(
        name=signal.name, help=signal.help, signal=signal.name, thresholds=None if own else "class"
    )
    yield of_class
    if not own:
        yield replace(of_class, name=f"{signal.name}-one-threshold", thresholds="one")


class _Attacks(Registry[Attack]):
    """The attacks by signals, then those of the modules, then all others."""

    _modules = tuple(
        f"canary.membership.{name}" for name in ("neural", "loss_tests", "lira", "rmia")
    )

    def _load(self) -> None:
        super()._load()
        attacks = [attack for signal in SIGNALS.values() for attack in _by_signal(signal)]
        self._things = {attack.name: attack for attack in attacks} | self._things


ATTACKS: Registry[Attack] = _Attacks("attack", group="attacks", kind=Attack)
"""The attacks on classifiers by name. Those on texts are `canary.signals.text.TEXT_SIGNALS`."""


def with_many_models() -> dict[str, Attack]:
    """The attacks that compare a target with many models."""
    return {name: attack for name, attack in ATTACKS.items() if attack.judge is not None}
