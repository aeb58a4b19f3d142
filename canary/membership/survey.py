"""What attacks found, computed once: targets x attacks x evaluations, and one answer.

Three functions make one: `canary.membership.shadow_survey.survey` of a target and its shadow,
`canary.membership.text_survey.survey_texts` of texts, and
`canary.membership.models_survey.survey_models` of the models of one table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import numpy as np

from canary.membership.attacks import AttackScores
from canary.membership.evaluation import Evaluation
from canary.membership.stronger import Kind, not_made
from canary.records.about import About, Named
from canary.records.validation import versions
from canary.statistics.numbers import Shown
from canary.statistics.roc import Estimate, OperatingPoint, rates_row, too_coarse
from canary.statistics.shares import nonmembers_for_lower_end

SCHEMA = 1

Outcome = Literal["identified", "not identified", "undecided", "void"]
"""What follows from attacks; nothing at all from a test that is void."""


class Reached(Protocol):
    """An attack and what it reaches; see `Attacked`."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def rates_found(self, confidence: float | None = None) -> dict[float, Estimate]: ...  # noqa: D102

    def auc_at(self, confidence: float) -> Estimate: ...  # noqa: D102

    def too_coarse(self, fpr: float) -> bool: ...  # noqa: D102


One = TypeVar("One", bound=Reached)


@dataclass(frozen=True, eq=False, repr=False)
class Attacked(Shown):
    """One attack on one target, and what it reaches: `points` at the rates that were asked for."""

    attack: AttackScores
    evaluation: Evaluation
    points: tuple[OperatingPoint, ...]

    @property
    def name(self) -> str:
        """Of the attack."""
        return self.attack.name

    def summary(self) -> str:
        """What it reaches on average, and at each rate."""
        return "\n".join([self.evaluation.summary(), *(one.summary() for one in self.points)])

    def _table(self) -> list[dict[str, Any]]:
        return [row for one in self.points for row in one._table()]

    @property
    def accuracy(self) -> Estimate:
        """Balanced accuracy of the attack's guesses."""
        assert self.evaluation.accuracy is not None
        return self.evaluation.accuracy

    def rates_found(self, confidence: float | None = None) -> dict[float, Estimate]:
        """The true positive rate at each false positive rate that was asked for."""
        if confidence is None:
            return {point.asked_fpr: point.tpr for point in self.points}
        rates = [point.asked_fpr for point in self.points]
        return {r: self.evaluation.roc.tpr_at_fpr(r, confidence=confidence).tpr for r in rates}

    def auc_at(self, confidence: float) -> Estimate:
        """The AUC with an interval of another confidence."""
        return self.evaluation.roc.auc(confidence=confidence)

    def too_coarse(self, fpr: float) -> bool:
        """Whether too many scores are equal to judge it at a rate, and it beats no guess there."""
        at = (one for one in self.points if one.asked_fpr == fpr)
        return any(one.tpr.lower <= fpr and too_coarse(fpr, one.fpr) for one in at)

    def to_dict(self) -> dict[str, Any]:
        """The attack and what it reaches as plain data."""
        thresholds = self.attack.thresholds
        return {
            "name": self.name,
            "signal": self.attack.signal,
            # None for a threshold that calls nobody a member.
            "thresholds": None
            if thresholds is None
            else [None if math.isnan(value) else plain(value) for value in thresholds.tolist()],
            "balanced_accuracy": plain(self.accuracy),
            "auc": plain(self.evaluation.auc),
            "largest_advantage": self.evaluation.roc.advantage(),
            "tpr_at_fpr": [point_fields(point) for point in self.points],
            "notes": list(self.attack.notes),
        }


