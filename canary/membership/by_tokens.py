"""Attacks with a fleet on the loss of each token: what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.membership.doubts import View, swapped_flags
from canary.membership.fleet_doubts import fleet_doubts
from canary.membership.many import ManyScores
from canary.membership.references import Kind, References, resolve
from canary.membership.unlike import together
from canary.signals.token_losses import TokenLosses

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reference:
    """The models of one kind with which a target is compared on each text.

    Parameters
    ----------
    losses : float64 array of shape (models, total)
        In nats, text by text.
    weight : float64 array of shape (models, total)
        1 for a model that is compared, else 0.
    """

    losses: Floats
    weight: Floats

    @property
    def count(self) -> Floats:
        """How many models are compared, of shape (total,)."""
        return np.asarray(self.weight.sum(axis=0))

    @property
    def mean(self) -> Floats:
        """Their mean loss of each token, of shape (total,)."""
        total = np.einsum("ij,ij->j", self.losses, self.weight)
        return np.asarray(total / np.maximum(self.count, 1.0))

    @property
    def apart(self) -> Floats:
        """How far each is from their mean, 0 for those not compared; shape (models, total)."""
        return (self.losses - self.mean) * self.weight


def attack_by_tokens(
    tokens: TokenLosses,
    member: ArrayLike,
    name: str,
    judge: Callable[[Floats, list[Reference]], Floats],
    *,
    targets: ArrayLike | None,
    online: bool,
    judged: Floats | None = None,
) -> ManyScores:
    """Scores of the texts under each target.

    `judge` takes the target's losses of shape (total,) and what they are compared with: models that
    were not trained on a text and, `online`, those that were. It returns one score for each text.
    The notes say where flags look swapped or are of others, and where units differ.
    """
    table = tokens.table(member)
    name = f"{name}-{'online' if online else 'offline'}"
    bench = resolve(table, name, targets=targets, shadow=None, aligned=True, alone=False)
    bench.check(name, inside=online)
    views = [View(table, row, f"model {row}", table.models) for row in range(table.models)]
    doubts = together([swapped_flags(view) for view in views])
    doubts += fleet_doubts(table, [view.what for view in views])
    losses = tokens.losses.astype(np.float64) if judged is None else judged
    kinds: tuple[Kind, ...] = ("outside", "inside") if online else ("outside",)
    scores = np.empty((len(bench.targets), table.samples))
    for number, row in enumerate(bench.targets.tolist()):
        references = [_reference(bench, number, losses, tokens.counts, kind) for kind in kinds]
        scores[number] = judge(losses[row], references)
    return ManyScores(
        name=name,
        scores=scores,
        member=table.member[bench.targets],
        judged=bench.judged,
        targets=tuple(bench.targets.tolist()),
        models_trained=len(bench.rows) - int(len(bench.targets) == 1),
        notes=(*bench.repeats, *doubts),
        blind=False,
    )


def _reference(
    bench: References, target: int, losses: Floats, counts: NDArray[np.int64], kind: Kind
) -> Reference:
    found = bench.compared(slice(0, bench.table.samples), kind)
    flags = found.flags.copy()
    for less in found.less[:, target]:
        there = np.flatnonzero(less >= 0)
        flags[less[there], there] = False
    return Reference(losses[bench.rows], np.repeat(flags, counts, axis=1).astype(np.float64))
