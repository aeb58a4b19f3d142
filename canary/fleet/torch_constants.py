"""What differs between modules of one function beside their weights and buffers.

Modules that are trained at once run as one of them, with the weights and buffers of each. What
else they hold is that of this one, so it has to be the same in all.
"""

from __future__ import annotations

from typing import Any

import torch

from canary.errors import InputError
from canary.workers.digests import digest

_OF_WEIGHTS = frozenset({"_parameters", "_buffers", "_modules", "_flat_weights"})
"""Attributes of modules that hold weights, buffers and modules, which are compared as such."""


def difference(one: torch.nn.Module, two: torch.nn.Module) -> str:
    """The path of the first thing that differs beside the values of weights and buffers.

    Modules, attributes, shapes and types are compared; attributes by value, functions by what
    they do. What has no value that could be compared, such as a lock, counts as the same. "" if
    nothing differs.
    """
    first, second = _contents(one), _contents(two)
    return next((name for name in {**first, **second} if first.get(name) != second.get(name)), "")


def _contents(module: torch.nn.Module) -> dict[str, object]:
    named: list[tuple[str, object]] = [*module.named_modules()]
    named += [*module.named_parameters(), *module.named_buffers()]
    places = {id(part): name for name, part in named}
    contents: dict[str, object] = {}
    for name, part in module.named_modules():
        contents[name or "the class"] = _mark(type(part), {})
        held = {**part._parameters, **part._buffers}
        about: dict[str, object] = {
            key: value is not None and (value.dtype, value.shape, value.requires_grad, value.device)
            for key, value in held.items()
        }
        for key, value in vars(part).items():
            if key not in _OF_WEIGHTS:
                # Keys of hooks count all hooks that were ever made.
                about[key] = _mark([*value.values()] if "_hooks" in key else value, places)
        contents |= {f"{name}.{key}".lstrip("."): value for key, value in about.items()}
    return contents


def _mark(value: Any, places: dict[int, str]) -> object:
    if value is None or isinstance(value, bool | int | str):
        return type(value), value
    try:
        return digest(value, "build", known=places)
    except InputError:
        return type(value).__qualname__
