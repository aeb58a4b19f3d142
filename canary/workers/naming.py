"""Functions as plain data: a name to import them by, and a digest of what they do.

What crosses to another process is the name. What says whether two runs did the same is the
digest as well: of the function's own bytecode, its constants and defaults. What it calls
and the global variables that it reads are not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

from canary.errors import InputError

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
        If it is something else, or a function that captures variables, which neither a name
        nor a digest holds.
    """
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        held = {field.name: _field(getattr(value, field.name), where) for field in fields(kind)}
        return {"name": _name(kind), "code": _code_of_class(kind), "fields": held}
    if isinstance(value, type):
        return {"name": _name(value), "code": _code_of_class(value)}
    if not isinstance(value, FunctionType):
        raise InputError(
            f"is a {type(value).__name__}, a function was expected",
            cure="write a function in a module, or a frozen dataclass that can be called",
            where=where,
        )
    if value.__closure__:
        captured = ", ".join(value.__code__.co_freevars)
        raise InputError(
            f"{value.__qualname__} captures the variables {captured}, of which no fingerprint "
            "would tell",
            cure="write it at the top of a module, and give it these as options",
            where=where,
        )
    return {"name": _name(value), "code": _digest(_function(value))}


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


def _digest(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _function(value: FunctionType) -> tuple[object, ...]:
    return (_code(value.__code__), _constant(value.__defaults__), _constant(value.__kwdefaults__))


def _code_of_class(kind: type) -> str:
    found = {name: part for name, part in vars(kind).items() if isinstance(part, FunctionType)}
    return _digest([(name, _function(found[name])) for name in sorted(found)])


def _code(code: CodeType) -> tuple[object, ...]:
    # Neither file name nor lines: a comment above a function changes nothing.
    constants = tuple(_constant(value) for value in code.co_consts)
    return (code.co_code, constants, code.co_names, code.co_varnames)


def _constant(value: Any) -> object:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, FunctionType):
        return _function(value)
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, tuple | list):
        return tuple(_constant(part) for part in value)
    if isinstance(value, frozenset | set):  # their order changes from process to process
        return ("set", sorted(repr(part) for part in value))
    if isinstance(value, dict):
        return tuple((key, _constant(part)) for key, part in value.items())
    if isinstance(value, str | bytes | int | float | complex | None):
        return value
    return type(value).__qualname__  # its repr may hold its place in memory
