"""What the report of an audit calls what was tested."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from canary.records.record import Record


@dataclass(frozen=True)
class About(Record):
    """What was tested, in the words of the auditor: shown in reports, and used for nothing else.

    Parameters
    ----------
    model, corpus, auditor : str
        Names; empty where nobody gave one.
    date : str
        Of the audit, ``YYYY-MM-DD``; empty in audits of earlier versions.
    """

    model: str = ""
    corpus: str = ""
    auditor: str = ""
    date: str = ""

    @classmethod
    def today(cls) -> About:
        """Of an audit that is made now."""
        return cls(date=datetime.now().astimezone().date().isoformat())
