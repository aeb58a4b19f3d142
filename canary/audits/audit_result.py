"""What an audit returns, and how it is kept.

An audit holds ordinal canary ids and no secret in clear, nor a digest of one but under a key
that only the canary set holds. Yet whoever
also has the model finds the secrets: a rank or a log-perplexity names its candidate to
anyone who prices all of them. An audit is to be kept like the model.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from canary.audits.extraction import Extraction
from canary.audits.start_notes import StartChoice
from canary.corpus.consistency import MAX_COPIES
from canary.errors import RecordError
from canary.records.document import dump_document, load_document
from canary.records.fields import brief, from_fields
from canary.statistics.combined import CombinedP
from canary.statistics.exposure_result import SKEW_NORMAL, Exposure
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram

__all__ = [
    "CANARY_SET",
    "Audit",
    "CanaryResult",
    "FormatResult",
    "largest_bits",
    "median_bits",
    "noted",
    "smallest_bits",
]

KIND = "canary audit"
SCHEMA = 1

CANARY_SET = "canary_set"
"""The setting that says which canaries were audited (`CanarySet.fingerprint`)."""

_NONE_INJECTED = (
    "none of the set's canaries was injected, so nothing here says what the model memorized: audit "
    "with a set that has canaries"
)


@dataclass(frozen=True)
class CanaryResult:
    """One canary under the audited model.

    Parameters
    ----------
    id : str
        Ordinal id, the same as in the canary set.
    format : int
        Position of its format in `Audit.formats`.
    repetitions : int
        Copies that were injected; 0 is a control.
    px_bits : float
        Log-perplexity of the whole candidate, total, in bits.
    context_bits : float or None
        The part of it that comes before the fill; None if the tokenizer cannot tell
        which characters a token stands for.
    exposure : Exposure
    skew_normal : Exposure or None
        The paper's estimate, off a curve fitted to uniform draws; it stands beside and
        enters no p-value. None where no curve could be fitted.
    natural : bool
        Whether it is a natural secret: found, not drawn. Then `Exposure.p_value`, which
        is right for fills that are drawn uniformly, says nothing.
    """

    id: str
    format: int
    repetitions: int
    px_bits: float
    context_bits: float | None
    exposure: Exposure
    skew_normal: Exposure | None
    natural: bool = False

    @property
    def control(self) -> bool:
        """Whether the canary was never injected."""
        return self.repetitions == 0

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            **vars(self),
            "exposure": self.exposure.to_dict(),
            "skew_normal": self.skew_normal and self.skew_normal.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CanaryResult:
        """The inverse of `to_dict`; a KeyError, TypeError or ValueError says what does not fit."""
        beside = data["skew_normal"]
        found = from_fields(
            cls,
            {
                **data,
                "exposure": Exposure.from_dict(data["exposure"]),
                "skew_normal": None if beside is None else Exposure.from_dict(beside),
            },
        )
        if found.skew_normal is not None and found.skew_normal.method != SKEW_NORMAL:
            raise ValueError(f"skew_normal of {found.id} has method {found.skew_normal.method!r}")
        return found


@dataclass(frozen=True)
class FormatResult:
    """One format of an audit: against which candidates its canaries were ranked.

    Parameters
    ----------
    format : str
        The format's text, holes as ``{kind:count}``.
    masked : str
        A candidate with its fill hidden, for showing.
    space_size : int
        Exact number of candidates.
    method : str
        One of those of `Exposure`, but for `SKEW_NORMAL`.
    reason : str
        Why this method, in a sentence.
    histogram : Histogram
        Log-perplexities of the enumerated or else the drawn candidates, in bits.
    skew_normal : SkewNormalFit or None
        The curve fitted to uniform draws; None if none could be: fewer than 40 draws, all
        of one log-perplexity, or an impossible one.
    candidates : int
        Number of candidates that were priced.
    draws : int or None
        Those among them that were drawn uniformly; None where all were enumerated.
    queries : int
        Tokens computed below the context.
    tokens : int
        Tokens of the longest candidate, context included; of the longest one seen where no
        tree was used.
    noise_bits : float
        Costs closer than this count as ties of unknown order.
    certificate : str or None
        How it is known that the token tree holds every candidate once; None where no
        tree was used.
    seconds : float
        Wall-clock time that it took.
    notes : tuple of str
        What the reader of the numbers must know: a missing start token, coarse
        arithmetic, a tokenizer that saw the canaries.
    """

    format: str
    masked: str
    space_size: int
    method: str
    reason: str
    histogram: Histogram
    skew_normal: SkewNormalFit | None
    candidates: int
    draws: int | None
    queries: int
    tokens: int
    noise_bits: float
    certificate: str | None
    seconds: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            **vars(self),
            "histogram": self.histogram.to_dict(),
            "skew_normal": self.skew_normal and self.skew_normal.to_dict(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FormatResult:
        """The inverse of `to_dict`; a KeyError, TypeError or ValueError says what does not fit."""
        curve = data["skew_normal"]
        return from_fields(
            cls,
            {
                **data,
                "histogram": Histogram.from_dict(data["histogram"]),
                "skew_normal": None if curve is None else SkewNormalFit.from_dict(curve),
                "notes": _texts(data["notes"]),
            },
        )


@dataclass(frozen=True)
class Audit:
    """Exposure of every canary of a set under one model.

    Parameters
    ----------
    canaries : tuple of CanaryResult
        In the order of the canary set.
    formats : tuple of FormatResult
        In the order of the canary set.
    injected_p, controls_p : CombinedP or None
        Fisher's p-value over the injected canaries and over the controls; None if there
        are none, and for natural secrets.
    model : dict
        The model's facts.
    settings : dict
        What is needed to run it again: method, budget, draws, seed, start token,
        context, canary version; and which canary set it was (`CANARY_SET`).
    extractions : tuple of Extraction
        The likeliest candidates of the formats, without their fills.
    start : StartChoice or None
        What stands before each candidate, and why; None in audits of earlier versions.
    file : str
        The file that it was read from.
    """

    canaries: tuple[CanaryResult, ...]
    formats: tuple[FormatResult, ...]
    injected_p: CombinedP | None
    controls_p: CombinedP | None
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    extractions: tuple[Extraction, ...] = ()
    start: StartChoice | None = None
    file: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"<Audit of {len(self.injected)} canaries and {len(self.controls)} controls>"

    @property
    def injected(self) -> tuple[CanaryResult, ...]:
        """The canaries that were put into the corpus."""
        return tuple(c for c in self.canaries if not c.control)

    @property
    def controls(self) -> tuple[CanaryResult, ...]:
        """The canaries that never were."""
        return tuple(c for c in self.canaries if c.control)

    @property
    def canaries_in_corpus(self) -> bool:
        """False if the canaries were left out on purpose, whatever copies were planned."""
        return self.settings.get("canaries_in_corpus") is not False

    @property
    def natural(self) -> bool:
        """Whether it is about natural secrets, which have no p-value."""
        return any(c.natural for c in self.canaries)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers must know before them, each said once."""
        of_start = () if self.start is None else self.start.notes
        none = () if self.injected else (_NONE_INJECTED,)
        return (*none, *of_start, *noted(self.formats))

    def by_repetitions(self) -> dict[int, tuple[CanaryResult, ...]]:
        """The canaries grouped by number of copies, ascending; 0 holds the controls."""
        groups = sorted({c.repetitions for c in self.canaries})
        return {n: tuple(c for c in self.canaries if c.repetitions == n) for n in groups}

    def summary(self) -> str:
        """A few lines for a terminal: one per repetition count, p-values, methods, notes."""
        planned = "" if self.canaries_in_corpus else " planned"
        lines = []
        for repetitions, group in self.by_repetitions().items():
            copies = "copy" if repetitions == 1 else "copies"
            name = "controls" if repetitions == 0 else f"{repetitions} {copies}{planned}"
            canaries = "canary" if len(group) == 1 else "canaries"
            median, bound = median_bits([c.exposure for c in group])
            at_least = "at least " if bound else ""
            lines.append(
                f"{name:>12}: {len(group)} {canaries}, median {at_least}{median:z.2f} bits"
            )
        injected = "injected" if self.canaries_in_corpus else "not injected"
        for name, combined in ((injected, self.injected_p), ("controls", self.controls_p)):
            if combined is not None:
                lines.append(f"{name:>12}: p = {combined.p_value:.2g} (Fisher)")
        for number, priced in enumerate(self.formats, 1):
            name = "method" if len(self.formats) == 1 else f"format {number}"
            lines.append(f"{name:>12}: {priced.method} ({priced.reason})")
        if self.natural:
            lines.append(f"{'found':>12}: no p-value, since they were not drawn at random")
        lines += [f"{'note':>12}: {note}" for note in self.notes]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, the body of `audit.json`."""
        return {
            "canaries": [c.to_dict() for c in self.canaries],
            "formats": [f.to_dict() for f in self.formats],
            "injected_p": self.injected_p and self.injected_p.to_dict(),
            "controls_p": self.controls_p and self.controls_p.to_dict(),
            "model": dict(self.model),
            "settings": dict(self.settings),
            "extractions": [e.hidden().to_dict() for e in self.extractions],
            "start": self.start and self.start.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Audit:
        """The inverse of `to_dict`.

        Raises
        ------
        RecordError
            If a field is missing or of another type, or parts do not fit together.
        """
        try:
            audit = cls(
                canaries=tuple(CanaryResult.from_dict(c) for c in data["canaries"]),
                formats=tuple(FormatResult.from_dict(f) for f in data["formats"]),
                injected_p=_combined(data["injected_p"]),
                controls_p=_combined(data["controls_p"]),
                model=dict(data["model"]),
                settings=dict(data["settings"]),
                # Audits of earlier versions have none.
                extractions=tuple(Extraction.from_dict(e) for e in data.get("extractions", ())),
                start=None
                if (start := data.get("start")) is None
                else StartChoice.from_dict(start),
            )
            if not audit.canaries:
                raise ValueError("it has no canary")
            for priced in audit.formats:
                if priced.space_size < 1:
                    raise ValueError(f"a space has {priced.space_size} candidates")
            for canary in audit.canaries:
                _check_canary(canary, audit)
            combined = [p.p_value for p in (audit.injected_p, audit.controls_p) if p]
            shares = [p for c in audit.canaries if (p := c.exposure.p_value) is not None] + combined
            if not all(0 <= share <= 1 for share in shares):
                raise ValueError("a p-value is not between 0 and 1")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RecordError(
                f"is not a whole audit ({type(error).__name__}: {error})",
                cure="run canary audit again",
            ) from error
        return audit

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the audit as versioned JSON, atomically."""
        dump_document(path, KIND, SCHEMA, self.to_dict(), private=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Audit:
        """Read an audit that `save` wrote."""
        document = load_document(path, KIND, SCHEMA)
        try:
            return replace(cls.from_dict(document), file=str(path))
        except RecordError as error:
            raise RecordError(error.problem, cure=error.cure, where=str(Path(path))) from error


def _check_canary(canary: CanaryResult, audit: Audit) -> None:
    """A ValueError where a canary does not fit the audit that it is in."""
    if not 0 <= canary.format < len(audit.formats):
        raise ValueError(f"{canary.id} names format {canary.format}")
    if canary.natural not in (False, True) or (canary.natural and audit.injected_p):
        raise ValueError(f"{canary.id} is natural and has a p-value")
    if not 0 <= canary.repetitions <= MAX_COPIES:
        raise ValueError(f"{canary.id} has {brief(canary.repetitions)} copies")
    space_bits = math.log2(audit.formats[canary.format].space_size)
    for found in filter(None, (canary.exposure, canary.skew_normal)):
        if not math.isclose(found.space_bits, space_bits, abs_tol=1e-6):
            raise ValueError(f"{canary.id} was ranked in another space")
    if canary.exposure.p_value is None:
        raise ValueError(f"{canary.id} has no p-value")
    curve = audit.formats[canary.format].skew_normal
    if (canary.skew_normal is None) != (curve is None):
        raise ValueError(f"{canary.id} and its format do not both have a curve")


def _texts(data: object) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(text, str) for text in data):
        raise TypeError("notes must be a list of texts")
    return tuple(data)


