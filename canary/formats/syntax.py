"""The text of a format, taken apart into literal text and holes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from canary.errors import FormatError

SURROGATE = re.compile("[\ud800-\udfff]")

MAX_HOLES = 1000


@dataclass(frozen=True)
class Literal:
    """Fixed text, braces unescaped."""

    text: str


@dataclass(frozen=True)
class Hole:
    """A hole ``{kind:argument}``; the argument is None without a colon, `start` its place."""

    kind: str
    argument: str | None
    start: int


def parse(text: str) -> tuple[Literal | Hole, ...]:
    """The pieces of a format in order; no two literals are neighbours.

    ``{{`` and ``}}`` are literal braces. A hole ends at the brace that closes it; braces
    within it count as pairs. A FormatError says where it is no format.
    """
    if not isinstance(text, str):
        raise FormatError(
            f"a format is text, got {type(text).__name__}",
            cure='write it as in Format("My code is {digit:9}")',
        )
    if half := SURROGATE.search(text):
        raise FormatError(
            "found half a surrogate pair, which is no character",
            cure="write the whole character",
            where=place(text, half.start()),
        )
    pieces: list[Literal | Hole] = []
    literal = ""
    position = 0
    while position < len(text):
        char = text[position]
        if char not in "{}" or text[position : position + 2] == char * 2:
            literal += char
            position += 1 + (char in "{}")
            continue
        if char == "}":
            raise FormatError(
                "found a single }, which closes no hole",
                cure="write }} for a literal brace, or open a hole with {",
                where=place(text, position),
            )
        pieces += [Literal(literal)] * bool(literal)
        literal = ""
        end = _closing_brace(text, position)
        kind, colon, argument = text[position + 1 : end].partition(":")
        pieces.append(Hole(kind, argument if colon else None, position))
        position = end + 1
    pieces += [Literal(literal)] * bool(literal)
    holes = [piece for piece in pieces if isinstance(piece, Hole)]
    if not holes:
        raise FormatError(
            "the format has no hole, so there is nothing to guess",
            cure="write one in single braces, such as {digit:9}",
            where=place(text, 0),
        )
    if len(holes) > MAX_HOLES:
        raise FormatError(
            f"the format has more than {MAX_HOLES:,} holes",
            cure="use longer holes, or several formats",
            where=place(text, holes[MAX_HOLES].start),
        )
    return tuple(pieces)


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return position
    raise FormatError(
        "the hole that opens here is never closed",
        cure="close it with }, or write {{ for a literal brace (in a pattern \\x7b or \\x7d)",
        where=place(text, start),
    )


def place(text: str, position: int = 0) -> str:
    """Where a position of a format is, for an error: some of its text, and the column."""
    start, end = max(position - 20, 0), position + 20
    excerpt = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    return f"format {excerpt!r}, column {position + 1}"
