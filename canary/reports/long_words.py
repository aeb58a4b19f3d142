"""The longer words of reports, from ``words.md``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from canary.reports.document import Span, prose

_FLAG = re.compile(r"\[(not )?(\w+)\] ")


def said(key: str, **values: object) -> list[tuple[Span, ...]]:
    """The paragraphs below a heading of ``words.md``, as `prose`.

    Parameters
    ----------
    key : str
    **values
        What ``{name}`` stands for, and by which ``[name]`` decides whether a line is there. They
        may be untrusted text.
    """
    paragraphs = []
    for lines in _words()[key]:
        held = (_held(line, values) for line in lines)
        if shown := [line for line in held if line]:
            paragraphs.append(prose(*shown, **values))
    return paragraphs


def said_in_one(key: str, **values: object) -> tuple[Span, ...]:
    """`said`, of a heading with one paragraph."""
    (paragraph,) = said(key, **values)
    return paragraph


def _held(line: str, values: dict[str, object]) -> str:
    flag = _FLAG.match(line)
    if flag is None:
        return line
    return line[flag.end() :] if bool(values.get(flag[2])) != bool(flag[1]) else ""


@cache
def _words() -> dict[str, list[list[str]]]:
    text = Path(__file__).with_name("words.md").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("\n# ")[1:])
    return {
        key: [paragraph.splitlines() for paragraph in body.strip().split("\n\n")]
        for key, _, body in parts
    }
