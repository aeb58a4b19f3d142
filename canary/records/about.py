"""What reports call what was tested, and when and by whom it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from canary.records.record import Record

_DIGITS = 12  # of a fingerprint, which are enough to know one's own models by


@dataclass(frozen=True)
class About(Record):
    """What was tested, in the words of the auditor: shown in reports, and used for nothing else.

    Parameters
    ----------
    model, corpus, auditor : str
        Names; empty where nobody gave one.
    date : str
        Of the test, ``YYYY-MM-DD``; empty in results of earlier versions.
    """

    model: str = ""
    corpus: str = ""
    auditor: str = ""
    date: str = ""

    @classmethod
    def today(cls) -> About:
        """Of a test that is made now."""
        return cls(date=datetime.now().astimezone().date().isoformat())


class Named:
    """A frozen dataclass with a field `about`, whose names can be given anew."""

    about: About

    def named(
        self,
        *,
        model_name: str | None = None,
        corpus_name: str | None = None,
        auditor: str | None = None,
    ) -> Self:
        """The same result with other names in its reports; those that are None stay."""
        given = {"model": model_name, "corpus": corpus_name, "auditor": auditor}
        names = {name: value for name, value in given.items() if value is not None}
        result: Any = self
        renamed: Self = replace(result, about=replace(self.about, **names))
        return renamed

    @property
    def model_name(self) -> str:
        """What the model is called: as the auditor did, else as the model itself is."""
        facts = getattr(self, "model", None) or {}
        return self.about.model or str(facts.get("name") or "")

    @property
    def model_version(self) -> str:
        """The first digits of the fingerprint of its weights, where that is known.

        Nobody sees the weights of a served model: its fingerprint is one of answers.
        """
        facts = getattr(self, "model", None) or {}
        if facts.get("device") == "served":
            return ""
        return str(facts.get("fingerprint") or "")[:_DIGITS]
