"""The commands after training: audit, exposure, report; and the demo of the whole job.

Each body parses, calls, prints. What they call is imported when they run, so that the
help is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canary.cli.console import Bars, emit, say
from canary.cli.options import (
    BatchSize,
    Budget,
    CanaryFile,
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
from canary.cli.tables import show_audit, show_exposures

__all__ = ["audit", "demo", "exposure", "report"]


def audit(
    model: Model,
    canaries: CanaryFile,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Where audit.json and report.html go."),
    ],
    method: Method = "auto",
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
    """Say whether a model memorized its canaries.

    FOLDER/report.html is for people, FOLDER/audit.json for machines; neither holds a
    secret.
    """
    from canary.audits.auditing import audit as measure
    from canary.audits.result import KIND, SCHEMA
    from canary.corpus.canaries import CanarySet
    from canary.models.loading import load
    from canary.records.files import make_folder
    from canary.reports.html import report as write_report

    chosen = CanarySet.load(canaries)
    folder = make_folder(out)
    say(f"Loading {model}")
    loaded = load(model, tokenizer=tokenizer, dtype=dtype, device=device, factory=factory)
    with Bars() as bars:
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
        )
    result.save(folder / "audit.json")
    page = write_report(result, folder / "report.html")
    show_audit(result)
    say(f"The report is {page}; its numbers are in {folder / 'audit.json'}")
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
        result = run(out, inject=inject, seed=seed, stage=bars.stage, say=say)
    show_audit(result)
    if as_json:
        emit(KIND, result.to_dict(), schema=SCHEMA)
