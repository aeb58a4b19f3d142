"""The commands after training: score, audit, exposure, report; and the demo of the whole job.

Each body parses, calls, prints. What they call is imported when they run, so that the
help is quick.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from canary.cli.console import Bars, emit, resumable, say
from canary.cli.options import (
    BatchSize,
    Budget,
    CanaryFile,
    Column,
    ContextText,
    Device,
    Draws,
    Dtype,
    ExposureMethod,
    Factory,
    Json,
    Method,
    Model,
    Seed,
    StartToken,
    TokenizerPath,
)
from canary.cli.outputs import check_outputs, factory_file, model_files
from canary.cli.tables import show_audit, show_exposures

__all__ = ["audit", "demo", "exposure", "report", "score"]


def score(
    model: Model,
    texts: Annotated[
        Path, typer.Argument(metavar="TEXTS", help="A JSONL file: one JSON object on each line.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The JSONL file to write.")],
    column: Column = "text",
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap",
            min=1,
            metavar="TOKENS",
            help="Score texts that are longer than the model takes in windows, each with so "
            "many tokens of the one before as context.  [default: refuse such texts]",
        ),
    ] = None,
    start_token: StartToken = None,
    context: ContextText = "",
    tokenizer: TokenizerPath = None,
    factory: Factory = None,
    dtype: Dtype = None,
    device: Device = None,
    batch_size: BatchSize = None,
    as_json: Json = False,
) -> None:
    """Write the log-perplexity of each text, in bits.

    One record per text, in the order of the input: its line, its total in bits, and the
    number of tokens that were priced. A run that was stopped or killed goes on when it is
    started again with the same words; until it is done its finished pieces lie in
    OUT.parts.
    """
    from canary.models.loading import load
    from canary.scoring.files import parts_of, score_file

    read = [texts, *model_files(model), *model_files(tokenizer), *factory_file(factory)]
    check_outputs([out], inputs=read)
    say(f"Loading {model}")
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, factory=factory)
    with resumable(parts_of(out)), Bars() as bars:
        done = score_file(
            loaded,
            texts,
            out,
            column=column,
            start_token=start_token,
            context=context,
            overlap=overlap,
            batch_size=batch_size,
            progress=bars.file(texts.name),
        )
    if done.resumed:
        say(f"{done.resumed:,} texts were scored by an earlier run that had not ended")
    say(f"The log-perplexities of {done.texts:,} texts ({done.tokens:,} tokens) are in {out}")
    if as_json:
        emit("canary score", done.to_dict())


def audit(
    model: Model,
    canaries: CanaryFile,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Where audit.json and report.html go."),
    ],
    method: Method = "auto",
    budget: Budget = 1_000_000,
    extraction_budget: Annotated[
        int,
        typer.Option(
            "--extraction-budget",
            min=0,
            help="Queries that bringing the likeliest candidates of each format out of the model "
            "may take; 0 leaves that out.",
        ),
    ] = 10_000,
    draws: Draws = 20_000,
    seed: Seed = 0,
    start_token: StartToken = None,
    context: ContextText = "",
    tokenizer: TokenizerPath = None,
    factory: Factory = None,
    dtype: Dtype = None,
    device: Device = None,
    batch_size: BatchSize = None,
    as_json: Json = False,
) -> None:
    """Say whether a model memorized its canaries.

    FOLDER/report.html is for people, FOLDER/audit.json for machines; neither holds a
    secret. An audit that was stopped or killed goes on when it is started again with the
    same words; until it is done its finished pieces lie in FOLDER/parts.
    """
    from canary.audits.auditing import audit as measure
    from canary.audits.extracting import with_extractions
    from canary.audits.result import KIND, SCHEMA
    from canary.corpus.canaries import CanarySet
    from canary.models.loading import load
    from canary.records.files import folder_made
    from canary.records.shards import discard_run, publish
    from canary.reports.html import report as write_report

    chosen = CanarySet.load(canaries)
    with folder_made(out) as folder:
        numbers, page, parts = folder / "audit.json", folder / "report.html", folder / "parts"
        check_outputs([numbers, page], inputs=[canaries, *factory_file(factory)])
        say(f"Loading {model}")
        loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, factory=factory)
        with resumable(parts), Bars() as bars:
            result = measure(
                loaded,
                chosen,
                method=method,
                budget=budget,
                draws=draws,
                seed=seed,
                start_token=start_token,
                context=context,
                batch_size=batch_size,
                stage=bars.stage,
                parts=parts,
            )
            if extraction_budget:
                result = with_extractions(
                    result,
                    loaded,
                    chosen,
                    budget=extraction_budget,
                    batch_size=batch_size,
                    stage=bars.stage,
                )
        publish(parts, numbers, result.save)
        publish(parts, page, partial(write_report, result))
        discard_run(parts)
    show_audit(result)
    say(f"The report is {page}; its numbers are in {numbers}")
    if as_json:
        emit(KIND, result.to_dict(), schema=SCHEMA)


def exposure(
    model: Model,
    canaries: CanaryFile,
    method: ExposureMethod = "auto",
    budget: Budget = 1_000_000,
    draws: Draws = 20_000,
    seed: Seed = 0,
    start_token: StartToken = None,
    context: ContextText = "",
    tokenizer: TokenizerPath = None,
    factory: Factory = None,
    dtype: Dtype = None,
    device: Device = None,
    batch_size: BatchSize = None,
    as_json: Json = False,
) -> None:
    """Measure the exposure of each canary, in bits."""
    from canary.audits.auditing import exposure as measure
    from canary.corpus.canaries import CanarySet
    from canary.models.loading import load

    chosen = CanarySet.load(canaries)
    say(f"Loading {model}")
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, factory=factory)
    with Bars() as bars:
        results = measure(
            loaded,
            chosen,
            method=method,
            budget=budget,
            draws=draws,
            seed=seed,
            start_token=start_token,
            context=context,
            batch_size=batch_size,
            stage=bars.stage,
        )
    show_exposures(results)
    if as_json:
        emit("canary exposure", {"canaries": [result.to_dict() for result in results]})


def report(
    audit_file: Annotated[
        Path, typer.Argument(metavar="AUDIT", help="The audit.json that audit wrote.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")],
    as_json: Json = False,
) -> None:
    """Write the report of an audit again, as one HTML file."""
    from canary.audits.result import Audit
    from canary.reports.html import report as write_report

    check_outputs([out], inputs=[audit_file])
    page = write_report(Audit.load(audit_file), out)
    say(f"The report is {page}")
    if as_json:
        emit("canary report", {"out": str(page)})


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where all of it goes.")],
    inject: Annotated[
        bool, typer.Option("--inject/--no-inject", help="Whether the canaries go in at all.")
    ] = True,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run the whole job on prose that ships inside Python.

    It takes minutes and downloads nothing. With --no-inject nothing is put in, and no
    alarm may come of it.
    """
    from canary.audits.result import KIND, SCHEMA
    from canary.demo import run

    with Bars() as bars:
        result = run(out, inject=inject, seed=seed, stage=bars.stage, say=bars.say)
    show_audit(result)
    secrets = [out / "canaries.json", *([out / "corpus.jsonl"] if inject else [])]
    say(f"Secrets stand in clear in {' and '.join(map(str, secrets))}")
    if as_json:
        emit(KIND, result.to_dict(), schema=SCHEMA)
