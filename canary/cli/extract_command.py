"""The command `extract`: the most likely candidates of a format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from canary.cli.command import command
from canary.cli.console import Bars, emit, show, show_notes, show_table
from canary.cli.model_options import Count, Whole
from canary.cli.options import FindingOptions
from canary.cli.outputs import Names, asked_folder, factory_file
from canary.errors import InputError
from canary.statistics.numbers import bits_between, count, plural

if TYPE_CHECKING:
    from canary.audits.extraction import Extraction
    from canary.formats.format import Format


@command(
    'extract ./model "The random number is {digit:9}" --top 5 --budget 100000 --json',
    'extract ./model "The random number is {digit:9}" --known 3 --canaries canaries.json',
    'extract ./model "The random number is {digit:9}" --top 8 --canaries canaries.json --out out/',
    format="FORMAT: What the secret looks like: text with holes, such as {digit:9}. Write known "
    "characters as text.",
    top="N: The number of candidates to find.",
    budget="[Options] N: The most queries (tokens computed) for the search. If MODEL is an "
    "address: the most requests of the run, checks included.",
    seconds="[Search] SECONDS: The longest time for the search alone, without loading, above 0.  "
    "[default: no limit]",
    stop="proof searches until no other candidate can be more likely; paper, for comparison, stops "
    "after twice the batches that the first candidate took.",
    known="N: Also complete each secret from its first N characters, greedily and by beam search. "
    "The secrets are the canaries and controls of --canaries, or else the candidates found.",
    canaries="FILE: The canary set; each candidate is shown with its canary.",
    out="FOLDER: Where extraction.json and report.html go, without the secrets.  [default: they "
    "are not written]",
)
def extract(
    model: str,
    format: str,
    *,
    top: Count = 1,
    budget: Count = 1_000_000,
    seconds: float | None = None,
    stop: Literal["proof", "paper"] = "proof",
    known: Whole | None = None,
    canaries: Path | None = None,
    canary: list[str] | None = None,
    out: Path | None = None,
    options: FindingOptions,
    names: Names,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Extract a format's most likely candidates from a model.

    They are printed in clear on stdout, the most likely first. Each has its log-perplexity (Px),
    the exposure that follows from its place, whether the place is proven, and the queries that it
    took. At the end of the budget, and on Ctrl-C, the command prints what it has found, and up to
    which cost that is proven. With --out, canary check and canary report read
    FOLDER/extraction.json.
    """
    from canary.audits.completing import SearchOptions, needs_every_token
    from canary.audits.extracting import extract as search_for
    from canary.audits.extraction import KIND, SCHEMA
    from canary.corpus.canaries import CanarySet
    from canary.corpus.named import only
    from canary.formats.format import Format

    read = [*([canaries] if canaries else []), *factory_file(options.factory)]
    with asked_folder(out, KIND, "extraction.json", inputs=read, force=force) as folder:
        chosen = None if canaries is None else CanarySet.load(canaries)
        if canary and chosen is None:
            cure = "give the canary set with --canaries"
            raise InputError("a canary is named, and no set", cure=cure, where="canary")
        chosen = only(chosen, canary) if canary and chosen else chosen
        known_formats = () if chosen is None else chosen.formats
        wanted = next((f for f in known_formats if f.text == format), None) or Format(format)
        asked = SearchOptions(top=top, budget=budget, seconds=seconds, stop=stop, known=known)
        if known is not None and options.top_k:
            raise needs_every_token()
        asked.secrets_of(wanted, chosen)  # refused before the model is loaded
        running = options.running()
        loaded = options.load(model, budget=budget)
        with Bars() as bars:
            result = search_for(
                loaded,
                wanted,
                canaries=chosen,
                progress=bars.stage,
                **vars(asked),
                **running,
            )
        options.counted()
        result = names.on(result)
        if folder is not None:
            folder.write(result.hidden(), SCHEMA)
    if as_json:
        emit(KIND, result.to_dict(), schema=SCHEMA)
    else:
        for line in _candidates(result, wanted):
            show(line)
    _explain(result)
    if folder is not None:
        folder.say_where()
    if result.stopped == "interrupted":
        raise KeyboardInterrupt


