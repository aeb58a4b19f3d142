"""The members that an attack singles out: those above the threshold of a false positive rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import Shown
from canary.statistics.roc import OperatingPoint


@dataclass(frozen=True, eq=False, repr=False)
class SingledOut(Shown):
    """Members that score higher than nearly all non-members, the highest score first.

    `samples` of shape (found,) are their numbers among those that were given, `scores` those of the
    attack `name`, and `point` has the rate and the numbers. Among them are about as many as
    guessing finds at that rate, by chance: one of them alone is no proof. `may_be_chance` says
    whether all of them may be: the attack does not surely find more than guessing.
    """

    name: str
    point: OperatingPoint
    samples: NDArray[np.int64]
    scores: NDArray[np.float64]
    columns: dict[str, NDArray[Any]]
    nonmembers_as_high: NDArray[np.int64]
    may_be_chance: bool

    def summary(self) -> str:
        """How many there are, and how many guessing would find."""
        at, found = self.point, len(self.samples)
        chance = (
            ". This is no more than chance may give: all of them may be mistakes, and the list "
            "names nobody for sure"
        )
        return (
            f"{found:,} of {at.members:,} members are singled out at a false positive rate of "
            f"{100 * at.asked_fpr:g} % by the attack {self.name}, which mistakes "
            f"{at.false_positives:,} of {at.nonmembers:,} non-members for members; guessing finds "
            f"about {at.asked_fpr * at.members:.3g}{chance * self.may_be_chance}"
        )

    def _table(self) -> dict[str, Any]:
        return {
            "sample": self.samples,
            **self.columns,
            "score": self.scores,
            "nonmembers_as_high": self.nonmembers_as_high,
            "may_be_chance": np.full(len(self.samples), int(self.may_be_chance)),
        }


def singled_out(
    table: SignalTable,
    name: str,
    scores: NDArray[np.float64],
    point: OperatingPoint,
    row: int = 0,
    *,
    may_be_chance: bool,
) -> SingledOut:
    """The members of a row of a table that score at least the threshold of a point."""
    inside = np.flatnonzero(table.member[row] & (scores >= point.threshold))
    order = inside[np.argsort(-scores[inside], kind="stable")]
    names = {} if table.ids is None else {"id": table.ids[order]}
    columns = {**names, "label": table.label[order]}
    others = np.sort(scores[~table.member[row]])
    as_high = len(others) - np.searchsorted(others, scores[order])
    return SingledOut(name, point, order, scores[order], columns, as_high, may_be_chance)


def with_ranks(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns of risk scores with the place of each member, from 1 on; 0 for non-members.

    Thin scores come last. Of equal scores, the lowest modified entropy is first.
    """
    ranks = np.zeros(len(columns["risk"]), np.int64)
    if "member" in columns:
        inside = np.flatnonzero(columns["member"])
        thin = columns.get("thin", ranks)
        keys = (columns["modified_entropy"], -columns["risk"], thin)
        order = inside[np.lexsort(tuple(key[inside] for key in keys))]
        ranks[order] = np.arange(1, len(order) + 1)
    return {**columns, "rank": ranks}
