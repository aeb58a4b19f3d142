"""Reports and figures of results that have none of their own module: plans, scores, counts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from canary.audits.exposure_result import Exposures
from canary.audits.extraction import Extraction
from canary.audits.group_medians import by_copies, shown_medians
from canary.corpus.canaries import CanarySet
from canary.corpus.verification import Verification
from canary.errors import InputError
from canary.gate.coins import EpsilonBound
from canary.gate.plan_result import GatePlan
from canary.gate.verdict import Finding, Verdict
from canary.membership.attacks import AttackScores
from canary.membership.counterfactual import Counterfactual
from canary.membership.many import ManyScores
from canary.membership.privacy import AttackEpsilon
from canary.membership.risk import RiskScores
from canary.reports.audit_report import audit_report
from canary.reports.builders import PlotOptions, figure_of, report_of
from canary.reports.document import (
    Axis,
    Block,
    Figure,
    Mark,
    Panel,
    Report,
    Section,
    Table,
    mark,
    said,
)
from canary.reports.exposure_figures import colour_of_copies, group_marks, places_of
from canary.reports.palette import CONTROL, FILL, INK, SERIES, across, dots, line, steps
from canary.reports.wording import (
    EXPOSURE_COLUMNS,
    about_of,
    called,
    ended,
    exposure_cells,
    folded,
    interval_of,
    run_blocks,
)
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import Shown, bits_or_bound, count, plural
from canary.statistics.numbers import copies as times

_MOST_ROWS = 200
_MOST_BARS = 30
_BINS = 40


def any_report(result: Shown, **_: Any) -> Report:
    """The short form of a result, and its numbers."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(result).__name__).lower()
    first, *others = result.summary().strip().splitlines()
    frame = result.to_frame()
    rows = [tuple(map(_cell, row)) for row in frame[:_MOST_ROWS].itertuples(index=False)]
    title = "Numbers"
    if len(frame) > _MOST_ROWS:
        title = f"The first {_MOST_ROWS} of {plural(len(frame), 'row')}"
    numbers = Table(title, tuple(map(str, frame.columns)), rows, style="words")
    blocks: list[Block] = [*_figure(result), numbers]
    return Report(
        title=f"canary: {name}",
        label=name.capitalize(),
        sentences=[first],
        notes=[other.strip() for other in others],
        sections=[Section("numbers", "Numbers", blocks)],
    )


