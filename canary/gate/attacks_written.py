"""What was written of a membership test, as far as limits and reports need it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from canary.membership import survey
from canary.membership.attacks import with_many_models
from canary.membership.stronger import not_made
from canary.records.about import About, Named
from canary.records.record import Record
from canary.statistics.roc import too_coarse


class Part(Record):
    """Of what a command wrote, the fields that a limit needs."""

    _cure = "write it again: repeat the command with this version of canary"

    @classmethod
    def _upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {one.name: data[one.name] for one in fields(cls) if one.name in data}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Interval(Part):
    """A rate and its interval."""

    value: float
    lower: float
    upper: float

    def _check(self) -> None:
        if not 0.0 <= self.lower <= self.value <= self.upper <= 1.0:
            raise ValueError("is no interval of a rate")


@dataclass(frozen=True)
class AtRate(Interval):
    """A true positive rate at a false positive rate."""

    asked_fpr: float


@dataclass(frozen=True)
class Corrected(Part):
    """What an attack reaches, with intervals that allow for the choice among attacks."""

    auc: Interval
    tpr_at_fpr: tuple[AtRate, ...]


@dataclass(frozen=True)
class Attained(Part):
    """The largest false positive rate not above the one asked for that a threshold reaches."""

    asked_fpr: float
    fpr: float


@dataclass(frozen=True)
class Attack(Part):
    """One attack of a membership test."""

    name: str
    signal: str
    corrected: Corrected
    tpr_at_fpr: tuple[Attained, ...] = ()

    def too_coarse(self, asked: float) -> bool:
        """Whether its scores have too many ties to be judged at a false positive rate."""
        at = (one for one in self.tpr_at_fpr if math.isclose(one.asked_fpr, asked))
        return any(too_coarse(asked, one.fpr) for one in at)


@dataclass(frozen=True)
class DataSet(Part):
    """A test of all members of a file at once."""

    outcome: Literal["seen", "undecided", "void"]
    p: float


@dataclass(frozen=True)
class Surest(Part):
    """The attack that finds most where mistakes are few."""

    name: str = ""
    asked_fpr: float = 0.0


@dataclass(frozen=True)
class Attacks(Named, Part):
    """A membership test."""

    outcome: survey.Outcome
    confidence: float
    attacks: tuple[Attack, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    warning: str | None = None
    length_warning: str | None = None
    words: Mapping[str, Any] | None = None
    dataset: DataSet | None = None
    surest: Surest | None = None
    about: About = field(default_factory=About)

    @property
    def not_made(self) -> tuple[str, str]:
        """The stronger attacks that were not made, and how to make them; empty if none."""
        names = [one.name for one in self.attacks]
        many = all(name in with_many_models() for name in names)
        return not_made("texts" if self.words else "models" if many else "shadow", names)

    def not_measured(self, asked: float) -> bool:
        """Whether no attack can be judged at a false positive rate."""
        return all(one.too_coarse(asked) for one in self.attacks)

    @property
    def only_on_average(self) -> bool:
        """Whether members can be identified, and the surest guesses find no more than chance."""
        if self.outcome != "identified" or self.surest is None:
            return False
        found = next((one for one in self.attacks if one.name == self.surest.name), None)
        rates = () if found is None else found.corrected.tpr_at_fpr
        asked = self.surest.asked_fpr
        return any(r.asked_fpr == asked and r.lower <= asked for r in rates)

    def _check(self) -> None:
        if not self.attacks or not 0.0 < self.confidence < 1.0:
            raise ValueError("holds no attacks, or no confidence between 0 and 1")
