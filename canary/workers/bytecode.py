"""What bytecode names: global variables that it reads, and modules that it imports."""

from __future__ import annotations

import dis
import importlib.util
from collections.abc import Iterator
from types import CodeType
from typing import Any

__all__ = ["imports", "variables"]


def variables(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Global variables that bytecode reads, each with the attributes that it asks of it."""
    path: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        if step.opname == "EXTENDED_ARG":
            continue
        if path and step.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
            path = (*path, str(step.argval))
            continue
        if path:
            yield path
        path = (str(step.argval),) if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"} else ()
    if path:
        yield path


def imports(code: CodeType, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Modules that bytecode imports, and what of each; "" is all of it."""
    before: list[Any] = [None, None]
    for step in dis.get_instructions(code):
        if step.opname == "EXTENDED_ARG":
            continue
        if step.opname == "IMPORT_NAME":
            level, parts = before
            name = str(step.argval)
            if level:
                name = importlib.util.resolve_name("." * level + name, package)
            if parts:
                yield name, tuple("" if part == "*" else part for part in parts)
            else:
                words = name.split(".")
                for count in range(len(words)):
                    yield ".".join(words[: count + 1]), ("",)
        before = [before[1], step.argval]
