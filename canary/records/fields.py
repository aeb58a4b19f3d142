"""Plain data that somebody else may have written, read strictly.

Nothing missing, unknown or of another type passes. No error of the field functions
repeats a value: it may be a secret in the wrong place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from canary.errors import RecordError

__all__ = ["brief", "check_fields", "from_fields", "int_field", "list_field", "text_field"]

T = TypeVar("T")

_PLAIN = {"str": (str,), "int": (int,), "float": (int, float), "None": (type(None),)}

_CURE = "restore the file as it was written, or generate it again"


def from_fields(kind: type[T], data: Mapping[str, Any]) -> T:
    """Build `kind` from `data`, holding each field to its plain type.

    Fields annotated with `str`, `int`, `float` and unions of them with `None` are checked
    (an integer serves as a float where a float can hold it, a boolean as neither, and
    numbers are finite); fields of other types are the caller's to check.

    Raises
    ------
    TypeError
        If a field is missing, unknown or of another type.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{kind.__name__} must be an object, got {type(data).__name__}")
    declared = fields(kind)  # type: ignore[arg-type]
    if unknown := data.keys() - {field.name for field in declared}:
        raise TypeError(f"{kind.__name__} has no field {brief(min(unknown))}")
    built = kind(**data)
    for field in declared:
        allowed = str(field.type).split(" | ")
        if not set(allowed) <= _PLAIN.keys():
            continue
        value = getattr(built, field.name)
        types = tuple(t for name in allowed for t in _PLAIN[name])
        if not isinstance(value, types) or isinstance(value, bool):
            raise TypeError(f"{field.name} must be {field.type}, got {type(value).__name__}")
        if "float" in allowed and value is not None and not _fits_float(value):
            raise TypeError(f"{field.name} must be finite")
    return built


def brief(value: object, limit: int = 40) -> str:
    """`value` as Python writes it, its middle left out where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits, which Python does not print
        return f"a {type(value).__name__} too long to show"
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def _fits_float(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_fields(item: object, expected: set[str], where: str) -> Mapping[str, Any]:
    """`item`, if it is an object with exactly the `expected` fields."""
    if not isinstance(item, Mapping):
        raise RecordError("is not an object", cure=_CURE, where=where)
    if missing := sorted(expected - item.keys()):
        raise RecordError(f"the field {missing[0]!r} is missing", cure=_CURE, where=where)
    if unknown := item.keys() - expected:
        raise RecordError(
            f"has {len(unknown)} unknown fields",
            cure=f"keep to {', '.join(sorted(expected))}",
            where=where,
        )
    return item


def text_field(value: object, where: str) -> str:
    """`value`, if it is text."""
    if not isinstance(value, str):
        raise RecordError("is not text", cure=_CURE, where=where)
    return value


def int_field(value: object, where: str) -> int:
    """`value`, if it is a whole number; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise RecordError("is not a whole number", cure=_CURE, where=where)
    return value


def list_field(value: object, where: str) -> list[Any]:
    """`value`, if it is a list."""
    if not isinstance(value, list):
        raise RecordError("is not a list", cure=_CURE, where=where)
    return value