@report_of.register
def exposures_report(found: Exposures) -> Report:
    """Exposures by number of copies, and those of each canary; no limit was set."""
    groups = by_copies(found)
    medians = shown_medians({n: [c.exposure for c in group] for n, group in groups.items()})
    said_of = [
        f"{medians[n]} for {plural(len(group), 'secret')} "
        + (f"that appeared {times(n)}" if n else "never planted")
        for n, group in sorted(groups.items(), reverse=True)
    ]
    rows = [
        exposure_cells(n, [c.exposure for c in group], formats=[c.format for c in group])
        for n, group in groups.items()
    ]
    by_number = Table("Exposure in bits by number of copies", EXPOSURE_COLUMNS, rows)
    each = [
        (c.id, count(c.repetitions), bits_or_bound(c.exposure), interval_of(c.exposure))
        for c in found
    ]
    columns = ("Canary", "Copies", "Exposure\n(bits)", "Interval\n(bits)")
    every = [*folded(Table("Canaries", columns, each))]
    how = [*run_blocks(found.model, found.settings)]
    made = Report(
        title=f"Exposure of canaries under {called(found.model_name, 'a language model')}",
        label=f"The exposure of {plural(len(found), 'canary', 'canaries')}",
        sentences=[f"Median exposure: {', '.join(said_of)}.", *said("exposures.meaning")],
        about=about_of(found) | {"Limit": "none was set"},
        notes=ended(found.notes),
        actions=said("exposures.actions"),
        outcome=[replace(exposures_figure(found, PlotOptions()), table=by_number)],
        sections=[
            Section("canaries", "Every canary", every, specialist=True),
            Section("how", "How it was measured", how, specialist=True),
        ],
    )
    try:
        judged = audit_report(found.as_audit())
    except InputError:  # estimates that nothing bounds, or of an earlier version
        return made
    # The first screen of an audit; the numbers of the canaries come after it.
    return replace(
        judged,
        title=made.title,
        actions=[*judged.actions, *made.actions],
        sections=[
            replace(made.sections[0], blocks=[*made.sentences, *made.outcome, *every]),
            *made.sections[1:],
        ],
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return count(value) if type(value) is int else str(value)


def _figure(result: Shown) -> Iterator[Figure]:
    if figure_of.dispatch(type(result)) is not figure_of.dispatch(object):
        yield figure_of(result, PlotOptions())


@figure_of.register
def extraction_figure(found: Extraction, _: PlotOptions) -> Figure:
    """The log-perplexity of each candidate, most likely first; hollow where not proven."""
    marks = []
    for proven in (True, False):
        chosen = [(n, c.px_bits) for n, c in enumerate(found.candidates, 1) if c.proven is proven]
        if chosen:
            name = "proven" if proven else "not proven"
            x, y = zip(*chosen, strict=True)
            marks.append(dots(x, y, 40, SERIES[0], hollow=not proven, label=name))
    many = len(found.candidates)
    words = f"Log-perplexity of {plural(many, 'candidate')}, in bits."
    places = {n: count(n) for n in range(1, many + 1, -(-many // 10) or 1)}
    x_axis = Axis("candidate, most likely first", ticks=places)
    panel = Panel(marks, x_axis, Axis("log-perplexity (bits)"), legend="best")
    return Figure("extraction", words, [panel])


@figure_of.register
def exposures_figure(found: Exposures, _: PlotOptions) -> Figure:
    """The exposure of each canary above its number of copies, with the intervals."""
    copies = sorted({canary.repetitions for canary in found})
    places, widths = places_of(copies)
    marks: list[Mark] = []
    for n, place, width in zip(copies, places, widths, strict=True):
        group = [canary for canary in found if canary.repetitions == n]
        marks += group_marks(group, place, width, colour_of_copies(n, copies))
    ticks = {place: count(n) for place, n in zip(places, copies, strict=True)}
    panel = Panel(marks, Axis("copies (0: controls)", ticks=ticks), Axis("exposure (bits)"))
    words = f"Exposure of {plural(len(found), 'canary', 'canaries')} by number of copies."
    return Figure("exposures", words, [panel])


@figure_of.register
def verdict_figure(verdict: Verdict, _: PlotOptions) -> Figure:
    """Each finding's estimate with its interval, and the limit; one panel for each unit."""
    drawn = [f for f in verdict.findings if f.value is not None or f.lower is not None]
    units = {"p-value": "p-value", "controls": "p-value", "epsilon": "epsilon"}
    panels = []
    for unit in dict.fromkeys(units.get(f.check, "exposure (bits)") for f in drawn):
        mine = [f for f in drawn if units.get(f.check, "exposure (bits)") == unit]
        names = {float(place): f"{f.check}: {f.subject}" for place, f in enumerate(mine)}
        marks = [each for place, f in enumerate(mine) for each in _judged(f, place)]
        panels.append(Panel(marks, Axis(unit), Axis(ticks=names, ruled=False), grid="x"))
    if not panels:
        raise InputError("no finding of the verdict has a number", cure="print it", where="plot")
    return Figure("verdict", f"{plural(len(drawn), 'finding')} beside the limits.", panels)


def _judged(finding: Finding, place: int) -> Iterator[Mark]:
    """The interval, the estimate and the limit of a finding."""
    ends = [end for end in (finding.lower, finding.upper) if end is not None and math.isfinite(end)]
    if len(ends) == 2:
        yield line(ends, [place, place], INK, 2.0)
    if finding.value is not None:
        yield dots([finding.value], [place], 40, INK)
    if finding.limit is not None:
        yield mark("scatter", [finding.limit], [place], 160, marker="|", color=SERIES[1])


@figure_of.register
def plan_figure(plan: GatePlan, _: PlotOptions) -> Figure:
    """From which exposures on the planned audit decides."""
    ends = {
        "called memorized from": plan.memorized_bits,
        "passes up to": plan.passed_bits,
        "limit": plan.max_exposure_bits,
        "evidence from": plan.seen_bits,
        "largest possible": math.log2(plan.space_size),
    }
    return _bars("plan", "median exposure (bits)", ends)


@figure_of.register(EpsilonBound)
@figure_of.register(AttackEpsilon)
def epsilon_figure(bound: EpsilonBound | AttackEpsilon, _: PlotOptions) -> Figure:
    """The bound, and the largest that could have been found."""
    ends = {"largest possible bound": bound.largest_possible, "epsilon is at least": bound.epsilon}
    if bound.mechanism != "any":
        ends = {"at least, for any mechanism": bound.epsilon_any, **ends}
    return _bars("epsilon", "epsilon", ends)


@figure_of.register
def verification_figure(found: Verification, _: PlotOptions) -> Figure:
    """How often each canary was expected, and found; departures first."""
    first = sorted(found.canaries, key=lambda canary: canary.ok)[:_MOST_BARS][::-1]
    names = dict(enumerate(canary.id for canary in first))
    marks = [
        mark("barh", [*names], [c.expected for c in first], color=FILL, label="expected"),
        dots([c.found for c in first], [*names], 40, INK, label="found"),
    ]
    axis = Axis(ticks=names, ruled=False)
    panel = Panel(marks, Axis("copies", limits=(0, None)), axis, grid="x", legend="above")
    return Figure("verification", f"Copies of {plural(len(first), 'canary', 'canaries')}.", [panel])


@figure_of.register
def set_figure(canaries: CanarySet, _: PlotOptions) -> Figure:
    """How many canaries have each number of copies."""
    copies = sorted({canary.repetitions for canary in canaries}, reverse=True)
    sizes = {
        plural(n, "copy", "copies") if n else "controls": sum(c.repetitions == n for c in canaries)
        for n in copies
    }
    return _bars("set", "canaries", sizes)


@figure_of.register(SignalTable)
def table_figure(table: SignalTable, _: PlotOptions) -> Figure:
    """The loss (or the first signal) of members and of non-members."""
    name = "loss" if "loss" in table.values else next(iter(table.values))
    return _histogram("signal", name, _by_member(table.values[name], table.member))


@figure_of.register
def scores_figure(scores: AttackScores, _: PlotOptions) -> Figure:
    """The scores, by what the attack guesses where it guesses."""
    groups: Mapping[str, Any] = {"samples": scores.scores}
    if scores.guess is not None:
        called = {"called members": scores.guess, "called non-members": ~scores.guess}
        groups = {name: scores.scores[which] for name, which in called.items()}
    return _histogram("scores", f"score of {scores.name}", groups)


@figure_of.register
def many_scores_figure(found: ManyScores, _: PlotOptions) -> Figure:
    """The scores of members and of non-members, over all targets."""
    judged = found.scores[:, found.judged], found.member[:, found.judged]
    return _histogram("scores", f"score of {found.name}", _by_member(*judged))


@figure_of.register
def counterfactual_figure(found: Counterfactual, _: PlotOptions) -> Figure:
    """What samples do to their own scores."""
    label = f"counterfactual memorization by {found.signal}"
    return _histogram("counterfactual", label, {"samples": found.value})


@figure_of.register
def risk_figure(risks: RiskScores, _: PlotOptions) -> Figure:
    """The risk scores of all samples, and the prior."""
    figure = _histogram("risk", "risk score", {"samples": risks.scores})
    panel = figure.panels[0]
    marks = [*panel.marks, across("axvline", risks.prior, label="prior")]
    return Figure(figure.name, figure.words, [Panel(marks, panel.x, panel.y, legend="best")])


def _by_member(values: ArrayLike, member: ArrayLike) -> dict[str, Any]:
    numbers, inside = np.asarray(values), np.asarray(member)
    return {"members": numbers[inside], "non-members": numbers[~inside]}


def _histogram(name: str, label: str, groups: Mapping[str, Any]) -> Figure:
    """Shares of each group in equal bins of what is finite."""
    finite = {group: values[np.isfinite(values)] for group, values in groups.items()}
    edges = np.histogram_bin_edges(np.concatenate([*finite.values()]), _BINS)
    colours: Sequence[str] = (SERIES[1], CONTROL)
    marks = [
        steps(np.histogram(values, edges)[0] / max(values.size, 1), edges, colour, label=group)
        for (group, values), colour in zip(finite.items(), colours, strict=False)
    ]
    sizes = ", ".join(f"{values.size:,} {group}" for group, values in finite.items())
    y = Axis("share", limits=(0, None))
    panel = Panel(marks, Axis(label), y, grid="y", legend="best")
    return Figure(name, f"Histogram of {label}: {sizes}.", [panel])


def _bars(name: str, label: str, ends: Mapping[str, float | None]) -> Figure:
    """Named numbers as bars; None and what is not finite has none."""
    known = {n: end for n, end in ends.items() if end is not None and math.isfinite(end)}
    marks = [mark("barh", [*known], [*known.values()], color=FILL)]
    panel = Panel(marks, Axis(label, limits=(0, None)), Axis(ruled=False), grid="x")
    words = "; ".join(f"{n}: {end:.4g}" for n, end in known.items())
    return Figure(name, f"{label}: {words}.", [panel])
