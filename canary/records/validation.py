"""Options that a caller gave, checked: the value as it is used, or an error with a cure."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Collection, Iterable
from numbers import Real
from pathlib import Path
from typing import SupportsIndex, TypeVar

import numpy as np

from canary.errors import InputError
from canary.records.fields import brief

__all__ = [
    "as_real",
    "check_running",
    "file_path",
    "flag",
    "function",
    "of_kind",
    "one_of",
    "one_or_more",
    "real_number",
    "some",
    "text",
    "whole_number",
]

T = TypeVar("T")


def whole_number(
    value: object,
    name: str,
    *,
    at_least: int,
    below: int | None = 2**63,
    cure: str | None = None,
) -> int:
    """`value` as an int; numpy's integers are welcome, True is not 1.

    Parameters
    ----------
    value : object
    name : str
        What it is for.
    at_least : int
        The smallest that serves.
    below : int, optional
        What it must stay below; None for no end.
    cure : str, optional
        Unless given, a number that serves.

    Raises
    ------
    InputError
        If it is something else.
    """
    expected = f"{name} must be a whole number of at least {at_least}"
    cure = cure or f"give a number such as {max(at_least, 1)}"
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InputError(f"{expected}, got {brief(value)}", cure=cure)
    try:
        number = operator.index(value)
    except TypeError as error:  # an array of several numbers, or of fractions
        raise InputError(f"{expected}, got {brief(value)}", cure=cure) from error
    if below is not None and number >= below:
        raise InputError(f"{expected} and less than 2^{below.bit_length() - 1}", cure=cure)
    if number < at_least:
        raise InputError(f"{expected}, got {brief(number)}", cure=cure)
    return number


def real_number(value: object, name: str, *, cure: str, above: float = -math.inf) -> float:
    """`value` as a finite float above `above`; True is not 1.

    Raises
    ------
    InputError
        If it is something else.
    """
    expected = f"{name} must be a number" + ("" if above == -math.inf else f" above {above:g}")
    number = as_real(value)
    if above < number < math.inf:
        return number
    raise InputError(f"{expected}, got {brief(value)}", cure=cure)


def as_real(value: object) -> float:
    """`value` as a float; NaN if it is no real number that a float holds. True is none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def flag(value: object, name: str) -> bool:
    """`value` as True or False; numpy's are welcome, 1 is not True.

    Raises
    ------
    InputError
        If it is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(
            f"{name} must be True or False, got {brief(value)}", cure=f"give {name}=True or False"
        )
    return bool(value)


def file_path(value: object, name: str, *, cure: str) -> Path:
    """`value` as a path.

    Raises
    ------
    InputError
        If it is something else, such as bytes or True.
    """
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} must be a path, got {_kind(value)}", cure=cure)
    return Path(value)


def text(value: object, name: str, *, cure: str) -> str:
    """`value`, if it is text that UTF-8 can hold: no half of a character.

    Raises
    ------
    InputError
        If it is something else. The text is not shown: it may hold a secret.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {_kind(value)}", cure=cure)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name} holds half a character (a lone surrogate) at position {error.start}", cure=cure
        ) from error
    return value


def one_of(value: object, name: str, choices: Collection[str]) -> None:
    """Refuse a word that is none of `choices`.

    Raises
    ------
    InputError
        If it is none, or no text.
    """
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"unknown {name} {brief(value)}", cure=f"use one of {', '.join(choices)}")


def some(values: Iterable[T], name: str, *, cure: str) -> list[T]:
    """The items of a collection; one text is none.

    Raises
    ------
    InputError
        If it is a text, or nothing that has items.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, got {_kind(values)}", cure=cure)
    return list(values)


def of_kind(value: T, kind: type[T], name: str, *, cure: str) -> T:
    """`value`, if it is a `kind`.

    Raises
    ------
    InputError
        If it is something else.
    """
    if not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}, got {_kind(value)}", cure=cure)
    return value


def one_or_more(given: object, kind: type[T], expected: str, *, cure: str) -> tuple[T, ...]:
    """A `kind` alone, or the items of a collection of them.

    Raises
    ------
    InputError
        If it is neither, or an empty collection.
    """
    if isinstance(given, kind):
        return (given,)
    try:
        found = tuple(given) if isinstance(given, Iterable) else ()
    except TypeError:  # an array of one number, by itself
        found = ()
    if not found or not all(isinstance(one, kind) for one in found):
        raise InputError(f"expected {expected}, got {_kind(given)}", cure=cure)
    return found


def function(value: object, name: str) -> None:
    """Refuse what is neither a function nor None.

    Raises
    ------
    InputError
        If it is something else.
    """
    if value is not None and not callable(value):
        raise InputError(
            f"{name} must be a function, got {_kind(value)}", cure=f"leave {name} out, or give one"
        )


AUTO = "auto"
"""The start token that asks for one to be chosen."""

NONE = "none"
"""The start token that says there is none."""


def named_start(asked: str | None) -> str | None:
    """A start token by its name; None for none, which may be called so."""
    return None if asked == NONE else asked


def check_running(*, start_token: object, context: object, batch_size: object) -> int | None:
    """How a model is run on texts, checked.

    Returns
    -------
    int or None
        The batch size as a plain int, or None where none is set.

    Raises
    ------
    InputError
        If one does not serve.
    """
    if start_token is not None:
        text(start_token, "start_token", cure="give the name of a token, or leave it out")
    text(context, "context", cure="give the text before a candidate, or leave it out")
    if batch_size is None:
        return None
    return whole_number(batch_size, "batch_size", at_least=1, cure="leave it out")


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of the type {type(value).__name__}"
