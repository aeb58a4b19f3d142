"""The report of a training that was watched, and its figure."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from canary.audits.audit_result import median_bits
from canary.audits.history import AT_THE_END, History, WatchedFormat
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
    Span,
    Table,
    Tile,
    mark,
    prose,
    said,
    said_in_one,
    sentence,
)
from canary.reports.exposure_figures import (
    check_format,
    colour_of_copies,
    exposure_axis,
    group_name,
)
from canary.reports.palette import CURVE, DOTTED, INK, across, dots, line
from canary.reports.sentences import UNLEARNED_95_BITS
from canary.reports.wording import about_of, bound_or_bits, called, ended, in_words, percent_of
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.numbers import bits, count, one_in, plural
from canary.tokens.starts import shown_start

_MOST_ROWS = 200
_MOST_FAILURES = 5
_MOST_MARKERS = 60


@report_of.register
def history_report(history: History) -> Report:
    """What there is to say about a training that was watched."""
    findings = history.batches.get("findings", [])
    failures = [
        f"At step {count(moment.step)} nothing could be measured: {moment.reason}."
        for moment in history.moments
        if moment.reason is not None
    ]
    more = len(failures) - _MOST_FAILURES
    label, tone, values = _answer(history)
    key = "history.answer" if history.measured else "history.nothing"
    return Report(
        title=f"Memorization while {called(history.model_name, 'a language model')} was trained",
        label=label,
        tone=tone,
        sentences=[sentence(key, **values)],
        actions=said(
            "history.actions",
            **values,
            failed=len(failures),
            skipped=_skipped(history),
        ),
        about={**about_of(history), "Limit": values["limit"] or "none was set"},
        tiles=[*_tiles(history, values)],
        outcome=[_canaries(history), history_figure(history, 0)] if history.measured else (),
        unsaid=said("history.unsaid"),
        notes=[
            *ended(findings),
            *failures[:_MOST_FAILURES],
            *([f"The same at {more} more steps."] if more > 0 else []),
        ],
        sections=sections_of(history),
    )


def _answer(history: History) -> tuple[str, str, dict[str, Any]]:
    """Whether and why the training was stopped: label, tone, and what the words ask."""
    limit, reason = history.settings.get("stop_above_bits"), history.stop_reason or ""
    above = f"{limit:g} bits" if isinstance(limit, int | float) else ""
    over = history.stopped_at is not None
    too_late = over and AT_THE_END in reason
    values: dict[str, Any] = {
        "over": over,
        "too_late": too_late,
        "stopped": over and not too_late,
        "calm": not over and above and history.measured,
        "no_limit": not over and not above,
        "limit": above,
        "at": history.stopped_at,
    }
    if isinstance(limit, int | float):
        values |= _around(history, float(limit))
    labels = {
        "Nothing was measured": not history.measured,
        "Above the limit at the end": too_late,
        f"Stopped at step {count(history.stopped_at or 0)}": over,
        "May be above the limit": values.get("open"),
        "Within the limit while training": above,
        "Watched without a limit": True,
    }
    label = next(label for label, holds in labels.items() if holds)
    if not history.measured:
        return label, "undecided", values
    calm = "undecided" if values.get("open") else "not-found" if above else ""
    last = history.measured[-1]
    groups = {n: [last.exposures[at] for at in mine] for n, mine in history.groups().items()}
    least = {n: statistics.median(e.lower_bits for e in group) for n, group in groups.items()}
    medians = {n: median_bits(group) for n, group in groups.items()}
    # A training is stopped by the lower ends; an estimate may hang on one draw.
    copies = max(groups, key=lambda n: (bool(n), least[n], medians[n][1], n))
    median, bound = medians[copies]
    elsewhere = over and not values["went_on"] and least[copies] <= float(limit or 0.0)
    about = max(history.formats, key=lambda f: f.draws)
    values |= {
        "step": last.step,
        "copies": copies,
        "bound": bound,
        "median": bits(median),
        "least": bits(least[copies]),
        "why": reason if elsewhere else "",
        "share": one_in(median, about=not bound),
        "draws": about.draws,
        "best": bits(_most_certain(about)),
    }
    return label, "memorized" if over else calm, values


def _most_certain(about: WatchedFormat) -> float:
    """The largest lower bound that so many draws can give, where none is as likely."""
    draws = np.ones(about.draws)
    return exposure_by_draws([0.0], draws, space_size=about.space_size)[0].lower_bits


def _around(history: History, limit: float) -> dict[str, Any]:
    """Where medians may have been above a limit that stopped nothing, and where last below it."""
    over = history.stopped_at is not None
    above: list[int] = []
    within: list[int] = []
    for moment in history.measured:
        if over and moment.step >= (history.stopped_at or 0):
            break
        medians = (
            median_bits([moment.exposures[at] for at in places])
            for copies, places in history.groups().items()
            if copies
        )
        open_ended = any(bound or median > limit for median, bound in medians)
        (above if open_ended else within).append(moment.step)
    last = f"step {count(within[-1])}" if within else ""
    steps = [moment.step for moment in history.measured]
    return {
        "early": " to ".join(
            f"step {count(step)}" for step in dict.fromkeys(above[:: len(above) - 1 or 1])
        ),
        "open": not over and above[-1:] > within[-1:],
        "within": last,
        "checkpoint": last if over else "",
        "none_within": over and not within,
        "went_on": over and steps[-1:] > [history.stopped_at or 0],
    }


def _canaries(history: History) -> tuple[Span, ...]:
    """What canaries are, and how many there are."""
    injected = sum(1 for canary in history.canaries if canary.repetitions)
    controls = len(history.canaries) - injected
    return said_in_one("history.canaries", injected=injected, controls=controls)


def _skipped(history: History) -> int:
    """Measurements that were left out to save time."""
    timed = history.settings.get("share") is not None
    return max(history.asked - len(history.moments), 0) if timed else 0


def _tiles(history: History, values: Mapping[str, Any]) -> Iterator[Tile]:
    if history.measured:
        median = f"{'at least ' if values['bound'] else ''}{values['median']} bits"
        title = f"Exposure at step {count(values['step'])}"
        yield Tile(title, median, sentence("history.exposed", **values))
    if history.measured and values["limit"]:
        within = values["within"] or "none"
        yield Tile("Last step within the limit", within, sentence("history.within", **values))
    skipped = _skipped(history)
    failed = len(history.moments) - len(history.measured)
    asked = sentence(
        "history.asked",
        asked=history.asked,
        fewer=skipped or failed,
        skipped=skipped,
        failed=failed,
        both=skipped and failed,
    )
    yield Tile("Measured", plural(len(history.measured), "time"), asked)


def _time_taken(history: History) -> str:
    share = "" if history.share is None else f" ({percent_of(history.share)})"
    return f"{history.own_seconds:.1f} s beside {history.training_seconds:.1f} s of training{share}"


@section(History, "Exposure against training steps", specialist=True)
def exposure(history: History) -> Iterator[Block]:
    """A line for each number of copies, of the formats after the first."""
    yield said_in_one("secrets", there=True, watched=True)
    for at, about in enumerate(history.formats):
        if len(history.formats) > 1:
            yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=about.masked))
        if at or not history.measured:  # the first is what came out
            yield history_figure(history, at)
        if any(line.steps for line in group_lines(history, at, skew_normal=True)):
            yield said_in_one("history.curves")
            yield history_figure(history, at, skew_normal=True)


def _table(history: History, lines: list[GroupLine]) -> Table:
    """A row per moment; of very many, evenly chosen ones and the last."""
    moments = history.measured
    every = math.ceil(len(moments) / _MOST_ROWS) or 1
    chosen = {*range(0, len(moments), every), *range(len(moments))[-1:]}
    steps = [loss.step for loss in history.losses]
    rows = []
    for moment in (moments[place] for place in sorted(chosen)):
        cells = [count(moment.step), "–" if moment.epoch is None else f"{moment.epoch:.2f}"]
        if steps:
            behind = bisect.bisect_right(steps, moment.step)
            cells.append(f"{history.losses[behind - 1].value:.4g}" if behind else "–")
        for group in lines:
            known = group.steps.index(moment.step) if moment.step in group.steps else None
            cells.append(
                "–" if known is None else bound_or_bits(group.medians[known], group.bounds[known])
            )
        rows.append(tuple(cells))
    names = (group_name(group.copies) for group in lines)
    columns = ("Step", "Epoch", *(("Loss",) if steps else ()), *names)
    return Table("Exposure against training steps, medians in bits", columns, rows)


@section(History, "How it was measured", specialist=True)
def how(history: History) -> Iterator[Block]:
    """The model, the settings, and what was put before candidates."""
    yield Heading("Model")
    yield Facts(in_words(history.model))
    yield Heading("Settings")
    used = sorted({shown_start(moment.start_token) for moment in history.measured})
    after = history.batches.get("after") or {}
    yield from said(
        "history.how",
        used=" and ".join(used),
        after=", ".join(f"{name} before {count(times)}" for name, times in after.items()),
        canaries=history.batches.get("canaries"),
    )
    asked = in_words({k: v for k, v in history.settings.items() if k != "marks"})
    yield Facts({**asked, "Time that measuring took": _time_taken(history)})


@figure_of.register
def plotted(history: History, options: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    if options.kind != "exposure" or options.repetitions is not None:
        raise InputError(
            "a history has one figure: exposure against training steps",
            cure="leave kind and repetitions out",
        )
    check_format(history, options.format)
    return history_figure(history, options.format, skew_normal=options.skew_normal)


def history_figure(history: History, at: int, *, skew_normal: bool = False) -> Figure:
    """Exposure against training steps, a line for each number of copies; below it the loss."""
    lines = group_lines(history, at, skew_normal=skew_normal)
    highest = max((value for group in lines for value in group.most), default=0.0)
    limit, about = history.settings.get("stop_above_bits"), history.formats[at]
    space_bits = math.log2(about.space_size)
    most = space_bits if skew_normal else min(math.log2(about.draws), space_bits)
    words = f"largest possible estimate: {bits(most)} bits" if most < space_bits else ""
    highest = 1.05 * max(highest, limit or 0.0)
    marks, y = exposure_axis(most, highest=highest, words=words and (words, ""))
    if limit is not None:
        name = f"limit: {limit:g} bits"
        marks.append(mark("axhline", limit, color=INK, linewidth=1.4, label=name))
    told = []
    for group in lines:
        marks += _line_marks(group, colour_of_copies(group.copies, [g.copies for g in lines]))
        if group.steps:
            medians = list(map(bound_or_bits, group.medians, group.bounds))
            first, last = (f"{medians[n]} at step {count(group.steps[n])}" for n in (0, -1))
            told.append(f"{group_name(group.copies)}: from {first} to {last}")
    thin: dict[str, Any] = {"linewidth": 0.7, "linestyle": DOTTED, "zorder": 0.5}
    upright = [across("axvline", step, **thin) for step in history.settings.get("marks") or ()]
    marks += upright + [
        mark("plot", moment.step, 0.0, marker="x", color=CURVE, clip_on=False)
        for moment in history.moments
        if moment.reason is not None
    ]
    if history.stopped_at is not None:
        marks.append(mark("axvline", history.stopped_at, color=CURVE, linewidth=1.2))
    known = [moment.step / moment.epoch for moment in history.moments if moment.epoch]
    steps = Axis("training steps" + (f" ({known[-1]:.4g} per epoch)" if known else ""))
    panels = [Panel(marks, steps, y, grid="y", legend="above" if told else "")]
    if history.losses:
        x = [point.step for point in history.losses]
        loss = line(x, [point.value for point in history.losses], INK, 1.2)
        below = [loss, mark("margins", y=0.15), *upright]
        panels.append(Panel(below, steps, Axis("loss"), grid="y", height=0.24))
    exposures = [e for m in history.measured for e in m.exposures]
    caption = said_in_one(
        "history.caption",
        format=about.masked,
        drawn=not skew_normal,
        draws=about.draws,
        size=about.space_size,
        censored=not skew_normal and any(e.censored for e in exposures),
        usual=bits(UNLEARNED_95_BITS),
        most=bits(space_bits),
        best=bits(most),
        limited=limit is not None,
        whole=most == space_bits,
        cut=most < space_bits,
        losses=history.losses,
        marks=history.settings.get("marks"),
        failures=len(history.measured) < len(history.moments),
        stopped=history.stopped_at is not None,
    )
    return Figure(
        f"history {at} {skew_normal}",
        f"Exposure against training steps. Median exposure in bits, {'; '.join(told)}.",
        panels,
        caption,
        _table(history, lines),
        stack=bool(history.losses),
    )


@dataclass(frozen=True)
class GroupLine:
    """Exposure of the canaries with one number of copies, at each moment in bits.

    `bounds` says of each median whether it is only a lower bound. The line goes through
    `places`, which are `Exposure.place_bits`, and the band from `least` to `most` of them.
    """

    copies: int
    steps: tuple[int, ...]
    medians: tuple[float, ...]
    bounds: tuple[bool, ...]
    places: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]


def group_lines(history: History, at: int, *, skew_normal: bool = False) -> list[GroupLine]:
    """The lines of one format, controls first.

    With `skew_normal` they are off the curves; a moment at which a group has no such
    estimates has no point then.
    """
    lines = []
    for copies, places in history.groups(at).items():
        rows: list[tuple[int, float, bool, float, float, float]] = []
        for moment in history.measured:
            group = [moment.exposures[place] for place in places]
            curve = [moment.curve_bits[place] for place in places]
            drawn = curve if skew_normal else [e.place_bits for e in group]
            known = [value for value in drawn if value is not None]
            if len(known) == len(places):
                middle = statistics.median(known)
                told = (middle, False) if skew_normal else median_bits(group)
                rows.append((moment.step, *told, middle, min(known), max(known)))
        lines.append(GroupLine(copies, *(zip(*rows, strict=True) if rows else ((),) * 6)))
    return lines


def _line_marks(group: GroupLine, colour: str) -> Iterator[Mark]:
    style = {"linestyle": "-" if group.copies else (0, (4, 2)), "label": group_name(group.copies)}
    between = group.steps, group.least, group.most
    yield mark("fill_between", *between, color=colour, alpha=0.16, linewidth=0)
    yield line(group.steps, group.places, colour, 1.8, **style)
    if len(group.steps) > _MOST_MARKERS:
        return
    for bound, marker, size in ((False, "o", 16), (True, "^", 26)):
        some = [i for i, is_bound in enumerate(group.bounds) if is_bound == bound]
        points = [group.steps[i] for i in some], [group.places[i] for i in some]
        hollow = bound or not group.copies
        yield dots(*points, size, colour, hollow=hollow, marker=marker, zorder=2.5)
