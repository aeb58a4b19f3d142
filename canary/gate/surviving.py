"""Whether the canaries of an audit were in the training data, and what a pass owes to that."""

from __future__ import annotations

from collections.abc import Sequence

from canary.audits.audit_result import CANARY_SET, Audit
from canary.audits.combining import combined_p
from canary.corpus.verification import Verification
from canary.errors import EstimationError, InputError
from canary.gate.verdict import Verdict
from canary.records.fields import brief
from canary.statistics.numbers import clean, count, plural, probability

__all__ = ["in_training", "lost_in"]

_NOT_VERIFIED = (
    "nothing here shows that the canaries were in the training data, and without them any model "
    "passes: give --verification what canary verify --json printed of that corpus, or in Python "
    "verification what canary.verify returned"
)
_SHOWN_LEARNED = 0.05
"""With a p-value above this, the canaries with the most copies show no sign of training."""


def lost_in(verification: Verification, audits: Sequence[Audit]) -> EstimationError | None:
    """What to raise where canaries of the audits are not in the corpus as they should be.

    Raises
    ------
    InputError
        If the verification is of another canary set, or the secrets are natural.
    """
    counts = {count.id: count for count in verification.canaries}
    expected = {count.id: count.expected for count in verification.canaries}
    for audit in audits:
        if audit.natural:
            raise InputError(
                "natural secrets were found in the corpus and not injected, so no verification "
                "speaks of them",
                cure="leave the verification out",
                where="verification",
            )
        mine = {c.id: c.repetitions for c in audit.canaries}
        named = audit.settings.get(CANARY_SET)
        if named != verification.fingerprint or mine != expected:
            older = "" if named else ", and audit again: the audit is of an earlier version"
            raise InputError(
                f"{_named(verification.file, 'the verification')} is of another canary set than "
                f"{_named(audit.file, 'the audit')}, or one of the sets was edited",
                cure="verify the corpus of the training with the set that was audited "
                f"(canary verify --json){older}",
                where="verification",
            )
        lost = [counts[name] for name in mine if not counts[name].ok]
        if lost:
            first = lost[0]
            whole = "" if first.intact is None else f", {count(first.intact)} with its own tokens"
            return EstimationError(
                f"{count(len(lost))} of {plural(len(mine), 'canary', 'canaries')} did not survive "
                f"as they should: {brief(first.id)} was to stand {count(first.expected)} times "
                f"in the corpus and stood there {count(first.found)} times{whole}",
                cure="inject into a fresh corpus, keep de-duplication and filters away from it, "
                "train and audit again",
                where="verification",
            )
    return None


def _named(file: str, otherwise: str) -> str:
    return clean(file) if file else otherwise


def in_training(
    verdict: Verdict, audits: Sequence[Audit], verification: Verification | None
) -> tuple[str, ...]:
    """What a verdict must say of the training data, as notes.

    Of natural secrets there is nothing to say: they were in the corpus before anybody looked.

    Raises
    ------
    EstimationError
        If canaries did not survive, and none is memorized.
    InputError
        As `lost_in`.
    """
    lost = None if verification is None else lost_in(verification, audits)
    if lost is not None:
        if verdict.outcome != "memorized":
            raise lost
        return (
            f"{lost.problem}; the model memorized canaries all the same, so this is not the file "
            "that the training read, or it read fewer copies than the set says",
        )
    drawn = [one for one in audits if not one.natural]
    if not verdict or not drawn:
        return ()
    notes = [_NOT_VERIFIED]
    if verification is not None:
        there = [count for count in verification.canaries if count.expected]
        copies = plural(sum(count.found for count in there), "copy", "copies")
        number = plural(len(there), "canary", "canaries")
        notes = [
            f"{count(len(there))} of {number} ({copies}) are in the corpus of "
            f"{_named(verification.file, 'the verification')}; it does not show that this model "
            "was trained on that corpus, nor that the training left its text as it is (spaces "
            "between digits, masks, padding before it): ExposureMonitor looks at the batches"
        ]
    return (*notes, *next(filter(None, map(_unlearned, drawn)), ()))


def _unlearned(audit: Audit) -> tuple[str, ...]:
    """That even the canaries with the most copies look like those of another training."""
    most = max(c.repetitions for c in audit.injected)
    found = combined_p([c for c in audit.injected if c.repetitions == most])
    if found is None or found.p_value <= _SHOWN_LEARNED:
        return ()
    return (
        f"even the canaries with {plural(most, 'copy', 'copies')} do not look learned "
        f"(p = {probability(found.p_value)}), and a model that never read the corpus would look "
        "the same: to make sure, add canaries with many more copies (generate --repetitions), "
        "which a model that read them has learned",
    )
