"""What can be judged, and what can be asked of each kind of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from canary.audits import exposure_result, extraction
from canary.audits.exposure_result import Exposures, audit_of
from canary.audits.extraction import Extraction
from canary.errors import InputError
from canary.membership import (
    forgetting_result,
    models_result,
    order_result,
    shadow_survey,
    text_survey,
)
from canary.membership.attacks import AttackScores
from canary.membership.evaluation import Evaluation
from canary.membership.forgetting_result import Forgetting
from canary.membership.order_result import Order
from canary.membership.risk import RiskScores
from canary.membership.survey import Survey
from canary.passages import result as passages
from canary.passages import sampled
from canary.passages.result import Verbatim
from canary.passages.sampled import Sampled
from canary.records.validation import as_real, brief
from canary.records.versioned_json import kind_of

Subject = Literal[
    "an audit",
    "an extraction",
    "a membership test",
    "a forgetting test",
    "an order test",
    "a test of passages",
    "samples of a server",
]

SURVEYS = (shadow_survey.KIND, text_survey.KIND, models_result.KIND)
"""The kinds of documents that membership attacks write."""

LIMITS: Mapping[Subject, tuple[str, ...]] = {
    "an audit": ("max_exposure_bits", "max_p", "no_extraction", "baseline", "max_epsilon"),
    "an extraction": ("no_extraction",),
    "a membership test": ("max_auc", "max_tpr_at_fpr", "max_p"),
    "a forgetting test": ("forgotten", "min_rho"),
    "an order test": ("max_p",),
    "a test of passages": ("max_extractable",),
    "samples of a server": ("max_extractable",),
}
"""What can be asked of each kind of result."""

_OTHERS = {
    "an extraction": ("trust_injection", "undecided"),
    "a membership test": ("undecided", "trust_members"),
    "a forgetting test": ("undecided",),
    "an order test": ("undecided",),
    "a test of passages": ("tries", "chance", "trust_members", "undecided"),
    "samples of a server": ("trust_members", "undecided"),
}
"""What else `canary.check` takes of results that are no audits."""

_SHOWN = {"verification", "history", "trust_injection"}
"""What shows or says of audits that training read the canaries."""

_ONLY: Mapping[Subject, str] = {"a membership test": ", the last for texts only"}
"""Which limit only some results of a kind have."""

_OF_OTHERS = (
    "max_auc", "max_tpr_at_fpr", "trust_members", "forgotten", "min_rho",
    "max_extractable", "tries", "chance",
)  # fmt: skip
"""What it does not take of audits."""

_EXAMPLES = {
    "max_exposure_bits": "4",
    "max_p": "0.001",
    "max_auc": "0.6",
    "max_tpr_at_fpr": "{0.001: 0.02}",
    "min_rho": "0.8",
    "max_extractable": "0.001",
}


def subject_of(given: object) -> Subject:
    """What is to be judged; an audit, unless a result or a file says that it is something else.

    Exposures are judged as the audit that they make.

    An InputError of one attack alone, or of scores, which lack the checks of a survey.
    """
    if isinstance(given, AttackScores | Evaluation | RiskScores):
        raise InputError(
            f"this is {type(given).__name__}, of one attack or of samples, and no test with a "
            "verdict",
            cure="give what canary.survey(target, shadow) returned",
        )
    kind = kind_of(given) if isinstance(given, str | os.PathLike) else None
    if kind is None and isinstance(given, str | os.PathLike):
        audit_of(given)  # which says what is wrong with such a file
    if isinstance(given, Extraction) or kind == extraction.KIND:
        return "an extraction"
    if isinstance(given, Survey) or kind in SURVEYS:
        return "a membership test"
    if isinstance(given, Forgetting) or kind == forgetting_result.KIND:
        return "a forgetting test"
    if isinstance(given, Order) or kind == order_result.KIND:
        return "an order test"
    if isinstance(given, Verbatim) or kind == passages.KIND:
        return "a test of passages"
    if isinstance(given, Sampled) or kind == sampled.KIND:
        return "samples of a server"
    return "an audit"


def are_surveys(given: Iterable[object]) -> bool:
    """Whether all are membership tests or their files, which are compared among themselves."""
    return all(
        isinstance(one, Survey) or (isinstance(one, str | os.PathLike) and kind_of(one) in SURVEYS)
        for one in given
    )


def only_audits(results: Iterable[object]) -> None:
    """Refuse to compare anything but audits with each other."""
    given = list(results)
    subjects = ["exposures" if _exposures(one) else subject_of(one) for one in given]
    other = [(one, subject) for one, subject in zip(given, subjects, strict=True)
             if subject != "an audit"]  # fmt: skip
    for one, subject in other:
        cure = "read its own report; to compare two such results, compare the intervals of the "
        cure += "same number in both reports: where they overlap, nothing can be said"
        if len(given) == 1 and subject in ("a membership test", "a forgetting test"):
            raise InputError(
                f"this is {subject}, whose file lacks what its page is drawn from",
                cure="run the test again, with the names; or write its numbers with them into a "
                "document by --annex annex.html (in Python canary.reports.annex.write_annex)",
                where=str(one) if isinstance(one, str | os.PathLike) else "",
            )
        if len(set(subjects)) > 1:
            cure = "for results of several kinds of one model, write one document with --annex "
            cure += "annex.html (in Python canary.reports.annex.write_annex)"
        raise InputError(
            f"this is {subject}, and only audits, or only membership tests, are compared",
            cure=cure,
            where=str(one) if isinstance(one, str | os.PathLike) else "",
        )


def _exposures(given: object) -> bool:
    """Whether it is exposures, or a file of them: they are judged as audits, and not compared."""
    if isinstance(given, str | os.PathLike):
        return kind_of(given) == exposure_result.KIND
    return isinstance(given, Exposures)


def check_options(subject: Subject, given: Iterable[str]) -> None:
    """Refuse options that a result of this kind does not have, by an InputError."""
    mine = LIMITS[subject]
    if subject == "an audit":
        wrong = [name for name in given if name in _OF_OTHERS]
    else:
        wrong = [name for name in given if name not in (*mine, *_OTHERS[subject])]
    if wrong:
        cure = f"the limits of {subject} are {_named(mine)}{_ONLY.get(subject, '')}"
        if "trust_members" in _OTHERS.get(subject, ()) and _SHOWN.intersection(wrong):
            cure = "that training read what is tested is your word here: say so with trust_members"
        raise InputError(f"{_named(wrong)} cannot be asked of {subject}", cure=cure)


def _named(options: Iterable[str]) -> str:
    """Options in words, in a form that a command line recognizes as an option."""
    *first, last = (name if "_" in name else f"{name}=..." for name in options)
    return f"{', '.join(first)} and {last}" if first else last


def limit_checked(
    limit: float, sensible: Callable[[float], bool], of: str, cure: str, where: str
) -> float:
    """A limit as a number, or an `InputError` if it makes no sense."""
    if sensible(value := as_real(limit)):
        return value
    raise InputError(f"a limit of {brief(limit)} {of} makes no sense", cure=cure, where=where)


def nothing_to_check(subject: Subject, *, without: str = "") -> InputError:
    """The error where no limit is given; `without` one that this result cannot have."""
    limits = [name for name in LIMITS[subject] if name != without]
    first = " or ".join(f"{name}={_EXAMPLES[name]}" for name in limits if name in _EXAMPLES)
    rest = [name for name in limits if name not in _EXAMPLES]
    cure = f"give a limit: {first}" if first else f"give {_named(rest)}"
    if first and rest:
        cure += f"; {'the other is' if len(rest) == 1 else 'the others are'} {_named(rest)}"
    return InputError("there is nothing to check", cure=cure)
