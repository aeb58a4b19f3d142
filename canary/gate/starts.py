"""Whether an audit priced its canaries after the start token of the training."""

from __future__ import annotations

from canary.audits.result import Audit
from canary.gate.verdict import Finding

__all__ = ["start_of"]


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
