"""A limit on rho of a forgetting test."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from canary.errors import InputError
from canary.gate.attacks_written import Interval, Part
from canary.gate.check_result import document_of, read_part
from canary.gate.subjects import limit_checked, nothing_to_check
from canary.gate.verdict import Finding, Outcome, Policy, Verdict, verdict_on
from canary.membership.forgetting_result import ANSWERS, ENOUGH, LEVEL, Answer
from canary.records.about import About, Named
from canary.statistics.numbers import percent_of, plural, probability

_CHANGED = (
    "the target differs from models that never saw the query set, as 1 honest one in 20 does by "
    "chance",
    "check that the calibration models were trained on as many samples as the target; then "
    "compare with models that were trained again without the query set (--retrained)",
)
_UNTRIED = (
    "no trace was found, and nobody tried to pick the query set out: a model that was only pushed "
    "away from it passes this, too",
    "give the target's outputs on samples of the same kind that it never saw (--unseen)",
)
_COARSE = (
    "no trace was found, but with these unseen samples (--unseen) the attack could miss a query "
    "set that is known",
    "give the target's outputs on {} or more",
    "give more samples of the query set, or query models that know it better: with these, no "
    "number of unseen samples is enough",
)
_FEW_MODELS = (
    f"give {ENOUGH} calibration models or more, with which a target that never saw the query set "
    "can pass by its p-value, or more samples of the query set"
)
_CONTRADICTED = (
    "p is {}: few models that never saw the query set are as close to the query model, and the "
    "interval of rho leaves it open; give more samples of the query set, or several query models"
)
_BY_CHANCE = (
    "p of any difference is {}: the target differs from models that never saw the query set, as 1 "
    "honest one in 20 does by chance; give more calibration models, or train the target again with "
    "another seed, and repeat the test"
)
_VOID = (
    "models that know the query set answer on it as those do that never saw it",
    "check that --query-model and --target are not swapped; then repeat the test with query models "
    "that were trained longer, or with more samples",
)
_UNSEEN_KNOWN = (
    "the target knows the unseen samples better than the query set",
    "check the file of --unseen: the target must not have been trained on its samples, and they "
    "must not be easier than the query set: draw them from the same source. If that is so, the "
    "target was pushed away from the query set, or it is chance (1 honest target in 40): repeat "
    "the test with more unseen samples",
)
_KNOWING = (
    "calibration models answer as if they knew the query set: {}",
    "leave these models out if they were trained on the query set, or train them again without it, "
    "and repeat the test",
)
_UNLEARN = "train again without the query set or unlearn further, and repeat the test"


@dataclass(frozen=True)
class Compared(Named, Part):
    """A forgetting test."""

    void: bool
    surpasses: bool
    rho: float
    lower: float
    upper: float | None
    confidence: float
    p: float
    p_unlike: float | None
    calibration: tuple[float, ...]
    auc: Interval | None
    notes: tuple[str, ...]
    answer: Answer
    alike: bool
    unlike: bool
    remembered: bool
    unproven: bool
    unseen_needed: int | None = None
    samples: int = 0
    query_models: int = 1
    most_remainder: float | None = None
    knowing: tuple[str, ...] = ()
    about: About = field(default_factory=About)

    @property
    def unseen_known(self) -> bool:
        """As of the result; files of earlier versions have it, too."""
        return self.auc is not None and self.auc.upper < 0.5

    @property
    def outcome(self) -> str:
        """Which of `ANSWERS` holds, by what is written."""
        held = (name for name in ANSWERS if getattr(self, name, False))
        return next(held, self.answer.replace(" ", "_"))

    def _check(self) -> None:
        if not self.lower <= self.rho <= (math.inf if self.upper is None else self.upper):
            raise ValueError("is no interval of rho")


def check_forgetting(
    result: object, *, forgotten: bool, min_rho: float | None, undecided: Policy
) -> Verdict:
    """The verdict on a forgetting test; errors as of `check_attacks`."""
    document, file = document_of(result)
    least = _checked_rho(forgotten=forgotten, least=min_rho)
    compared = read_part(Compared, document, file)
    return verdict_on(
        *("a forgetting test", [_forgotten(compared, least)], undecided, compared.notes),
        about={"Limit": f"the query set is forgotten: {_asked(least)}"},
        tested=compared, source=(document, file),
    )  # fmt: skip


def _asked(least: float | None) -> str:
    return "no trace is found" if least is None else f"rho of {least:g} or more"


def _checked_rho(*, forgotten: bool, least: float | None) -> float | None:
    """The limit on rho; None where the answer of the test counts."""
    if forgotten and least is not None:
        raise InputError(
            "forgotten=True asks for the answer of the test, and min_rho for a limit on rho",
            cure="give one of them",
        )
    if forgotten:
        return None
    if least is None:
        raise nothing_to_check("a forgetting test")
    cure = (
        "give a number above 0, which is a model that knows the query set, up to 1, which is what "
        "models have that never saw it"
    )
    return limit_checked(least, lambda rho: 0.0 < rho <= 1.0, "on rho", cure, "min_rho")


def _picked(found: Compared) -> str:
    """What an attack reached that picks out the query set from unseen samples (--unseen)."""
    if found.auc is None or found.void:
        return ""
    ends = f"{percent_of(found.auc.lower)} to {percent_of(found.auc.upper)}"
    return (
        f"; an attack picks out a sample of it in {percent_of(found.auc.value)} of pairs ({ends})"
    )


def _not_tried(found: Compared) -> tuple[str, str] | None:
    """Why a pass rests on no attack that could have failed, and what to do; None if it does not.

    An attack counts that would find the query set in a model which knows it as the query models do,
    with a chance of 80 % (`unseen_needed`).
    """
    if found.auc is None:
        return _UNTRIED
    if (needed := found.unseen_needed) is None:
        return None
    told, more, others = _COARSE
    return told, more.format(plural(needed, "unseen sample")) if needed else others


def _forgotten(found: Compared, asked: float | None) -> Finding:
    """Whether rho is at its limit or above; undecided where another test contradicts it.

    Without a limit the answer of the test counts: no trace found is a pass, too.
    """
    least = 1.0 if asked is None else asked
    highest = math.inf if found.upper is None else found.upper
    upper = "no upper end" if found.upper is None else f"{found.upper:.2f}"
    limit = "" if asked is None else f", and the limit is {asked:g}"
    rho = f"rho is {found.rho:.2f} ({found.lower:.2f} to {upper}){limit}{_picked(found)}"
    attacked = found.auc is not None and found.auc.lower > 0.5
    few = len(found.calibration) < ENOUGH
    known = found.surpasses or highest < least
    known |= found.answer == "not forgotten" and found.rho < least
    outcome: Outcome = "undecided"
    if found.void or found.unseen_known or found.knowing:
        told, cure = _VOID if found.void else _UNSEEN_KNOWN if found.unseen_known else _KNOWING
        told = told.format(", ".join(found.knowing))
    elif known and found.auc is not None and not attacked:
        told = "the target answers as if it knew the query set, and no attack finds the set in it"
        cure = (
            "if the target was trained on other data of this kind, train the calibration models "
            "on such data too, and repeat the test"
        )
    elif known:
        outcome, told, cure = "failed", "the query set is not forgotten", _UNLEARN
        if found.surpasses:
            told = "the target's losses on the query set are below those of the query model"
    elif attacked:
        outcome = "undecided" if asked is not None else "failed"
        told = "the membership attack finds samples of the query set"
        cure = (
            "unlearn further or train again without the query set; if its samples are easier than "
            "the unseen ones, repeat the test with others (--unseen)"
        )
    elif asked is None and found.unlike:
        told, cure = _CHANGED
    elif asked is None and found.alike:
        outcome, told, cure = "passed", "no trace of the query set was found", ""
    elif asked is None and found.lower < least:
        told = "the interval of rho contains 1"
        p, blocks = (found.p, _CONTRADICTED) if found.p <= LEVEL else (found.p_unlike, _BY_CHANCE)
        cure = _FEW_MODELS if few else blocks.format(probability(p or 0.0))
    elif found.lower < least:
        told = "the interval of rho contains the limit"
        cure = (
            "give more samples of the query set, or several query models; a target that never saw "
            "it has a rho of about 1, so no limit on rho near 1 can be passed with certainty; ask "
            "for the answer of the test in place of a limit (--forgotten"
            f"{f', with {ENOUGH} calibration models or more' * few})"
        )
    elif found.p_unlike is not None and found.p_unlike <= LEVEL:
        told, cure = _CHANGED
    else:
        outcome, told, cure = "passed", "the query set is forgotten", ""
    if outcome == "passed" and (open_ := _not_tried(found)):
        outcome, (told, cure) = "undecided", open_
    return Finding(
        *("forgetting", "query set", outcome, f"{told}: {rho}", cure),
        limit=asked, value=found.rho, lower=found.lower, upper=found.upper,
        confidence=(1.0 + found.confidence) / 2.0,
    )  # fmt: skip
