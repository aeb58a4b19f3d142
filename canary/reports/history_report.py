"""The report of a training that was watched, and its figure."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from canary.audits.history import History
from canary.errors import InputError
from canary.gate.weak_limits import asked_guesses
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
    Text,
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
    in_guesses,
)
from canary.reports.history_answer import answer_of, basis_of
from canary.reports.history_lines import GroupLine, group_lines
from canary.reports.palette import BAND, CURVE, DOTTED, INK, SPARSE, across, dots, line
from canary.reports.sentences import UNLEARNED_95_BITS, guesses_of
from canary.reports.wording import about_of, bound_or_bits, called, ended, in_words
from canary.statistics.numbers import bits, count, percent_of
from canary.tokens.starts import shown_start

_MOST_ROWS = 200
_MOST_FAILURES = 5
_MOST_MARKERS = 60
_OPEN = "range of a diamond"


@report_of.register
def history_report(history: History) -> Report:
    """What there is to say about a training that was watched."""
    failures = [
        f"At step {count(moment.step)} nothing could be measured: {moment.reason}."
        for moment in history.moments
        if moment.reason is not None
    ]
    more = len(failures) - _MOST_FAILURES
    label, tone, values = answer_of(history)
    key = "history.answer" if history.measured else "history.nothing"
    return Report(
        title=f"Memorization while {called(history.model_name, 'a language model')} was trained",
        label=label,
        tone=tone,
        sentences=said(key, **values),
        basis=basis_of(history, values),
        decide=said("history.decide", **values),
        actions=said(
            "history.actions",
            **values,
            failed=len(failures),
            skipped=_skipped(history),
        ),
        about={
            **about_of(history),
            "Version of the weights": sentence("history.weights"),
            "Limit": values["limit"] or "none was set",
        },
        tiles=[*_tiles(history, values)],
        outcome=[*_outcome(history)] if history.measured else (),
        unsaid=said("history.unsaid"),
        notes=[
            *_precision(history),
            *((Span(finding, "strong"),) for finding in ended(history.findings)),
            *failures[:_MOST_FAILURES],
            *([f"The same at {more} more steps."] if more > 0 else []),
        ],
        sections=sections_of(history),
    )


def _precision(history: History) -> Sequence[Text]:
    """That it was measured in few digits, as where training runs under autocast."""
    dtype = history.model.get("dtype")
    return said("history.coarse", dtype=dtype) if dtype in ("bfloat16", "float16") else []


def _outcome(history: History) -> Iterator[Block]:
    """What canaries are, how often they were measured, and the figure."""
    injected = sum(1 for canary in history.canaries if canary.repetitions)
    controls = len(history.canaries) - injected
    skipped = _skipped(history)
    failed = len(history.moments) - len(history.measured)
    yield said_in_one(
        "history.canaries",
        injected=injected,
        controls=controls,
        measured=len(history.measured),
        asked=history.asked,
        fewer=skipped or failed,
        skipped=skipped,
        failed=failed,
        both=skipped and failed,
    )
    yield history_figure(history, _most_exposed(history.without_control()))


def _most_exposed(history: History) -> int:
    """The format of the canaries with the highest median at the last step."""

    def last(at: int) -> tuple[float, ...]:
        return max(
            (line.medians[-1:] for line in group_lines(history, at) if line.copies), default=()
        )

    return max(range(len(history.formats)), key=last)


def _skipped(history: History) -> int:
    """Measurements that were left out to save time."""
    timed = history.settings.get("share") is not None
    return max(history.asked - len(history.moments), 0) if timed else 0


def _tiles(history: History, values: Mapping[str, Any]) -> Iterator[Tile]:
    if history.measured and values["limit"]:
        within = values["within"] or "none"
        yield Tile("Last step within the limit", within, sentence("history.within", **values))


def _time_taken(history: History) -> str:
    share = "" if history.share is None else f" ({percent_of(history.share)})"
    return f"{history.own_seconds:.1f} s beside {history.training_seconds:.1f} s of training{share}"


@section(History, "Exposure against training steps", specialist=True)
def exposure(history: History) -> Iterator[Block]:
    """A line for each number of copies, of the formats that are not in what came out."""
    shown = _most_exposed(history.without_control())
    yield said_in_one("secrets", there=True, watched=True)
    for at, about in enumerate(history.formats):
        if len(history.formats) > 1:
            yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=about.masked))
        if at != shown or not history.measured:
            yield history_figure(history, at)
        if any(line.steps for line in group_lines(history, at, skew_normal=True)):
            yield said_in_one("history.curves")
            yield history_figure(history, at, skew_normal=True)


def _table(history: History, lines: list[GroupLine], space_bits: float | None) -> Table:
    """A row per moment, in guesses, or in bits; of very many, evenly chosen ones and the last."""
    moments = history.measured
    every = math.ceil(len(moments) / _MOST_ROWS) or 1
    chosen = {*range(0, len(moments), every), *range(len(moments))[-1:]}
    steps = [loss.step for loss in history.losses]
    epochs, rows = any(moment.epoch is not None for moment in moments), []
    for moment in (moments[place] for place in sorted(chosen)):
        cells = [count(moment.step)]
        if epochs:
            cells.append("–" if moment.epoch is None else f"{moment.epoch:.2f}")
        if steps:
            behind = bisect.bisect_right(steps, moment.step)
            cells.append(f"{history.losses[behind - 1].value:.4g}" if behind else "–")
        for group in lines:
            known = group.steps.index(moment.step) if moment.step in group.steps else None
            if known is None:
                cells.append("–")
            elif space_bits is None:
                cells.append(bound_or_bits(group.certain[known], group.bounds[known]))
            else:
                least = "≤ " if group.bounds[known] else ""
                cells.append(least + count(guesses_of(space_bits - group.certain[known])))
        rows.append(tuple(cells))
    unit = "bits" if space_bits is None else "guesses"
    names = (f"{group.name}\n({unit})" for group in lines)
    columns = ("Step", *(("Epoch",) if epochs else ()), *(("Loss",) if steps else ()), *names)
    return Table(f"The typical secret against training steps, in {unit}", columns, rows)


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
    check_format(history, options.at)
    if options.skew_normal and options.axis == "guesses":
        raise InputError(
            "skew-normal estimates are in bits: they have no limit, and guesses have one",
            cure="leave axis or skew_normal out",
        )
    in_bits = options.skew_normal or options.axis == "bits"
    return history_figure(history, options.at, skew_normal=options.skew_normal, in_bits=in_bits)


def history_figure(
    history: History, at: int, *, skew_normal: bool = False, in_bits: bool = False
) -> Figure:
    """Exposure against training steps, a line for each number of copies; below it the loss."""
    lines = group_lines(history, at, skew_normal=skew_normal)
    highest = max((value for group in lines for value in group.most), default=0.0)
    limit, about = history.settings.get("stop_above_bits"), history.formats[at]
    space_bits = math.log2(about.space_size)
    most = space_bits if skew_normal else min(math.log2(about.draws), space_bits)
    top = f"found at the first guess: {bits(most)} bits"
    words = top if most == space_bits else "nothing above can be seen", "chance"
    ends = (end for group in lines for _, end in group.open_ended if in_bits)
    highest = 1.05 * max(highest, limit or 0.0, *ends)
    label = f"{'skew-normal estimate of ' if skew_normal else ''}exposure (bits)"
    marks, y = exposure_axis(most, label, highest=highest, words=words)
    if skew_normal:  # no exposure can be up there
        marks.append(mark("axhspan", space_bits, y.limits[1], color=BAND, linewidth=0))
    elif not in_bits:
        y = in_guesses(y, space_bits)
        y = replace(y, label=y.label.replace(" (", "\n("))  # above the loss there is less room
    if limit is not None:
        asked = f"{count(asked_guesses(about.space_size, limit))} guesses or more"
        name = f"limit: {f'{limit:g} bits' if skew_normal or in_bits else asked}"
        marks.append(mark("axhline", limit, color=INK, linewidth=1.4, label=name))
    told, near = [], 0.01 * highest
    banded = max(lines, key=lambda one: (not one.control, one.medians[-1:], one.copies))
    for at_line, group in enumerate(lines, start=1):
        colour = colour_of_copies(group.copies, [g.copies for g in lines])
        over = sum(group.meets(other, near) for other in lines[at_line:])
        named = any(mark.style.get("label") == _OPEN for mark in marks)
        marks += _marks(group, colour, over, band=group is banded, named=named)
        if group.steps:
            medians = list(map(bound_or_bits, group.certain, group.bounds))
            first, last = (f"{medians[n]} at step {count(group.steps[n])}" for n in (0, -1))
            told.append(f"{group.name}: from {first} to {last}")
    thin: dict[str, Any] = {"linewidth": 0.7, "linestyle": DOTTED, "zorder": 0.5}
    upright = [across("axvline", step, **thin) for step in history.settings.get("marks") or ()]
    marks += upright + [
        mark("plot", moment.step, 0.0, marker="x", color=CURVE, clip_on=False)
        for moment in history.moments
        if moment.reason is not None
    ]
    if history.stopped_at is not None:
        at_top: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        marks.append(mark("annotate", "▼", (history.stopped_at, 1.0), **at_top, color=CURVE))
    known = [moment.step / moment.epoch for moment in history.moments if moment.epoch]
    steps = Axis("training steps" + (f" ({known[-1]:.4g} per epoch)" if known else ""))
    panels = [Panel(marks, steps, y, grid="y", legend="above" if told else "")]
    if history.losses:
        x = [point.step for point in history.losses]
        loss = line(x, [point.value for point in history.losses], INK, 1.2)
        below = [loss, mark("margins", y=0.15), *upright]
        panels.append(Panel(below, steps, Axis("loss"), grid="y", height=0.24))
    caption = said_in_one(
        "history.caption",
        format=about.masked,
        control=any(group.control for group in lines),
        drawn=not skew_normal,
        draws=about.draws,
        size=about.space_size,
        censored=any(any(group.bounds) for group in lines),
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
        _table(history, lines, None if skew_normal else space_bits),
        stack=bool(history.losses),
    )


def _marks(group: GroupLine, colour: str, over: int, *, band: bool, named: bool) -> Iterator[Mark]:
    """The line and its dots, broader for each line that is drawn `over` it: that hides none."""
    style = {"linestyle": "-" if group.copies else (0, (4, 2)), "label": group.name}
    between = group.steps, group.least, group.most
    if band:
        yield mark("fill_between", *between, color=colour, alpha=0.16, linewidth=0)
    yield line(group.steps, group.heights, colour, 1.8 + 3.0 * over, **style)
    if len(group.steps) > _MOST_MARKERS:
        return
    for bound, marker, size in ((False, "o", 16), (True, "D", 18)):
        some = [i for i, is_bound in enumerate(group.bounds) if is_bound == bound]
        points = [group.steps[i] for i in some], [group.heights[i] for i in some]
        if bound:  # from what is certain to where it can be
            low, high = ([end[at] for end in group.open_ended] for at in (0, 1))
            open_ended: dict[str, Any] = {"linewidth": 1.6, "linestyle": SPARSE}
            if points[0] and not named:
                open_ended["label"] = _OPEN
            yield mark("vlines", points[0], low, high, color=colour, **open_ended)
        hollow = bound or not group.copies
        yield dots(*points, size + 30 * over, colour, hollow=hollow, marker=marker, zorder=2.5)
