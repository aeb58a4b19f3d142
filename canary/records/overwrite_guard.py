"""What a file holds, by its first bytes: nothing irreplaceable is written over.

What this program writes says which files it may replace (`replaces`). A file of another kind is
refused, and a document of this program always is: an audit never replaces a canary set,
whatever a command is told.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from canary.errors import OutputError

JSON_LINES, PARQUET, COMPRESSED = "JSON Lines", "Parquet", "compressed text"
WEIGHTS, MODEL_PART = "weights of a model", "part of a model"
JUNIT, MARKDOWN = "JUnit XML", "the Markdown of a verdict"

CORPORA = (JSON_LINES, PARQUET, COMPRESSED)
"""What a corpus may replace."""
PAGES = ("an HTML page",)
"""What an HTML page may replace."""
FIGURES = ("a figure",)
"""What a figure may replace."""

_HEAD = 4096
_DOCUMENT = re.compile(rb'\s*\{\s*"kind"\s*:\s*"(canary [a-z ]{1,40})"')
_BEGINS = (
    (rb"PAR1", PARQUET),
    (rb"PK\x03\x04|\x93NUMPY", "NumPy arrays"),
    (rb"\x1f\x8b|\x28\xb5\x2f\xfd|BZh|\xfd7zXZ", COMPRESSED),
    (rb"\x89PNG|%PDF|(?s:<\?xml.{0,300}<(!DOCTYPE )?svg)", *FIGURES),
    (rb"(?s:(<\?xml.{0,100})?<testsuites?\b)", JUNIT),
    (rb"## canary: ", MARKDOWN),
    (rb"\s*<!(?i:doctype html)", *PAGES),
    (rb'(?s:.{6}\0\0\{")', WEIGHTS),  # the length of a header, which is JSON
    (rb"\s*\{[^\n]*\}\s*\n\s*\{", JSON_LINES),
)
_OF_A_MODEL = ("config.json", "tokenizer.json", "tokenizer_config.json", "merges.txt", "vocab.json")


def kind_there(path: str | os.PathLike[str]) -> str | None:
    """What a file holds: of a document of this program its kind, such as "canary set".

    None if it is empty or not there, or holds nothing that is known.
    """
    place = Path(path)
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            return None
        with place.open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return None
    if document := _DOCUMENT.match(head):
        return document[1].decode()
    if not head:
        return None
    if place.name in _OF_A_MODEL:
        return MODEL_PART
    if head.startswith(b"{") and place.suffix in (".jsonl", ".ndjson"):
        return JSON_LINES
    return next((kind for begins, kind in _BEGINS if re.match(begins, head)), None)


def check_replaceable(path: str | os.PathLike[str], replaces: Collection[str] | None) -> None:
    """Refuse by an OutputError to write over a file that holds something else.

    Parameters
    ----------
    path : path-like
    replaces : collection of str, optional
        Kinds that may be replaced. None: all but the documents of this program.
    """
    kind = kind_there(path)
    if kind is None or kind in (replaces or ()):
        return
    ours = kind.startswith("canary ")
    if ours or replaces is not None:
        raise OutputError(
            f"holds {f'a {kind}' if ours else kind}, which nothing else is written over",
            cure="name another file, or remove this one yourself if you need it no more",
            where=str(path),
        )
