"""The report of one audit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from canary.audits.audit_result import Audit, CanaryResult, FormatResult
from canary.reports.builders import report_of, section, sections_of
from canary.reports.document import (
    Block,
    Bullets,
    Facts,
    Heading,
    Report,
    Table,
    Text,
    Tile,
    prose,
)
from canary.reports.exposure_figures import exposure_figure, group_name, groups_of, histogram_figure
from canary.reports.extractions import MODEL_ARGUMENTS, extraction_blocks, extraction_sentence
from canary.reports.long_words import said, said_in_one
from canary.reports.sentences import LEVEL, UNLEARNED_95_BITS, answer, curve_verdict, strongest
from canary.reports.wording import (
    EXPOSURE_COLUMNS,
    exposure_cells,
    facts_in_words,
    format_facts,
    percent,
    settings_in_words,
)
from canary.statistics.exposures import (
    ENUMERATION,
    IMPORTANCE,
    RANK,
    RANK_AND_DRAWS,
    UNIFORM_DRAWS,
    Exposure,
)
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram
from canary.statistics.numbers import bits, bits_or_bound, count, plural, probability

_NBSP = "\N{NO-BREAK SPACE}"
_NOTHING = "There is no canary to show."
_OF_EVIDENCE = ("memorized", "undecided", "not found")


@report_of.register
def audit_report(audit: Audit, *, name: str | None = None) -> Report:
    """What there is to say about an audit."""
    found = answer(audit)
    model = name or audit.model.get("name") or "a language model"
    return Report(
        title=f"Memorization audit of {model}",
        label=found.label,
        tone=found.verdict.replace(" ", "-"),
        sentences=[found.sentence],
        remark=said_in_one("audit.remark") if found.verdict in _OF_EVIDENCE else "",
        tiles=[*_tiles(audit)] if audit.canaries else (),
        notes=audit.notes,
        sections=sections_of(audit),
        brief=[*_brief(audit)],
    )


def _brief(audit: Audit) -> Iterator[Block]:
    there = audit.canaries_in_corpus
    yield Table(
        "",
        (
            *("copies" if there else "copies planned", "number"),
            *("median exposure, bits", "smallest", "largest"),
        ),
        [
            _at_least(exposure_cells(copies, [c.exposure for c in group], controls="0 (control)"))
            for copies, group in audit.by_repetitions().items()
        ],
    )
    injected = "the injected canaries" if there else "the canaries that were left out"
    for who, combined in ((injected, audit.injected_p), ("the controls", audit.controls_p)):
        if combined is not None:
            yield f"Fisher's p-value of {who}: {probability(combined.p_value)}"
    for number, priced in enumerate(audit.formats, 1):
        which = f"Format {number}: " if len(audit.formats) > 1 else ""
        yield f"{which}Method: {priced.method}: {priced.reason}"
        yield f"{which}{curve_verdict(priced.skew_normal)}"
    for extraction in audit.extractions:
        which = f"{extraction.masked}: " if len(audit.extractions) > 1 else ""
        yield f"{which}{extraction_sentence(audit, extraction)}"


def _at_least(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell.replace("≥", "at least") for cell in cells)


def _tiles(audit: Audit) -> Iterator[Tile]:
    there, group = audit.canaries_in_corpus, strongest(audit)
    if group is not None:
        each = plural(group.repetitions, "copy", "copies")
        each = f"with {each} each" if there else f"planned for {each}, none put in"
        yield Tile(
            "Strongest group",
            f"{'≥ ' if group.bound else ''}{bits(group.median_bits)} bits",
            f"median exposure of {plural(group.size, 'canary', 'canaries')} {each}; 1 bit is "
            "usual for text that was not learned",
        )
    injected = "Injected canaries" if there else "Canaries, not injected"
    for name, members, combined, of in (
        (injected, audit.injected, audit.injected_p, "memorization" if there else ""),
        ("Controls", audit.controls, audit.controls_p, ""),
    ):
        value, note = "none", "none in this set"
        if combined is not None:
            p = probability(combined.p_value)
            value = f"p {p}" if p.startswith("<") else f"p = {p}"
            note = (
                f"{plural(len(members), 'canary', 'canaries')} taken together; {percent(LEVEL)} "
                f"or less is evidence of {of or 'a flaw in the audit'}"
            )
        yield Tile(name, value, note)


@section(Audit, "Exposure by number of copies")
def exposure(audit: Audit) -> Iterator[Block]:
    """Every canary a point, beside others of as many copies."""
    yield said_in_one("secrets", there=audit.canaries_in_corpus)
    if not audit.canaries:
        yield _NOTHING
    for at, priced in enumerate(audit.formats):
        mine = [c for c in audit.canaries if c.format == at]
        if not mine:
            continue
        yield from _format_heading(audit, at)
        table = Table(
            "Exposure by number of copies, in bits",
            EXPOSURE_COLUMNS,
            [
                exposure_cells(group[0].repetitions, [c.exposure for c in group])
                for group in groups_of(audit, at).values()
            ],
        )
        caption = _exposure_caption(audit, priced, mine)
        yield replace(exposure_figure(audit, at), caption=caption, table=table)


def _exposure_caption(audit: Audit, priced: FormatResult, mine: list[CanaryResult]) -> Text:
    censored = any(c.exposure.censored for c in mine)
    hits = censored and any(c.exposure.draws is not None for c in mine)
    there, size = audit.canaries_in_corpus, priced.space_size
    draws = max((e.draws or 1 for e in _drawn(audit)), default=1)
    crowd, last = _crowd(mine) if there else (0, 0)
    return said_in_one(
        "audit.exposure.caption",
        alone=len(audit.formats) == 1,
        there=there,
        hits=hits,
        unfinished=censored and not hits,
        censored=censored,
        format=priced.masked,
        most=bits(math.log2(draws)),
        usual=bits(UNLEARNED_95_BITS),
        size=count(size),
        crowd=count(crowd) if crowd else "",
        places=count(last),
        highest=bits(math.log2(size) - math.log2(crowd or 1)),
    )


def _crowd(mine: list[CanaryResult]) -> tuple[int, int]:
    """How many injected canaries take half of the first places, and the place of the last.

    Canaries of one format cannot share a place: the k-th has log2|R| - log2 k bits at most,
    however well the model learned it.
    """
    ranks = sorted(c.exposure.rank for c in mine if not c.control and c.exposure.rank is not None)
    crowded = [(k, rank) for k, rank in enumerate(ranks, 1) if k > 1 and rank <= 2 * k]
    return crowded[-1] if crowded else (0, 0)


@section(Audit, "Canaries among the other candidates")
def candidates(audit: Audit) -> Iterator[Block]:
    """The histogram of the candidates, with the canaries below."""
    yield said_in_one("audit.candidates")
    if not audit.canaries:
        yield _NOTHING
    for at, priced in enumerate(audit.formats):
        mine = [c for c in audit.canaries if c.format == at]
        if not mine:
            continue
        yield from _format_heading(audit, at)
        table = Table(
            "Log-perplexities, in bits",
            ("Of", "Number", "Smallest", "Median", "Largest"),
            [_candidate_cells(priced.histogram), *map(_px_cells, groups_of(audit, at).values())],
        )
        caption = said_in_one(
            "audit.candidates.caption",
            all=count(priced.candidates) if priced.method == ENUMERATION else "",
            drawn=count(priced.histogram.total),
            size=count(priced.space_size),
            curve=priced.skew_normal,
            verdict=curve_verdict(priced.skew_normal),
        )
        yield replace(histogram_figure(audit, at), caption=caption, table=table)


def _format_heading(audit: Audit, at: int) -> Iterator[Heading]:
    if len(audit.formats) > 1:
        yield Heading(prose(f"Format {at + 1}: `{{format}}`", format=audit.formats[at].masked))


def _px_cells(group: Sequence[CanaryResult]) -> tuple[str, ...]:
    px = [c.px_bits for c in group]
    values = (min(px), statistics.median(px), max(px))
    return group_name(group[0].repetitions), count(len(px)), *(f"{v:.2f}" for v in values)


def _candidate_cells(histogram: Histogram) -> tuple[str, ...]:
    """As `_px_cells`, to the width of a bin: the lower edges of the bins that hold them."""
    counts = np.array(histogram.counts, np.int64)
    total = int(counts.sum())
    if not total:
        return "candidates", "0", "–", "–", "–"
    edges, filled = histogram.edges(), np.flatnonzero(counts)
    middle = np.searchsorted(counts.cumsum(), total / 2)
    return (
        *("candidates", count(total)),
        *(f"about {bits(edges[place])}" for place in (filled[0], middle, filled[-1])),
    )


@section(Audit, "Every canary")
def table(audit: Audit) -> Iterator[Block]:
    """A row for each canary, in the order of the set."""
    fits = [priced.skew_normal for priced in audit.formats]
    curves, drawn = any(fits), _drawn(audit)
    yield said_in_one(
        "audit.table",
        curves=curves,
        beyond=any(
            e is not None and (e.bits or 0.0) > e.space_bits
            for e in (c.skew_normal for c in audit.canaries)
        ),
        rejected=any(fit and fit.rejected for fit in fits),
    )
    if not audit.canaries:
        yield "There is none."
        return
    ranked = len(drawn) < len(audit.canaries) or _by_importance(audit)
    place = "Rank, or\nhits of draws" if ranked else "Hits\nof draws"
    yield Table(
        "Exposure of every canary",
        (
            "Canary",
            *(("Format",) if len(audit.formats) > 1 else ()),
            "Copies" if audit.canaries_in_corpus else "Copies\nplanned",
            *("Exposure\n(bits)", "Interval\n(bits)", "Log-perplexity\n(bits)"),
            *(place if drawn else "Rank\namong all", "p-value"),
            *(("Skew-normal\n(bits)",) if curves else ()),
        ),
        [
            (
                c.id,
                *((str(c.format + 1),) if len(audit.formats) > 1 else ()),
                "0 (control)" if c.control else count(c.repetitions),
                bits_or_bound(c.exposure),
                f"{c.exposure.lower_bits:z.2f} to {c.exposure.upper_bits:z.2f}",
                f"{c.px_bits:.2f}",
                _place(c.exposure),
                "–" if c.natural else probability(c.exposure.p_value),
                *((_skewed(c, fits[c.format]),) if curves else ()),
            )
            for c in audit.canaries
        ],
        tones=["control" if c.control else "" for c in audit.canaries],
        style="canaries" if curves else "",
    )


def _place(e: Exposure) -> str:
    """Its rank or what is known of it; one break is allowed, before the range."""
    if e.rank is not None:
        certain = e.rank_lower is None or e.rank_upper is None or e.rank_lower >= e.rank_upper
        return count(e.rank) + ("" if certain else f" ({_range(e)})")
    if e.effective_draws is not None and e.bits is not None:
        rank = float(f"{2.0 ** (e.space_bits - e.bits):.3g}")
        return f"about{_NBSP}{count(int(rank))}"
    if e.draws is None:
        return _range(e)
    return f"{count(e.hits or 0)} of {count(e.draws or 0)}"


def _range(e: Exposure) -> str:
    return f"{count(e.rank_lower or 0)}{_NBSP}to{_NBSP}{count(e.rank_upper or 0)}"


def _skewed(canary: CanaryResult, fit: SkewNormalFit | None) -> str:
    failed = f"{_NBSP}†" if fit is not None and fit.rejected else ""
    return bits_or_bound(canary.skew_normal) + failed


@section(Audit, "What could be extracted")
def extraction(audit: Audit) -> Iterator[Block]:
    """The likeliest candidates that a search brought, without their secrets."""
    if not audit.extractions:
        return
    yield said_in_one("audit.extraction", named=MODEL_ARGUMENTS in audit.settings)
    for found in audit.extractions:
        if len(audit.extractions) > 1:
            yield Heading(prose("`{format}`", format=found.masked))
        yield from extraction_blocks(audit, found)


@section(Audit, "How this was computed", specialist=True)
def how(audit: Audit) -> Iterator[Block]:
    """What the words mean, and everything that was asked and done."""
    methods = {priced.method for priced in audit.formats}
    yield from said(
        "audit.how",
        bounded=methods & {RANK, RANK_AND_DRAWS},
        drawn=_drawn(audit),
        importance=_by_importance(audit),
        exact_p=methods & {ENUMERATION, RANK},
        drawn_p=methods & {UNIFORM_DRAWS, IMPORTANCE},
        both_p=RANK_AND_DRAWS in methods,
        there=audit.canaries_in_corpus,
        shared=any(p and p.shared_draws for p in (audit.injected_p, audit.controls_p)),
        level=percent(LEVEL),
        curves=any(priced.skew_normal for priced in audit.formats),
    )
    for number, priced in enumerate(audit.formats, 1):
        which = f" {number}" if len(audit.formats) > 1 else ""
        yield Heading(prose(f"Format{which}: `{{format}}`", format=priced.masked))
        yield Facts(format_facts(priced))
    for heading, facts in (
        ("Model", facts_in_words(audit.model)),
        ("Settings", settings_in_words(audit.settings)),
    ):
        if facts:
            yield Heading(heading)
            yield Facts(facts)


@section(Audit, "What this does not say", specialist=True)
def limits(audit: Audit) -> Iterator[Block]:
    """What must not be read into the numbers."""
    drawn, importance = _drawn(audit), _by_importance(audit)
    bounded = any(priced.method in (RANK, RANK_AND_DRAWS) for priced in audit.formats)
    ranked = len(drawn) < len(audit.canaries)
    confidences = sorted({percent(e.confidence) for e in drawn if e.confidence})
    items = said(
        "audit.limits",
        ranked=ranked,
        ranked_by_bounds=ranked and bounded,
        ranked_by_count=ranked and not bounded,
        unfinished=ranked
        and any(c.exposure.censored and c.exposure.confidence is None for c in audit.canaries),
        drawn=drawn,
        importance=importance,
        uniform=drawn and not importance,
        confidences=" or ".join(confidences),
        censored=any(e.censored for e in drawn),
        curves=any(priced.skew_normal for priced in audit.formats),
        there=audit.canaries_in_corpus,
    )
    yield Bullets(items)


def _drawn(audit: Audit) -> list[Exposure]:
    """Exposures whose intervals rest on draws."""
    return [c.exposure for c in audit.canaries if c.exposure.confidence is not None]


def _by_importance(audit: Audit) -> bool:
    return any(e.effective_draws is not None for e in _drawn(audit))
