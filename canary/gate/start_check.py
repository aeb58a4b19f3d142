"""Whether an audit priced its canaries after what stood before them in training."""

from __future__ import annotations

from canary.audits.audit_result import Audit
from canary.corpus.verification import Verification
from canary.gate.verdict import Finding

__all__ = ["context_of", "start_of"]


def start_of(audit: Audit) -> Finding | None:
    """That numbers may be too low, for another start token may be the right one.

    None where nothing speaks for another start token, or the audit is of a version that
    looked for none.
    """
    start = audit.start
    if start is None or start.settled:
        return None
    told = "what training put before each text could not be found out, so the numbers may be low"
    if start.rivals:
        worst = start.rivals[0].sentence(start.token)
        told = f"the result depends on the start token or the context: {worst}"
    return Finding("start token", "start token", "undecided", told, start.cure)


def context_of(audit: Audit, verification: Verification | None) -> Finding | None:
    """That the corpus has a text before each canary that the audit had not.

    None where the corpus was not verified, or the audit's start token and context end with
    that text.
    """
    if verification is None or not verification.follows:
        return None
    context = str(audit.settings.get("context") or "")
    token = str(audit.settings.get("start_token") or "")
    if (token + context).endswith(verification.follows):
        return None
    asked = f"after {context!r}" if context else "without a context"
    return Finding(
        "context",
        "context",
        "undecided",
        f"in the corpus {verification.follows!r} stands before the canaries, and the audit priced "
        f"them {asked}, so the numbers may be low",
        f"audit again with --context {verification.follows!r} (in Python context)",
    )
