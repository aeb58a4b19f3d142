"""The attacks with many models by name: what each reads, and which models it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from canary.errors import InputError

__all__ = ["MANY", "MANY_ATTACKS", "ManyAttack", "many_attack"]


@dataclass(frozen=True)
class ManyAttack:
    """What an attack reads and needs.

    Parameters
    ----------
    signal : {"loss", "logit-confidence", "confidence"}
        What it reads of each model.
    others : bool
        Whether it takes models beside the target.
    outside, inside : bool
        Whether each sample needs some that were not trained on it, and some that were.
    points : bool
        Whether it takes population points of the target.
    levels : bool
        Whether its scores have a threshold at each level.
    fixed : bool
        Whether one variance serves all samples.
    own : str
        The models of each target's own that it needs; empty for none.
    """

    signal: Literal["loss", "logit-confidence", "confidence"] = "loss"
    others: bool = True
    outside: bool = True
    inside: bool = False
    points: bool = False
    levels: bool = True
    fixed: bool = False
    own: str = ""


def _lira(*, online: bool, fixed: bool) -> ManyAttack:
    # The paper leaves the threshold of the online attack to the ROC.
    return ManyAttack("logit-confidence", inside=online, levels=not online, fixed=fixed)


MANY_ATTACKS: Mapping[str, ManyAttack] = MappingProxyType(
    {
        "S": ManyAttack(outside=False),
        "P": ManyAttack(others=False, outside=False, points=True),
        "R": ManyAttack(),
        "D": ManyAttack(own="models that were distilled from the target"),
        "L": ManyAttack(
            own="models that were trained on the target's data without one sample each"
        ),
        "lira-online": _lira(online=True, fixed=False),
        "lira-online-fixed": _lira(online=True, fixed=True),
        "lira-offline": _lira(online=False, fixed=False),
        "lira-offline-fixed": _lira(online=False, fixed=True),
        "rmia": ManyAttack("confidence", inside=True, points=True),
        "rmia-offline": ManyAttack("confidence", points=True),
    }
)
"""The attacks by name."""

MANY: tuple[str, ...] = tuple(MANY_ATTACKS)
"""Their names."""


def many_attack(name: str, where: str) -> ManyAttack:
    """The attack of a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in MANY_ATTACKS:
        raise InputError(
            f"there is no attack {name!r}", cure=f"name one of {', '.join(MANY)}", where=where
        )
    return MANY_ATTACKS[name]
