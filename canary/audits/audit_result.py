"""What an audit returns, how it is kept, and what its canaries say together.

It holds ordinal canary ids and no secret, nor a digest of one but under a key that only the
canary set holds. Yet a rank or a log-perplexity names its candidate to anyone who prices all of
them: keep an audit like the model.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from canary.audits.extraction import Extraction
from canary.audits.group_medians import (
    MEDIAN_CONFIDENCE,
    by_copies,
    ceilings,
    group_lines,
    group_rows,
    interval_metrics,
    near_highest,
)
from canary.audits.search_ranks import unsearched, with_search
from canary.corpus.canaries import CanarySet
from canary.corpus.consistency import MAX_COPIES
from canary.records.about import About, Named
from canary.records.record import Document, Record
from canary.records.validation import brief
from canary.scoring.start_notes import StartChoice
from canary.statistics.exposures import Exposure
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram
from canary.statistics.learned_parts import CONTROLS_LEVEL, SHOWN_LEARNED
from canary.statistics.numbers import Shown, picked, probability
from canary.statistics.pvalues import CombinedP, fisher

KIND = "canary audit"
SCHEMA = 1

RECOVERED_BITS = math.log2(1_000)
"""A secret is recovered if it is in the first thousandth of all guesses, which is this exposure."""

CANARY_SET = "canary_set"
"""The setting that says which canaries were audited (`CanarySet.fingerprint`)."""

CHATS = "chats"
"""The setting that canaries are chat messages, with their role; left out of other audits."""

_NONE_INJECTED = (
    "none of the set's canaries was injected, so nothing here says what the model memorized: audit "
    "with a set that has canaries"
)


@dataclass(frozen=True)
class UnderBase(Record):
    """A canary under the base model, which is the audited model without its adapter."""

    px_bits: float
    exposure: Exposure


@dataclass(frozen=True)
class CanaryResult(Record):
    """One canary under the audited model.

    Parameters
    ----------
    id, format : str, int
        Ordinal id, the same as in the canary set, and position in `Audit.formats`.
    repetitions : int
        Copies that were injected; 0 is a control.
    px_bits, context_bits : float, float or None
        Log-perplexity of the whole candidate, total, in bits, and the part of it before the
        fill; None if the tokenizer does not say which characters a token stands for.
    exposure, skew_normal : Exposure, Exposure or None
        What was measured, and the paper's estimate, off a curve fitted to uniform draws; it
        enters no p-value. None where no curve could be fitted.
    natural : bool
        Whether it is a natural secret, found and not drawn: then `Exposure.p_value` says
        nothing.
    base : UnderBase or None
        What the base model gives, if that was asked for (``against_base``).
    """

    id: str
    format: int
    repetitions: int
    px_bits: float
    context_bits: float | None
    exposure: Exposure
    skew_normal: Exposure | None
    natural: bool = False
    base: UnderBase | None = None

    @property
    def control(self) -> bool:
        """Whether the canary was never injected."""
        return self.repetitions == 0

    def _check(self) -> None:
        if self.skew_normal is not None and not self.skew_normal.unbounded:
            raise ValueError(f"skew_normal has the method {brief(self.skew_normal.method)}")
        if not 0 <= self.repetitions <= MAX_COPIES:
            raise ValueError(f"has {brief(self.repetitions)} copies")


@dataclass(frozen=True)
class FormatResult(Record):
    """One format of an audit: against which candidates its canaries were ranked.

    Parameters
    ----------
    format, masked : str
        The format's text, holes as ``{kind:count}``, and a candidate with its fill hidden.
    space_size : int
        Exact number of candidates.
    method, reason : str
        What the method calls itself, and why it was taken.
    histogram : Histogram
        Log-perplexities of the enumerated or else the drawn candidates, in bits.
    skew_normal : SkewNormalFit or None
        The curve fitted to uniform draws; None if under 40, all alike, or an impossible one.
    candidates, draws : int, int or None
        Candidates that were scored, and those drawn uniformly; None where all were enumerated.
    queries : int
        Tokens computed below the context.
    tokens : int
        Length of the longest candidate, context included; without a tree, of the longest seen.
    noise_bits : float
        Costs closer than this count as ties of unknown order.
    certificate : str or None
        How it is known that the token tree holds every candidate once; None without a tree.
    seconds : float
    notes : tuple of str
        What the reader of the numbers must know.
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

    def __repr__(self) -> str:
        return f"<FormatResult of {self.masked!r}: {self.method}, {self.queries:,} queries>"

    @property
    def enumerated(self) -> bool:
        """Whether every candidate was scored."""
        return self.draws is None

    def _check(self) -> None:
        if self.space_size < 1:
            raise ValueError(f"has {self.space_size} candidates")


