"""The commands that run a model: doctor, score, audit, exposure, extract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from canary.cli.command import command
from canary.cli.console import (
    Bars,
    emit,
    say,
    show,
    show_exposures,
    show_notes,
    show_table,
    unknown,
)
from canary.cli.model_options import Count, ModelOptions, Whole
from canary.cli.options import FindingOptions, MeasuringOptions, lines_of
from canary.cli.outputs import (
    Names,
    Result,
    check_name,
    check_outputs,
    factory_file,
    model_files,
    report_folder,
    resumable,
)
from canary.errors import InputError
from canary.statistics.numbers import bits_between, count, plural

if TYPE_CHECKING:
    from canary.audits.extraction import Extraction
    from canary.formats.format import Format


@command(
    "doctor ./model",
    r"doctor ./model --factory mymodel.py:build --start-token '\n' --all",
    tokens="N: Tokens of the longest rows in the checks: the length of the longest candidate with "
    "its context.  [default: 256, or the most that the model takes]",
    texts="FILE: Texts of the training, one on each line, to check that the tokenizer is right.",
    all="Show all checks, also those that the model passed.",
)
def doctor(
    model: str,
    *,
    options: ModelOptions,
    tokens: Count | None = None,
    texts: Path | None = None,
    all: bool = False,
) -> Result:
    """Check whether a model's numbers can be trusted.

    The table shows what was measured by each check that the model did not simply pass.

    Exit codes: 0 no check refused the model, 2 one did, and its numbers must not be used.
    """
    from canary.models.doctor import examine

    given = model, options.start_token, tokens, lines_of(texts)
    examined = examine(lambda: options.load(model), *given)
    for finding in examined.findings:
        if finding.verdict != "fine" and finding.cure:
            check = (finding.check,) if finding.verdict != "not loaded" else ()
            show(": ".join((finding.verdict, *check, finding.cure)))
    if shown := [f for f in examined.findings if all or f.verdict != "fine"]:
        rows = ((finding.check, finding.verdict, finding.figure) for finding in shown)
        show_table(("check", "result", "measured"), rows)
    show(examined.outcome)
    return Result("canary doctor", examined.to_dict(), code=0 if examined.sound else 2)


@command(
    "score ./model texts.jsonl --column text --out scores.jsonl",
    texts="TEXTS: A JSONL file with one JSON object on each line.",
    out="FILE: The JSONL file to write.",
    column="NAME: The field that holds the text.",
    overlap="TOKENS: Score texts that are too long for the model in windows, each with this number "
    "of tokens of the one before as context.  [default: refuse such texts]",
)
def score(
    model: str,
    texts: Path,
    *,
    out: Path,
    column: str = "text",
    overlap: Count | None = None,
    force: bool = False,
    options: ModelOptions,
) -> Result:
    """Write the log-perplexity of each text, in bits.

    Each record of OUT has the line of a text, its total in bits (not per token), and its number of
    tokens. Run the same command again to resume a run that was stopped; OUT.parts keeps what is
    finished until then.
    """
    from canary.records.files import JSON_LINES
    from canary.records.shards import finished_pieces
    from canary.scoring.score_job import parts_of, score_file

    read = [texts, *model_files(model, options.tokenizer), *factory_file(options.factory)]
    check_name(out)
    begun = finished_pieces(parts_of(out)) > 0
    check_outputs([(out, (JSON_LINES,))], inputs=read, force=force or begun)
    loaded = options.load(model)
    with resumable(parts_of(out)), Bars() as bars:
        done = score_file(
            loaded,
            texts,
            out,
            column=column,
            overlap=overlap,
            progress=bars.stage,
            **options.running(),
        )
    if done.resumed:
        show(f"Scored by an earlier run that was stopped: {plural(done.resumed, 'text')}")
    counted = f"{plural(done.texts, 'text')} ({plural(done.tokens, 'token')})"
    show(f"The log-perplexities of {counted} are in {out}")
    return Result("canary score", done.to_dict())


@command(
    "audit ./model --canaries canaries.json --draws 20000 --seed 0 --out audit/",
    "audit ./model --canaries canaries.json --start-token '<|endoftext|>' --out audit/ --force",
    "audit ./model --canaries canaries.json --max-exposure-bits 10 --verification verified.json "
    "--out judged/",
    "audit ./model --canaries canaries.json --factory mymodel.py:build --out own/",
    "audit /models/it --canaries canaries.json --out large/ --ray head:6379 --worker-gpus 1",
    out="FOLDER: Where audit.json and report.html go.",
    extraction_budget="N: The most queries for extracting the most likely candidates of each "
    "format; 0 skips that.",
    against_base="Of a model with an adapter: also measure under its base model, with the adapter "
    "off. That takes twice the queries.",
)
def audit(
    model: str,
    *,
    canaries: Path,
    out: Path,
    options: MeasuringOptions,
    extraction_budget: Whole = 10_000,
    against_base: bool = False,
    max_exposure_bits: float | None = None,
    verification: Path | None = None,
    trust_injection: bool = False,
    names: Names,
    force: bool = False,
) -> Result:
    """Measure whether a model memorized its canaries.

    FOLDER/report.html is for people, FOLDER/audit.json for machines; neither holds a secret. Run
    the same command again to resume an audit that was stopped; FOLDER/parts keeps what is finished
    until then.

    With --max-exposure-bits, the exit codes are those of check.

    Exit codes: 0 measured, or passed; 1 memorized, 3 undecided, 2 wrong input, 130 Ctrl-C.
    """
    from canary.audits.audit_result import KIND, SCHEMA
    from canary.audits.audit_setup import no_bounds
    from canary.audits.auditing import audit as measure
    from canary.audits.extracting import with_extractions
    from canary.corpus.canaries import CanarySet
    from canary.corpus.verification import Verification
    from canary.gate.check_audit import check
    from canary.gate.exposure_limit import check_limit

    if max_exposure_bits is not None:
        check_limit(max_exposure_bits)
    elif verification is not None or trust_injection:
        raise InputError(
            "--verification and --trust-injection judge nothing without a limit",
            cure="give --max-exposure-bits as well, or omit them",
        )
    if options.top_k:
        raise no_bounds()
    chosen = CanarySet.load(canaries)
    verified = None if verification is None else Verification.load(verification)
    asked = {**options.running(), "against_base": against_base}
    read = [canaries, *([verification] if verification else []), *factory_file(options.factory)]
    with report_folder(out, KIND, "audit.json", inputs=read, force=force, in_parts=True) as folder:
        loaded = options.load(model)
        if folder.pieces:
            say(
                "Resuming an earlier run of this command "
                f"({plural(folder.pieces, 'finished piece')} in {folder.parts}); progress counts "
                "what remains"
            )
        with folder.running() as bars:
            result = measure(loaded, chosen, progress=bars.stage, parts=folder.parts, **asked)
            if extraction_budget:
                result = with_extractions(
                    result,
                    loaded,
                    chosen,
                    budget=extraction_budget,
                    batch_size=options.batch_size,
                    progress=bars.stage,
                )
        result = names.on(result)
        if max_exposure_bits is None:
            return folder.finish(result, SCHEMA)
        verdict = check(
            result,
            max_exposure_bits=max_exposure_bits,
            verification=verified,
            trust_injection=trust_injection,
        )
        return folder.finish(verdict, SCHEMA, body=result.to_dict(), code=verdict.exit_code)


@command(
    "exposure ./model --canaries canaries.json --method auto --budget 1000000 --json",
    method="NAME: How exposure is measured: EXPOSURE-METHODS. EXPOSURE-METHODS-HELP",
)
def exposure(
    model: str,
    *,
    canaries: Path,
    options: MeasuringOptions,
) -> Result:
    """Measure the exposure of each canary, in bits."""
    from canary.audits.auditing import exposure_with
    from canary.audits.question import AuditOptions
    from canary.corpus.canaries import CanarySet
    from canary.tokens.starts import shown_start

    chosen = CanarySet.load(canaries)
    asked = options.running()
    loaded = options.load(model)
    with Bars() as bars:
        chosen_options = AuditOptions(progress=bars.stage, **asked)
        results, notes, start = exposure_with(loaded, chosen, chosen_options)
    show_notes(notes)
    show_exposures(results)
    if options.top_k:
        show(
            "Px is the log-perplexity after the context. It is a lower bound where a token of the "
            "canary was not among the most likely ones. The intervals are certain"
        )
        if open_ends := sum(map(unknown, results)):
            show(
                f"No lower bound is known for {count(open_ends)} of {count(len(results))} "
                f"canaries, scored after {shown_start(start.token)} (--start-token)"
            )
    body = {"canaries": [result.to_dict() for result in results], "notes": list(notes)}
    return Result("canary exposure", {**body, "start": start.to_dict()})


@command(
    'extract ./model "The random number is {digit:9}" --top 5 --budget 100000 --json',
    'extract ./model "The random number is {digit:9}" --known 3 --canaries canaries.json',
    format="FORMAT: What the secret looks like: text with holes, such as {digit:9}. Write known "
    "characters as text.",
    top="N: The number of candidates to find.",
    budget="[Options] N: The most queries (tokens computed) for the search.",
    seconds="[Search] SECONDS: The longest time for the search, above 0.  [default: no limit]",
    stop="proof searches until no other candidate can be more likely; paper, for comparison, stops "
    "after twice the batches that the first candidate took.",
    known="N: Also complete each secret from its first N characters, greedily and by beam search. "
    "The secrets are the canaries and controls of --canaries, or else the candidates found.",
    canaries="FILE: The canary set; each candidate is shown with its canary.",
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
    options: FindingOptions,
    as_json: bool = False,
) -> None:
    """Extract a format's most likely candidates from a model.

    They are printed in clear on stdout, the most likely first. Each has its log-perplexity (Px),
    the exposure that follows from its place, whether the place is proven, and the queries that it
    took. At the end of the budget, and on Ctrl-C, the command prints what it has found, and up to
    which cost that is proven.
    """
    from canary.audits.completing import SearchOptions
    from canary.audits.extracting import extract as search_for
    from canary.corpus.canaries import CanarySet
    from canary.formats.format import Format

    chosen = None if canaries is None else CanarySet.load(canaries)
    known_formats = () if chosen is None else chosen.formats
    wanted = next((f for f in known_formats if f.text == format), None) or Format(format)
    asked = SearchOptions(top=top, budget=budget, seconds=seconds, stop=stop, known=known)
    asked.secrets_of(wanted, chosen)  # refused before the model is loaded
    running = options.running()
    loaded = options.load(model)
    with Bars() as bars:
        result = search_for(
            loaded,
            wanted,
            canaries=chosen,
            progress=bars.stage,
            **vars(asked),
            **running,
        )
    if as_json:
        emit("canary extraction", result.to_dict())
    else:
        for line in _candidates(result, wanted):
            show(line)
    _explain(result)
    if result.stopped == "interrupted":
        raise KeyboardInterrupt


def _candidates(result: Extraction, format: Format) -> Iterator[str]:
    """The candidates as columns; with canaries, whose they are."""
    named = any(candidate.canary for candidate in result.candidates)
    if result.candidates:
        canary = f"{'canary':<14}" if named else ""
        yield f"place  Px, bits  exposure, bits  proven    queries  {canary}candidate"
    for place, candidate in enumerate(result.candidates, 1):
        implied = bits_between(candidate.exposure_lower_bits, candidate.exposure_upper_bits)
        assert candidate.fill is not None
        canary = f"{candidate.canary or '-':<12}  " if named else ""
        yield (
            f"{place:>5}  {candidate.px_bits:>8.2f}  {implied:>14}"
            f"  {_yes(candidate.proven):>6}  {candidate.found_after:>9,}"
            f"  {canary}{format.candidate(candidate.fill)}"
        )


def _explain(result: Extraction) -> None:
    """How surely, at what cost, and what follows; for people, with no secret in it."""
    show_notes(result.notes)
    show(proof_sentence(result))
    why = "" if result.proven else f", until {result.why_stopped}"
    show(
        f"{plural(result.queries, 'query', 'queries')} (tokens computed) in "
        f"{result.seconds:.1f} s{why}; guessing at random takes "
        f"{plural(round(result.random_guesses), 'guess', 'guesses')} on average, each of one "
        "query or more"
    )
    if result.stopped == "requests":
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
        spent = plural(result.settings["budget"], "query", "queries")
        return f"Nothing found within the budget of {spent}; give a larger --budget ({rest})"
    if result.stopped == "requests":
        return f"Nothing found within the allowed requests ({rest})"
    return f"Nothing found; {rest}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
