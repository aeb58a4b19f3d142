"""Word lists in files."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from canary.errors import FormatError, InputError
from canary.formats.format import Format
from canary.formats.syntax import Hole, parse

__all__ = ["read_words", "with_words"]


def read_words(path: str | os.PathLike[str]) -> list[str]:
    """The words of a UTF-8 text file, separated by spaces or lines, repeats left out.

    Raises
    ------
    InputError
        If the file cannot be read, is not UTF-8, holds no word, or is no list of words: it
        has control characters, as binary files have, or is a JSON document.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"the word list is not UTF-8 at byte {error.start}",
            cure="save it as UTF-8",
            where=str(path),
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"the word list cannot be read: {reason}",
            cure="give a text file with one word a line",
            where=str(path),
        ) from error
    words = list(dict.fromkeys(text.split()))
    if any(unicodedata.category(char) == "Cc" for word in words for char in word):
        raise InputError(
            "the word list has control characters, so it is no text",
            cure="give a text file with one word a line",
            where=str(path),
        )
    if _is_json(text):
        raise InputError(
            "the word list is a JSON document",
            cure="give a text file with one word a line",
            where=str(path),
        )
    if not words:
        raise InputError(
            "the word list is empty", cure="write one word a line into it", where=str(path)
        )
    return words


def _is_json(text: str) -> bool:
    """Whether a text is an object or a list, and no words."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def with_words(texts: Sequence[str], words: Sequence[str]) -> list[Format]:
    """The formats `texts`, of which those that have a hole for words get `words`.

    Raises
    ------
    FormatError
        If one is no format, or none has such a hole.
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