@dataclass(frozen=True)
class Surest:
    """The attack, of `attacks`, that finds most members while few non-members are mistaken.

    `tpr` is the share of the members that it finds at the false positive rate `fpr`. Its interval
    allows for the choice among the attacks. `shows` is False where non-members are so few that it
    begins at 0 whatever is found, and `measured` where each attack has too many equal scores.
    """

    name: str
    fpr: float
    tpr: Estimate
    attacks: int
    shows: bool = True
    measured: bool = True

    @property
    def beats_guessing(self) -> bool:
        """Whether it surely finds more members than guessing, which finds the share `fpr`."""
        return self.tpr.lower > self.fpr


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Survey(Named, Shown, Generic[One]):
    """What attacks found. Reports need to know no more than this of a survey.

    `doubts` are those of the notes by which it decides nothing that nothing was found.
    """

    average_name: ClassVar[str] = "AUC"
    """What `average_of` is called in tables."""

    kind: ClassVar[Kind]
    """By what attacks it is."""

    attacked: tuple[One, ...]
    confidence: float
    seed: int = 0
    notes: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    about: About = field(default_factory=About.today)

    def summary(self) -> str:
        """Whether members can be identified, by which attacks, and the notes."""
        said = {
            "identified": "training samples can be identified",
            "not identified": "no attack identified training samples",
            "undecided": "undecided",
            "void": "the test is void",
        }
        mean, surest = self.corrected(), self.surest()
        sure = surest is not None and surest.beats_guessing
        if surest is not None and not sure:
            few = ", and no single one for sure" * (surest.shows and surest.measured)
            said["identified"] = f"training samples can be recognized on average{few}"
        line = f"{'check the input first; ' if self.doubts else ''}{said[self.outcome()]}: "
        if surest is not None:
            tpr, fpr = surest.tpr, f"{surest.fpr:g}"
            found = f"{tpr.value:.3f} of the members ({tpr.lower:.3f} to {tpr.upper:.3f})"
            line += (
                f"{surest.name} finds {found} at a false positive rate of {fpr}, where guessing "
                f"finds {fpr}; "
                if surest.measured
                else f"what is found at a false positive rate of {fpr} is not measurable, since "
                "too many scores are equal; "
            )
        line += (
            f"the {self.average_name} of {self.strongest.name} is {mean.value:.3f} "
            f"({mean.lower:.3f} to {mean.upper:.3f}), where guessing has 0.5"
        )
        if len(self.attacked) > 1:
            line += f"; each is the best of {len(self.attacked)} (intervals allow for that)"
        why = self.why_open()
        lines = [line, *(f"Why: {one}" for one in why), *(n for n in self.notes if n not in why)]
        if self.told_apart() is not None and (weak := self.not_made[0]):
            lines.insert(1, f"Stronger attacks were not made: {weak}")
        return "\n".join(lines)

    @property
    def not_made(self) -> tuple[str, str]:
        """The stronger attacks that were not made, and how to make them; empty if none."""
        return not_made(self.kind, [one.name for one in self.attacked])

    def _table(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.attacked:
            auc = one.auc_at(self.confidence)
            row = {"attack": one.name, "auc": auc.value, "lower": auc.lower, "upper": auc.upper}
            if self.average_name != "AUC":
                row["balanced_accuracy"] = self.average_of(one, self.confidence).value
            rows.append(row | rates_row(one.rates_found()))
        return rows

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for row in self._table():
            yield from ((f"membership/{row['attack']}/{name}", cell) for name, cell in row.items())

    @cached_property
    def strongest(self) -> One:
        """The attack that reaches most on average; the first, of equal ones."""
        return max(self.attacked, key=lambda one: self.average_of(one, self.confidence).value)

    def corrected(self) -> Estimate:
        """What the strongest attack reaches, its interval widened for the choice (Bonferroni).

        It is the balanced accuracy of attacks by a shadow, and the (mean) AUC elsewhere.
        """
        return self._corrected

    @cached_property
    def _corrected(self) -> Estimate:
        return self.average_found_by(self.strongest)

    def corrected_of(self, one: One) -> dict[str, Any]:
        """What an attack reaches as plain data, its intervals widened for the choice (Bonferroni).

        A limit judges by these: whichever attack exceeds it, it was chosen among all.
        """
        rates = one.rates_found(self.each)
        return {
            "auc": plain(one.auc_at(self.each)),
            "tpr_at_fpr": [{"asked_fpr": fpr, **plain(tpr)} for fpr, tpr in rates.items()],
        }

    @property
    def each(self) -> float:
        """The confidence of each attack that allows for their number."""
        return 1.0 - (1.0 - self.confidence) / len(self.attacked)

    def average_of(self, one: One, confidence: float) -> Estimate:
        """What an attack reaches on average: the (mean) AUC, or what the class has in its place."""
        return one.auc_at(confidence)

    def average_found_by(self, one: One) -> Estimate:
        """What an attack reaches on average, its interval widened for the choice (Bonferroni)."""
        return self.average_of(one, self.each)

    def found_by(self, one: One, fpr: float) -> Estimate:
        """The share of the members that an attack finds, with the interval of `corrected_of`."""
        return one.rates_found(self.each)[fpr]

    @property
    def lead(self) -> One:
        """The attack of the surest guesses; the strongest where no false positive rate is known."""
        surest = self.surest()
        name = self.strongest.name if surest is None else surest.name
        return next(one for one in self.attacked if one.name == name)

    def surest(self, *, at_least: float = 0.0) -> Surest | None:
        """The attack that finds most members at a low false positive rate; None without rates.

        It is at the least rate at which this number of non-members can show more than guessing,
        or else at the largest that was asked for. With `at_least`, no lower rate is looked at, and
        None if none was asked for that is as high.
        """
        return self._surest if at_least == 0.0 else self._surest_at(at_least)

    @cached_property
    def _surest(self) -> Surest | None:
        return self._surest_at(0.0)

    def _surest_at(self, least: float) -> Surest | None:
        rates = sorted(rate for rate in self.attacked[0].rates_found() if rate >= least)
        if not rates:
            return None
        fpr = next(filter(self._can_show, rates), rates[-1])

        def found(one: One) -> tuple[float, float]:
            return one.rates_found()[fpr].value, self.average_of(one, self.confidence).value

        best = max(self.attacked, key=found)
        found_by = self.found_by(best, fpr)
        measured = not all(one.too_coarse(fpr) for one in self.attacked)
        many = len(self.attacked)
        return Surest(best.name, fpr, found_by, many, self._can_show(fpr), measured)

    def _can_show(self, fpr: float) -> bool:
        """Whether the interval of a share of members at a rate can have a lower end above 0."""
        raise NotImplementedError

    def told_apart(self) -> bool | None:
        """Whether some attack is better than guessing, on average or in its surest guesses.

        Each of the two is wrong with half of what `confidence` leaves, allowing for how many
        attacks were tried. None, which is undecided, where there are `doubts` of the input: correct
        it, and repeat the attacks. None, too, where neither is better and anything else speaks
        against the files.
        """
        if self.doubts:
            return None
        surest = self.surest()
        found = self.corrected().lower > 0.5 or (surest is not None and surest.beats_guessing)
        return found or (None if self.against() else False)

    def against(self) -> tuple[str, ...]:
        """What speaks against the files."""
        return self.doubts

    def why_open(self) -> tuple[str, ...]:
        """What keeps it undecided, or makes it void."""
        return self.against() if self.outcome() in ("undecided", "void") else ()

    def outcome(self) -> Outcome:
        """What follows from `told_apart`, and from what else is known of the test."""
        outcomes: dict[bool | None, Outcome] = {True: "identified", False: "not identified"}
        return outcomes.get(self.told_apart(), "undecided")


class OneTargetSurvey(Survey[Attacked]):
    """What attacks on one target found."""

    def _can_show(self, fpr: float) -> bool:
        nonmembers = self.attacked[0].evaluation.roc.nonmembers
        return nonmembers >= nonmembers_for_lower_end(fpr, confidence=self.each)

    def _answer(self) -> dict[str, Any]:
        """What surveys of one target have in common, as plain data."""
        best, curve = self.surest(), self.lead.evaluation.roc
        surest = best and {
            "name": best.name,
            **point_fields(curve.tpr_at_fpr(best.fpr, confidence=self.each)),
        }
        return {
            "confidence": self.confidence,
            "seed": self.seed,
            "strongest": self.strongest.name,
            "told_apart": self.told_apart(),
            "outcome": self.outcome(),
            "surest": surest,
            "attacks": [
                {**one.to_dict(), "corrected": self.corrected_of(one)} for one in self.attacked
            ],
            "doubts": list(self.against()),
            "notes": list(self.notes),
            "about": self.about.to_dict(),
            "versions": versions(),
        }


def plain(value: Any) -> Any:
    """A result as plain data; infinities are the words ``"inf"`` and ``"-inf"``."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns of equal length as plain data, a mapping for each row."""
    rows = zip(*map(plain, columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def point_fields(point: OperatingPoint) -> dict[str, Any]:
    """An operating point as plain data."""
    lower, upper = point.fpr_interval
    return {**plain(point), "fpr_interval": {"lower": lower, "upper": upper}}
