"""How an audit is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canary.errors import InputError
from canary.records.versions import versions
from canary.statistics.result import ENUMERATION, RANK, SKEW_NORMAL

__all__ = ["EXPOSURE_METHODS", "METHODS", "Settings"]

METHODS = ("auto", RANK, ENUMERATION, "sampling", "importance")
"""Those that give p-values, and so serve an audit."""

EXPOSURE_METHODS = (*METHODS, SKEW_NORMAL)


@dataclass(frozen=True)
class Settings:
    """How an audit was asked for."""

    method: str
    budget: int
    draws: int
    seed: int
    start_token: str | None
    context: str
    batch_size: int | None

    def __post_init__(self) -> None:
        if self.method not in EXPOSURE_METHODS:
            raise InputError(
                f"unknown method {self.method!r}", cure=f"use one of {', '.join(EXPOSURE_METHODS)}"
            )
        for name in ("budget", "draws"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name}={getattr(self, name)}, at least 1 was expected",
                    cure=f"give a larger {name}",
                )
        if self.seed < 0:
            raise InputError(f"seed={self.seed} is negative", cure="give a seed of 0 or more")

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, with the versions of what computed."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**shown, "versions": versions()}
