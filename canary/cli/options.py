"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from canary.errors import InputError
from canary.records.fields import brief

METHODS = ("auto", "rank", "enumeration", "sampling", "importance")
"""Those of this package, for the help; `canary.audits.method_choice` has all of them."""
FileFormatName = Literal["jsonl", "csv", "tsv", "text", "parquet"]
FigureName = Literal["exposure", "histogram", "utility"]
DtypeName = Literal["float32", "bfloat16", "float16"]


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def decodable(param: typer.CallbackParam, value: Any) -> Any:
    """Pass what was given on, if it is text: it will be compared with texts and recorded.

    Raises
    ------
    InputError
        If it has bytes that are no UTF-8.
    """
    for text in value if isinstance(value, list | tuple) else (value,):
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            name = param.opts[0] if param.param_type_name == "option" else param.metavar
            raise InputError(
                "has bytes that are no UTF-8 text", cure="give it as UTF-8", where=name or ""
            ) from error
    return value


def unescaped(text: str) -> str:
    r"""Text with ``\n``, ``\t``, ``\r`` and ``\\`` as the characters they stand for."""
    return re.sub(r"\\([ntr\\])", lambda found: _ESCAPES[found[1]], text)


def lines_of(file: Path | None) -> tuple[str, ...] | None:
    """The lines of a text file that hold something; None if there is no file.

    Raises
    ------
    InputError
        If it cannot be read as UTF-8, or its lines are JSON.
    """
    if file is None:
        return None
    try:
        lines = tuple(line for line in file.read_text("utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read as UTF-8 text ({error})", cure="name a text file", where=str(file)
        ) from error
    if lines and lines[0].startswith("{") and lines[0].rstrip().endswith("}"):
        raise InputError(
            "holds JSON, and a text on each line is expected",
            cure="write some of its texts to a file, one on each line",
            where=str(file),
        )
    return lines


def written(param: typer.CallbackParam, value: str | None) -> str | None:
    """`decodable`, with what backslashes stand for."""
    decodable(param, value)
    return None if value is None else unescaped(value)


Json = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")
]
CanaryFile = Annotated[
    Path,
    typer.Option("--canaries", metavar="FILE", help="The canary set that generate wrote."),
]
Corpus = Annotated[
    Path,
    typer.Argument(
        metavar="CORPUS",
        help="JSONL, CSV, text (a document on each line), each compressed or not; or Parquet.",
    ),
]
Column = Annotated[
    str,
    typer.Option(
        "--column", metavar="NAME", callback=decodable, help="The field that holds the text."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME",
        callback=decodable,
        help="The field that holds the text, or the chat messages; twice for a parallel "
        "pair.  [default: text]",
    ),
]
FileFormat = Annotated[
    FileFormatName | None,
    typer.Option("--file-format", help="Of the corpus.  [default: by its name]"),
]
Separators = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--separators",
        metavar="BEFORE AFTER",
        help=r"Around a spliced canary; \n and \t are understood.  [default: \n and a space; "
        "spaces in CSV and text]",
    ),
]
Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--beside",
        metavar="COLUMN=TEXT",
        callback=decodable,
        help="Text in another column of the canaries' own records; may be given several times.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the result of an earlier run.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")]

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        callback=decodable,
        help="A folder that save_pretrained wrote, a hub id, with --factory the folder of a "
        "recurrent model of your own, or the address of an OpenAI-compatible server "
        "(http://host:8000/v1).",
    ),
]
_METHODS = (
    "auto enumerates the whole space where the budget allows, and otherwise samples and ranks "
    "those canaries exactly that the budget allows; rank does that for all, and its numbers rest "
    "on no draws (those are priced for the curve and the histogram); importance draws what is "
    "likely more often, and weights it"
)


def _known(param: typer.CallbackParam, value: str) -> str:
    """The name of a method, if there is one; also of another package's."""
    from canary.audits.method_choice import check_method

    try:
        check_method(value)
    except InputError as error:
        error.where = param.opts[0]
        raise
    return value


Method = Annotated[
    str,
    typer.Option(
        "--method", metavar=f"<{'|'.join(METHODS)}>", callback=_known, help=f"{_METHODS}."
    ),
]
ExposureMethod = Annotated[
    str,
    typer.Option(
        "--method",
        metavar=f"<{'|'.join(METHODS)}|skew-normal>",
        callback=_known,
        help=f"{_METHODS}; skew-normal reads exposure off a curve fitted to draws, without a "
        "p-value.",
    ),
]
Budget = Annotated[
    int,
    typer.Option(
        "--budget",
        min=1,
        help="Queries (tokens computed) that enumeration, or branch and bound together with "
        "importance draws, may take for a format; canaries and uniform draws are priced "
        "besides.",
    ),
]
Draws = Annotated[
    int,
    typer.Option(
        "--draws",
        min=1,
        help="Candidates drawn per format: to compare with where it is not enumerated, and for "
        "the skew-normal curve and the histogram, with --method rank as well.",
    ),
]
StartTexts = Annotated[
    Path | None,
    typer.Option(
        "--start-texts",
        metavar="FILE",
        help="Training texts without canaries, one on each line, for --start-token auto to "
        "choose by.  [default: the format's fixed text and ordinary English sentences]",
    ),
]
ContextText = Annotated[
    str,
    typer.Option(
        "--context",
        metavar="TEXT",
        callback=written,
        help=r"Text before every candidate; \n and \t are understood.",
    ),
]
TokenizerPath = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="PATH",
        help="Instead of the one beside the model; needed for one that is served.",
    ),
]


def whole_numbers(text: str, option: str) -> list[int]:
    """The numbers in ``1,4,16``.

    Raises
    ------
    typer.BadParameter
        If it is something else.
    """
    parts = [part.strip(" ") for part in text.split(",")]
    # int() also takes +1, 1_0 and digits of other scripts, which are slips here.
    if not all(re.fullmatch("-?[0-9]{1,18}", part) for part in parts):
        raise typer.BadParameter(
            f"{brief(text)} is no list of whole numbers; write it as in 1,4,16", param_hint=option
        )
    return [int(part) for part in parts]


def columns_of(names: list[str] | None) -> str | tuple[str, ...]:
    """What `column` means in Python for the names that were given."""
    if not names:
        return "text"
    return names[0] if len(names) == 1 else tuple(names)


def beside_of(given: list[str] | None) -> dict[str, str]:
    """Texts by column, from ``COLUMN=TEXT``."""
    found = {}
    for item in given or []:
        name, equals, text = item.partition("=")
        if not name or not equals or name in found:
            raise typer.BadParameter(
                f"{item[:40]!r} is not COLUMN=TEXT, each column once", param_hint="'--beside'"
            )
        found[name] = text
    return found


def separators_of(given: tuple[str, str] | None) -> tuple[str, str] | None:
    """The separators with what backslashes stand for."""
    return None if given is None else (unescaped(given[0]), unescaped(given[1]))
