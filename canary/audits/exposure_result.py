"""What measuring exposure returns, without the tests of an audit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from canary.audits.audit_result import (
    Audit,
    CanaryResult,
    FormatResult,
    canary_rows,
    combined_p,
)
from canary.audits.group_medians import (
    MEDIAN_CONFIDENCE,
    group_lines,
    group_rows,
    interval_metrics,
)
from canary.errors import InputError
from canary.records.about import About, Named
from canary.records.record import Document
from canary.records.versioned_json import kind_of
from canary.scoring.start_notes import StartChoice
from canary.statistics.numbers import Shown, count, plural

KIND, SCHEMA = "canary exposure", 1

_FEW = 1_000  # draws, of which a tail says little
_BEYOND = (
    "{} of {} are more likely than every draw. There the curve is a guess, and nothing bounds how "
    "far it is off"
)


def beyond_draws(canaries: Sequence[CanaryResult]) -> Iterator[str]:
    """A note, where a skew-normal curve has exposures of canaries beyond all draws."""
    drawn = [n for c in canaries if c.exposure.unbounded and (n := c.exposure.draws)]
    if drawn and min(drawn) < _FEW:
        yield f"the curve was fitted to {count(min(drawn))} draws only: take {count(_FEW)} or more"
    if beyond := sum(c.exposure.unbounded and c.exposure.hits == 0 for c in canaries):
        yield _BEYOND.format(beyond, plural(len(canaries), "canary", "canaries"))


@dataclass(frozen=True, repr=False)
class Exposures(
    Named,
    Shown,
    Document,
    Sequence[CanaryResult],
    kind=KIND,
    schema=SCHEMA,
    cure="run canary exposure again",
):
    """The exposure of each canary: a sequence of `CanaryResult`, in the order of the set.

    Parameters
    ----------
    canaries : tuple of CanaryResult
    notes : tuple of str
        What the reader of the numbers must know before them.
    formats : tuple of FormatResult
        As in `Audit`, and so are the others; empty in files of earlier versions.
    model, settings : dict
    start : StartChoice or None
    about : About
    file : str
    """

    canaries: tuple[CanaryResult, ...]
    notes: tuple[str, ...] = ()
    formats: tuple[FormatResult, ...] = ()
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: StartChoice | None = None
    about: About = field(default_factory=About, compare=False)
    file: str = field(default="", compare=False)

    @overload
    def __getitem__(self, at: int) -> CanaryResult: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[CanaryResult, ...]: ...
    def __getitem__(self, at: int | slice) -> CanaryResult | tuple[CanaryResult, ...]:
        return self.canaries[at]

    def __len__(self) -> int:
        return len(self.canaries)

    def __repr__(self) -> str:
        return f"<Exposures of {plural(len(self), 'canary', 'canaries')}>"

    def as_audit(self) -> Audit:
        """The audit with these exposures, for the gate.

        Raises
        ------
        InputError
            If nothing bounds the exposures, or an earlier version wrote them.
        """
        if any(c.exposure.unbounded for c in self):
            raise InputError(
                "skew-normal exposures are estimates that nothing bounds, so no limit can be asked",
                cure="measure with another --method (in Python method)",
                where=self.file,
            )
        if not self.formats:
            raise InputError(
                "an earlier version wrote these exposures, without their formats",
                cure="run canary exposure again",
                where=self.file,
            )
        natural = any(c.natural for c in self)
        return Audit(
            canaries=self.canaries,
            formats=self.formats,
            injected_p=None if natural else combined_p([c for c in self if not c.control]),
            controls_p=combined_p([c for c in self if c.control]),
            model=self.model,
            settings=self.settings,
            start=self.start,
            about=self.about,
            file=self.file,
        )

    def groups(self, *, confidence: float = MEDIAN_CONFIDENCE) -> Any:
        """The median exposure by number of copies, as `canary.Audit.groups` gives it."""
        import pandas as pd

        return pd.DataFrame(group_rows(self, confidence=confidence))

    def summary(self) -> str:
        """A line for each number of copies, the methods, notes."""
        lines = [*group_lines(self)]
        methods = dict.fromkeys(c.exposure.method for c in self)
        lines.append(("method", ", ".join(methods)))
        lines += [("note", note) for note in self.notes]
        return "\n".join(f"{name:>12}: {what}" for name, what in lines)

    def _table(self) -> list[dict[str, Any]]:
        return canary_rows(self)

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield from interval_metrics(self)

    def _check(self) -> None:
        if self.formats and any(not 0 <= c.format < len(self.formats) for c in self):
            raise ValueError("a canary names a format that is not there")


def audit_of(given: Exposures | str | os.PathLike[str]) -> Audit:
    """The audit in a file, or that which exposures make."""
    if not isinstance(given, Exposures):
        if kind_of(given) != KIND:
            return Audit.load(given)
        given = Exposures.load(given)
    return given.as_audit()
