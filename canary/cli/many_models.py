"""The command of membership attacks with many models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from canary.cli.console import Bars, emit, say
from canary.cli.membership_commands import Confidence, Fprs, numbers_of
from canary.cli.options import Force, Json, Seed, decodable
from canary.cli.outputs import check_outputs
from canary.cli.terminal_tables import show_report
from canary.errors import InputError
from canary.statistics.number_checks import check_confidence

if TYPE_CHECKING:
    from canary.signals.signal_table import SignalTable

RuleName = Literal["empirical", "linear", "gaussian"]


def models(
    outputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            help="An .npz, Parquet or CSV file for each model, with logits (or probs, or losses), "
            "labels and member (0 or 1): the same samples in the same order. Or the folder in "
            "which a fleet keeps its results.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Where models.json and report.html go."),
    ],
    attacks: Annotated[
        str,
        typer.Option(
            "--attacks",
            metavar="NAME,NAME,...",
            callback=decodable,
            help="MODEL-ATTACKS; or all: S, P, R, both kinds of LiRA (fixed below 64 models) and "
            "rmia.",
        ),
    ] = "all",
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="MODEL",
            callback=decodable,
            help="The model that is attacked, by its file or its number from 0; the others are "
            "what it is compared with. Several times for several.  [default: all]",
        ),
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(
            "--least",
            min=1,
            metavar="COUNT",
            help="Judge only samples that so many models were trained without and, where an "
            "attack needs those, so many were trained on.  [default: all samples]",
        ),
    ] = None,
    rule: Annotated[
        RuleName, typer.Option("--rule", help="Of the quantile of losses, for S, P and R.")
    ] = "empirical",
    levels: Annotated[
        str,
        typer.Option(
            "--alphas",
            metavar="LEVEL,LEVEL,...",
            help="Levels at which decisions are made: shares of nonmembers that may be called "
            "members.",
        ),
    ] = "0.01,0.1,0.3",
    fpr: Fprs = None,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Attack classifiers by each other: tell what each was trained on by what the others say.

    FOLDER/report.html is for people, FOLDER/models.json for machines. Both name samples that
    were in training data: keep them like the data. The attacks D and L need models of each
    target's own, and are there from Python. The guide is docs/many-models.md.
    """
    from canary.membership.models_result import KIND
    from canary.membership.models_survey import survey_models
    from canary.membership.survey import SCHEMA
    from canary.records.files import folder_made
    from canary.records.overwrite_guard import PAGES
    from canary.records.versioned_json import dump_document
    from canary.reports.pages import report

    asked = None if fpr is None else numbers_of(fpr, "--fpr")
    alphas = numbers_of(levels, "--alphas")
    check_confidence(confidence, "--confidence")
    with folder_made(out) as folder:
        numbers, page = folder / "models.json", folder / "report.html"
        check_outputs([(numbers, (KIND,)), (page, PAGES)], inputs=outputs, force=force)
        with Bars() as bars:
            table, names = _measured(outputs, bars)
            found = survey_models(
                table,
                names=names,
                attacks=attacks,
                targets=None if target is None else [_row(one, names, table) for one in target],
                fprs=asked,
                alphas=alphas,
                rule=rule,
                least=least,
                confidence=confidence,
                seed=seed,
                stage=partial(bars.stage, unit="rounds"),
            )
        body = found.to_dict()
        dump_document(numbers, KIND, SCHEMA, body, private=True)
        report(found, page)
    show_report(found)
    say(f"The report is {page}; its numbers are in {numbers}")
    if as_json:
        emit(KIND, body, schema=SCHEMA)


def _measured(outputs: Sequence[Path], bars: Bars) -> tuple[SignalTable, list[str]]:
    """The table of all models, and their names."""
    from canary.fleet.store import table_of_folder
    from canary.signals.measuring import table_of_files

    folders = [place for place in outputs if place.is_dir()]
    if folders and len(outputs) > 1:
        raise InputError(
            "is a folder, and stands beside others",
            cure="give the folder of one fleet alone, or a file for each model",
            where=str(folders[0]),
        )
    if folders:
        table = table_of_folder(folders[0], done=bars.stage("models", 0, unit="models"))
        return table, [f"model {number}" for number in table.numbers]
    read = bars.stage("models", len(outputs), unit="models")
    return table_of_files(outputs, done=read), [str(place) for place in outputs]


def _row(asked: str, names: Sequence[str], table: SignalTable) -> int:
    """The row of a model that is named by its file, or by its number."""
    if asked in names:
        return names.index(asked)
    short = [Path(name).name for name in names]
    if short.count(asked) == 1:
        return short.index(asked)
    if asked.isascii() and asked.isdigit():
        number = int(asked)
        if number in table.numbers:
            return table.numbers.index(number)
        if number in table.missing:
            raise InputError(
                f"model {number} is missing: {table.missing[number]}",
                cure="attack one that is there",
                where="--target",
            )
    last = max([*table.numbers, *table.missing])
    raise InputError(
        f"{asked!r} is none of the {len(names)} models",
        cure=f"name a file that was given, or a number from 0 to {last}",
        where="--target",
    )
