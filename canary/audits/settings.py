"""How an audit is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canary.records.validation import check_running, one_of, whole_number
from canary.records.versions import versions
from canary.statistics.exposure_result import ENUMERATION, RANK, SKEW_NORMAL

__all__ = ["EXPOSURE_METHODS", "METHODS", "Settings"]

METHODS = ("auto", RANK, ENUMERATION, "sampling", "importance")
"""Those that give p-values, and so serve an audit."""

EXPOSURE_METHODS = (*METHODS, SKEW_NORMAL)


@dataclass(frozen=True)
class Settings:
    """How an audit was asked for; numbers are kept as plain ints.

    Raises
    ------
    InputError
        If one does not serve.
    """

    method: str
    budget: int
    draws: int
    seed: int
    start_token: str | None
    context: str
    batch_size: int | None

    def __post_init__(self) -> None:
        one_of(self.method, "method", EXPOSURE_METHODS)
        for name, least in (("budget", 1), ("draws", 1), ("seed", 0)):
            value = whole_number(getattr(self, name), name, at_least=least, below=None)
            object.__setattr__(self, name, value)
        size = check_running(
            start_token=self.start_token, context=self.context, batch_size=self.batch_size
        )
        object.__setattr__(self, "batch_size", size)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, with the versions of what computed."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**shown, "versions": versions()}
