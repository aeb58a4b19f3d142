"""Docstrings and signatures as Markdown that reads well without a site."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

WIDTH = 92
LISTED = ("Parameters", "Returns", "Yields", "Raises", "Attributes")

_SECTION = re.compile(r"^([A-Z][a-z ]+)\n-{3,}\n", re.MULTILINE)
_DOCTEST = re.compile(r"((?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*)", re.MULTILINE)
_REFERENCE = re.compile(r"^\.\. \[(\d+)\] ", re.MULTILINE)


def entry(name: str, thing: Any, *, level: int = 3) -> str:
    """A class, function or constant: its signature, and what it says of itself."""
    parts = [f"{'#' * level} {name}\n"]
    if callable(thing):
        parts.append(f"```py\n{signature(name.rpartition('.')[2], thing)}\n```\n")
    parts.append(markdown(inspect.getdoc(thing) or ""))
    return "\n".join(parts)


def markdown(docstring: str) -> str:
    """A docstring in numpydoc's form, its sections as bold headings and lists."""
    summary, *sections = _SECTION.split(f"{docstring.strip()}\n")
    found = [_prose(summary)]
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        found.append(f"**{title}**\n\n{_items(text) if title in LISTED else _prose(text)}")
    return "\n".join(found)


def _prose(text: str) -> str:
    """Paragraphs, with doctests and literal blocks as code and references as a list."""
    text = re.sub(r" ?\[(\d+)\]_", r" [\1]", _REFERENCE.sub(r"\1. ", text.strip()))
    text = re.sub(r"::\n\n((?:(?: {4}.*)?\n)+)", _literal, f"{text}\n")
    return _DOCTEST.sub(lambda m: f"```pycon\n{m[1].rstrip()}\n```\n", text)


def _literal(found: re.Match[str]) -> str:
    return f":\n\n```text\n{textwrap.dedent(found[1]).strip()}\n```\n"


def _items(text: str) -> str:
    """``name : type`` and what is said of it, one bullet each."""
    bullets = []
    for item in re.split(r"\n(?=\S)", text.strip()):
        head, _, body = item.partition("\n")
        names, _, kind = head.partition(" : ")
        called = names
        if re.fullmatch(r"\*{0,2}\w+(, +\*{0,2}\w+)*", names):
            called = re.sub(r"\*{0,2}\w+", lambda m: f"`{m[0]}`", names)
        line = f"{called} ({kind})" if kind else called
        said = textwrap.dedent(body).strip()
        line += f": {said}" if said else ""
        bullets.append(f"- {textwrap.indent(line, '  ').strip()}")
    return "\n".join(bullets) + "\n"


def signature(name: str, thing: Callable[..., Any]) -> str:
    """How it is called, one parameter a line where it is long."""
    made = inspect.signature(thing)
    parameters = [p for p in made.parameters.values() if p.name not in ("self", "cls")]
    pieces = list(_pieces(parameters))
    gives = made.return_annotation
    back = "" if gives in (made.empty, None, "None") else f" -> {_type(gives)}"
    line = f"{name}({', '.join(pieces)}){back}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){back}"


def _pieces(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for p in parameters:
        starred |= p.kind is p.VAR_POSITIONAL
        if p.kind is p.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        kind = "" if p.annotation is p.empty else f": {_type(p.annotation)}"
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        value = "" if p.default is p.empty else f" = {_default(p.default)}"
        yield f"{mark}{p.name}{kind}{value}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if type(value) is int:
        return f"{value:_}"
    plain = isinstance(value, str | float | bool | tuple | None)
    return repr(value) if plain else "..."
