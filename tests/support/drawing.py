"""Pages without their figures, which take longer than all the rest of a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import pytest

PLACES = (
    *("figures.draw_exposure", "figures.draw_histogram", "history_html.draw_history"),
    *("comparison_figures.draw_exposures", "comparison_figures.draw_utility"),
    *("membership_html.draw_roc", "membership_html.draw_risks", "membership_text_html.draw_roc"),
    *("membership_models_html.draw_many", "forgetting_html.draw_forgetting"),
)
"""Where the pages find what draws their figures."""


@cache
def _real(place: str) -> Any:
    module, _, name = f"canary.reports.{place}".rpartition(".")
    return getattr(import_module(module), name)


def _empty(*_: Any, **__: Any) -> str:
    return '<svg viewBox="0 0 1 1"></svg>'


@contextmanager
def figures(*, drawn: bool) -> Iterator[None]:
    """Pages with their figures, or an empty one for each, for as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        for place in PLACES:
            real = _real(place)  # asked for first, so that it is never the empty one
            patch.setattr(f"canary.reports.{place}", real if drawn else _empty)
        yield
