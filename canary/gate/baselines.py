"""Exposures to compare with: what is kept of audits in a user's repository.

A baseline holds ordinal ids and exposures, no secret and no digest of one. Yet an exposure is a
rank, and whoever also has the model finds a secret by its rank: treat it like the model.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from canary.audits.audit_result import Audit
from canary.audits.designs import Design, Space
from canary.errors import InputError, RecordError
from canary.gate.verdict import Standing
from canary.records.document import dump_document, load_document
from canary.records.fields import from_fields, list_field

__all__ = ["Baseline", "Measured"]

KIND = "canary baseline"
SCHEMA = 1

_DIGITS = 4


@dataclass(frozen=True)
class Measured:
    """What is kept of one audit.

    Parameters
    ----------
    model : dict
        Its name and fingerprint.
    design : Design
    canaries : tuple of (int, Standing)
        The injected ones in the order of the set, each behind the place of its format.
    """

    model: Mapping[str, str]
    design: Design
    canaries: tuple[tuple[int, Standing], ...]

    @classmethod
    def of(cls, audit: Audit) -> Measured:
        """What is kept of this audit."""
        return cls(
            model={key: str(audit.model.get(key, "")) for key in ("name", "fingerprint")},
            design=Design.of(audit),
            canaries=tuple((c.format, _rounded(Standing.of(c))) for c in audit.injected),
        )

    def only(self, repetitions: Sequence[int]) -> Measured:
        """The same without the canaries that have other numbers of copies; controls stay."""
        kept = {0, *repetitions}
        sizes = {key: n for key, n in self.design.sizes.items() if key[1] in kept}
        return replace(
            self,
            design=replace(self.design, sizes=sizes),
            canaries=tuple(c for c in self.canaries if c[1].repetitions in kept),
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        design = self.design
        return {
            "model": dict(self.model),
            "formats": [asdict(space) for space in design.spaces],
            "context": design.context,
            "natural": design.natural,
            "canaries_in_corpus": design.canaries_in_corpus,
            "controls": [design.sizes.get((at, 0), 0) for at in range(len(design.spaces))],
            "canaries": [{"format": at, **asdict(c)} for at, c in self.canaries],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measured:
        """The inverse of `to_dict`; a KeyError, TypeError or ValueError says what is wrong."""
        spaces = tuple(from_fields(Space, space) for space in data["formats"])
        canaries = []
        for entry in data["canaries"]:
            at = entry["format"]
            if not isinstance(at, int) or not 0 <= at < len(spaces):
                raise ValueError("a canary names a format that is not there")
            found = from_fields(Standing, {k: v for k, v in entry.items() if k != "format"})
            middle = found.lower_bits if found.bits is None else found.bits
            if not found.lower_bits <= middle <= found.upper_bits or found.repetitions < 1:
                raise ValueError(f"{found.id} has an exposure that cannot be")
            canaries.append((at, found))
        if not canaries:
            raise ValueError("it has no canary")
        flags = (data["natural"], data["canaries_in_corpus"])
        if not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("natural and canaries_in_corpus must be true or false")
        controls = data["controls"]
        if len(controls) != len(spaces) or not all(isinstance(n, int) for n in controls):
            raise ValueError("controls are not one number for each format")
        sizes = Counter((at, c.repetitions) for at, c in canaries)
        sizes.update({(at, 0): n for at, n in enumerate(controls) if n})
        return cls(
            model={str(key): str(value) for key, value in data["model"].items()},
            design=Design(spaces, sizes, str(data["context"]), *flags),
            canaries=tuple(canaries),
        )


@dataclass(frozen=True)
class Baseline:
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON, atomically; the same audits give the same bytes."""
        body = {"audits": [a.to_dict() for a in self.audits]}
        dump_document(path, KIND, SCHEMA, body, private=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Baseline:
        """Read a baseline that `save` wrote.

        Raises
        ------
        RecordError
            If the file is missing, damaged, of another kind or of a newer schema.
        """
        where = str(Path(path))
        if not Path(path).exists():
            raise RecordError(
                "there is no baseline yet",
                cure="make one with canary check AUDIT --baseline FILE --update-baseline, and "
                "keep it in your repository",
                where=where,
            )
        document = load_document(path, KIND, SCHEMA)
        try:
            entries = list_field(document["audits"], "audits")
            if not entries:
                raise ValueError("it holds no audit")
            return cls(tuple(Measured.from_dict(entry) for entry in entries))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(
                f"is not a whole baseline ({type(error).__name__}: {error})",
                cure="restore it, or write it again (--update-baseline, or --canary-update under "
                "pytest)",
                where=where,
            ) from error


def _rounded(c: Standing) -> Standing:
    bits = None if c.bits is None else round(c.bits, _DIGITS)
    return Standing(
        c.id, c.repetitions, bits, round(c.lower_bits, _DIGITS), round(c.upper_bits, _DIGITS)
    )
