"""The command extract: the likeliest candidates of a format, in clear."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from canary.cli.console import Bars, emit, emit_lines, say, show_table
from canary.cli.model_options import ModelOptions, finds_start
from canary.cli.options import Json, Model, StartTexts, decodable, lines_of
from canary.cli.terminal_tables import show_notes
from canary.statistics.numbers import bits_between, count, plural

if TYPE_CHECKING:
    from canary.audits.extraction import Extraction
    from canary.formats.format import Format


@finds_start
def extract(
    model: Model,
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            callback=decodable,
            help="What the secret looks like, such as {digit:9} within text; characters that "
            "are known are written as text.",
        ),
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="How many candidates.")] = 1,
    budget: Annotated[
        int,
        typer.Option("--budget", min=1, help="Queries (tokens computed) that it may take."),
    ] = 1_000_000,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="Time that it may take, more than 0.  [default: no limit]"),
    ] = None,
    stop: Annotated[
        Literal["proof", "paper"],
        typer.Option(
            "--stop",
            help="proof goes on until nothing can be likelier; paper stops after twice the "
            "batches until the first candidate, for comparison.",
        ),
    ] = "proof",
    known: Annotated[
        int | None,
        typer.Option(
            "--known",
            min=0,
            metavar="COUNT",
            help="Also say whether greedy and beam search complete each secret from so many of "
            "its first characters: each canary of --canaries, and each control, to compare "
            "with; else each candidate found.",
        ),
    ] = None,
    canaries: Annotated[
        Path | None,
        typer.Option("--canaries", metavar="FILE", help="To say which canary each candidate is."),
    ] = None,
    start_texts: StartTexts = None,
    *,
    options: ModelOptions,
    as_json: Json = False,
) -> None:
    """Bring the likeliest candidates of a format out of a model.

    They are printed in clear on stdout, the likeliest first, with log-perplexity (Px), the
    exposure that their place implies, whether that is proven, and after how many queries
    each was found. When the budget ends, or on Ctrl-C, what was found is printed, and up
    to which cost it is proven.
    """
    from canary.audits.extracting import extract_with
    from canary.audits.format_search import SearchOptions
    from canary.audits.question import AuditOptions
    from canary.corpus.canaries import CanarySet
    from canary.formats.format import Format

    chosen = None if canaries is None else CanarySet.load(canaries)
    known_formats = () if chosen is None else chosen.formats
    wanted = next((f for f in known_formats if f.text == format), None) or Format(format)
    search = SearchOptions(top=top, budget=budget, seconds=seconds, stop=stop, known=known)
    search.secrets_of(wanted, chosen)  # refused before the model is loaded
    texts = lines_of(start_texts)
    loaded = options.load(model)
    with Bars() as bars:
        run = AuditOptions(start_texts=texts, stage=bars.stage, **options.running())
        result = extract_with(loaded, wanted, search, run, canaries=chosen)
    if as_json:
        emit("canary extraction", result.to_dict())
    else:
        emit_lines(_lines(result, wanted))
    _explain(result, {c.id for c in chosen or () if c.control})
    if result.stopped == "interrupted":
        raise KeyboardInterrupt


def _lines(result: Extraction, format: Format) -> Iterator[str]:
    """The candidates as columns."""
    if not result.candidates:
        return
    yield "place  Px, bits  exposure, bits  proven    queries  canary        candidate"
    for place, found in enumerate(result.candidates, 1):
        implied = bits_between(found.exposure_lower_bits, found.exposure_upper_bits)
        assert found.fill is not None
        text = format.candidate(found.fill)
        yield (
            f"{place:>5}  {found.px_bits:>8.2f}  {implied:>14}"
            f"  {'yes' if found.proven else 'no':>6}  {found.found_after:>9,}"
            f"  {found.canary or '-':<12}  {text}"
        )


def _explain(result: Extraction, controls: Collection[str]) -> None:
    """How surely, at what cost, and what follows; for people, with no secret in it."""
    show_notes(result.notes)
    say(_proof(result))
    why = "" if result.proven else f", until {result.why_stopped}"
    say(
        f"{plural(result.queries, 'query', 'queries')} (tokens computed) in "
        f"{result.seconds:.1f} s{why}; guessing at random takes "
        f"{plural(round(result.random_guesses), 'guess', 'guesses')} on average, each of one "
        "query or more"
    )
    if result.stopped == "requests":
        say("Start again with a larger --max-requests: every answer so far is kept")
    if result.dropped:
        say(f"{count(result.dropped)} beginnings were dropped to keep memory bounded")
    if result.completions:
        first = result.completions[0]
        say(f"Completed from the first {plural(first.known, 'character')}:")
        show_table(
            ("secret", "greedy", f"beam of {first.width}"),
            ((c.secret, _yes(c.greedy), _yes(c.beam)) for c in result.completions),
        )
        if any(c.secret in controls for c in result.completions):
            say(
                "Controls were never in the corpus: where one is completed, luck did it, or the "
                "format leaves little to guess."
            )
        if any(c.greedy != c.beam for c in result.completions):
            say(
                "Greedy search takes the likeliest next token each time; a beam keeps the "
                f"{first.width} likeliest beginnings, and gives the likeliest whole candidate "
                "among those that it ends with. Where only greedy search gave the secret, the "
                "beam ended with a likelier candidate; where only the beam did, the secret "
                "begins with a token that is not the likeliest."
            )


def _proof(result: Extraction) -> str:
    noise = f" (to within the model's noise, {result.noise_bits:.2g} bits)"
    within = noise if result.noise_bits else ""
    if result.proven and result.rest_bits is None:
        return f"Proven{within}: no other candidate has a probability above 0"
    if result.proven:
        return f"Proven{within}: every other candidate costs at least {result.rest_bits:.2f} bits"
    if not result.certified:
        found = "Not proven: the best" if result.candidates else "Nothing found"
        return f"{found} in a token tree that is {result.certificate}"
    if not result.candidates and result.stopped == "budget":
        return (
            f"Nothing found: the budget of {plural(result.settings['budget'], 'query', 'queries')} "
            "ended first; give a larger --budget (every candidate costs at least "
            f"{result.rest_bits:.2f} bits)"
        )
    if not result.candidates and result.stopped == "requests":
        return (
            "Nothing found: the requests that are allowed ended first (every candidate costs at "
            f"least {result.rest_bits:.2f} bits)"
        )
    if not result.candidates:
        return f"Nothing found; every candidate costs at least {result.rest_bits:.2f} bits"
    return f"Proven up to {result.rest_bits:.2f} bits{within}: what costs more may not be the best"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
