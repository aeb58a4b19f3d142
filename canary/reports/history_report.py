"""The report of a training that was watched, and its figure."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from canary.audits.audit_result import largest_bits, median_bits, smallest_bits
from canary.audits.history import PASSED_AT_THE_END, History, Moment
from canary.errors import InputError
from canary.reports.builders import PlotOptions, figure_of, report_of, section, sections_of
from canary.reports.document import (
    Axis,
    Block,
    Facts,
    Figure,
    Heading,
    Mark,
    Panel,
    Report,
    Table,
    Text,
    Tile,
    mark,
    prose,
)
from canary.reports.exposure_figures import (
    DOTTED,
    check_format,
    colour_of_copies,
    exposure_axis,
    group_name,
)
from canary.reports.long_words import said_in_one
from canary.reports.palette import CURVE, INK, MUTED, PAPER
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.reports.wording import bound_or_bits, facts_in_words, settings_in_words
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.numbers import bits, count, plural
from canary.tokens.starts import shown_start

_MOST_ROWS = 200
_MOST_FAILURES = 5
_MOST_MARKERS = 60


@report_of.register
def history_report(history: History, *, name: str | None = None) -> Report:
    """What there is to say about a training that was watched."""
    model = name or history.model.get("name") or "a language model"
    findings = history.batches.get("findings", [])
    failures = [m for m in history.moments if m.reason is not None]
    more = len(failures) - _MOST_FAILURES
    return Report(
        title=f"Exposure while {model} was trained",
        label="While training",
        sentences=[_sentence(history)],
        tiles=[*_tiles(history)],
        notes=[
            *(f"{found[:1].upper()}{found[1:]}." for found in findings),
            *(
                f"At step {count(m.step)} nothing could be measured: {m.reason}."
                for m in failures[:_MOST_FAILURES]
            ),
            *([f"The same at {more} more steps."] if more > 0 else []),
        ],
        sections=sections_of(history),
    )


@figure_of.register
def plotted(history: History, options: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    if options.kind != "exposure" or options.copies is not None:
        raise InputError(
            "a history has one figure: exposure against training steps",
            cure="leave kind and copies away",
        )
    check_format(history, options.format)
    return history_figure(history, options.format, skew_normal=options.skew_normal)


def _sentence(history: History) -> str:
    if not history.measured:
        return "No exposure was measured in this training."
    last = history.measured[-1]
    medians = {
        copies: median_bits([last.exposures[at] for at in places])
        for copies, places in history.groups().items()
    }
    copies = max(medians, key=lambda n: (bool(n), medians[n][0], n))
    median, bound = medians[copies]
    who = f"the canaries with {group_name(copies)}" if copies else "the controls"
    said = (
        f"At step {count(last.step)}, {who} had a median exposure of "
        f"{'at least ' if bound else ''}{bits(median)} bits"
    )
    said += f"; {_most_of_draws(history)}." if bound else "."
    if history.stopped_at is None:
        return said
    reason = history.stop_reason or ""
    if reason.startswith(PASSED_AT_THE_END):
        return f"{reason[0].upper()}{reason[1:]}. {said}"
    limit = history.settings.get("stop_above_bits")
    why = f" above {limit:g} bits" if isinstance(limit, int | float) else ""
    why = f": {reason}" if reason else why
    return f"The training was stopped at step {count(history.stopped_at)}{why}. {said}"


def _most_of_draws(history: History) -> str:
    """The largest lower bound that so many draws can give, which is where none was as likely."""
    about = max(history.formats, key=lambda f: f.draws)
    best = exposure_by_draws([0.0], np.ones(about.draws), space_size=about.space_size)[0]
    return f"{plural(about.draws, 'draw')} can show no more than about {bits(best.lower_bits)} bits"


def _tiles(history: History) -> Iterator[Tile]:
    skipped = ""
    if history.asked > len(history.moments):
        skipped = "; the others would have taken more time than the share"
    asked = f"{plural(history.asked, 'step')} that {'was' if history.asked == 1 else 'were'}"
    measured = plural(len(history.measured), "time")
    yield Tile("Measured", measured, f"of {asked} asked for{skipped}")
    share, taken = history.share, "none"
    if share is not None and share < 1.0:
        taken = f"{100 * share:.2g} % of the training"
    elif share is not None:
        digits = 1 if share < 9.95 else 0
        taken = f"{share:,.{digits}f} times the training's"
    beside = f"{history.own_seconds:.1f} s beside {history.training_seconds:.1f} s"
    yield Tile("Time taken", taken, beside)
    injected = sum(1 for canary in history.canaries if canary.repetitions)
    controls = plural(len(history.canaries) - injected, "control")
    yield Tile("Canaries", count(injected), f"and {controls}, which were never in the corpus")


@section(History, "Exposure against training steps")
def exposure(history: History) -> Iterator[Block]:
    """A line for each number of copies."""
    yield said_in_one("secrets", there=True, watched=True)
    for at, about in enumerate(history.formats):
        if len(history.formats) > 1:
            yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=about.masked))
        yield _exposure_block(history, at, skew_normal=False)
        if any(line.steps for line in group_lines(history, at, skew_normal=True)):
            yield said_in_one("history.curves")
            yield _exposure_block(history, at, skew_normal=True)


def _exposure_block(history: History, at: int, *, skew_normal: bool) -> Figure:
    lines = group_lines(history, at, skew_normal=skew_normal)
    table = Table(
        "Exposure against training steps, medians in bits",
        (
            *("Step", "Epoch", *(("Loss",) if history.losses else ())),
            *(group_name(line.copies) for line in lines),
        ),
        _rows(history, lines),
    )
    figure = history_figure(history, at, skew_normal=skew_normal)
    return replace(figure, caption=_caption(history, at, skew_normal=skew_normal), table=table)


def _caption(history: History, at: int, *, skew_normal: bool) -> Text:
    about = history.formats[at]
    return said_in_one(
        "history.caption",
        format=about.masked,
        drawn=not skew_normal,
        draws=count(about.draws),
        size=count(about.space_size),
        censored=not skew_normal and any(e.censored for m in history.measured for e in m.exposures),
        usual=bits(UNLEARNED_95_BITS),
        most=bits(math.log2(about.space_size)),
        losses=history.losses,
        marks=history.settings.get("marks"),
        failures=len(history.measured) < len(history.moments),
        stopped=history.stopped_at is not None,
    )


def _rows(history: History, lines: list[GroupLine]) -> list[tuple[str, ...]]:
    """A row per moment; of very many, evenly chosen ones and the last."""
    moments = history.measured
    every = math.ceil(len(moments) / _MOST_ROWS) or 1
    steps = [loss.step for loss in history.losses]
    medians = [
        {
            step: bound_or_bits(median, bound)
            for step, median, bound in zip(line.steps, line.medians, line.bounds, strict=True)
        }
        for line in lines
    ]
    rows = []
    for moment in [m for i, m in enumerate(moments) if i % every == 0 or i == len(moments) - 1]:
        behind = bisect.bisect_right(steps, moment.step)
        loss = f"{history.losses[behind - 1].value:.4g}" if behind else "–"
        rows.append(
            (
                count(moment.step),
                "–" if moment.epoch is None else f"{moment.epoch:.2f}",
                *((loss,) if steps else ()),
                *(known.get(moment.step, "–") for known in medians),
            )
        )
    return rows


@section(History, "How it was measured", specialist=True)
def how(history: History) -> Iterator[Block]:
    """The model, the settings, and what was put before candidates."""
    yield Heading("Model")
    yield Facts(facts_in_words(history.model))
    yield Heading("Settings")
    if said := _start(history):
        yield said
    kept = {name: value for name, value in history.settings.items() if name != "marks"}
    yield Facts(settings_in_words(kept))


def _start(history: History) -> str:
    """What was put before candidates, and what the batches show of it."""
    used = {moment.start_token for moment in history.measured}
    names = " and ".join(sorted(map(shown_start, used)))
    said = f"Candidates were priced after {names}." if used else ""
    if after := history.batches.get("after"):
        seen = ", ".join(f"{name} before {count(times)}" for name, times in after.items())
        canaries = plural(history.batches["canaries"], "canary", "canaries")
        said += f" Of {canaries} in the batches that were read, there was {seen}."
    return said.strip()


def history_figure(history: History, at: int, *, skew_normal: bool = False) -> Figure:
    """Exposure against training steps, a line for each number of copies; below it the loss."""
    lines = group_lines(history, at, skew_normal=skew_normal)
    highest = max((value for line in lines for value in line.most), default=0.0)
    marks, y = exposure_axis(math.log2(history.formats[at].space_size), highest=1.05 * highest)
    groups = [line.copies for line in lines]
    for line in lines:
        marks += _line_marks(line, colour_of_copies(line.copies, groups))
    upright = [
        mark("axvline", step, color=MUTED, linewidth=0.7, linestyle=DOTTED, zorder=0.5)
        for step in history.settings.get("marks") or ()
    ]
    marks += upright + [
        mark("plot", moment.step, 0.0, marker="x", color=CURVE, clip_on=False)
        for moment in history.moments
        if moment.reason is not None
    ]
    if history.stopped_at is not None:
        marks.append(mark("axvline", history.stopped_at, color=CURVE, linewidth=1.2))
    known = [m.step / m.epoch for m in history.moments if m.epoch]
    steps = Axis("training steps" + (f" ({known[-1]:.4g} are an epoch)" if known else ""))
    main = Panel(marks, steps, y, grid="y", legend="above" if any(x.steps for x in lines) else "")
    told = "; ".join(
        f"{group_name(line.copies)}: from {bits(line.medians[0])} at step {count(line.steps[0])} "
        f"to {bits(line.medians[-1])} at step {count(line.steps[-1])}"
        for line in lines
        if line.steps
    )
    return Figure(
        f"history {at} {skew_normal}",
        f"Exposure against training steps. Median exposure in bits, {told}.",
        [main, _loss_panel(history, steps, upright)] if history.losses else [main],
        stack=bool(history.losses),
    )


@dataclass(frozen=True)
class GroupLine:
    """Exposure of the canaries with one number of copies, at each moment in bits.

    `bounds` says of each median whether it is only a lower bound.
    """

    copies: int
    steps: tuple[int, ...]
    medians: tuple[float, ...]
    bounds: tuple[bool, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]


def group_lines(history: History, at: int, *, skew_normal: bool = False) -> list[GroupLine]:
    """The lines of one format, controls first.

    With `skew_normal` they are off the curves; a moment at which a group has no such
    estimates has no point then.
    """
    measure = _by_curve if skew_normal else _by_draws
    lines = []
    for copies, places in history.groups(at).items():
        found = ((moment.step, measure(moment, places)) for moment in history.measured)
        rows = [(step, *row) for step, row in found if row is not None]
        columns = tuple(zip(*rows, strict=True)) if rows else ((),) * 5
        lines.append(GroupLine(copies, *columns))
    return lines


def _by_draws(moment: Moment, places: Sequence[int]) -> tuple[float, bool, float, float]:
    group = [moment.exposures[place] for place in places]
    return *median_bits(group), smallest_bits(group)[0], largest_bits(group)[0]


def _by_curve(moment: Moment, places: Sequence[int]) -> tuple[float, bool, float, float] | None:
    known = [value for place in places if (value := moment.curve_bits[place]) is not None]
    if len(known) < len(places):
        return None
    return statistics.median(known), False, min(known), max(known)


def _line_marks(line: GroupLine, colour: str) -> list[Mark]:
    marks = [
        mark("fill_between", line.steps, line.least, line.most, color=colour, alpha=0.16,
             linewidth=0),
        mark("plot", line.steps, line.medians, color=colour, linewidth=1.8,
             linestyle="-" if line.copies else (0, (4, 2)), label=group_name(line.copies)),
    ]  # fmt: skip
    if len(line.steps) > _MOST_MARKERS:
        return marks
    for bound, marker, size in ((False, "o", 16), (True, "^", 26)):
        some = [i for i, is_bound in enumerate(line.bounds) if is_bound == bound]
        x, y = [line.steps[i] for i in some], [line.medians[i] for i in some]
        face = PAPER if bound or not line.copies else colour
        marks.append(mark("scatter", x, y, size, marker=marker, facecolor=face, edgecolor=colour,
                          linewidth=1.1, zorder=2.5))  # fmt: skip
    return marks


def _loss_panel(history: History, steps: Axis, upright: Sequence[Mark]) -> Panel:
    x, y = zip(*((loss.step, loss.value) for loss in history.losses), strict=True)
    line = mark("plot", x, y, color=INK, linewidth=1.2)
    return Panel(
        [line, mark("margins", y=0.15), *upright], steps, Axis("loss"), grid="y", height=0.24
    )
