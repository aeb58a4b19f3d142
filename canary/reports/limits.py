"""A limit and what is said of it, in words for who set it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from canary.audits.audit_result import Audit
from canary.gate.verdict import Finding, Verdict
from canary.reports.document import Text, said_in_one, sentence
from canary.reports.recovery import Recovery
from canary.reports.sentences import answer, guesses_of
from canary.statistics.numbers import copies, count, plural

LABELS = {
    "passed": "Passed: within the limit that was set",
    "memorized": "Not passed: above the limit that was set",
    "failed": "Not passed: not within the limit that was set",
    "undecided": "Undecided: not enough data to decide",
}
"""The label of a report, by the outcome of its verdict."""


def limit_bits(verdict: Verdict) -> float | None:
    """The limit on exposure that a verdict is about, if there is one."""
    return next((f.limit for f in verdict.findings if f.check == "exposure"), None)


def limit_words(verdict: Verdict) -> str:
    """Which limits were set, each once."""
    size = _one_size(verdict)
    limits = dict.fromkeys((f.check, f.limit) for f in verdict.findings)
    words = []
    for check, limit in limits:
        if check in _CHECKS:
            least = count(asked_guesses(size, limit)) if size and check == "exposure" else ""
            shown = "" if limit is None else f"{limit:g}"
            words.append(
                sentence(f"limit.{check}", limit=shown, one=least, guesses=least, size=count(size))
            )
    rest = f"; not for secrets that appeared {_times(verdict)}" if verdict.left_out else ""
    return "; ".join(words) + rest


def _times(verdict: Verdict) -> str:
    """``4 or 16 times``: the numbers of copies that no limit was asked for."""
    *others, last = map(copies, verdict.left_out)
    return " or ".join([*(other.removesuffix(" times") for other in others), last])


def actions_before(verdict: Verdict) -> list[Text]:
    """What to do first where a pass rests on something that was not shown."""
    if verdict.outcome != "passed" or not verdict.rests_on:
        return []
    return [said_in_one("limit.injection.action", **{verdict.rests_on: True})]


def asked_guesses(size: int, limit: float | None) -> int:
    """The fewest guesses that a limit in bits allows."""
    return math.ceil(size * math.exp2(-(limit or 0.0)))


def judged(verdict: Verdict) -> Iterator[Text]:
    """The outcome in a sentence, and another on the evidence where that says more."""
    reason, size = verdict.reason, _one_size(verdict)
    end = reason.lower if verdict.outcome == "memorized" else reason.upper
    counted = reason.check == "exposure" and size and end is not None
    largest = "largest" in reason.subject
    group = reason.subject.replace("canaries ", "secret ", 1)
    yield said_in_one(
        f"limit.{verdict.outcome}",
        counted=counted,
        which="secret that is easiest to find" if largest else f"typical {group}",
        guesses=_guesses(reason, size, memorized=verdict.outcome == "memorized") if counted else "",
        asked=count(asked_guesses(size, reason.limit)) if counted else "",
        reason=reason.sentence,
    )
    if verdict.outcome == "passed" and verdict.rests_on:
        yield said_in_one("limit.injection", **{verdict.rests_on: True})
    if verdict.left_out:
        there = [c for a in verdict.audits for c in a.injected if c.repetitions in verdict.left_out]
        known = Recovery(there)
        number = f"{count(len(known.sure))} of {count(len(there))}"
        found_of = f"{number} {'was' if len(known.sure) == 1 else 'were'}" if known.sure else ""
        yield said_in_one("limit.left_out", copies=_times(verdict), found=found_of)
    for audit in verdict.audits:
        found = answer(audit)
        if found.verdict == "memorized" and verdict.outcome == "passed":
            above = 0 if largest else _above(audit, verdict)
            yield said_in_one("limit.within", above=above, number=above)
        elif verdict.outcome != "undecided" or found.verdict in ("memorized", "suspect"):
            yield found.sentence


def _guesses(reason: Finding, size: int, *, memorized: bool) -> str:
    """The guesses at an exposure: its estimate, and the end of its interval that decides."""
    end = reason.lower if memorized else reason.upper
    certain = guesses_of(math.log2(size) - (end or 0.0))
    words = f"{'at most' if memorized else 'at least'} {plural(certain, 'guess', 'guesses')}"
    if reason.value is None or (known := guesses_of(math.log2(size) - reason.value)) == certain:
        return words
    where = words.removesuffix(" guesses").removesuffix(" guess")
    if reason.confidence not in (None, 1.0):
        where = f"{100 * (reason.confidence or 0):g} % sure that it is {where}"
    return f"about {plural(known, 'guess', 'guesses')} ({where})"


def _above(audit: Audit, verdict: Verdict) -> int:
    """How many injected canaries a limit on medians leaves above it, by their estimates."""
    limit = limit_bits(verdict)
    if limit is None:
        return 0
    found = [c.exposure for c in audit.injected if c.repetitions not in verdict.left_out]
    return sum((e.lower_bits if e.bits is None else e.bits) > limit for e in found)


_CHECKS = ("exposure", "p-value", "extraction", "baseline", "epsilon")
"""What somebody sets a limit for; other checks are of the audit itself."""


def _one_size(verdict: Verdict) -> int:
    """The number of possible secrets, if all formats have the same; else 0."""
    sizes = {priced.space_size for audit in verdict.audits for priced in audit.formats}
    return sizes.pop() if len(sizes) == 1 else 0
