"""The commands after training: score, audit, exposure, report, plot; and the demo of the whole job.

Each body parses, calls, prints. What they call is imported when they run, so that the
help is quick.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canary.cli.console import Bars, emit, resumable, say
from canary.cli.model_options import ModelOptions, finds_start, takes_model_options
from canary.cli.options import (
    Budget,
    CanaryFile,
    Column,
    Draws,
    ExposureMethod,
    FigureName,
    Force,
    Json,
    Method,
    Model,
    Seed,
    StartTexts,
    decodable,
    lines_of,
)
from canary.cli.outputs import audit_in, check_name, check_outputs, factory_file, model_files
from canary.cli.terminal_tables import show_exposures, show_notes, show_report
from canary.statistics.numbers import plural

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit
    from canary.audits.history import History


@takes_model_options
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
    force: Force = False,
    *,
    options: ModelOptions,
    as_json: Json = False,
) -> None:
    """Write the log-perplexity of each text, in bits.

    One record per text, in the order of the input: its line, its total in bits, and the
    number of tokens that were priced. A run that was stopped or killed goes on when it is
    started again with the same words; until it is done its finished pieces lie in
    OUT.parts.
    """
    from canary.records.overwrite_guard import JSON_LINES
    from canary.records.shards import finished_pieces
    from canary.scoring.score_job import parts_of, score_file

    files = [*model_files(model), *model_files(options.tokenizer)]
    read = [texts, *files, *factory_file(options.factory)]
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
            progress=bars.file(texts.name),
            **options.running(),
        )
    if done.resumed:
        say(f"Scored by an earlier run that had not ended: {plural(done.resumed, 'text')}")
    counted = f"{plural(done.texts, 'text')} ({plural(done.tokens, 'token')})"
    say(f"The log-perplexities of {counted} are in {out}")
    if as_json:
        emit("canary score", done.to_dict())


@finds_start
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
    force: Force = False,
    start_texts: StartTexts = None,
    *,
    options: ModelOptions,
    as_json: Json = False,
) -> None:
    """Say whether a model memorized its canaries.

    FOLDER/report.html is for people, FOLDER/audit.json for machines; neither holds a
    secret. An audit that was stopped or killed goes on when it is started again with the
    same words; until it is done its finished pieces lie in FOLDER/parts.
    """
    from canary.audits.audit_result import KIND, SCHEMA
    from canary.audits.auditing import audit_with
    from canary.audits.extracting import with_extractions
    from canary.audits.question import AuditOptions
    from canary.corpus.canaries import CanarySet
    from canary.records.files import folder_made
    from canary.records.overwrite_guard import PAGES
    from canary.records.shards import discard_run, finished_pieces, publish
    from canary.reports.pages import report as write_report

    chosen = CanarySet.load(canaries)
    texts = lines_of(start_texts)
    with folder_made(out) as folder:
        numbers, page, parts = folder / "audit.json", folder / "report.html", folder / "parts"
        earlier = finished_pieces(parts)
        check_outputs(
            [(numbers, (KIND,)), (page, PAGES)],
            inputs=[canaries, *factory_file(options.factory)],
            force=force or earlier > 0,
        )
        loaded = options.load(model)
        if earlier:
            say(
                "Going on from what an earlier run of this command finished "
                f"({plural(earlier, 'piece')} in {parts}); what is counted is the rest"
            )
        with resumable(parts), Bars() as bars:
            asked = AuditOptions(
                method=method,
                budget=budget,
                draws=draws,
                seed=seed,
                start_texts=texts,
                stage=bars.stage,
                **options.running(),
            )
            result = audit_with(loaded, chosen, asked, parts=parts)
            if extraction_budget:
                result = with_extractions(
                    result,
                    loaded,
                    chosen,
                    budget=extraction_budget,
                    batch_size=options.batch_size,
                    stage=bars.stage,
                )
        publish(parts, numbers, result.save, replaces=(KIND,))
        publish(parts, page, partial(write_report, result), replaces=PAGES)
        discard_run(parts)
    show_report(result)
    say(f"The report is {page}; its numbers are in {numbers}")
    if as_json:
        emit(KIND, result.to_dict(), schema=SCHEMA)


@finds_start
def exposure(
    model: Model,
    canaries: CanaryFile,
    method: ExposureMethod = "auto",
    budget: Budget = 1_000_000,
    draws: Draws = 20_000,
    seed: Seed = 0,
    start_texts: StartTexts = None,
    *,
    options: ModelOptions,
    as_json: Json = False,
) -> None:
    """Measure the exposure of each canary, in bits."""
    from canary.audits.auditing import exposure_with
    from canary.audits.question import AuditOptions
    from canary.corpus.canaries import CanarySet

    chosen = CanarySet.load(canaries)
    texts = lines_of(start_texts)
    loaded = options.load(model)
    with Bars() as bars:
        asked = AuditOptions(
            method=method,
            budget=budget,
            draws=draws,
            seed=seed,
            start_texts=texts,
            stage=bars.stage,
            **options.running(),
        )
        results, notes, start = exposure_with(loaded, chosen, asked)
    show_notes(notes)
    show_exposures(results)
    if options.top_k:
        say(
            "Px are the bits below the context, and the least that a canary can cost where a "
            "token of it was not among the likeliest; the intervals are certain"
        )
    if as_json:
        body = {
            "canaries": [result.to_dict() for result in results],
            "notes": list(notes),
            "start": start.to_dict(),
        }
        emit("canary exposure", body)


_Audits = Annotated[
    list[Path],
    typer.Argument(
        metavar="AUDIT...",
        help="One or more of the audit.json that audit wrote; or one canary_history.json of a "
        "training.",
    ),
]
_Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="TEXT",
        callback=decodable,
        help="What an audit stands for; once for each, in their order.  [default: the names "
        "of the models, or of the files where those repeat]",
    ),
]
_TestLosses = Annotated[
    list[float] | None,
    typer.Option(
        "--test-loss",
        metavar="NATS",
        help="Mean loss of a model on test text, in nats per token; once for each audit, in "
        "their order.",
    ),
]
_TestScores = Annotated[
    list[Path] | None,
    typer.Option(
        "--test-scores",
        metavar="FILE",
        help="In place of --test-loss: what score wrote of the same test text with each model.",
    ),
]


def report(
    audit_files: _Audits,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")],
    labels: _Labels = None,
    test_losses: _TestLosses = None,
    test_scores: _TestScores = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the report of an audit again, or compare several.

    Of several, one HTML file shows exposure and utility (test loss) side by side, with the
    Pareto front. What cannot be compared is said and not joined. Of the history of a training
    that was watched, it shows exposure against training steps.
    """
    from canary.records.overwrite_guard import PAGES
    from canary.reports.pages import report as write_report

    read = [*map(audit_in, audit_files), *(test_scores or [])]
    check_outputs([(out, PAGES)], inputs=read, force=force)
    losses = _losses(test_losses, test_scores)
    results = _results_in(audit_files)
    chosen = labels or _file_labels(results, audit_files)
    page = write_report(results, out, labels=chosen, test_losses=losses)
    say(f"The report is {page}")
    if as_json:
        emit("canary report", {"out": str(page)})


