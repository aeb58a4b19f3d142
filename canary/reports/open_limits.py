"""Why a limit is open although there is data: something is wrong with the test."""

from __future__ import annotations

from canary.gate.attacks_written import Attacks
from canary.gate.verdict import Finding, Verdict
from canary.passages.sampled import Sampled


def doubted(reason: Finding, verdict: Verdict) -> str:
    """What is wrong with a test and leaves its limit open, in a few words; empty if nothing is."""
    tested = verdict.tested
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