def _combined(data: Mapping[str, Any] | None) -> CombinedP | None:
    return None if data is None else CombinedP.from_dict(data)


def noted(formats: Iterable[FormatResult]) -> tuple[str, ...]:
    """The notes of some formats, each said once."""
    return tuple(dict.fromkeys(note for priced in formats for note in priced.notes))


def median_bits(group: Sequence[Exposure]) -> tuple[float, bool]:
    """Median of some exposures in bits, and whether it is only a lower bound.

    It is a lower bound if it depends on how high the censored exposures stand. Then it is
    the median of the lower ends of all intervals, so that no estimate passes for a bound.
    Otherwise it is the median of the estimates.
    """
    return _summarized(group, statistics.median)


def smallest_bits(group: Sequence[Exposure]) -> tuple[float, bool]:
    """Smallest of some exposures in bits, and whether it is only a lower bound.

    Estimates and bounds are told apart as in `median_bits`.
    """
    return _summarized(group, min)


def largest_bits(group: Sequence[Exposure]) -> tuple[float, bool]:
    """Largest of some exposures in bits, and whether it is only a lower bound.

    Estimates and bounds are told apart as in `median_bits`.
    """
    return _summarized(group, max)


def _summarized(
    exposures: Sequence[Exposure], of: Callable[[Iterable[float]], float]
) -> tuple[float, bool]:
    least = of([e.lower_bits if e.bits is None else e.bits for e in exposures])
    most = of([e.upper_bits if e.bits is None else e.bits for e in exposures])
    if most > least:
        return of([e.lower_bits for e in exposures]), True
    return least, False
