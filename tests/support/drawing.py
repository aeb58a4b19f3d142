"""Pages without their figures, which take longer than all the rest of a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from canary.reports import drawing


@contextmanager
def figures(*, drawn: bool) -> Iterator[None]:
    """Pages with their figures, or an empty one for each, for as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        if not drawn:
            patch.setattr("canary.reports.html_page.svg_of", _empty)
        else:
            patch.setattr("canary.reports.html_page.svg_of", drawing.svg_of)
        yield


def _empty(*_: object, **__: object) -> str:
    return '<svg viewBox="0 0 1 1"></svg>'
