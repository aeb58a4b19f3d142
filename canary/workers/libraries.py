"""Which modules are a library's, that changes by its version, and which are anybody's own code."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import sys
import sysconfig
from pathlib import Path

__all__ = ["library"]

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
        return f"canary {importlib.metadata.version('canary-lm')}"
    place = _place(top)
    if top in sys.stdlib_module_names and (
        place is None or (place.is_relative_to(_STANDARD) and not _INSTALLED & set(place.parts))
    ):
        return "python"  # its version is told beside
    if place is None or not _INSTALLED & set(place.parts):
        return ""
    try:
        return f"{top} {importlib.metadata.version(top)}"
    except importlib.metadata.PackageNotFoundError:
        names = sorted(set(importlib.metadata.packages_distributions().get(top, ())))
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


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
