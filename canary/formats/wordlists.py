"""Word lists in files."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from canary.errors import FormatError, InputError
from canary.formats.format import Format
from canary.formats.syntax import Hole, parse


def read_words(path: str | os.PathLike[str]) -> list[str]:
    """The words of a UTF-8 text file, separated by spaces or lines, repeats left out.

    An InputError if the file cannot be read, is not UTF-8, holds no word, or is no list of
    words: it has control characters, as binary files have, or is a JSON document.
    """
    problem, cure = "", "give a text file with one word a line"
    words: list[str] = []
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        words = list(dict.fromkeys(text.split()))
        if any(unicodedata.category(char) == "Cc" for word in words for char in word):
            problem = "has control characters, so it is no text"
        elif not words:
            problem, cure = "is empty", "write one word a line into it"
        elif text.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                json.loads(text)
                problem = "is a JSON document"
    except UnicodeDecodeError as error:
        problem, cure = f"is not UTF-8 at byte {error.start}", "save it as UTF-8"
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if problem:
        raise InputError(f"the word list {problem}", cure=cure, where=str(path))
    return words


def with_words(texts: Sequence[str], words: Sequence[str]) -> list[Format]:
    """The formats `texts`, of which those that have a hole for words get `words`.

    A FormatError if one is no format, or none has such a hole.
    """
    wanted = [
        any(isinstance(piece, Hole) and piece.kind == "word" for piece in parse(text))
        for text in texts
    ]
    if not any(wanted):
        raise FormatError(
            "words were given, but no hole uses them",
            cure="write one such as {word:4}, or give no words",
        )
    return [
        Format(text, words=words if wants else None)
        for text, wants in zip(texts, wanted, strict=True)
    ]