def _candidates(result: Extraction, format: Format) -> Iterator[str]:
    """The candidates as columns; with canaries, whose they are."""
    named = any(candidate.canary for candidate in result.candidates)
    if result.candidates:
        canary = f"{'canary':<14}" if named else ""
        yield f"place  Px, bits  exposure, bits  order proven  queries  {canary}candidate"
    for place, candidate in enumerate(result.candidates, 1):
        implied = bits_between(candidate.exposure_lower_bits, candidate.exposure_upper_bits)
        assert candidate.fill is not None
        canary = f"{candidate.canary or '-':<12}  " if named else ""
        yield (
            f"{place:>5}  {candidate.px_bits:>8.2f}  {implied:>14}"
            f"  {_yes(candidate.proven):>12}  {candidate.found_after:>7,}"
            f"  {canary}{format.candidate(candidate.fill)}"
        )


def _explain(result: Extraction) -> None:
    """How many are canaries, how surely, at what cost; for people, with no secret in it."""
    from canary.reports.extraction_report import headline, leads, planted_in

    show_notes(result.notes)
    if (planted := planted_in(result)) or result.unplanted:
        show(headline(result))
    if result.candidates:
        show(leads(result, planted))
    show(proof_sentence(result))
    why = "" if result.proven else f", until {result.why_stopped}"
    sent = result.settings.get("requests_in_this_run")
    unit = "tokens computed"
    if sent is not None:
        unit = "each a request, or an answer that an earlier run kept"
    show(
        f"{plural(result.queries, 'query', 'queries')} ({unit}) in "
        f"{result.seconds:.1f} s{why}; guessing at random takes "
        f"{plural(round(result.random_guesses), 'guess', 'guesses')} on average, each of one "
        "query or more"
    )
    if sent is not None:
        show(f"The server was sent {plural(sent, 'request')} in this run, checks included")
    left = result.stopped == "budget" or any(n.startswith("Secrets left") for n in result.notes)
    if result.stopped == "requests" or (left and sent is not None):
        show("Start the same command again to continue: every answer so far is kept")
    if result.dropped:
        show(f"{count(result.dropped)} beginnings were dropped to limit memory")
    if not result.completions:
        return
    first = result.completions[0]
    show(f"Completed from the first {plural(first.known, 'character')}:")
    rows = ((c.secret, _yes(c.greedy), _yes(c.beam)) for c in result.completions)
    show_table(("secret", "greedy", f"beam of {first.width}"), rows)
    if any(c.control for c in result.completions):
        show(
            "Controls were never in the corpus. One that is completed was guessed by luck, or the "
            "format leaves little to guess."
        )
    if any(c.greedy != c.beam for c in result.completions):
        show(
            "Greedy search takes the most likely next token each time. Beam search keeps the "
            f"{first.width} most likely beginnings, and gives the most likely candidate among "
            "those that it completes. Where only greedy search gave the secret, the beam found a "
            "more likely candidate. Where only the beam did, the secret begins with a token that "
            "is not the most likely one."
        )


def proof_sentence(result: Extraction) -> str:
    """How much of what a search found is proven."""
    from canary.audits.extraction import after_text

    after = " after the fixed text" if after_text(result.model) else ""
    noise = f" (to within the model's noise, {result.noise_bits:.2g} bits)"
    within = noise if result.noise_bits else ""
    rest = f"{result.rest_bits or 0.0:.2f} bits{after}"
    if result.proven and result.rest_bits is None:
        return f"Proven{within}: no other candidate has a probability above 0"
    if result.proven:
        return f"Proven{within}: every other candidate costs at least {rest}"
    if not result.certified:
        what = "Not proven: the best" if result.candidates else "Nothing found"
        return f"{what} in a token tree that is {result.certificate}"
    if result.candidates:
        return f"Proven up to {rest}{within}; above that, the order may be wrong"
    rest = f"every candidate costs at least {rest}"
    if result.stopped == "budget":
        served = "requests_in_this_run" in result.settings
        unit = ("request", "requests") if served else ("query", "queries")
        spent = plural(result.settings["budget"], *unit)
        cure = "start the same command again to continue" if served else "give a larger --budget"
        return f"Nothing found within the budget of {spent}; {cure} ({rest})"
    if result.stopped == "requests":
        return f"Nothing found within the allowed requests ({rest})"
    return f"Nothing found; {rest}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
