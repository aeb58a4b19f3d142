"""The report of one extraction by itself, with no secret in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from canary.audits.extraction import Extraction, after_text
from canary.formats.unplanted import SEVERAL
from canary.gate.extraction_limit import LEVEL, luck_of
from canary.reports.builders import report_of, section, sections_of
from canary.reports.document import (
    Block,
    Note,
    Report,
    Table,
    prose,
    said,
    sentence,
)
from canary.reports.wording import (
    about_of,
    called,
    ended,
    folded,
    requests_paid,
    requests_sent,
    run_blocks,
)
from canary.statistics.numbers import bits_between, count, probability, short_count

_MOST_ROWS = 25
_CUT = {
    "budget": "The budget ended",
    "seconds": "The time ended",
    "requests": "The requests that were allowed ended",
    "interrupted": "Somebody stopped it",
}


@report_of.register
def extraction_report(extraction: Extraction) -> Report:
    """What there is to say about an extraction by itself; no fill is in it."""
    planted = planted_in(extraction)
    out = [n for n, c in enumerate(extraction.candidates, 1) if c.canary in planted]
    natural = extraction.natural
    lucky = bool(out) and not natural and luck_of(extraction, len(planted), out) > LEVEL
    odd = extraction.unplanted
    came = bool(out) and not (lucky or natural)
    strong = () if planted or odd else extraction.prominent
    calm = not (came or odd or strong or (out and natural))
    unsure = calm and not (planted and extraction.proven)
    asked, top = extraction.model.get("device") == "served", after_text(extraction.model)
    kinds = {"unknown": not (planted or odd),
             "found": not (planted or odd) and extraction.candidates, "odd": odd and count(odd),
             "least": probability(min(extraction.prominent, default=1.0)),
             "prominent": len(strong), "few": strong and len(extraction.candidates) < SEVERAL,
             "blind": probability(1 / extraction.space_size),
             "cut": _cut(extraction), "why": _cut(extraction), "out": out,
             "none": planted and not (out or odd), "lucky": lucky, "natural": natural and out,
             "whole": planted and not top, "top": planted and top, "asked": asked,
             "served": asked and came,
             "requests": requests_paid(extraction) or extraction.queries}  # fmt: skip
    return Report(
        title=f"Extraction from {called(extraction.model_name, 'a language model')}",
        label=headline(extraction),
        tone="memorized" if came else "undecided",
        sentences=said("extraction.meaning", **kinds),
        about=about_of(extraction),
        notes=ended(extraction.notes),
        decide=[
            *(said("extraction.odd") if odd else ()),
            *said(
                "extraction.decide", out=came, unsure=unsure, none=calm and not unsure, calm=calm,
                natural=natural and out, prominent=len(strong),
                owner=" (if you do not have the model's files, those who have them)" * asked,
            ),
        ],
        actions=[
            *(said("extraction.confirm", set=planted) if odd else ()),
            *said("extraction.actions", **kinds, mended=out and not natural),
            *(said("advice.served") if kinds["served"] else ()),
        ],
        unsaid=said("extraction.unsaid", **kinds),
        sections=sections_of(extraction),
    )  # fmt: skip


def planted_in(extraction: Extraction) -> set[str]:
    """The canaries of its set that were planted, by id."""
    return {name for name, copies in extraction.canaries.items() if copies}


def headline(extraction: Extraction) -> str:
    """How many planted secrets came out, in how many guesses; or that nobody checked."""
    planted = planted_in(extraction)
    out = [c for c in extraction.candidates if c.canary in planted]
    guesses, odd = round(extraction.random_guesses), extraction.unplanted
    return sentence(
        "extraction.label",
        empty=not (extraction.candidates or _cut(extraction)),
        ended=not extraction.candidates and _cut(extraction),
        why=_cut(extraction),
        known=extraction.candidates and planted and not odd,
        luck=extraction.candidates and planted and not (odd or extraction.natural),
        unknown=extraction.candidates and not (planted or odd),
        unnamed=odd and not planted,
        others=odd and planted,
        odd=odd,
        out=count(len(out)) if out else "None",
        number=len(planted),
        natural="" if extraction.natural else "planted ",
        be="is" if len(out) <= 1 else "are",
        tried=len(extraction.candidates),
        queries=extraction.queries,
        guesses=f"{short_count(guesses)} guess{'' if guesses == 1 else 'es'}",
    )


def _cut(extraction: Extraction) -> str:
    """What ended a search before it was done; empty if nothing did."""
    return "" if extraction.proven else _CUT.get(extraction.stopped, "")


def leads(extraction: Extraction, named: Collection[str]) -> str:
    """How many candidates are planted canaries, and what the others are."""
    mine = [c.canary for c in extraction.candidates]
    out = sum(name in named for name in mine)
    controls = sum(name is not None and name not in named for name in mine)
    rest = len(mine) - out - controls
    others = (
        f"; the {'other is an unconfirmed lead' if rest == 1 else 'others are unconfirmed leads'}"
    )
    return sentence(
        "extraction.leads",
        known=named,
        unknown=not named,
        out=out,
        tried=len(mine),
        controls=controls,
        others=others if rest else "",
    )


@section(Extraction, "What could be extracted")
def extracted(extraction: Extraction) -> Iterator[Block]:
    """The candidates without their secrets."""
    yield prose("`{format}`", format=extraction.masked)
    planted = planted_in(extraction)
    yield from candidates_of(extraction, named=planted)
    yield f"Order of the candidates: {extraction.verdict()}."
    if sent := requests_sent(extraction):
        yield sentence("extraction.sent", sent=sent)
    if extraction.completions:
        yield extraction.completed()


@section(Extraction, "How it was searched", specialist=True)
def searched(extraction: Extraction) -> Iterator[Block]:
    """The model and the settings."""
    settings = {n: v for n, v in extraction.settings.items() if n != "start" and v is not None}
    yield from run_blocks(extraction.model, settings)


def candidates_of(extraction: Extraction, named: Collection[str]) -> Iterator[Block]:
    """A row for each candidate, without its secret; `named` are the planted canaries."""
    if not extraction.candidates:
        return
    columns = ("Place", "Canary", "Log-perplexity\n(bits)", "Exposure\n(bits)", "Order\nproven")
    none = "none of the set" if named or extraction.canaries else "not checked"
    rows = [
        (
            *(str(place), c.canary or none, f"{c.px_bits:.2f}"),
            bits_between(c.exposure_lower_bits, c.exposure_upper_bits),
            "yes" if c.proven else "no",
            count(c.found_after),
        )
        for place, c in enumerate(extraction.candidates[:_MOST_ROWS], 1)
    ]
    yield from folded(
        Table("Candidates that were extracted", (*columns, "Found after\nqueries"), rows)
    )
    if (more := len(extraction.candidates) - _MOST_ROWS) > 0:
        yield Note(f"{more} more are in the numbers (the JSON file).")
    yield leads(extraction, named)
