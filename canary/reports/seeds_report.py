"""The page and the figure of ways of training that are compared over seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from canary.audits.audit_setup import in_one_format
from canary.audits.by_rank import can_rank
from canary.errors import InputError
from canary.gate.regression import SEEDS
from canary.records.validation import brief
from canary.reports.builders import (
    PlotOptions,
    figure_of,
    of_format,
    report_of,
    section,
    sections_of,
)
from canary.reports.comparison import View
from canary.reports.document import (
    Block,
    Facts,
    Figure,
    Heading,
    Mark,
    Panel,
    Report,
    Table,
    Text,
    mark,
    prose,
    said,
    said_in_one,
    sentence,
)
from canary.reports.exposure_figures import (
    check_format,
    copies_axis,
    exposure_axis,
    in_guesses,
    places_of,
)
from canary.reports.limits import basis_of, planting, weakest
from canary.reports.palette import MUTED, dots, line
from canary.reports.ranked_models import RANK_LEVEL, times_of
from canary.reports.seeds_cells import Cell, cut, ends_of, estimate, listed, mean_words
from canary.reports.seeds_compared import SeedsCompared
from canary.reports.seeds_losses import (
    colour_of,
    key_of_sets,
    losses_figure,
    losses_sentence,
    marker_of,
    named_losses,
)
from canary.reports.sentences import answer
from canary.reports.wording import about_of, in_words
from canary.statistics.numbers import bits, count, percent_of, plural, probability

_HOW = ("budget", "start_token", "context", "versions")
_VERSIONS = "Version of the weights"  # each audit has one, in a table of its own


@report_of.register
def seeds_report(found: SeedsCompared) -> Report:
    """What there is to say about ways of training, each by several seeds."""
    decided, suspect = len(found.least) < len(found.labels), "suspect" in found.why_not
    weak = weakest(found.audits)
    basis: Text = ""
    if weak is not None and planting(weak) != "shown" and not suspect:
        basis = basis_of(weak)
    bounded = any(cell.bounded for cell in found.cells)
    ranks = all(can_rank(audit.model) for audit in found.audits)
    values: dict[str, Any] = {
        "level": _level(found),
        "least_seeds": SEEDS,
        "sound": not found.why_not,
        "decided": decided,
        "chance": not (decided or found.why_not),
        "few": "fewer than" in found.why_not,
        "halves": count(_halving(min(map(len, found.groups)), found.confidence)),
        "sets": found.mixed_sets,
        "unread": listed([*map(brief, found.unread)]),
        "alike": listed([*map(brief, found.alike)]),
        "bounded": bounded and ranks,
        "drawn": bounded and not ranks,
        "losses": bool(found.losses),
        "traded": decided and bool(found.losses),
        "unweighed": decided and not found.losses,
    }
    gaps = [_gap_sentence(found, at) for at in range(len(found.pairs))]
    gaps += [sentence("seeds.other_sets")] if found.mixed_sets else []
    gaps += [losses_sentence(found)] if found.losses else []
    return Report(
        title=f"Comparison of {plural(len(found.labels), 'way')} of training",
        label=found.answer if decided else _shorter(found),
        tone="suspect" if suspect else "" if decided and not found.alike else "undecided",
        sentences=[*([] if decided else [f"{found.answer}."]), *gaps],
        basis=basis,
        decide=said("seeds.decide", **values),
        actions=said("seeds.actions", **values),
        about={
            **{
                label: plural(len(group), "seed")
                for label, group in zip(found.labels, found.groups, strict=True)
            },
            **{name: fact for name, fact in about_of(*found.audits).items() if name != _VERSIONS},
            "Limit": "none was set",
        },
        outcome=[
            said_in_one("comparison.canaries"),
            *said("seeds.number", used=found.used, any=bool(found.usable)),
            seeds_figure(_in_one_format(found), 0),
            *([losses_figure(found)] if found.losses and found.overall else []),
        ],
        notes=found.notes,
        unsaid=said("seeds.unsaid", **values),
        sections=sections_of(found),
    )


def _halving(seeds: int, confidence: float) -> int:
    """How many seeds halve Student's interval of so many, if they scatter alike."""
    from scipy.stats import t

    level, least = (1.0 + confidence) / 2.0, max(seeds, 2)
    wide = t.ppf(level, least - 1) / math.sqrt(least)
    enough = (n for n in itertools.count(least) if 2.0 * t.ppf(level, n - 1) <= wide * math.sqrt(n))
    return next(enough)