def plot(
    audit_files: _Audits,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="The figure to write: .svg, .pdf, or .png at 300 dpi."
        ),
    ],
    kind: Annotated[
        FigureName,
        typer.Option(
            "--kind",
            help="exposure by number of copies; the histogram of one audit's candidates; "
            "utility of several audits against their exposure, with the Pareto front.",
        ),
    ] = "exposure",
    format: Annotated[
        int, typer.Option("--format", min=1, help="Which format, counted as in the report.")
    ] = 1,
    copies: Annotated[
        int | None,
        typer.Option(
            "--copies", min=1, help="For utility: of which canaries.  [default: the most copies]"
        ),
    ] = None,
    skew_normal: Annotated[
        bool,
        typer.Option(
            "--skew-normal",
            help="Of several audits, the estimates off the skew-normal curves: numbers where "
            "draws give only bounds.",
        ),
    ] = False,
    labels: _Labels = None,
    test_losses: _TestLosses = None,
    test_scores: _TestScores = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a figure of audits or of a training, for print."""
    from canary.records.overwrite_guard import FIGURES
    from canary.reports.plotting import plot_file

    read = [*map(audit_in, audit_files), *(test_scores or [])]
    check_outputs([(out, FIGURES)], inputs=read, force=force)
    losses = _losses(test_losses, test_scores)
    results = _results_in(audit_files)
    figure = plot_file(
        results,
        out,
        kind=kind,
        format=format - 1,
        copies=copies,
        skew_normal=skew_normal,
        labels=labels or _file_labels(results, audit_files),
        test_losses=losses,
    )
    say(f"The figure is {figure}")
    if as_json:
        emit("canary plot", {"out": str(figure)})


def _results_in(files: list[Path]) -> list[Audit] | History:
    """The audits in some files, or the history of a training in a single one."""
    from canary.audits.audit_result import Audit
    from canary.audits.history import KIND, History
    from canary.errors import InputError
    from canary.records.versioned_json import kind_of

    places = [audit_in(file) for file in files]
    histories = [place for place in places if kind_of(place) == KIND]
    if histories and len(files) > 1:
        raise InputError(
            "is the history of a training, which is shown alone",
            cure="give it as the only file",
            where=str(histories[0]),
        )
    return History.load(histories[0]) if histories else [Audit.load(place) for place in places]


def _file_labels(audits: list[Audit] | History, files: list[Path]) -> list[str] | None:
    """The names of the files, where the models do not tell several audits apart."""
    if not isinstance(audits, list):
        return None
    models = {str(audit.model.get("name")) for audit in audits}
    names = [str(file) for file in files]
    unclear = len(models) < len(audits) and len(set(names)) == len(names)
    return names if unclear else None


def _losses(given: list[float] | None, scores: list[Path] | None) -> list[float] | None:
    """Test losses, as they were given or as they were measured."""
    from canary.errors import InputError
    from canary.reports.losses import measured_losses

    if given and scores:
        raise InputError("--test-loss and --test-scores are both given", cure="give one of them")
    return measured_losses(scores) if scores else given or None


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where all of it goes.")],
    inject: Annotated[
        bool, typer.Option("--inject/--no-inject", help="Whether the canaries go in at all.")
    ] = True,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run the whole job on prose that ships inside Python.

    It takes half a minute on a free core and downloads nothing. With --no-inject nothing is
    put in, and no alarm may come of it.
    """
    from canary.audits.audit_result import KIND, SCHEMA
    from canary.demo import FILES, run
    from canary.records.files import folder_made

    written = [(out / name, kinds) for name, kinds in FILES.items()]
    with folder_made(out), folder_made(out / "model"), Bars() as bars:
        check_outputs(written, inputs=[], force=force)
        result = run(out, inject=inject, seed=seed, stage=bars.stage, say=bars.say)
    show_report(result)
    secrets = [out / "canaries.json", *([out / "corpus.jsonl"] if inject else [])]
    say(f"Secrets stand in clear in {' and '.join(map(str, secrets))}")
    if as_json:
        emit(KIND, result.to_dict(), schema=SCHEMA)
