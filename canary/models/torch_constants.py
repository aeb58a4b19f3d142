"""What differs between modules of one function beside their weights and buffers.

Modules that are trained at once run as one of them, with the weights and buffers of each. What
else they hold is that of this one, so it has to be the same in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch

__all__ = ["difference"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))

_OF_WEIGHTS = frozenset({"_parameters", "_buffers", "_modules", "_flat_weights"})
"""Attributes of modules that hold weights, buffers and modules, which are compared as such."""

_BY_NAME = frozenset({"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__"})
"""What a class holds that says where it stands, or that its instances have."""


def difference(one: torch.nn.Module, two: torch.nn.Module) -> str:
    """The path of the first thing that differs beside the values of weights and buffers.

    Modules, attributes, shapes and types are compared; attributes by value, functions by
    bytecode and what they capture. What has no value that could be compared, such as a lock,
    counts as the same. "" if nothing differs.
    """
    return next(_Comparison(one, two).differences(), "")


class _Comparison:
    def __init__(self, one: torch.nn.Module, two: torch.nn.Module) -> None:
        self._one, self._two = dict(one.named_modules()), dict(two.named_modules())
        self._place = {id(part): name for name, part in self._one.items()}
        self._place |= {id(part): name for name, part in self._two.items()}
        self._seen: set[tuple[int, int]] = set()
        self._held: list[Any] = []

    def differences(self) -> Iterator[str]:
        for name in dict.fromkeys([*self._one, *self._two]):
            one, two = self._one.get(name), self._two.get(name)
            if one is None or two is None or not self._same(type(one), type(two)):
                yield name or "the class"
                continue
            for part in self._of_module(one, two):
                yield f"{name}.{part}".lstrip(".")

    def _of_module(self, one: torch.nn.Module, two: torch.nn.Module) -> Iterator[str]:
        for kind in ("_parameters", "_buffers"):
            first, second = getattr(one, kind), getattr(two, kind)
            for name in dict.fromkeys([*first, *second]):
                if _form(first.get(name)) != _form(second.get(name)):
                    yield name
        first, second = vars(one), vars(two)
        for name in dict.fromkeys([*first, *second]):
            if name in _OF_WEIGHTS:
                continue
            if name not in first or name not in second:
                yield name
                continue
            left, right = first[name], second[name]
            if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
                left, right = list(left.values()), list(right.values())  # keys count all hooks
            if not self._same(left, right):
                yield name

    def _same(self, one: Any, two: Any) -> bool:
        if one is two or (id(one), id(two)) in self._seen:
            return True
        self._seen.add((id(one), id(two)))
        self._held += [one, two]  # or another object may come to their place in memory
        if isinstance(one, type) and isinstance(two, type):
            return _name(one) == _name(two) and self._mapping(_members(one), _members(two))
        if id(one) in self._place or id(two) in self._place:
            return self._place.get(id(one)) == self._place.get(id(two))
        if type(one) is not type(two) and not self._same(type(one), type(two)):
            return False
        if isinstance(one, torch.Tensor):
            return _form(one) == _form(two) and _equal(one.detach().cpu(), two.detach().cpu())
        if isinstance(one, np.ndarray) and not one.dtype.hasobject:
            forms = [(str(part.dtype), part.shape, part.tobytes()) for part in (one, two)]
            return forms[0] == forms[1]
        if type(one) in _PLAIN:
            return repr(one) == repr(two)  # knows nan
        if isinstance(one, CodeType):
            return bool(one == two)
        if isinstance(one, set | frozenset):
            return bool(one == two)
        return self._compound(one, two)

    def _compound(self, one: Any, two: Any) -> bool:
        if type(one) in (dict, tuple, list):
            pair = (one, two) if isinstance(one, dict) else (_numbered(one), _numbered(two))
            return self._mapping(*pair)
        if isinstance(one, FunctionType):
            return self._same(_of_function(one), _of_function(two))
        if isinstance(one, MethodType):
            return self._same((one.__func__, one.__self__), (two.__func__, two.__self__))
        if isinstance(one, partial):
            return self._same(
                (one.func, one.args, one.keywords), (two.func, two.args, two.keywords)
            )
        if isinstance(one, property):
            return self._same((one.fget, one.fset, one.fdel), (two.fget, two.fset, two.fdel))
        if isinstance(one, staticmethod | classmethod):
            return self._same(one.__func__, two.__func__)
        try:
            first, second = one.__reduce_ex__(2), two.__reduce_ex__(2)
        except Exception:  # locks, generators, weak references
            return True
        if isinstance(first, str) or isinstance(second, str):
            return bool(first == second)
        return self._same(_read(first), _read(second))

    def _mapping(self, one: Mapping[Any, Any], two: Mapping[Any, Any]) -> bool:
        return [*one] == [*two] and all(self._same(one[name], two[name]) for name in one)


def _of_function(value: FunctionType) -> tuple[Any, ...]:
    held = []
    for cell in value.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            held.append(None)
    return (value.__code__, value.__defaults__, value.__kwdefaults__, held, dict(vars(value)))


def _read(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """What an object is made from, with its items read out of their iterators."""
    return tuple(
        list(part) if number > 2 and part is not None else part for number, part in enumerate(parts)
    )


def _form(value: torch.Tensor | None) -> tuple[object, ...]:
    if value is None:
        return ()
    return (value.dtype, value.shape, value.requires_grad, value.device)


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    return torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)


def _numbered(values: Any) -> dict[int, Any]:
    return dict(enumerate(values))


def _members(value: type) -> dict[str, Any]:
    return {name: part for name, part in vars(value).items() if name not in _BY_NAME}


def _name(value: type) -> str:
    return f"{value.__module__}:{value.__qualname__}"