def _shorter(found: SeedsCompared) -> str:
    few = "fewer than" in found.why_not and not found.mixed_sets
    return "Not enough seeds to rank" if few else "Cannot be ranked"


def _level(found: SeedsCompared) -> str:
    return percent_of(found.confidence, digits=None)


def _gap_sentence(found: SeedsCompared, at: int) -> str:
    """How much more one group of a pair is exposed, in bits and as a factor of guesses."""
    pair = found.pairs[at]
    p = pair.bits.p_value
    values: dict[str, Any] = {
        "more": brief(pair.more),
        "less": brief(pair.less),
        "used": found.used,
        "gap": bits(pair.bits.value),
        "ends": ends_of(pair.bits),
        "level": _level(found),
        "times": times_of(2.0**pair.bits.value),
        "shown": pair.shown,
        "no_ends": pair.bits.lower is None,
        "unranked": pair.bits.lower is not None and not pair.shown,
        "why": ""
        if pair.sure or p is None
        else f": ranking takes p = {RANK_LEVEL:g} or less, and "
        f"p is {probability(min(1.0, p * len(found.pairs)))}",
    }
    return sentence("seeds.gap", **values)


@figure_of.register
def plotted(found: SeedsCompared, options: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    check_format(found.audits[0], options.at)
    if options.kind == "utility" and options.format:
        raise InputError(
            "utility of groups of seeds is over all formats", cure="leave the format out"
        )
    if options.kind == "utility" and options.repetitions is None and not options.skew_normal:
        return losses_figure(found)
    if options.kind != "exposure" or options.repetitions is not None or options.skew_normal:
        raise InputError(
            "groups of seeds have two figures: exposure by number of copies, and utility",
            cure="leave repetitions and skew_normal out",
        )
    found = _in_one_format(found) if options.over_all else found
    figure = seeds_figure(found, options.at, in_bits=options.axis == "bits")
    return of_format(figure, options.at, len(found.audits[0].formats))


def _in_one_format(found: SeedsCompared) -> SeedsCompared:
    """With all numbers of copies in one figure, where `in_one_format` finds that fair."""
    groups = [[replace(s, audit=in_one_format(s.audit)) for s in some] for some in found.groups]
    joined = replace(found, groups=tuple(map(tuple, groups)))
    if len(joined.audits[0].formats) < len(found.audits[0].formats):
        # Canaries take each other's ranks in one format alone, so the highest medians stay.
        own = {cell.repetitions: replace(cell, format=0) for cell in found.cells}
        cells = (own[cell.repetitions] if cell.repetitions else cell for cell in joined.cells)
        vars(joined)["cells"] = tuple(cells)
    return joined


def seeds_figure(found: SeedsCompared, at: int, *, in_bits: bool = False) -> Figure:
    """Exposure by number of copies: a colour for each group, a faint point for each seed."""
    cells = [cell for cell in found.cells if cell.format == at]
    copies = [cell.repetitions for cell in cells]
    view = View([one for group in found.groups for one in group], at)
    places, widths = places_of(copies)
    marks: list[Mark] = []
    for group in range(len(found.labels)):
        shift = 0.8 * ((group + 0.5) / len(found.labels) - 0.5)
        x = [place + shift * width for place, width in zip(places, widths, strict=True)]
        marks += _group_marks(
            found, cells, group, x, [0.16 * width / len(found.labels) for width in widths]
        )
    highest = 1.06 * max(value for cell in cells for some in cell.medians for value in some)
    words = None if in_bits else ("found at the first guess", "")
    limits, y = exposure_axis(view.space_bits, "median exposure (bits)", highest, words=words)
    if not in_bits:
        y = in_guesses(y, view.space_bits)
    ends = places[0] - max(0.7 * widths[0], 0.2), places[-1] + max(0.7 * widths[-1], 0.2)
    x_axis, level = copies_axis(found.audits[0], copies, places, limits=ends), _level(found)
    narrow = x_axis  # on a phone, the caption says the rest
    x_axis = replace(x_axis, label=f"{x_axis.label}; mean over seeds with {level} interval")
    key = [(colour_of(group), label) for group, label in enumerate(found.labels)]
    key.append((MUTED, "faint: one seed"))
    if any(cell.bounded for cell in cells):
        key.append((MUTED, "hollow: at least"))
    key += key_of_sets(found)
    panel = Panel(limits + marks, x_axis, y, narrow, grid="y", legend="above", key=key)
    told = [
        f"{label}, {count(cell.repetitions) if cell.repetitions else 'controls'}: "
        f"{mean_words(cell, group, found.confidence)}"
        for cell in cells
        for group, label in enumerate(found.labels)
    ]
    return Figure(
        f"seeds {at}",
        f"Median exposure against number of copies, as a mean over seeds. {'; '.join(told)}.",
        [panel],
        said_in_one(
            "seeds.caption",
            level=level,
            bounded=any(cell.bounded for cell in cells),
            sets=found.mixed_sets,
            several=len(found.audits[0].formats) > 1,
            format=found.audits[0].formats[at].masked,
        ),
        _by_copies(found, cells),
    )


def _group_marks(
    found: SeedsCompared, cells: list[Cell], group: int, x: list[float], spread: list[float]
) -> Iterator[Mark]:
    """A group's seeds, its means with their intervals, and a line through these."""
    colour, marker = colour_of(group), marker_of(group)
    means = [estimate(cell, group, found.confidence) for cell in cells]
    yield line(x, [mean.value for mean in means], colour, 1.4, alpha=0.75)
    for cell, mean, place, wide in zip(cells, means, x, spread, strict=True):
        seeds, bounds = cell.medians[group], cell.bounds[group]
        step, left = wide / max(len(seeds) - 1, 1), 0.7 * wide  # the mean is beside them
        for sort in {*bounds}:
            some = [i for i, bound in enumerate(bounds) if bound == sort]
            at = [place - left - step * i for i in some]
            style = {"marker": "^" if sort else marker, "alpha": 0.35, "zorder": 2}
            yield dots(at, [seeds[i] for i in some], 16, colour, hollow=sort, **style)
        if mean.lower is not None and mean.upper is not None:
            low, high = cut(mean.value, mean.lower, mean.upper, cell.most)
            yield mark("vlines", place, low, high, color=colour, linewidth=2.2, zorder=3)
        bound = any(bounds)
        style = {"marker": "^" if bound else marker, "zorder": 3.5}
        yield dots(place, mean.value, 52, colour, hollow=bound, **style)


def _by_copies(found: SeedsCompared, cells: list[Cell]) -> Table:
    """A row for each number of copies and group, with the difference to the first group."""
    rows = []
    for cell in cells:
        for at, label in enumerate(found.labels):
            mean = estimate(cell, at, found.confidence)
            gap: tuple[str, str, str] = ("–", "–", "–")
            if known := found.difference(cell, at):
                tested = probability(known.p_value) if known.p_value is not None else "–"
                gap = f"{known.value:+.1f}", ends_of(known), tested
            rows.append(
                (
                    count(cell.repetitions) if cell.repetitions else "0 (controls)",
                    label,
                    count(len(cell.medians[at])),
                    ("≥ " if any(cell.bounds[at]) else "") + bits(mean.value),
                    ends_of(mean, cell.most),
                    f"{sum(cell.full[at])} of {len(cell.full[at])}" if any(cell.full[at]) else "–",
                    *gap,
                )
            )
    level = _level(found)
    columns = (
        *(
            "Copies",
            "Group",
            "Seeds",
            "Mean of medians",
            f"{level} interval",
            "Seeds near the highest possible",
        ),
        *(f"Difference to {found.labels[0]}", f"{level} interval (Welch)", "p"),
    )
    return Table("Median exposure by number of copies, over seeds, in bits", columns, rows)


@section(SeedsCompared, "What was measured")
def measured(found: SeedsCompared) -> Iterator[Block]:
    """What all audits have in common: formats, canaries, and how they were priced."""
    first, facts = found.audits[0], dict[str, str]()
    for at, priced in enumerate(first.formats):
        number = f" {at + 1}" * (len(first.formats) > 1)
        groups = first.by_repetitions(at)
        sizes = [
            f"{count(len(group))} with {plural(copies, 'copy', 'copies')}"
            for copies, group in groups.items()
            if copies
        ]
        facts[f"Format{number}"] = priced.masked
        facts[f"Size of the space{number}"] = (
            f"{count(priced.space_size)} ({bits(math.log2(priced.space_size))} bits)"
        )
        draws = "" if priced.draws is None else f", with {count(priced.draws)} uniform draws"
        facts[f"Method{number}"] = f"{priced.method}{draws}"
        facts[f"Canaries{number}"] = f"{listed(sizes)}; {plural(len(groups.get(0, ())), 'control')}"
    for name in _HOW:
        ways = [
            in_words({name: one.settings[name]}) for one in found.audits if name in one.settings
        ]
        for heading in dict.fromkeys(heading for way in ways for heading in way):
            facts[heading] = "; ".join(dict.fromkeys(way[heading] for way in ways))
    yield Facts(facts)


@section(SeedsCompared, "How sure the ranking is", specialist=True)
def certainty(found: SeedsCompared) -> Iterator[Block]:
    """Every pair of groups, over the numbers of copies that were measured in all audits."""
    used = listed([*dict.fromkeys(count(cell.repetitions) for cell in found.usable)] or ["none"])
    yield said_in_one("seeds.certainty", level=_level(found), used=used, pairs=len(found.pairs))
    rows = [
        (pair.less, pair.more, bits(pair.bits.value), ends_of(pair.bits),
         probability(pair.bits.p_value), "yes" if pair.shown else "no: " + (
             "see above" if found.why_not else found.why_not_ranked(pair)))
        for pair in found.pairs
    ]  # fmt: skip
    columns = ("Less exposed", "More exposed", "Difference, bits", "Interval", "p", "Ranked")
    if rows:
        yield Table("Differences between the groups, in pairs", columns, rows)


@section(SeedsCompared, "Exposure of the other formats", specialist=True)
def others(found: SeedsCompared) -> Iterator[Block]:
    """The figures of all formats but the first."""
    for at, priced in [*enumerate(_in_one_format(found).audits[0].formats)][1:]:
        yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=priced.masked))
        yield seeds_figure(found, at)


@section(SeedsCompared, "The audits", specialist=True)
def audits(found: SeedsCompared) -> Iterator[Block]:
    """Which audits each group has, and what their own reports say."""
    rows = [
        (
            label,
            one.label,
            *named_losses(one),
            one.audit.model_version or "–",
            answer(one.audit).label,
        )
        for label, group in zip(found.labels, found.groups, strict=True)
        for one in group
    ]
    losses = ("Loss on new text",) if found.losses else ()
    yield Table("The audits", ("Group", "Audit", *losses, "Weights", "What its report says"), rows,
                style="words")  # fmt: skip
