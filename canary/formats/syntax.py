"""The text of a format, taken apart into literal text and holes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from canary.errors import FormatError
from canary.formats.limits import MAX_HOLES

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Literal:
    """Fixed text, braces unescaped."""

    text: str


@dataclass(frozen=True)
class Hole:
    """A hole ``{kind:argument}``.

    Parameters
    ----------
    kind : str
        What stands before the colon.
    argument : str or None
        What stands after the first colon; None without one.
    start : int
        Where its opening brace stands in the format, from 0.
    """

    kind: str
    argument: str | None
    start: int


def parse(text: str) -> tuple[Literal | Hole, ...]:
    """The pieces of a format in order; no two literals are neighbours.

    ``{{`` and ``}}`` are literal braces. A hole ends at the brace that closes it; braces
    within it count as pairs.

    Raises
    ------
    FormatError
        If `text` is not text that can be written as UTF-8, if braces do not match, if there
        is no hole, or if there are more than `MAX_HOLES`. The error says where.
    """
    if not isinstance(text, str):
        raise FormatError(
            f"a format is text, got {type(text).__name__}",
            cure='write it as in Format("My code is {digit:9}")',
        )
    if half := _SURROGATE.search(text):
        raise FormatError(
            "found half a surrogate pair, which is no character",
            cure="write the whole character",
            where=place(text, half.start()),
        )
    pieces: list[Literal | Hole] = []
    literal: list[str] = []
    at = holes = 0
    while at < len(text):
        char = text[at]
        if char in "{}" and text[at : at + 2] == char * 2:
            literal.append(char)
            at += 2
        elif char == "{":
            if literal:
                pieces.append(Literal("".join(literal)))
                literal = []
            end = _closing_brace(text, at)
            holes += 1
            if holes > MAX_HOLES:
                raise FormatError(
                    f"the format has more than {MAX_HOLES:,} holes",
                    cure="use longer holes, or several formats",
                    where=place(text, at),
                )
            kind, colon, argument = text[at + 1 : end].partition(":")
            pieces.append(Hole(kind, argument if colon else None, at))
            at = end + 1
        elif char == "}":
            raise FormatError(
                "found a single }, which closes no hole",
                cure="write }} for a literal brace, or open a hole with {",
                where=place(text, at),
            )
        else:
            literal.append(char)
            at += 1
    if literal:
        pieces.append(Literal("".join(literal)))
    if not any(isinstance(piece, Hole) for piece in pieces):
        raise FormatError(
            "the format has no hole, so there is nothing to guess",
            cure="write one in single braces, such as {digit:9}",
            where=place(text, 0),
        )
    return tuple(pieces)


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    raise FormatError(
        "the hole that opens here is never closed",
        cure="close it with }, or write {{ for a literal brace (in a pattern \\x7b or \\x7d)",
        where=place(text, start),
    )


def place(text: str, at: int) -> str:
    """Where position `at` of a format is, for an error: some of its text, and the column."""
    start, end = max(at - 20, 0), at + 20
    excerpt = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    return f"format {excerpt!r}, column {at + 1}"
