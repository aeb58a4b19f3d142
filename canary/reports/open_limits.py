"""Why a limit is open although there is data, and what a pass of a limit leaves open."""

from __future__ import annotations

from typing import Any

from canary.audits.audit_setup import with_control
from canary.gate.attacks_written import Attacks
from canary.gate.extraction_limit import NOT_DRAWN
from canary.gate.verdict import Finding, Verdict
from canary.passages.sampled import Sampled
from canary.reports.sentences import RECOVERED_SHARE, answer
from canary.statistics.numbers import plural

LIMITED = ("exposure", "p-value", "extraction", "baseline", "epsilon")
"""What somebody sets a limit for; other checks are of the audit itself."""


def only_limit(verdict: Verdict) -> str:
    """``baseline`` or ``extraction``, where audits had no other limit; else empty.

    Neither says how much may be memorized.
    """
    asked = {f.check for f in verdict.findings if f.check in LIMITED} if verdict.audits else set()
    alone = asked and asked <= {"baseline", "extraction"}
    return ("baseline" if "baseline" in asked else "extraction") if alone else ""


def memorized_within(verdict: Verdict) -> dict[str, Any]:
    """The words ``but``, ``regression`` and ``tried`` of a pass that says little.

    The first is also what a pass of the answers of a server is of. Of an audit, they are empty if
    none memorized secrets, besides the positive control, or if the search tried as many guesses as
    a page of an audit counts.
    """
    kind, audits = only_limit(verdict), [with_control(a, verdict.control) for a in verdict.audits]
    if verdict.outcome != "passed" or all(answer(a).verdict != "memorized" for a in audits):
        kind = ""
    searches = [some for audit in audits for some in audit.extractions]
    fewest = min(searches, key=lambda some: len(some.candidates) / some.space_size, default=None)
    tried = 0 if kind != "extraction" or fewest is None else len(fewest.candidates)
    if fewest is not None and tried * RECOVERED_SHARE >= fewest.space_size:
        tried = 0
    number = f"first {plural(tried, 'guess', 'guesses').removeprefix('1 ')}"
    were, regression = "was" if tried == 1 else "were", kind == "baseline"
    but = f"Passed, but only the {number} {were} tried" if tried else ""
    if regression:
        but = "Passed against the baseline, but the model memorized planted secrets"
    if verdict.outcome == "passed" and isinstance(verdict.tested, Sampled):
        but = "Passed, but only what the server wrote was tested"
    return {"but": but, "regression": regression, "tried": tried and number}


def passed_words(verdict: Verdict) -> dict[str, Any]:
    """What a pass is of, for the words below ``limit.passed``."""
    kind, within = only_limit(verdict), memorized_within(verdict)
    rest = not kind and bool(verdict.left_out)
    named = {"baseline": kind == "baseline", "rest": rest, "all": not (kind or rest)}
    return {**named, "searched": kind == "extraction", **within}


def doubted(reason: Finding, verdict: Verdict) -> str:
    """What is wrong with a test and leaves its limit open, in a few words; empty if nothing is."""
    tested = verdict.tested
    if NOT_DRAWN in reason.sentence:
        return "the secrets were not drawn at random"
    if isinstance(tested, Attacks) and reason.check == "membership":
        if tested.warning:
            return "the words alone distinguish the two files, without the model"
        if tested.outcome == "void":
            return "the test is void, and more data of this kind changes nothing"
        return "something looks wrong with the input" if tested.doubts else ""
    if isinstance(tested, Sampled):
        doubts = tested.doubts(reason.limit or 1.0)
        if any(problem in reason.sentence for problem, _ in doubts):
            return "something may hide what the model writes"
    return ""
