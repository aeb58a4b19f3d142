"""Exposure while a model was trained: what a monitor measured, step by step, and kept.

A history holds ordinal canary ids and no secret. Like an audit it is to be kept like the
model: anyone who has that finds a secret by its log-perplexity.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from canary.audits.audit_setup import CONTROL_COPIES
from canary.audits.group_medians import (
    MEDIAN_CONFIDENCE,
    group_row,
    median_bits,
    median_metrics,
    shown_medians,
)
from canary.corpus.consistency import MAX_COPIES
from canary.errors import RecordError
from canary.records.about import About, Named
from canary.records.record import Document
from canary.records.validation import NONE
from canary.statistics.exposures import UNIFORM_DRAWS, Exposure
from canary.statistics.numbers import Shown, count, picked, plural

AT_THE_END = "when the training had ended"
"""In `History.stop_reason` where there was nothing left to stop."""

KIND = "canary history"
SCHEMA = 1

MOST_COUNTED = 512
"""Canaries in batches, after which a monitor reads no further if none is missing."""

_EPOCH = 0.95  # of the copies, what an epoch holds without its last batch, or more

_CONFIDENCE = 0.95
_COLUMNS = ("bits", "lower_bits", "upper_bits", "hits")


@dataclass(frozen=True)
class WatchedCanary:
    """A canary of a history: its id, the place of its format, and its copies in the corpus."""

    id: str
    format: int
    repetitions: int


@dataclass(frozen=True)
class WatchedFormat:
    """A format of a history; `draws` candidates were drawn once, and are scored at every moment."""

    text: str
    masked: str
    space_size: int
    draws: int


@dataclass(frozen=True)
class Loss:
    """The training loss that was logged at a step, in the unit of the trainer (nats mostly)."""

    step: int
    value: float


@dataclass(frozen=True)
class Moment:
    """All canaries at one step of training.

    Parameters
    ----------
    step : int
        Optimizer steps done.
    epoch : float or None
        Epochs done, where that is known.
    seconds : float
        What this measurement took of the training's time.
    px_bits : tuple of float
        Log-perplexity of each canary, total, in the order of `History.canaries`.
    exposures : tuple of Exposure
        From uniform draws, the same at every moment.
    curve_bits : tuple of (float or None)
        The paper's estimate beside each exposure, off a skew-normal curve fitted to the draws
        of this moment, and not bounded by log2|R|; None where no curve was fitted.
    reason : str or None
        Why nothing could be measured; then the three above are empty.
    start_token : str or None
        What was put before each candidate; None for nothing.
    """

    step: int
    epoch: float | None
    seconds: float
    px_bits: tuple[float, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    curve_bits: tuple[float | None, ...] = ()
    reason: str | None = None
    start_token: str | None = None

    def columns(self) -> dict[str, Any]:
        """The moment as it is written: of each exposure, what differs between canaries."""
        return {
            **picked(self, "step", "epoch", "seconds", "reason", "start_token"),
            "px_bits": list(self.px_bits),
            **{name: [getattr(e, name) for e in self.exposures] for name in _COLUMNS},
            "curve_bits": list(self.curve_bits),
        }


def _exposures_in(moment: Mapping[str, Any], about: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """The inverse of `Moment.columns`; `about` gives space bits and draws of each canary."""
    moment = dict(moment)
    columns = {name: moment.pop(name) for name in _COLUMNS}
    rows = 0 if moment["reason"] is not None else len(about)
    measured = [*columns.values(), moment["px_bits"], moment["curve_bits"]]
    if any(len(column) != rows for column in measured):
        raise ValueError(f"a moment has not {rows} numbers in each column")
    moment["exposures"] = [
        {
            **{name: column[i] for name, column in columns.items()},
            "confidence": _CONFIDENCE,
            "method": UNIFORM_DRAWS,
            "space_bits": space_bits,
            "p_value": (1 + columns["hits"][i]) / (1 + draws),
            "draws": draws,
        }
        for i, (space_bits, draws) in enumerate(about[:rows])
    ]
    return moment


def _at(places: Sequence[int], column: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(column[place] for place in places if column)


@dataclass(frozen=True, repr=False)
class History(
    Named, Shown, Document, kind=KIND, schema=SCHEMA, cure="restore the file as it was written"
):
    """Exposure of a set of canaries at many steps of one training.

    Parameters
    ----------
    canaries : tuple of WatchedCanary
    formats : tuple of WatchedFormat
    moments, losses : tuple of Moment, tuple of Loss
        By ascending step.
    model, settings : Mapping
        The model's facts, empty before the first moment, and how the monitor was asked for.
    training_seconds, own_seconds : float
        Time of the training without the monitor, and what the monitor took besides.
    asked : int
        Steps at which a measurement was asked for, also those that time did not allow.
    stopped_at : int or None
        The step at which the limit was exceeded and the training asked to stop.
    stop_reason : str or None
        Which canaries were above which limit then. `AT_THE_END` is in it where the
        training had ended, so that nothing was stopped.
    batches : Mapping
        What was seen of the training's batches: ``read``, how many; ``canaries``, how many
        were in them; ``after``, how many of these after each start token; ``findings``, what
        is wrong with them; ``missing``, by canary how many of its copies were never seen, and
        ``first_epoch``, how many canaries were seen in it, where they are known. Empty before the
        first moment.
    about : About
        Names for its reports, and when the training began; empty in earlier versions' files.
    """

    canaries: tuple[WatchedCanary, ...]
    formats: tuple[WatchedFormat, ...]
    moments: tuple[Moment, ...]
    losses: tuple[Loss, ...]
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    training_seconds: float
    own_seconds: float
    asked: int
    stopped_at: int | None = None
    stop_reason: str | None = None
    batches: Mapping[str, Any] = field(default_factory=dict)
    about: About = field(default_factory=About.today, compare=False)

    def summary(self) -> str:
        """How often exposure was measured, its medians at the last step, and what was found."""
        lines = [f"exposure measured {plural(len(self.measured), 'time')}"]
        for last in self.measured[-1:]:
            lines[0] += f", last at step {count(last.step)}"
            lines += [f"{name}: median {median}" for name, median in self._medians(last)]
        return "\n".join(lines + [f"warning: {finding}" for finding in self.findings])

    @property
    def findings(self) -> tuple[str, ...]:
        """What is wrong with the batches of the training, each in a sentence."""
        return tuple(self.batches.get("findings", ()))

    @property
    def shortage(self) -> str:
        """What is missing in the batches for them to have held the set; empty if nothing is.

        Each canary as often as the set says, and nearly all of these in the first epoch.
        """
        planned = sum(canary.repetitions for canary in self.canaries)
        found, missing = self.batches.get("canaries", 0), self.batches.get("missing", {})
        first = self.batches.get("first_epoch", planned)
        if missing:
            name, n = next(iter(missing.items()))
            of = sum(1 for canary in self.canaries if canary.repetitions)
            some = f"{count(len(missing))} of {plural(of, 'canary', 'canaries')} were there fewer"
            return f"{some} times than the set says ({name} lacks {plural(n, 'copy', 'copies')})"
        if first < _EPOCH * planned:
            return (
                f"{count(first)} of them were in the first epoch, and the set has {count(planned)}"
            )
        return f"the set has {count(planned)}" if found < min(planned, MOST_COUNTED) else ""

    def line(self, moment: Moment) -> str:
        """One of its measurements, for a log: the medians by number of copies, most first."""
        said = [f"{name} {median}" for name, median in self._medians(moment)][::-1]
        told = f"median exposure {', '.join(said)}" if said else f"not measured: {moment.reason}"
        return f"step {count(moment.step)}: {told} ({moment.seconds:.2g} s)"

    def _medians(self, moment: Moment) -> Iterator[tuple[str, str]]:
        of = moment.exposures
        groups = {n: [of[at] for at in mine] for n, mine in self.places().items() if of}
        for copies, median in shown_medians(groups).items():
            yield plural(copies, "copy", "copies") if copies else "controls", median

    def _table(self) -> list[dict[str, Any]]:
        return [
            {"step": moment.step, "epoch": moment.epoch, "px_bits": px}
            | picked(canary, "id", "format", "repetitions")
            | picked(found, "bits", "lower_bits", "upper_bits", "censored")
            | {"skew_normal_bits": curve}
            for moment in self.measured
            for canary, px, found, curve in zip(
                self.canaries, moment.px_bits, moment.exposures, moment.curve_bits, strict=True
            )
        ]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        """Of the last moment that has numbers."""
        for last in self.measured[-1:]:
            places = self.places().items()
            yield from median_metrics(
                {n: [last.exposures[at] for at in mine] for n, mine in places}
            )
            for copies, mine in places:
                name = f"{copies}_copies" if copies else "controls"
                curve = [value for at in mine if (value := last.curve_bits[at]) is not None]
                if len(curve) == len(mine):
                    yield f"exposure_{name}_skew_normal", statistics.median(curve)
            apart = (0, self.control)
            injected = [last.exposures[at] for n, mine in places if n not in apart for at in mine]
            if injected:
                yield "exposure_max", max(e.place_bits for e in injected)
                least, bound = median_bits(injected, max)
                yield from [("exposure_max_lower", least), ("exposure_max_censored", 1.0)] * bound
                yield "share_above_all_draws", statistics.fmean(e.censored for e in injected)
            yield "seconds", last.seconds

    def main_metrics(self) -> dict[str, float]:
        """Of `metrics`, what a monitor logs: medians, and what is most exposed.

        ``exposure_max`` is the largest exposure of an injected canary, without the positive
        control. ``share_above_all_draws`` is the share of these that are more likely than every
        draw: a search finds such secrets first. A median or maximum that no draw reached has
        ``_at_least`` beside it, what it is at least; its own number stays at log2 of the draws.
        """
        ends = ("_lower", "_upper", "_censored", "_skew_normal", "/seconds")
        every = self.metrics()
        few = {name: value for name, value in every.items() if not name.endswith(ends)}
        bounded = [name for name in few if every.get(f"{name}_censored")]
        return few | {f"{name}_at_least": every[f"{name}_lower"] for name in bounded}

    @property
    def measured(self) -> tuple[Moment, ...]:
        """The moments that have numbers."""
        return tuple(moment for moment in self.moments if moment.reason is None)

    @property
    def start_token(self) -> str:
        """What was put before each candidate at the last measurement, as audits take it.

        ``"none"`` for nothing, and empty before the first measurement.
        """
        return next((str(m.start_token or NONE) for m in reversed(self.measured)), "")

    @property
    def share(self) -> float | None:
        """The monitor's time as a share of the training's; None before there was any."""
        return self.own_seconds / self.training_seconds if self.training_seconds else None

    def groups(self, *, confidence: float = MEDIAN_CONFIDENCE) -> Any:
        """The median exposure by step and copies, a `pandas.DataFrame` (`to_string` shows all).

        Its columns are ``step`` and those of `canary.audits.group_medians.group_rows`, in bits. But
        where ``bound`` is true, ``median_bits`` is log2 of the draws, as in figures and metrics: so
        all rows can be compared. ``at_least_bits`` is what such a median is at least.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for moment in self.measured:
            for copies, places in self.places().items():
                exposures = [moment.exposures[at] for at in places]
                formats = [self.canaries[at].format for at in places]
                row = group_row(exposures, formats, confidence=confidence)
                least = {"at_least_bits": row["median_bits"] if row["bound"] else None}
                own = {"median_bits": statistics.median(e.place_bits for e in exposures)}
                rows.append({"step": moment.step, "repetitions": copies} | own | least | row | own)
        return pd.DataFrame(rows)

    def places(self, format: int | None = None) -> dict[int, tuple[int, ...]]:
        """Places of the canaries by number of copies, ascending; 0 holds the controls."""
        mine = [
            (canary.repetitions, at)
            for at, canary in enumerate(self.canaries)
            if format is None or canary.format == format
        ]
        return {n: tuple(at for m, at in mine if m == n) for n in sorted({m for m, _ in mine})}

    @property
    def control(self) -> int:
        """The number of copies of the positive control; 0 without one."""
        return int(self.settings.get(CONTROL_COPIES) or 0)

    def without_control(self) -> History:
        """The history without its positive control: what is judged."""
        control = self.control or None  # 0 are those that were never planted
        kept = [at for at, c in enumerate(self.canaries) if c.repetitions != control]
        moments = (replace(m, px_bits=_at(kept, m.px_bits), exposures=_at(kept, m.exposures),
                           curve_bits=_at(kept, m.curve_bits)) for m in self.moments)  # fmt: skip
        return replace(self, canaries=_at(kept, self.canaries), moments=tuple(moments))

    def until(self, step: int) -> History:
        """What was known at `step`, for a training that goes on from there."""
        return replace(
            self,
            moments=tuple(moment for moment in self.moments if moment.step <= step),
            losses=tuple(loss for loss in self.losses if loss.step <= step),
            stopped_at=None,
            stop_reason=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The history as plain data."""
        return {
            **super().to_dict(),
            "moments": [moment.columns() for moment in self.moments],
            "losses": [[loss.step, loss.value] for loss in self.losses],
        }

    @classmethod
    def _upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Columns as exposures; the tables that follow must be lists of what they name."""
        try:
            formats = data["formats"]
            watched = [formats[c["format"]] for c in data["canaries"]]
            about = [(math.log2(f["space_size"]), f["draws"]) for f in watched]
            return {
                **data,
                "moments": [_exposures_in(m, about) for m in data["moments"]],
                "losses": [{"step": step, "value": value} for step, value in data["losses"]],
                "batches": data.get("batches") or {},
                "about": data.get("about") or {},
            }
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            problem = f"is not a whole history ({type(error).__name__})"
            raise RecordError(problem, cure=cls._cure) from error

    def _check(self) -> None:
        if not all(f.space_size >= 1 and 1 <= f.draws <= f.space_size for f in self.formats):
            raise ValueError("a format has more draws than candidates, or none")
        if not self.canaries or any(
            not 0 <= c.format < len(self.formats) or not 0 <= c.repetitions <= MAX_COPIES
            for c in self.canaries
        ):
            raise ValueError("it has no canary, or one without a format")
        for timed in (self.moments, self.losses):
            steps = [each.step for each in timed]
            if steps != sorted(set(steps)) or min(steps, default=0) < 0:
                raise ValueError("its steps do not ascend")
        seen = self.batches
        texts, counts = seen.get("findings", []), dict(seen.get("after", {}))
        missing = dict(seen.get("missing", {}))
        numbers = [seen.get(name, 0) for name in ("read", "canaries", "first_epoch")]
        numbers += [*counts.values(), *missing.values()]
        if seen and (
            seen.keys() - {"missing", "first_epoch"} != {"read", "canaries", "after", "findings"}
            or not all(isinstance(n, int) and n >= 0 for n in numbers)
            or not all(isinstance(text, str) for text in [*texts, *counts])
        ):
            raise ValueError("batches holds something else than numbers and sentences")
