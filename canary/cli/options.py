"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "BatchSize",
    "Budget",
    "CanaryFile",
    "Column",
    "ContextText",
    "Corpus",
    "Device",
    "Draws",
    "Dtype",
    "DtypeName",
    "ExposureMethod",
    "ExposureMethodName",
    "Factory",
    "Json",
    "Method",
    "MethodName",
    "Model",
    "Seed",
    "StartToken",
    "TokenizerPath",
    "whole_numbers",
]

MethodName = Literal["auto", "enumeration", "sampling"]
ExposureMethodName = Literal["auto", "enumeration", "sampling", "skew-normal"]
DtypeName = Literal["float32", "bfloat16", "float16"]

Json = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")
]
CanaryFile = Annotated[
    Path,
    typer.Option("--canaries", metavar="FILE", help="The canary set that generate wrote."),
]
Corpus = Annotated[
    Path, typer.Argument(metavar="CORPUS", help="A JSONL file: one JSON object on each line.")
]
Column = Annotated[
    str, typer.Option("--column", metavar="NAME", help="The field that holds the text.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")]

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A folder that save_pretrained wrote, a hub id, or with --factory the folder of "
        "a recurrent model of your own.",
    ),
]
Method = Annotated[
    MethodName,
    typer.Option(
        "--method",
        help="auto enumerates the whole space where the budget allows, and samples otherwise.",
    ),
]
ExposureMethod = Annotated[
    ExposureMethodName,
    typer.Option(
        "--method",
        help="auto enumerates the whole space where the budget allows, and samples otherwise; "
        "skew-normal reads exposure off a curve fitted to draws, without a p-value.",
    ),
]
Budget = Annotated[
    int,
    typer.Option(
        "--budget", min=1, help="Queries (tokens computed) that enumerating a format may take."
    ),
]
Draws = Annotated[
    int,
    typer.Option(
        "--draws",
        min=1,
        help="Candidates drawn per format: to compare with where it is not enumerated, and to "
        "fit the skew-normal curve to.",
    ),
]
StartToken = Annotated[
    str | None,
    typer.Option(
        "--start-token",
        metavar="TOKEN",
        help="A token that stood before each text in training, if the tokenizer puts none "
        "there itself; for packed data usually the end-of-text token.",
    ),
]
ContextText = Annotated[
    str, typer.Option("--context", metavar="TEXT", help="Text before every candidate.")
]
TokenizerPath = Annotated[
    str | None,
    typer.Option("--tokenizer", metavar="PATH", help="Instead of the one beside the model."),
]
Factory = Annotated[
    str | None,
    typer.Option(
        "--factory",
        metavar="MODULE:FUNCTION",
        help="Your code that builds a recurrent model from its config.json; it is run. "
        "path/to/file.py:FUNCTION serves, too.",
    ),
]
Dtype = Annotated[
    DtypeName | None, typer.Option("--dtype", help="Of the arithmetic.  [default: the model's own]")
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Such as cpu or cuda:1.  [default: the first accelerator, or the CPU]",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", min=1, help="Rows or nodes at once.  [default: found by trial]"),
]


def whole_numbers(text: str, option: str) -> list[int]:
    """The numbers in ``1,4,16``.

    Raises
    ------
    typer.BadParameter
        If it is something else.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no list of whole numbers; write it as in 1,4,16", param_hint=option
        ) from error
