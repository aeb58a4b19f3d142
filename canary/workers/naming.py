"""Functions as plain data: a name to import them by, and a digest of what they do.

What crosses to another process is the name. What says whether two runs did the same is the
digest as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from importlib import import_module
from types import FunctionType
from typing import Any

from canary.errors import InputError
from canary.workers.digests import digest


def plain(value: Any, where: str) -> Any:
    """`value` as JSON would give it back; an InputError if it is no plain data."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"is no plain data ({error})",
            cure="give text, finite numbers, true or false, None, and lists and mappings of these",
            where=where,
        ) from error


def described(value: Any, where: str) -> dict[str, Any]:
    """A function or class, or a frozen dataclass that can be called, as plain data.

    ``name`` (``module:qualname``), ``code`` (a digest), and of a dataclass ``fields``, which are
    plain data, functions, or such dataclasses. An InputError if it is something else, or made of
    what no digest can hold; `where` says what it is.
    """
    kind = value if isinstance(value, type | FunctionType) else type(value)
    if kind is not value and not is_dataclass(kind):
        raise InputError(
            f"is a {kind.__name__}, a function was expected",
            cure="write a function in a module, or a frozen dataclass that can be called",
            where=where,
        )
    about = {"name": f"{kind.__module__}:{kind.__qualname__}", "code": digest(kind, where)}
    if kind is value:
        return about
    held = ((field.name, getattr(value, field.name)) for field in fields(kind))
    inside = {
        name: {"call": described(part, where)} if callable(part) else {"is": plain(part, where)}
        for name, part in held
    }
    return {**about, "fields": inside}


def imported(about: Mapping[str, Any]) -> Any:
    """What `described` made plain, in this process or in another."""
    module, _, path = str(about["name"]).partition(":")
    named: Any = reduce(getattr, path.split("."), import_module(module))
    if "fields" not in about:
        return named
    held = about["fields"].items()
    return named(**{name: imported(v["call"]) if "call" in v else v["is"] for name, v in held})


def check_importable(about: Mapping[str, Any], where: str) -> None:
    """Refuse what was made inside a function, or in the running script: no other imports it."""
    module, _, name = str(about["name"]).partition(":")
    if module == "__main__" or "<" in name:
        raise InputError(
            f"{name} cannot be imported elsewhere (it is of {module})",
            cure="put it at the top of a module that the workers can import",
            where=where,
        )
    for held in about.get("fields", {}).values():
        if "call" in held:
            check_importable(held["call"], where)
