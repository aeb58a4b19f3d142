"""Which attacks a table of models allows, on which of its samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.membership.attacks import ATTACKS, Attack, with_many_models
from canary.membership.fleet_intervals import FEWEST, groups_of
from canary.membership.references import References, resolve
from canary.signals.signal_table import SignalTable
from canary.statistics.number_checks import positive_integer
from canary.statistics.numbers import plural

Flags = NDArray[np.bool_]

ALL = ("S", "P", "R", "lira-online", "lira-offline", "rmia")
"""The attacks that need no models of the target's own."""

MANY_MODELS = 64
"""From so many on LiRA has a variance for each sample."""

_OFFLINE = ("S", "P", "R", "lira-offline", "rmia-offline")


@dataclass(frozen=True, eq=False)
class Needs:
    """The attacks, and the samples that they are judged on, as flags."""

    attacks: tuple[Attack, ...]
    judged: Flags

    @property
    def names(self) -> tuple[str, ...]:
        """Of the attacks."""
        return tuple(attack.name for attack in self.attacks)

    @property
    def inside(self) -> bool:
        """Whether an attack needs models that were trained on a sample."""
        return any(attack.inside for attack in self.attacks)

    @property
    def outside(self) -> bool:
        """Whether an attack needs models that were trained without a sample."""
        return any(attack.outside for attack in self.attacks)


def chosen_attacks(
    table: SignalTable, asked: str, targets: NDArray[np.intp], *, least: int | None = None
) -> tuple[Needs, list[str]]:
    """The attacks of a list with commas or ``all``, and what a reader has to know of the choice.

    With `least`, a judged sample has to be in, and out of, so many models.

    Raises
    ------
    InputError
        If there is no such attack, or it has nothing to compare some sample with.
    """
    notes: list[str] = []
    if least is not None:
        least = positive_integer(least, "least", "attacks", cure="give a number of models, 2 say")
    if asked.strip() == "all":
        names = list(ALL)
        if not _known(table, targets, least):
            names = list(_OFFLINE)
            notes.append(
                "Some samples are members of no other model, so all has the attacks that need "
                "none: rmia-offline for rmia, and no lira-online"
            )
        if table.models < MANY_MODELS:
            names = [f"{name}-fixed" if name.startswith("lira") else name for name in names]
            notes.append(
                f"LiRA has one variance for all samples, as there are fewer than {MANY_MODELS} "
                "models"
            )
    else:
        names = _checked(ATTACKS.names(asked, where="attacks"))
    attacks = tuple(ATTACKS[name] for name in names)
    needs = Needs(attacks, np.ones(table.samples, np.bool_))
    if table.models < 2 and any(attack.others for attack in attacks):
        raise InputError(
            "one model, and attacks compare it with others",
            cure="give the outputs of several models on the same samples; the attack P alone "
            "needs one",
            where=table.source,
        )
    if least is not None:
        needs = Needs(attacks, _judged(table, needs, least))
        away = int((~needs.judged).sum())
        if away:
            notes.append(
                f"Of {plural(table.samples, 'sample')} {away:,} are left away: fewer than "
                f"{plural(least, 'model')} were trained without them"
                + (", or on them" if needs.inside else "")
            )
    if needs.outside:
        bench = _compared(table, targets, needs.judged)
        for attack in attacks:
            if attack.outside:
                bench.check(attack.name, inside=attack.inside, least=True)
    return needs, notes


def left_out_safely(table: SignalTable, needs: Needs) -> bool:
    """Whether each model may be left out, and attacks still have what they need.

    As `canary.membership.fleet_intervals.over_fleets` leaves them out, where all are targets.
    """
    if table.models < FEWEST:
        return False
    groups, rows = groups_of(table.models), np.arange(table.models)
    points = np.array(
        [np.bincount(table.label[~one], minlength=table.label.max() + 1) for one in table.member]
    )[:, np.unique(table.label)]
    for part in range(groups):
        rest = rows[rows % groups != part]
        inside = table.member[rest].sum(axis=0)
        if needs.outside and (len(rest) - inside < 2).any():
            return False
        if needs.inside and (inside < 2).any():
            return False
        if "S" in needs.names and (points[rest].sum(axis=0) == points[rest].max(axis=0)).any():
            return False
    return True


def _known(table: SignalTable, targets: NDArray[np.intp], least: int | None) -> bool:
    """Whether the samples are members of other models, as far as `least` does not drop them."""
    if least is None:
        return not _compared(table, targets, np.ones(table.samples, np.bool_)).alone("inside").any()
    inside = table.member.sum(axis=0)
    return bool(((inside >= least) & (table.models - inside >= least)).any())


def _compared(table: SignalTable, targets: NDArray[np.intp], judged: Flags) -> References:
    """What the targets are compared with on the judged samples."""
    return resolve(
        table,
        "all",
        targets=targets,
        population=None if judged.all() else ~judged,
        alone=True,
    )


def _judged(table: SignalTable, needs: Needs, least: int) -> Flags:
    inside = table.member.sum(axis=0)
    chosen = np.ones(table.samples, np.bool_)
    if needs.outside:
        chosen &= table.models - inside >= least
    if needs.inside:
        chosen &= inside >= least
    if not chosen.any():
        kinds = "without it, and as many on it" if needs.inside else "without it"
        raise InputError(
            f"no sample has {least:,} of {plural(table.models, 'model')} that were trained {kinds}",
            cure="ask for fewer (--least), or give more models",
            where=table.source,
        )
    return chosen


def _checked(names: list[str]) -> list[str]:
    able = [name for name, kind in with_many_models().items() if not kind.own]
    for name in names:
        if name not in able:
            own = ATTACKS[name].own
            problem = "needs models of each target's own" if own else "is by a shadow"
            cure = f"name some of {', '.join(able)}; or all"
            if own:
                cure = "do it from Python: attack_models(table, ..., shadow=)"
            raise InputError(f"the attack {name} {problem}", cure=cure, where="attacks")
    return names
