"""The command that asks whether a model has forgotten a data set."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from canary.cli.console import Bars, emit, say
from canary.cli.options import Force, Json
from canary.cli.outputs import check_outputs
from canary.cli.terminal_tables import show_report
from canary.errors import InputError

_FILE = (
    "An .npz, Parquet or CSV file with logits (or probs, or losses) and labels, or a .jsonl file "
    "that canary score wrote"
)

Outputs = list[Path]

UNANSWERED = 3
"""The exit code where nothing was decided, as for `canary check`."""


def forgotten(
    query_model: Annotated[
        Outputs,
        typer.Option(
            "--query-model",
            metavar="FILE",
            help=f"{_FILE}: what a model says of the query set that was trained on it. Several "
            "times for several.",
        ),
    ],
    target: Annotated[
        Path, typer.Option("--target", metavar="FILE", help="The same of the model in question.")
    ],
    calibration: Annotated[
        Outputs,
        typer.Option(
            "--calibration",
            metavar="FILE",
            help="The same of a model that was trained on other data of the domain. Name the "
            "option again for each of several: 19 or more make p = 0.05 possible.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Where forgetting.json and report.html go."),
    ],
    retrained: Annotated[
        Outputs | None,
        typer.Option(
            "--retrained",
            metavar="FILE",
            help="The same of a model that was retrained without the query set. Several times for "
            "several.",
        ),
    ] = None,
    unseen: Annotated[
        Path | None,
        typer.Option(
            "--unseen",
            metavar="FILE",
            help="What the target says of other samples that it never saw: for a membership "
            "attack beside it.",
        ),
    ] = None,
    query_data: Annotated[
        Path | None,
        typer.Option(
            "--query-data",
            metavar="FILE",
            help="The query set itself: a .npy array of samples, or a text file of one sample a "
            "line. With --calibration-data it is checked that the two share none.",
        ),
    ] = None,
    calibration_data: Annotated[
        Path | None,
        typer.Option("--calibration-data", metavar="FILE", help="The calibration set itself."),
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of every interval.")] = 0.95,
    resamples: Annotated[
        int, typer.Option("--resamples", min=1, help="Of samples and models, for the interval.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the resamples.")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Ask whether a model has forgotten a data set, the query set.

    0 if there is an answer, whichever; 3 if there is none, and summary and notes say why.
    FOLDER/report.html is for people, FOLDER/forgetting.json for machines. For language
    models write the files with canary score, from one file of texts. The guide is
    docs/forgetting.md.
    """
    from canary.membership.forgetting import KIND, SCHEMA
    from canary.membership.forgetting import forgotten as compare
    from canary.records.files import folder_made
    from canary.records.overwrite_guard import PAGES
    from canary.records.versioned_json import dump_document
    from canary.reports.pages import report

    others = [*query_model, target, *calibration, *(retrained or [])]
    read = [*others, *(path for path in (unseen, query_data, calibration_data) if path)]
    with folder_made(out) as folder:
        numbers, page = folder / "forgetting.json", folder / "report.html"
        check_outputs([(numbers, (KIND,)), (page, PAGES)], inputs=read, force=force)
        sets = [None if path is None else _samples(path) for path in (query_data, calibration_data)]
        with Bars() as bars:
            found = compare(
                query_model,
                target,
                calibration,
                retrained=retrained,
                unseen=unseen,
                query_data=sets[0],
                calibration_data=sets[1],
                confidence=confidence,
                resamples=resamples,
                seed=seed,
                done=bars.stage(
                    "comparison", len(query_model) * (1 + len(calibration)), unit="pairs"
                ),
            )
        body = found.to_dict()
        dump_document(numbers, KIND, SCHEMA, body, private=True)
        report(found, page, name=target.name)
    show_report(found)
    say(f"The report is {page}; its numbers are in {numbers}")
    if as_json:
        emit(KIND, body, schema=SCHEMA)
    if found.answer == "undecided" and not (found.alike or found.remembered):
        raise typer.Exit(UNANSWERED)


def _samples(path: Path) -> Iterable[Any]:
    """The samples of a set, for their hashes."""
    import numpy as np
    from numpy.typing import NDArray

    try:
        if path.suffix.lower() == ".npy":
            array: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
            return array
        return path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot be read ({reason})",
            cure="give a .npy array without pickled objects, or a text file of UTF-8",
            where=str(path),
        ) from error