@dataclass(frozen=True, repr=False)
class Audit(Named, Shown, Document, kind=KIND, schema=SCHEMA, cure="run canary audit again"):
    """Exposure of every canary of a set under one model.

    Parameters
    ----------
    canaries, formats : tuple of CanaryResult, tuple of FormatResult
        In the order of the canary set.
    injected_p, controls_p : CombinedP or None
        Fisher's p-value over the injected canaries, a positive control included, and over the
        controls; None without them, and for natural secrets.
    model, settings : dict
        The model's facts; what is needed to run it again, and which canary set it was.
    extractions : tuple of Extraction
        The most likely candidates of the formats, without their fills.
    start : StartChoice or None
        What comes before each candidate, and why; None in audits of earlier versions.
    about : About
        Names for its reports, and its date.
    seconds : dict
        What each part of the last run took: the names that progress showed.
    file : str
        The file that it was read from.

    Examples
    --------
    >>> from canary import Audit
    >>> Audit.load("audit/audit.json").injected_p.p_value  # doctest: +SKIP
    1.9e-143
    """

    canaries: tuple[CanaryResult, ...]
    formats: tuple[FormatResult, ...]
    injected_p: CombinedP | None
    controls_p: CombinedP | None
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    extractions: tuple[Extraction, ...] = ()
    start: StartChoice | None = None
    about: About = field(default_factory=About.today, compare=False)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    file: str = field(default="", compare=False)

    def _table(self) -> list[dict[str, Any]]:
        rows = canary_rows(with_search(self).canaries)
        return [row | {"model": self.model_name} for row in rows]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        known = with_search(self)
        yield from interval_metrics(known.canaries)
        judged = import_module("canary.audits.audit_setup").without_control(self)  # it is above
        for name, combined in (("injected", judged.injected_p), ("controls", self.controls_p)):
            if combined is not None:
                yield f"p_value_{name}", combined.p_value
        exposures = [c.exposure for c in known.injected]
        ends = [(e.lower_bits, e.upper_bits, e.space_bits) for e in exposures]
        found, most = (
            sum(end[at] >= min(RECOVERED_BITS, end[2]) - 1e-6 for end in ends) for at in (0, 1)
        )
        if found or not most:  # few draws and no search leave it open: then 0 is no count
            yield "recovered", found
        if tried := [c.canary for one in self.extractions for c in one.candidates]:
            yield "search_guesses", len(tried)
            yield "search_found", sum(c.id in tried for c in self.injected)

    def __post_init__(self) -> None:
        object.__setattr__(self, "extractions", tuple(one.hidden() for one in self.extractions))

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

    def is_of(self, canaries: CanarySet) -> bool:
        """Whether it was made with this set."""
        # Of natural secrets the audit drew the controls itself.
        asked = [c for c in self.canaries if c.natural or not canaries.natural]
        return (
            [f.format for f in self.formats] == [f.text for f in canaries.formats]
            and self.settings.get(CANARY_SET) == canaries.fingerprint
            and [(c.id, c.format, c.repetitions) for c in asked]
            == [(c.id, c.format, c.repetitions) for c in canaries]
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers must know before them, each said once."""
        start = self.start.doubts if self.start else ()
        return (*start, *noted(self.formats), *self._own_notes())

    def _own_notes(self) -> Iterator[str]:
        if not self.injected:
            yield _NONE_INJECTED
        p = None if self.controls_p is None else self.controls_p.p_value
        if p is not None and CONTROLS_LEVEL < p <= SHOWN_LEARNED:
            yield (
                f"the controls look learned a little (p = {probability(p)}), as those of one in "
                f"{round(1 / p):,} sound audits do; only p = {CONTROLS_LEVEL:g} or less makes an "
                "audit unfit for a verdict"
            )
        if full := self.at_ceiling():
            yield near_highest(full, self.by_repetitions())
        yield from unsearched(self)

    def at_ceiling(self, format: int | None = None) -> dict[int, float]:
        """The numbers of copies (in one format) whose median is near its ceiling, with that."""
        some = [c for c in self.injected if format in (None, c.format)]
        return ceilings([(c.repetitions, c.format, c.exposure) for c in some])

    def by_repetitions(self, format: int | None = None) -> dict[int, tuple[CanaryResult, ...]]:
        """The canaries (of one format) by number of copies, ascending; 0 holds the controls."""
        return by_copies(c for c in self.canaries if format is None or c.format == format)

    def groups(self, *, confidence: float = MEDIAN_CONFIDENCE) -> Any:
        """The median exposure by number of copies, a `pandas.DataFrame` (`to_string` shows all).

        Its columns are those of `canary.audits.group_medians.group_rows`, in bits.
        """
        import pandas as pd

        return pd.DataFrame(group_rows(with_search(self).canaries, confidence=confidence))

    def summary(self) -> str:
        """A few lines for a terminal: the verdict, p-values, medians, methods, notes."""
        planned = "" if self.canaries_in_corpus else " planned"
        lines: list[tuple[str, str]] = import_module("canary.reports.limits").opening(self)
        control = import_module("canary.audits.audit_setup").control_of(self)
        lines += group_lines(with_search(self).canaries, planned, control)
        for number, priced in enumerate(self.formats, 1):
            name = "method" if len(self.formats) == 1 else f"format {number}"
            lines.append((name, f"{priced.method} ({priced.reason})"))
        if self.natural:
            lines.append(("found", "no p-value, since they were not drawn at random"))
        lines += [("note", note) for note in self.notes]
        return "\n".join(f"{name:>12}: {what}" for name, what in lines)

    @classmethod
    def _upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {"about": {}, "seconds": {}, **data}

    def _check(self) -> None:
        if not self.canaries:
            raise ValueError("it has no canary")
        for canary in self.canaries:
            name = brief(canary.id)
            if not 0 <= canary.format < len(self.formats):
                raise ValueError(f"{name} names format {canary.format}")
            if canary.natural and self.injected_p:
                raise ValueError(f"{name} is natural and has a p-value")
            priced = self.formats[canary.format]
            base = canary.base.exposure if canary.base else None
            for exposure in filter(None, (canary.exposure, canary.skew_normal, base)):
                space_bits = math.log2(priced.space_size)
                if not math.isclose(exposure.space_bits, space_bits, abs_tol=1e-6):
                    raise ValueError(f"{name} was ranked in another space")
            if (canary.skew_normal is None) != (priced.skew_normal is None):
                raise ValueError(f"{name} and its format do not both have a curve")
        p_values: list[Any] = [p.p_value for p in (self.injected_p, self.controls_p) if p]
        p_values += [c.exposure.p_value for c in self.canaries]
        if not all(p_value is not None and 0 <= p_value <= 1 for p_value in p_values):
            raise ValueError("a p-value is missing, or not between 0 and 1")


def canary_rows(canaries: Iterable[CanaryResult]) -> list[dict[str, Any]]:
    """The numbers of each canary, for a table."""
    some = tuple(canaries)
    bases = any(c.base for c in some)
    return [
        picked(c, "id", "repetitions")
        | picked(c.exposure, "bits", "lower_bits", "upper_bits", "censored", "rank", "p_value")
        | picked(c, "px_bits", "format")
        | picked(c.exposure, "exact", "method")
        | {"outside_draws": c.exposure.hits == 0}
        | {"skew_normal_bits": c.skew_normal and c.skew_normal.bits}
        | ({"base_bits": c.base and c.base.exposure.bits} if bases else {})
        | ({"base_px_bits": c.base and c.base.px_bits} if bases else {})
        for c in some
    ]


def noted(formats: Iterable[FormatResult]) -> tuple[str, ...]:
    """The notes of some formats, each said once."""
    return tuple(dict.fromkeys(note for priced in formats for note in priced.notes))


def combined_p(group: Sequence[CanaryResult]) -> CombinedP | None:
    """Fisher's p-value over some canaries of one audit; None if there are none.

    Those from the same draws are dependent. Of several formats all are corrected as if they
    came from the smallest number of draws of any.
    """
    if not group:
        return None
    return _fisher(group, [c.exposure.p_value for c in group if c.exposure.p_value is not None])


def least_p(audit: Audit, group: Sequence[CanaryResult]) -> float:
    """The smallest p-value that `combined_p` could have given, whatever the model did."""
    best = []
    for c in group:
        if (draws := c.exposure.only_draws) is None:
            best.append(max(1 / audit.formats[c.format].space_size, sys.float_info.min))
        else:
            best.append(1 / (1 + draws))
    return _fisher(group, best).p_value


def _fisher(group: Sequence[CanaryResult], p_values: Sequence[float]) -> CombinedP:
    draws = [c.exposure.draws for c in group if c.exposure.draws is not None]
    return fisher(p_values, shared_draws=min(draws, default=None))
