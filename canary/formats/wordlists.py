"""Word lists in files."""

from __future__ import annotations

import os
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
        If the file cannot be read, is not UTF-8 or holds no word.
    """
    try:
        words = list(dict.fromkeys(Path(path).read_text(encoding="utf-8-sig").split()))
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
    if not words:
        raise InputError(
            "the word list is empty", cure="write one word a line into it", where=str(path)
        )
    return words


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
