"""How well an attack tells members from non-members: in all, by class, by any column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.membership.attacks import AttackScores
from canary.statistics.numbers import Shown, clean
from canary.statistics.roc import Estimate, OperatingPoint, Roc, balanced_accuracy, roc


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """What an attack reaches; intervals are at `confidence`.

    `accuracy` is the balanced accuracy of the attack's own guesses, None where there are none.
    `name` is empty for bare scores. `parts` has the same for the samples of each value of `by`.
    """

    name: str
    roc: Roc
    confidence: float
    auc: Estimate
    accuracy: Estimate | None
    parts: tuple[Part, ...] = ()

    def summary(self) -> str:
        """Its AUC, and the balanced accuracy of its guesses; then the AUC of each part."""
        known = {"AUC": self.auc, "balanced accuracy": self.accuracy}
        said = [
            f"{name} {one.value:.3f} ({one.lower:.3f} to {one.upper:.3f})"
            for name, one in known.items()
            if one is not None
        ]
        return "\n".join([f"{self.name or 'scores'}: {', '.join(said)}", *map(str, self.parts)])

    def _table(self) -> dict[str, Any]:
        return {"false_positive_rate": self.roc.fpr, "true_positive_rate": self.roc.tpr}

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for name, one in (("auc", self.auc), ("balanced_accuracy", self.accuracy)):
            if one is not None:
                yield f"membership/{self.name or 'scores'}/{name}", one.value

    @property
    def advantage(self) -> Estimate | None:
        """TPR - FPR of the attack's own guesses, twice the balanced accuracy less one."""
        if self.accuracy is None:
            return None
        a = self.accuracy
        return Estimate(2 * a.value - 1, 2 * a.lower - 1, 2 * a.upper - 1)

    def tpr_at_fpr(self, fpr: float) -> OperatingPoint:
        """The true positive rate at the largest false positive rate not above `fpr`.

        An EstimationError if that is below 1 / nonmembers.
        """
        return self.roc.tpr_at_fpr(fpr, confidence=self.confidence)


@dataclass(frozen=True, eq=False)
class Part:
    """An attack on the samples that share a value: of a class, of a group.

    `auc` and `accuracy` are None where there are no members or no non-members; `accuracy` also
    for bare scores.
    """

    value: Any
    members: int
    nonmembers: int
    auc: Estimate | None
    accuracy: Estimate | None

    def __str__(self) -> str:
        auc = "none without both kinds"
        if self.auc is not None:
            auc = f"{self.auc.value:.3f} ({self.auc.lower:.3f} to {self.auc.upper:.3f})"
        number = f"{self.members:,} members, {self.nonmembers:,} non-members"
        return f"  {clean(str(self.value))}: AUC {auc}, {number}"


def evaluate(
    scores: AttackScores | ArrayLike,
    member: ArrayLike,
    *,
    by: Sequence[Any] | NDArray[Any] | None = None,
    confidence: float = 0.95,
) -> Evaluation:
    """How well scores distinguish members from non-members.

    Parameters
    ----------
    scores : AttackScores, or array_like of shape (samples,)
        What `canary.attack` gave, or any scores that are higher for members; none NaN.
    member : array_like of bool of shape (samples,)
        Of both kinds.
    by : sequence of shape (samples,), optional
        Classes, groups, or anything else that can be sorted: evaluate the samples of each value,
        too (`Evaluation.parts`).
    confidence : float
        Of each interval. The worst of several parts is a choice among their intervals.

    Examples
    --------
    >>> found = evaluate([0.9, 0.8, 0.3, 0.1], [True, True, False, False])
    >>> found.auc.value, found.tpr_at_fpr(0.5).tpr.value
    (1.0, 1.0)
    """
    name, values, guess = _parts_of(scores)
    curve, accuracy = roc(values, member), None
    if guess is not None:
        accuracy = balanced_accuracy(guess, member, confidence=confidence)
    parts: tuple[Part, ...] = ()
    if by is not None:
        parts = tuple(evaluate_by(scores, np.asarray(member, bool), by, confidence=confidence))
    return Evaluation(name, curve, confidence, curve.auc(confidence=confidence), accuracy, parts)


def evaluate_by(
    scores: AttackScores | ArrayLike,
    member: NDArray[np.bool_],
    column: Sequence[Any] | NDArray[Any],
    *,
    confidence: float = 0.95,
) -> list[Part]:
    """`evaluate` for the samples of each value of a column, in the order of the values.

    Each interval speaks of its own part: the worst of k parts is a choice among k intervals.

    Parameters
    ----------
    scores : AttackScores, or array_like of float of shape (samples,)
        Higher for what looks like a member.
    member : bool array of shape (samples,)
    column : sequence of shape (samples,)
        Classes, groups, or anything else that can be sorted.
    confidence : float

    Returns
    -------
    list of Part
    """
    _, values, guess = _parts_of(scores)
    given, values = np.asarray(column), np.asarray(values)
    if given.shape != values.shape or given.shape != member.shape:
        raise InputError(
            f"a column of shape {given.shape} for scores of shape {values.shape}",
            cure="give one value for each sample",
            where="evaluate_by",
        )
    names, inverse = np.unique(given, return_inverse=True)
    parts = []
    for number, name in enumerate(names):
        rows = np.flatnonzero(inverse == number)
        inside, auc, accuracy = member[rows], None, None
        members = int(inside.sum())
        if 0 < members < len(rows):
            auc = roc(values[rows], inside).auc(confidence=confidence)
            if guess is not None:
                accuracy = balanced_accuracy(guess[rows], inside, confidence=confidence)
        parts.append(Part(name.item(), members, len(rows) - members, auc, accuracy))
    return parts


def _parts_of(scores: AttackScores | ArrayLike) -> tuple[str, ArrayLike, NDArray[np.bool_] | None]:
    if isinstance(scores, AttackScores):
        return scores.name, scores.scores, scores.guess
    return "", scores, None


def worst_first(parts: Sequence[Part]) -> list[tuple[Part, Estimate, Estimate]]:
    """Classes or groups with accuracy and AUC of the strongest attack, the worst first."""
    known = [
        (part, part.accuracy, part.auc)
        for part in parts
        if part.accuracy is not None and part.auc is not None
    ]
    return sorted(known, key=lambda row: -row[1].value)
