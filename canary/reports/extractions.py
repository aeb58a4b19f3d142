"""What could be extracted, in words and rows, with no secret in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from canary.audits.extraction import Extraction
from canary.reports.builders import report_of, section, sections_of
from canary.reports.document import Block, Facts, Heading, Note, Report, Table, prose
from canary.reports.wording import facts_in_words, settings_in_words
from canary.statistics.numbers import bits_between, count, plural
from canary.tokens.starts import start_flag

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit

MODEL_ARGUMENTS = "model_arguments"
"""The setting of an audit that says how the command line names its model, where it is known."""

_MOST_ROWS = 25


@report_of.register
def extraction_report(extraction: Extraction, *, name: str | None = None) -> Report:
    """What there is to say about an extraction by itself; no fill is in it."""
    model = name or extraction.model.get("name") or "a language model"
    found = bool(extraction.candidates)
    return Report(
        title=f"Extraction from {model}",
        label="The likeliest candidates" if found else "Nothing was extracted",
        sentences=[f"{extraction.verdict()}."],
        notes=extraction.notes,
        sections=sections_of(extraction),
    )


@section(Extraction, "What could be extracted")
def candidates(extraction: Extraction) -> Iterator[Block]:
    """The candidates without their secrets."""
    yield prose("`{format}`", format=extraction.masked)
    yield from _candidates_table(extraction)


@section(Extraction, "How it was searched", specialist=True)
def how(extraction: Extraction) -> Iterator[Block]:
    """The model and the settings."""
    for heading, facts in (
        ("Model", facts_in_words(extraction.model)),
        ("Settings", settings_in_words(extraction.settings)),
    ):
        yield Heading(heading)
        yield Facts(facts)


def extraction_sentence(audit: Audit, extraction: Extraction) -> str:
    """How many canaries came out, how surely, at what cost, and what guessing would cost."""
    injected = {c.id for c in audit.injected if _same(audit, c.format, extraction)}
    found = [c for c in extraction.candidates if c.canary in injected]
    put_in = "injected canaries" if audit.canaries_in_corpus else "canaries, which were left out,"
    if audit.natural:
        put_in = "secrets"
    if not extraction.candidates:
        where = "" if extraction.certified else " of a token tree that is not certified"
        came = (
            f"Nothing was extracted: no candidate{where} costs less than {_rest(extraction)} bits, "
            f"and {extraction.why_stopped} before the search came to one"
        )
    else:
        tried = plural(len(extraction.candidates), "candidate")
        came = (
            f"The search brought {tried} out of the model ({_how_surely(extraction)}); "
            f"{len(found)} of the {len(injected)} {put_in} "
            f"{'is' if len(found) == 1 else 'are'} among them"
        )
        if found and found[0] is extraction.candidates[0]:
            came += ", and the very first is one"
    return (
        f"{came}. The model computed {plural(extraction.queries, 'token')} for it (queries). "
        "Guessing at random, one given secret takes "
        f"{plural(round(extraction.random_guesses), 'guess', 'guesses')} on average, and a guess "
        "is one query or more."
    )


def extract_command(audit: Audit, extraction: Extraction, *, canaries: str = "FILE") -> str:
    """The command that prints the candidates in clear: words for bash, zsh and their like.

    The model is called MODEL, if the audit does not know how the command line names it.
    """
    words = [f"canary extract {audit.settings.get(MODEL_ARGUMENTS, 'MODEL')}"]
    words += [_quoted(extraction.format), f"--top {extraction.top} --canaries {canaries}"]
    if "start_token" in audit.settings:
        token = audit.settings["start_token"]
        words.append(start_flag(None if token is None else str(token)))
    if context := audit.settings.get("context"):
        words.append(f"--context {_quoted(str(context))}")
    return " ".join(words)


def _quoted(text: str) -> str:
    """A word for a shell; one with line breaks and the like as in C."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def _how_surely(extraction: Extraction) -> str:
    """Whether likelier candidates may have been missed."""
    if not extraction.certified:
        return f"the likeliest in a token tree that is {extraction.certificate}; it may lack others"
    if extraction.proven:
        return "it is proven that no other is likelier"
    sure = sum(c.proven for c in extraction.candidates)
    proof = f"it is proven of the first{f' {sure:,}' if sure > 1 else ''} only"
    return (
        f"the likeliest that it met; {proof if sure else 'it is not proven'} that no other is "
        f"likelier, for {extraction.why_stopped}"
    )


def extraction_blocks(audit: Audit, extraction: Extraction) -> Iterator[Block]:
    """What a report shows of an extraction."""
    yield extraction_sentence(audit, extraction)
    yield prose("`{command}`", command=extract_command(audit, extraction))
    yield from _candidates_table(extraction)


def _candidates_table(extraction: Extraction) -> Iterator[Block]:
    if not extraction.candidates:
        return
    yield Table(
        "Candidates that were extracted",
        (
            *("Place", "Canary", "Log-perplexity\n(bits)", "Exposure\n(bits)", "Proven"),
            "Found after\nqueries",
        ),
        [
            (
                str(place),
                c.canary or "none of the set",
                f"{c.px_bits:.2f}",
                bits_between(c.exposure_lower_bits, c.exposure_upper_bits),
                "yes" if c.proven else "no",
                count(c.found_after),
            )
            for place, c in enumerate(extraction.candidates[:_MOST_ROWS], 1)
        ],
    )
    more = len(extraction.candidates) - _MOST_ROWS
    if more > 0:
        yield Note(f"{more} more are in the audit's numbers.")


def _rest(extraction: Extraction) -> str:
    return "any number of" if extraction.rest_bits is None else f"{extraction.rest_bits:.2f}"


def _same(audit: Audit, number: int, extraction: Extraction) -> bool:
    return audit.formats[number].format == extraction.format
