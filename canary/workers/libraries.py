"""Which modules are a library's, that changes by its version, and which are anybody's own code."""

from __future__ import annotations

import builtins
import functools
import importlib.metadata
import importlib.util
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["constant_of_library", "library", "named_in_library"]

_STANDARD = sysconfig.get_path("stdlib")

_INSTALLED = frozenset({"site-packages", "dist-packages"})


@functools.cache
def library(module: str) -> str:
    """The library that a module is part of, with its version; "" for anybody's own code.

    Installed packages are libraries. Those that are installed in place, as by ``pip install
    --editable``, change without their version and are somebody's own, but for canary.
    """
    top = module.partition(".")[0]
    if top == "canary":
        return "canary"  # as that of canary
    place = _place(top)
    if top in sys.stdlib_module_names and (
        place is None or (place.is_relative_to(_STANDARD) and not _INSTALLED & set(place.parts))
    ):
        return "python"  # its version is in the configuration of a fleet
    if place is None or not _INSTALLED & set(place.parts):
        return ""
    try:
        return f"{top} {importlib.metadata.version(top)}"
    except importlib.metadata.PackageNotFoundError:
        names = sorted(set(_distributions().get(top, ())))
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _place(top: str) -> Path | None:
    """Where a module lies, if it is no part of the interpreter itself."""
    if top in sys.modules:
        origin = getattr(sys.modules[top], "__file__", None)
        spec = getattr(sys.modules[top], "__spec__", None)
    else:
        spec = importlib.util.find_spec(top)
        origin = spec.origin if spec is not None and spec.has_location else None
    folders = list(getattr(spec, "submodule_search_locations", None) or ())
    return Path(origin or folders[0]) if origin or folders else None


def constant_of_library(value: object) -> str:
    """The name under which a library holds an object of its own, such as `scipy.stats.norm`."""
    module = type(value).__module__
    if known := library(module):
        for name, part in list(vars(sys.modules.get(module, builtins)).items()):
            if part is value:
                return f"{known} {module}:{name}"
    return ""


def named_in_library(value: object, name: str) -> str:
    """The library where an object lies under a name, such as a ufunc; "" for none."""
    path = name.split(".")
    for module in list(sys.modules.values()):
        found: Any = vars(module).get(path[0]) if isinstance(module, ModuleType) else None
        for part in path[1:]:
            found = getattr(found, part, None)
        if found is value and (known := library(module.__name__)):
            return known
    return ""
