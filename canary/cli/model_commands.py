"""The commands that run a model: doctor, score, audit, exposure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from canary.cli.command import command
from canary.cli.console import (
    Bars,
    say,
    show,
    show_answer,
    show_exposures,
    show_notes,
    show_table,
    unknown,
)
from canary.cli.model_options import EXTRACTION_BUDGET, Count, ModelOptions, Whole
from canary.cli.options import MeasuringOptions, lines_of
from canary.cli.outputs import (
    Names,
    Result,
    asked_folder,
    check_name,
    check_outputs,
    factory_file,
    model_files,
    report_folder,
    resumable,
)
from canary.errors import InputError
from canary.statistics.numbers import count, plural


@command(
    "doctor ./model",
    "doctor http://127.0.0.1:8000/v1",
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
    """Check whether a model's numbers can be trusted, and what a server allows.

    Of a server, the first table shows what it returns, and which commands need that. The last
    table shows what was measured by each check that the model did not simply pass.

    Exit codes: 0 no check refused the model, 2 one did, and its numbers must not be used.
    """
    from canary.models.doctor import examine
    from canary.models.served.endpoint import is_url

    server: dict[str, Any] = {}
    if is_url(model) and not options.dry_run:
        server = _server_allows(model, options)
        if options.tokenizer is None:
            if server["server"]["prompt_log_probs"] or server["server"]["top_k"]:
                show("With --tokenizer, its numbers are checked as well")
            return Result("canary doctor", server)
        options = _as_it_allows(options, server["server"])
    given = model, options.start_token, tokens, lines_of(texts)
    examined = examine(lambda: options.load(model), *given, context=options.context)
    if options.dry_run:
        from canary.models.served.allowed import USUALLY_ASKED

        options.rehearsals[0].client.add(USUALLY_ASKED, 4 * USUALLY_ASKED)
    for finding in examined.findings:
        if finding.verdict != "fine" and finding.cure:
            check = (finding.check,) if finding.verdict != "not loaded" else ()
            show(": ".join((finding.verdict, *check, finding.cure)))
    if shown := [f for f in examined.findings if all or f.verdict != "fine"]:
        rows = ((finding.check, finding.verdict, finding.figure) for finding in shown)
        show_table(("check", "result", "measured"), rows)
    show(examined.outcome)
    return Result("canary doctor", examined.to_dict() | server, code=0 if examined.sound else 2)


def _as_it_allows(options: ModelOptions, server: dict[str, Any]) -> ModelOptions:
    """The options, with --top-k for a server that gives no log-probabilities of a prompt."""
    if options.top_k is not None or server["prompt_log_probs"] or not server["top_k"]:
        return options
    top = min(server["top_k"], 20)
    say(f"It gives no log-probabilities of a prompt, so it is checked with --top-k {top}")
    made = replace(options, top_k=top)
    made.endpoints.extend(options.endpoints)
    vars(options)["endpoints"] = made.endpoints  # what is sent is said of both
    return made


def _server_allows(model: str, options: ModelOptions) -> dict[str, Any]:
    """What a server allows, with a table of it shown."""
    from canary.models.served.allowed import allowed

    found = allowed(options.endpoint(model))
    show(f"The server of {found.name} ({plural(found.requests, 'request')} sent so far):")
    show_table(("what", "allowed", "for"), found.rows())
    if found.top_k and found.prompt_log_probs:
        show(
            "If the number of requests is limited, begin with canary exposure (or extract) "
            f"--top-k {min(found.top_k, 20)}, and audit with what is left"
        )
    return {"server": found.to_dict()}


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
    from canary.scoring.served_requests import requests_of

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
    return Result("canary score", {**done.to_dict(), **requests_of(loaded)})


@command(
    "audit ./model --canaries canaries.json --draws 20000 --seed 0 --out audit/",
    "audit ./model --canaries canaries.json --start-token '<|endoftext|>' --out audit/ --force",
    "audit ./model --canaries canaries.json --max-exposure-bits 4 --verification verified.json "
    "--out judged/",
    "audit ./model --canaries canaries.json --factory mymodel.py:build --out own/",
    "audit /models/it --canaries canaries.json --out large/ --ray head:6379 --worker-gpus 1",
    out="FOLDER: Where audit.json and report.html go.",
    extraction_budget="N: The most queries for extracting the most likely candidates of each "
    "format; 0 skips that. At an address, the ranks of memorized canaries rest on that search: a "
    "small number leaves only bounds.",
    require_learned="[Measurement] COPIES: The positive control: the verdict is on the other "
    "canaries, and says whether those with this number of copies were learned, as they should be.",
    against_base="Of a model with an adapter: also measure under its base model, with the adapter "
    "off. That takes twice the queries.",
)
def audit(
    model: str,
    *,
    canaries: Path,
    out: Path,
    options: MeasuringOptions,
    extraction_budget: Whole = EXTRACTION_BUDGET,
    against_base: bool = False,
    max_exposure_bits: float | None = None,
    verification: Path | None = None,
    trust_injection: bool = False,
    require_learned: Count | None = None,
    names: Names,
    verbose: bool = False,
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
    from canary.audits.audit_setup import no_bounds, with_limit
    from canary.audits.auditing import audit as measure
    from canary.audits.extracting import with_extractions
    from canary.corpus.canaries import CanarySet
    from canary.corpus.verification import Verification
    from canary.gate.check_audit import check
    from canary.gate.weak_limits import check_limit

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
    asked["require_learned"] = require_learned
    read = [canaries, *([verification] if verification else []), *factory_file(options.factory)]
    with report_folder(out, KIND, "audit.json", inputs=read, force=force, in_parts=True) as folder:
        loaded = options.load(model, budget=options.budget)
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
        options.counted()
        result = names.on(result)
        if max_exposure_bits is None:
            return folder.finish(result, SCHEMA, short=not verbose)
        result = with_limit(result, max_exposure_bits)
        verdict = check(
            result,
            max_exposure_bits=max_exposure_bits,
            verification=verified,
            trust_injection=trust_injection,
        )
        return folder.finish(
            *(verdict, SCHEMA),
            body=result.to_dict(),
            code=verdict.exit_code,
            short=not verbose,
        )


@command(
    "exposure ./model --canaries canaries.json --method auto --budget 1000000 --json",
    "exposure ./model --canaries canaries.json --method rank --out exposed/",
    out="FOLDER: Where exposure.json and report.html go.  [default: they are not written]",
    method="NAME: How exposure is measured: EXPOSURE-METHODS. EXPOSURE-METHODS-HELP",
)
def exposure(
    model: str,
    *,
    canaries: Path,
    canary: list[str] | None = None,
    out: Path | None = None,
    options: MeasuringOptions,
    names: Names,
    force: bool = False,
) -> Result:
    """Measure the exposure of each canary, in bits.

    With --out, canary check and canary report read FOLDER/exposure.json. No secret is in it.
    """
    from canary.audits.auditing import exposure_with
    from canary.audits.exposure_result import KIND, SCHEMA
    from canary.audits.question import AuditOptions
    from canary.corpus.canaries import CanarySet
    from canary.corpus.named import only
    from canary.tokens.starts import shown_before

    read = [canaries, *factory_file(options.factory)]
    with asked_folder(out, KIND, "exposure.json", inputs=read, force=force) as folder:
        chosen = CanarySet.load(canaries)
        chosen = only(chosen, canary) if canary else chosen
        asked = options.running()
        loaded = options.load(model, budget=options.budget)
        with Bars() as bars:
            chosen_options = AuditOptions(progress=bars.stage, **asked)
            results = names.on(exposure_with(loaded, chosen, chosen_options))
        options.counted()
        if folder is not None:
            folder.write(results, SCHEMA)
    show_answer(results)
    show_notes(results.notes)
    show_exposures(results, bounds=bool(options.top_k))
    if options.top_k:
        show(
            "Px is the log-perplexity after the context. With ≥ it is a lower bound: a token of "
            "the canary was not among the most likely ones, or the search ended before it ranked "
            "the canary. Each exposure is certainly within its interval"
        )
        if (open_ends := sum(map(unknown, results))) and results.start is not None:
            show(
                f"No lower bound of the exposure is known for {count(open_ends)} of "
                f"{count(len(results))} canaries, scored after "
                f"{shown_before(results.start.token, options.context)} "
                f"(--start-token{', --context' * bool(options.context)})"
            )
    if folder is not None:
        folder.say_where()
    return Result(KIND, results.to_dict(), SCHEMA)
