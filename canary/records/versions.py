"""Which software a number was computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("canary-lm", "torch", "transformers", "tokenizers", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on, as far as installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
