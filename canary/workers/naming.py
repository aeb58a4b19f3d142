"""Functions as plain data: a name to import them by, and a digest of what they do.

What crosses to another process is the name. What says whether two runs did the same is the
digest as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

from canary.errors import InputError
from canary.workers.digests import digest

__all__ = ["check_importable", "described", "imported", "plain"]


def plain(value: Any, where: str) -> Any:
    """`value` as JSON would give it back, if it is plain data.

    Raises
    ------
    InputError
        If it holds anything but text, finite numbers, booleans, None, lists and mappings
        from text.
    """
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"is no plain data ({error})",
            cure="give text, finite numbers, true or false, None, and lists and mappings of these",
            where=where,
        ) from error


def described(value: Any, where: str) -> dict[str, Any]:
    """A function, or a frozen dataclass that can be called, as plain data.

    Parameters
    ----------
    value : function or dataclass
        Fields of a dataclass are plain data, functions, or such dataclasses.
    where : str
        What it is, for messages.

    Returns
    -------
    dict
        ``name`` (``module:qualname``), ``code`` (a digest), and of a dataclass ``fields``.

    Raises
    ------
    InputError
        If it is something else, or made of what no digest can hold.
    """
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        held = {field.name: _field(getattr(value, field.name), where) for field in fields(kind)}
        return {"name": _name(kind), "code": digest(kind, where), "fields": held}
    if isinstance(value, type):
        return {"name": _name(value), "code": digest(value, where)}
    if not isinstance(value, FunctionType):
        raise InputError(
            f"is a {type(value).__name__}, a function was expected",
            cure="write a function in a module, or a frozen dataclass that can be called",
            where=where,
        )
    return {"name": _name(value), "code": digest(value, where)}


def imported(about: Mapping[str, Any]) -> Any:
    """What `described` made plain, in this process or in another."""
    module, _, path = str(about["name"]).partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if "fields" not in about:
        return found
    held = about["fields"].items()
    return found(**{name: imported(v["call"]) if "call" in v else v["is"] for name, v in held})


def check_importable(about: Mapping[str, Any], where: str) -> None:
    """Refuse what another process could not import.

    Raises
    ------
    InputError
        If it was made inside a function, or in the script or session that is running.
    """
    name = str(about["name"])
    if name.startswith("__main__:") or "<" in name:
        raise InputError(
            f"{name.partition(':')[2]} cannot be imported elsewhere (it is of "
            f"{name.partition(':')[0]})",
            cure="put it at the top of a module that the workers can import",
            where=where,
        )
    for held in about.get("fields", {}).values():
        if "call" in held:
            check_importable(held["call"], where)


def _field(value: Any, where: str) -> dict[str, Any]:
    if callable(value):
        return {"call": described(value, where)}
    return {"is": plain(value, where)}


def _name(value: Callable[..., Any]) -> str:
    return f"{value.__module__}:{value.__qualname__}"
