"""The command of membership for language models: attacks on texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from canary.cli.console import Bars, emit, resumable, say
from canary.cli.membership_commands import (
    Confidence,
    Fprs,
    ReportFolder,
    numbers_of,
)
from canary.cli.model_options import ModelOptions, takes_model_options
from canary.cli.options import Column, Force, Json, Model, Seed, decodable
from canary.cli.outputs import check_outputs, factory_file, model_files
from canary.cli.terminal_tables import show_report

_FILE = "A JSONL file, one JSON object on each line, of texts"


@takes_model_options
def text(
    model: Model,
    members: Annotated[
        Path,
        typer.Argument(metavar="MEMBERS", help=f"{_FILE} that the model was trained on."),
    ],
    nonmembers: Annotated[
        Path,
        typer.Argument(
            metavar="NONMEMBERS", help=f"{_FILE} from the same source that it never saw."
        ),
    ],
    out: ReportFolder,
    attacks: Annotated[
        str,
        typer.Option(
            "--attacks",
            metavar="NAME,NAME,...",
            callback=decodable,
            help="TEXT-ATTACKS; or all that the models allow.",
        ),
    ] = "all",
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="MODEL",
            callback=decodable,
            help="A model that was not trained on the members, for the attack reference.",
        ),
    ] = None,
    reference_start_token: Annotated[
        str | None,
        typer.Option(
            "--reference-start-token",
            metavar="TOKEN",
            callback=decodable,
            help="As --start-token, for the reference model; '' for none.  [default: that of "
            "--start-token]",
        ),
    ] = None,
    masked: Annotated[
        str | None,
        typer.Option(
            "--masked",
            metavar="MODEL",
            callback=decodable,
            help="A masked language model such as BERT, which rewrites the texts for the attack "
            "neighbourhood.",
        ),
    ] = None,
    neighbours: Annotated[
        int, typer.Option("--neighbours", min=1, help="Rewritten copies of each text.")
    ] = 10,
    masked_share: Annotated[
        float, typer.Option("--masked-share", help="Of the words that a copy has replaced.")
    ] = 0.15,
    column: Column = "text",
    share: Annotated[
        float,
        typer.Option("--share", help="Of the tokens of a text that min-k and min-k++ look at."),
    ] = 0.2,
    window: Annotated[
        int | None,
        typer.Option(
            "--window",
            min=2,
            metavar="TOKENS",
            help="Price longer texts in windows of so many tokens.  [default: what the model "
            "takes]",
        ),
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap",
            min=1,
            metavar="TOKENS",
            help="Tokens that a window shares with the one before, as context.  [default: half a "
            "window]",
        ),
    ] = None,
    fpr: Fprs = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    force: Force = False,
    *,
    options: ModelOptions,
    as_json: Json = False,
) -> None:
    """Tell texts of a language model's training data from others, by what it says of them.

    FOLDER/report.html is for people, FOLDER/membership.json for machines. Texts are named
    by their lines and never shown. A bag-of-words classifier, which sees no model, stands
    beside the attacks: if it tells members from nonmembers, they differ anyhow. A run that
    was stopped or killed goes on when it is started again with the same words; until it is
    done its finished pieces lie in FOLDER/parts.
    """
    from canary.membership.survey import SCHEMA, rates_of
    from canary.membership.text_survey import KIND, survey_texts
    from canary.membership.words_alone import check_enough_texts
    from canary.records.files import folder_made
    from canary.records.overwrite_guard import PAGES
    from canary.records.shards import discard_run, finished_pieces, publish
    from canary.records.versioned_json import dump_document
    from canary.reports.pages import report
    from canary.signals.text_files import read_texts
    from canary.signals.text_measuring import measure_texts, text_signals_of
    from canary.signals.text_passes import REWRITING
    from canary.statistics.number_checks import check_confidence

    asked = None if fpr is None else numbers_of(fpr, "--fpr")
    text_signals_of(attacks, reference=reference is not None, masked=masked is not None)
    with folder_made(out) as folder:
        numbers, page, parts = folder / "membership.json", folder / "report.html", folder / "parts"
        models = [
            *model_files(model),
            *model_files(reference),
            *model_files(masked),
            *model_files(options.tokenizer),
        ]
        read = [members, nonmembers, *models, *factory_file(options.factory)]
        begun = finished_pieces(parts) > 0
        outputs = [(numbers, (KIND,)), (page, PAGES)]
        check_outputs(outputs, inputs=read, force=force or begun)
        texts = read_texts(members, nonmembers, column=column)
        # What would be refused after hours is refused before them.
        check_confidence(confidence, "--confidence")
        rates_of(asked, int((~texts.member).sum()))
        check_enough_texts(texts.texts, texts.member)
        loaded = options.load(model)
        second = None if reference is None else options.load_beside(reference)
        third = None if masked is None else options.load_masked(masked)
        with resumable(parts), Bars() as bars:
            measured = measure_texts(
                loaded,
                texts.texts,
                texts.member,
                signals=attacks,
                reference=second,
                masked=third,
                neighbours=neighbours,
                masked_share=masked_share,
                share=share,
                window=window,
                overlap=overlap,
                reference_start_token=reference_start_token,
                seed=seed,
                places=texts.place,
                parts=parts,
                stage=lambda name, total: bars.stage(
                    name, total, unit="texts" if name.startswith(REWRITING) else "tokens"
                ),
                **options.running(),
            )
            found = survey_texts(
                measured,
                texts.texts,
                lines=texts.lines,
                fprs=asked,
                confidence=confidence,
                seed=seed,
                stage=partial(bars.stage, unit="rounds"),
            )
        found = replace(found, notes=(*texts.notes, *found.notes))
        body = {**texts.facts(), **found.to_dict()}
        write = partial(dump_document, kind=KIND, schema=SCHEMA, body=body, private=True)
        publish(parts, numbers, write, replaces=(KIND,))
        publish(parts, page, partial(report, found), replaces=PAGES)
        discard_run(parts)
    show_report(found)
    say(f"The report is {page}; its numbers are in {numbers}")
    if as_json:
        emit(KIND, body, schema=SCHEMA)
