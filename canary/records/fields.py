"""Values that somebody else may have written, shown and checked without giving them away."""

from __future__ import annotations

from canary.errors import RecordError


def brief(value: object, limit: int = 40) -> str:
    """`value` as Python writes it, its middle left out where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits, which Python does not print
        return f"a {type(value).__name__} too long to show"
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def text_field(value: object, where: str) -> str:
    """`value`, if it is text."""
    if not isinstance(value, str):
        cure = "restore the file as it was written, or generate it again"
        raise RecordError("is not text", cure=cure, where=where)
    return value
