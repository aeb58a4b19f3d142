"""Options that a caller gave, checked: the value as it is used, or an error with a cure.

Every function raises an `InputError` that names the option where its value does not serve.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import platform
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from canary.errors import CanaryError, InputError
from canary.registry import name_cure

T = TypeVar("T")

AUTO = "auto"
"""The start token that asks for one to be chosen."""
NONE = "none"
"""The start token that says there is none."""

_PACKAGES = ("canary-lm", "torch", "transformers", "tokenizers", "numpy", "scipy")


def brief(value: object, limit: int = 40) -> str:
    """`value` as Python writes it, its middle left out where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits, which Python does not print
        return f"a {type(value).__name__} too long to show"
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on, as far as installed."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def whole_number(
    value: object,
    name: str,
    *,
    at_least: int,
    below: int | None = 2**63,
    cure: str | None = None,
) -> int:
    """`value` as an int; numpy's integers are welcome, True is not 1.

    `name` says what it is for, `below` is a power of two or None for no end; `cure` is a
    number that serves unless given.
    """
    expected = f"{name} must be a whole number of at least {at_least}"
    cure = cure or f"give a number such as {max(at_least, 1)}"
    try:
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:  # also an array of several numbers, or of fractions
        raise InputError(f"{expected}, got {brief(value)}", cure=cure) from error
    if below is not None and number >= below:
        raise InputError(f"{expected} and less than 2^{below.bit_length() - 1}", cure=cure)
    if number < at_least:
        raise InputError(f"{expected}, got {brief(number)}", cure=cure)
    return number


def real_number(value: object, name: str, *, cure: str, above: float = -math.inf) -> float:
    """`value` as a finite float above `above`; True is not 1."""
    number = as_real(value)
    if above < number < math.inf:
        return number
    least = "" if above == -math.inf else f" above {above:g}"
    raise InputError(f"{name} must be a number{least}, got {brief(value)}", cure=cure)


def as_real(value: object) -> float:
    """`value` as a float; NaN if it is no real number that a float holds. True is none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def flag(value: object, name: str) -> bool:
    """`value` as True or False; numpy's are welcome, 1 is not True."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    problem = f"{name} must be True or False, got {brief(value)}"
    raise InputError(problem, cure=f"give {name}=True or False")


def file_path(value: object, name: str, *, cure: str) -> Path:
    """`value` as a path; bytes are none."""
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise InputError(f"{name} must be a path, got {_kind(value)}", cure=cure)


def text(value: object, name: str, *, cure: str) -> str:
    """`value`, if it is text that UTF-8 can hold. It is not shown: it may hold a secret."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {_kind(value)}", cure=cure)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        problem = f"{name} holds half a character (a lone surrogate) at position {error.start}"
        raise InputError(problem, cure=cure) from error
    return value


def one_of(
    value: object,
    name: str,
    choices: Collection[str],
    *,
    error: type[CanaryError] = InputError,
    where: str = "",
) -> None:
    """Refuse a word that is not one of `choices`; the error names the nearest."""
    if not isinstance(value, str) or value not in choices:
        cure = name_cure(value, choices)
        raise error(f"unknown {name} {brief(value)}", cure=cure, where=where)


def some(values: Iterable[T], name: str, *, cure: str) -> list[T]:
    """The items of a collection; a single text is not one."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, got {_kind(values)}", cure=cure)
    return list(values)


def of_kind(value: T, kind: type[T], name: str, *, cure: str) -> T:
    """`value`, if it is a `kind`."""
    if isinstance(value, kind):
        return value
    raise InputError(f"{name} must be a {kind.__name__}, got {_kind(value)}", cure=cure)


def one_or_more(given: object, kind: type[T], expected: str, *, cure: str) -> tuple[T, ...]:
    """A `kind` alone, or the items of a collection of them, which is not empty."""
    if isinstance(given, kind):
        return (given,)
    try:
        items = tuple(given) if isinstance(given, Iterable) else ()
    except TypeError:  # an array of one number alone
        items = ()
    if not items or not all(isinstance(item, kind) for item in items):
        raise InputError(f"expected {expected}, got {_kind(given)}", cure=cure)
    return items


def built(kind: type[T], given: Mapping[str, Any], call: str) -> T:
    """Options of `kind` from the keywords of a call; a TypeError with near names of a wrong one."""
    known = list(inspect.signature(kind).parameters)
    for name in given:
        if name not in known:
            cure = name_cure(name, known)
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; {cure}")
    return kind(**given)


def function(value: object, name: str) -> None:
    """Refuse what is neither a function nor None."""
    if value is not None and not callable(value):
        problem = f"{name} must be a function, got {_kind(value)}"
        raise InputError(problem, cure=f"leave {name} out, or give one")


def named_start(asked: str | None) -> str | None:
    """A start token by its name; None for none, which may be called so."""
    return None if asked == NONE else asked


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of the type {type(value).__name__}"
