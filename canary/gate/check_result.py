"""Limits on membership attacks, and on forgetting: what was written of a test, made into a verdict.

A result in memory is judged by what it would write, so that a file and its result agree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from canary.audits.exposure_result import Exposures
from canary.audits.extraction import Extraction
from canary.errors import InputError, RecordError
from canary.gate.attacks_written import Attacks, Interval
from canary.gate.dataset_limit import all_members
from canary.gate.exposure_limit import check_level
from canary.gate.subjects import SURVEYS, limit_checked, nothing_to_check
from canary.gate.verdict import (
    NOT_MADE,
    Check,
    Finding,
    Outcome,
    Policy,
    Verdict,
    measured,
    verdict_on,
)
from canary.membership import forgetting_result, survey
from canary.membership.analysis import OF_SCORES
from canary.membership.forgetting_result import Forgetting
from canary.membership.order_result import Order
from canary.membership.samples_needed import checked_rates, needed_for
from canary.membership.survey import Survey
from canary.membership.unlike import only_hides
from canary.passages.result import Verbatim
from canary.passages.sampled import Sampled
from canary.records.validation import as_real
from canary.records.versioned_json import kind_of, load_document
from canary.statistics.numbers import count, plural

_SCHEMAS = {
    **dict.fromkeys(SURVEYS, survey.SCHEMA),
    forgetting_result.KIND: forgetting_result.SCHEMA,
}

_NARROWER = (
    "attack more members and non-members: four times as many halve the interval. Or "
    "compare with more reference models (canary membership models), whose attacks decide more "
    "often. With fewer attacks (--attacks) intervals are narrower, too, but choose them before you "
    "see a result: only new samples can test the choice"
)
_FINER = (
    "make other attacks, whose scores differ from sample to sample (--attacks all), compare with "
    "more models, or set the limit at a higher false positive rate"
)
_TRAIN = (
    "train again so that less is memorized (fewer epochs, more regularization, no duplicates, "
    "differential privacy), and repeat the attacks on the new model"
)

_SHADOW = 100
"""Members, and non-members, of a shadow from which attacks learn something to judge by."""

_RESTS_ON_FLAGS = (
    "A pass rests on the flags: attacks find about a third less if a third of the members were "
    "never trained on, or if a third of the non-members were, and nothing if the model was trained "
    "again on all samples, or if the outputs are those of cross-validation"
)


Tested = Survey[Any] | Forgetting | Order | Verbatim | Sampled | Exposures | Extraction
"""A result that is no audit and can be judged; exposures are as the audit that they make."""


def check_attacks(
    result: object,
    *,
    max_auc: float | None,
    max_p: float | None,
    max_tpr_at_fpr: Mapping[float, float] | None,
    trust_members: bool,
    undecided: Policy,
) -> Verdict:
    """The verdict on a membership test; see `canary.check`.

    Raises
    ------
    InputError
        If no limit is given, or one is out of range.
    RecordError
        If a file is damaged, too new, or of a version that did not write what a limit needs.
    """
    document, file = document_of(result)
    rates = checked_rates(max_tpr_at_fpr)
    largest = None if max_auc is None else _checked_auc(max_auc)
    level = None if max_p is None else check_level(max_p)
    if largest is None and level is None and not rates:
        raise nothing_to_check("a membership test", without="" if "words" in document else "max_p")
    if level is not None and "words" not in document:
        raise InputError(
            "max_p asks whether texts were in the training data, and this is a test of samples of "
            "a classifier, which has no such p-value",
            cure="leave it out, and limit what attacks reach: --max-auc 0.6 or --max-tpr-at-fpr "
            "0.001=0.02 (in Python max_auc, max_tpr_at_fpr)",
            where=file,
        )
    found = read_part(Attacks, document, file)
    findings = [] if level is None else [all_members(found, level)]
    if largest is not None or rates:
        doubted, there = _doubted(found), _nonmembers(document)
        within = [] if largest is None else [_auc_within(found, largest)]
        within += [_tpr_within(found, fpr, limit, there) for fpr, limit in rates.items()]
        unseen = [] if trust_members else _unseen(found)
        if doubted and _only_hidden(found):  # what was found is there all the same
            failed = [_all_the_same(f, found.doubts) for f in within if f.outcome == "failed"]
            doubted = failed or doubted
        findings += doubted or [*within, *_little_learned(document), *unseen]
    words = [] if level is None else [f"p-value of all members at once above {level:g}"]
    words += [] if largest is None else [f"AUC of at most {percent(largest)}"]
    words += [
        f"true positive rate of at most {percent(limit)} at a false positive rate of {percent(fpr)}"
        for fpr, limit in rates.items()
    ]
    weak, how = found.not_made
    notes = [n for n in found.notes if not n.startswith(OF_SCORES)]  # no limit is on them
    notes += [*([found.length_warning] if found.length_warning else [])]
    if all(one.outcome == "passed" for one in findings):
        notes.append(_RESTS_ON_FLAGS)
        if weak:
            notes.append(
                f"A pass speaks only of the attacks that were made. Make the others: {how}"
            )
    if trust_members and found.outcome == "not identified":
        notes.append(
            "that it was trained on the members, and on none of the non-members, is your word"
        )
    verdict = verdict_on(
        *("a membership test", findings, undecided, dict.fromkeys(notes)),
        about={
            "Attacks": ", ".join(one.name for one in found.attacks),
            **({NOT_MADE: weak} if weak else {}),
            "Limit": "; ".join(words),
        },
        tested=found, source=(document, file),
    )  # fmt: skip
    return replace(verdict, rests_on="trusted") if trust_members else verdict


def document_of(result: Any) -> tuple[dict[str, Any], str]:
    """What is written of a result, and the file that it was read from."""
    if not isinstance(result, str | os.PathLike):
        return result.to_dict(), ""
    kind = str(kind_of(result))
    return load_document(result, kind, _SCHEMAS[kind]), str(Path(result))


def read_part(kind: type[Any], document: dict[str, Any], file: str) -> Any:
    """The fields of `kind` in a document that was read from a file."""
    try:
        return kind.from_dict(document)
    except RecordError as error:
        where = ": ".join(filter(None, (file, error.where)))
        raise RecordError(error.problem, cure=error.cure, where=where) from error


def percent(share: float) -> str:
    """A limit or a rate in the unit of reports; options and fields are shares."""
    return f"{100 * share:g} %"


def percent_like(share: float, limit: float) -> str:
    """A rate in percent without the sign: two decimals, or more where its limit is small."""
    return f"{100 * share:.{max(2, 1 - math.floor(math.log10(100 * limit)))}f}"


def _checked_auc(limit: float) -> float:
    cure = "give a number from 0.5, which is what guessing reaches, to below 1"
    if 50.0 <= as_real(limit) < 100.0:  # in percent
        cure += f": {as_real(limit) / 100.0:g}?"
    return limit_checked(limit, lambda auc: 0.5 <= auc < 1.0, "on the AUC", cure, "max_auc")


def _doubted(found: Attacks) -> list[Finding]:
    """Why nothing follows from a test, above its limit or within it; empty if something does."""
    if found.outcome not in ("void", "undecided") and not found.doubts:
        return []
    reasons = (*found.doubts, found.warning, found.length_warning, *found.notes)
    why = next(filter(None, reasons), "see its report")
    said = "is void" if found.outcome == "void" else "decides nothing"
    cure = "correct the input as this says, and repeat the attacks"
    sentence = f"the membership test {said}: {why.removesuffix('.')}"
    return [Finding("membership", "membership test", "undecided", sentence, cure)]


def _all_the_same(failed: Finding, doubts: Sequence[str]) -> Finding:
    """What failed although the input looks wrong, which is the first thing to correct."""
    why = ": ".join(["the input looks wrong, and attacks may find too little", *doubts[:1]])
    cure = f"correct the input and repeat the attacks; if they still find it, {failed.cure}"
    return replace(failed, sentence=f"{why}. Even so, {failed.sentence}", cure=cure)


def _only_hidden(found: Attacks) -> bool:
    """Whether all that is in doubt could make attacks find less, and not more."""
    others = found.outcome == "void" or found.warning or found.length_warning
    return bool(found.doubts and not others and all(map(only_hides, found.doubts)))


def _unseen(found: Attacks) -> list[Finding]:
    """A doubt where no attack finds any member: of samples that it never saw no model shows any."""
    if found.outcome != "not identified":
        return []
    told = (
        "no attack identifies members, and nothing shows that the model was trained on them: of "
        "other samples, any model looks like this"
    )
    cure = (
        "make sure that this very model was trained on the members and on none of the non-members "
        "(a model that was trained for many epochs on the same files must be found out), and say "
        "so with --trust-members, in Python trust_members"
    )
    return [Finding("membership", "members", "undecided", told, cure)]


def _little_learned(document: Mapping[str, Any]) -> list[Finding]:
    """A doubt where a shadow is so small that its attacks find little, whatever there is."""
    shadow = document.get("shadow") or {}
    fewest = min((shadow.get(kind, _SHADOW) for kind in ("members", "nonmembers")), default=_SHADOW)
    if fewest >= _SHADOW:
        return []
    told = (
        f"the shadow has only {plural(fewest, 'sample')} of a kind, from which attacks learn so "
        "little that they find few members of any model"
    )
    cure = f"give a shadow with {_SHADOW} members and {_SHADOW} non-members or more"
    return [Finding("membership", "shadow", "undecided", told, cure)]


def _auc_within(found: Attacks, limit: float) -> Finding:
    reached = {one.name: one.corrected.auc for one in found.attacks}
    return _within("AUC", "AUC", reached, limit, found.confidence)


def _nonmembers(document: Mapping[str, Any]) -> int | None:
    """Non-members of the one target of a test; None of the models of a table."""
    facts = document.get("target")
    return (facts if isinstance(facts, Mapping) else document).get("nonmembers")


def _tpr_within(found: Attacks, fpr: float, limit: float, there: int | None) -> Finding:
    what = f"true positive rate at a false positive rate of {percent(fpr)}"
    reached = {
        one.name: at
        for one in found.attacks
        for at in one.corrected.tpr_at_fpr
        if math.isclose(at.asked_fpr, fpr)
    }
    number, many = needed_for(fpr, limit, len(found.attacks), found.confidence), len(found.attacks)
    takes = "there is no number of non-members that shows a limit of what guessing reaches"
    if number is not None:
        takes = f"it takes {count(number)} non-members and as many members"
        one = needed_for(fpr, limit, 1, found.confidence)
        if many > 1 and one is not None:
            takes += f" with {plural(many, 'attack')}, {count(one)} with one (--attacks)"
    if len(reached) < many:
        return Finding(
            "TPR", what, "undecided", f"the result has no interval of the {what}",
            f"repeat the attacks with --fpr {fpr:g} (in Python fprs); {takes}",
            limit=limit,
        )  # fmt: skip
    few = there is not None and (number is None or there < number)
    cure = f"attack more samples: {takes}, and this test has {count(there or 0)}"
    cure = cure if few else _NARROWER
    finding = _within("TPR", what, reached, limit, found.confidence, cure=cure)
    if finding.outcome != "passed" or not found.not_measured(fpr):
        return finding
    named = ", ".join(reached)
    told = (
        f"the {what} was not measured: too many scores are equal, and {named} can hardly "
        f"accuse anybody without accusing more than {percent(fpr)} of the non-members"
    )
    return Finding("TPR", what, "undecided", told, _FINER, limit=limit)


def _within(
    check: Check,
    what: str,
    reached: Mapping[str, Interval],
    limit: float,
    confidence: float,
    *,
    cure: str = _NARROWER,
) -> Finding:
    """Whether no attack exceeds a limit, by intervals that allow for the choice among them."""
    highest = max(reached, key=lambda one: reached[one].value)
    above = [name for name, one in reached.items() if one.lower > limit]
    name = max(above, key=lambda one: reached[one].value, default="")
    outcome: Outcome = "failed"
    place, then = f"above the limit of {percent(limit)}", _TRAIN
    which = ", the highest one whose whole interval is above the limit,"
    if not above:
        name = max(reached, key=lambda one: reached[one].upper)
        outcome, place, then = "passed", f"within the limit of {percent(limit)}", ""
        most = f"{percent_like(reached[highest].value, limit)} % of {highest} is the highest value"
        which = f", whose interval reaches highest ({most}),"
        if reached[name].upper > limit:
            outcome, then = "undecided", cure
            place = f"and the limit of {percent(limit)} is in this interval"
    best, chosen = reached[name], ""
    value, lower, upper = (percent_like(one, limit) for one in (best.value, best.lower, best.upper))
    if len(reached) > 1:
        chosen = f", allowing for the choice among {count(len(reached))} attacks"
        name += "" if name == highest else which
    sentence = (
        f"the {what} of the attack {name} is {value} % ({lower} to {upper} at "
        f"{100 * confidence:g} % confidence{chosen}), {place}"
    )
    return Finding(check, what, outcome, sentence, then, **measured(limit, best, confidence))
