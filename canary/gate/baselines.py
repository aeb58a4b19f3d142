"""Exposures to compare with: what is kept of audits in a user's repository.

A baseline holds ordinal ids and exposures, no secret and no digest of one. Yet an exposure is a
rank, and with the model it gives the secret away: treat a baseline like the model.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from canary.audits.audit_result import Audit
from canary.audits.designs import Design, Space
from canary.errors import InputError, RecordError
from canary.gate.verdict import Standing
from canary.records.record import Document, Record
from canary.records.validation import brief, file_path
from canary.statistics.pvalues import fisher

KIND = "canary baseline"

_DIGITS = 4
_LEAST_P = 1e-300


@dataclass(frozen=True)
class Kept(Standing, Record, written=("format", ...)):
    """An injected canary, with the place of its format."""

    format: int

    @property
    def middle_bits(self) -> float:
        """The estimate, or what it is at least."""
        return self.lower_bits if self.bits is None else self.bits

    @property
    def most_bits(self) -> float:
        """The estimate, or what it is at most."""
        return self.upper_bits if self.bits is None else self.bits

    def _check(self) -> None:
        if not self.lower_bits <= self.middle_bits <= self.upper_bits or self.repetitions < 1:
            raise ValueError(f"{brief(self.id)} has an exposure that cannot be")


@dataclass(frozen=True)
class Measured(Record):
    """What is kept of one audit; see `Design`."""

    model: Mapping[str, str]  # its name and fingerprint
    formats: tuple[Space, ...]
    context: str
    natural: bool
    canaries_in_corpus: bool
    controls: tuple[int, ...]  # how many each format has
    canaries: tuple[Kept, ...]  # the injected ones in the order of the set
    start_token: str = ""

    @classmethod
    def of(cls, audit: Audit) -> Measured:
        """What is kept of this audit."""
        design = Design.of(audit)
        return cls(
            model={key: str(audit.model.get(key, "")) for key in ("name", "fingerprint")},
            formats=design.spaces,
            context=design.context,
            natural=design.natural,
            canaries_in_corpus=design.canaries_in_corpus,
            controls=tuple(design.sizes.get((at, 0), 0) for at in range(len(design.spaces))),
            canaries=tuple(
                Kept(
                    *(c.id, c.repetitions),
                    None if c.exposure.bits is None else round(c.exposure.bits, _DIGITS),
                    round(c.exposure.lower_bits, _DIGITS),
                    round(c.exposure.upper_bits, _DIGITS),
                    c.format,
                )
                for c in audit.injected
            ),
            start_token=design.start_token,
        )

    @cached_property
    def design(self) -> Design:
        """How the audit was made."""
        sizes = Counter((c.format, c.repetitions) for c in self.canaries)
        sizes.update({(at, 0): n for at, n in enumerate(self.controls) if n})
        fields = (self.context, self.natural, self.canaries_in_corpus, self.start_token)
        return Design(self.formats, sizes, *fields)

    @property
    def most_copies_p(self) -> float:
        """Fisher's p-value of the canaries with the most copies, at most: of their lower ends."""
        most = max(c.repetitions for c in self.canaries)
        draws = min((space.draws for space in self.formats if space.draws), default=None)
        least = [
            min(max(2.0**-c.lower_bits, _LEAST_P), 1.0)
            for c in self.canaries
            if c.repetitions == most
        ]
        return fisher(least, shared_draws=draws).p_value

    def _check(self) -> None:
        if not self.canaries:
            raise ValueError("it has no canary")
        if not all(0 <= c.format < len(self.formats) for c in self.canaries):
            raise ValueError("a canary names a format that is not there")
        if len(self.controls) != len(self.formats):
            raise ValueError("controls are not one number for each format")


@dataclass(frozen=True)
class Baseline(
    Document,
    kind=KIND,
    schema=2,
    cure="restore it, or write it again (--update-baseline, or --canary-update under pytest)",
):
    """Audits that later ones are compared with.

    Parameters
    ----------
    audits : tuple of Measured
        One of a model, or one for each seed of a way of training.
    """

    audits: tuple[Measured, ...]

    @classmethod
    def of(cls, audits: Audit | Sequence[Audit]) -> Baseline:
        """The baseline that these audits make.

        Raises
        ------
        InputError
            If there is none, or one has no injected canary.
        """
        given = (audits,) if isinstance(audits, Audit) else tuple(audits)
        if not given:
            raise InputError("there is no audit", cure="give at least one", where="baseline")
        if not all(audit.injected for audit in given):
            raise InputError(
                "an audit without injected canaries makes no baseline",
                cure="inject canaries, train and audit again",
                where="baseline",
            )
        return cls(tuple(Measured.of(audit) for audit in given))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Baseline:
        """Read a baseline that `save` wrote.

        Raises
        ------
        RecordError
            If the file is missing, damaged, of another kind or of a newer schema.
        """
        if not Path(path).exists():
            raise RecordError(
                "there is no baseline yet",
                cure="make one with canary check AUDIT --baseline FILE --update-baseline, and "
                "keep it in your repository",
                where=str(path),
            )
        return super().load(path)

    def _check(self) -> None:
        if not self.audits:
            raise ValueError("it holds no audit")


def baseline_in(given: Baseline | str | os.PathLike[str]) -> Baseline:
    """A baseline, or that in a file."""
    if isinstance(given, Baseline):
        return given
    cure = "give audits, the file of a baseline, or what Baseline.load returned"
    return Baseline.load(file_path(given, "baseline", cure=cure))
