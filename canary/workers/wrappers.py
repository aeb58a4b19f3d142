"""What a library's decorators make of a function of one's own, and what is one's own in it."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import CellType, FunctionType
from typing import Any

from canary.workers.libraries import library

__all__ = ["all_of_library", "held_by_wrapper", "library_of", "opaque_context"]


def library_of(value: FunctionType) -> str:
    """The library whose code a function runs; "" for anybody's own."""
    return library(str(value.__globals__.get("__name__")))


def held_by_wrapper(value: FunctionType) -> list[Any] | None:
    """The functions that a library calls from a wrapper which fills with other things in use."""
    place = str(value.__globals__.get("__name__"))
    if place == "functools" and "registry" in vars(value):  # singledispatch
        return list(vars(value)["registry"].items())
    if place.startswith("torch._dynamo.") and "__wrapped__" in vars(value):  # torch.compile
        return [vars(value)["__wrapped__"]]
    return None


def opaque_context(cell: CellType) -> Any:
    """The class of a captured context of a library that has a lock or the like; else None."""
    try:
        held = cell.cell_contents
    except ValueError:
        return None
    if not isinstance(held, ContextDecorator) or not library(type(held).__module__):
        return None
    opaque = any(
        type(part).__module__ == "_thread" for part in getattr(held, "__dict__", {}).values()
    )
    return type(held) if opaque else None


def all_of_library(value: FunctionType) -> bool:
    """Whether a library made all of it: what its decorators make of your own bears your name."""
    return bool(library_of(value) and library(str(value.__module__)))
