"""Templates to pages: one file each, with no script and nothing from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.reports.palette import DARK, LIGHT, declarations
from canary.statistics.numbers import clean

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page"]


def page(template: str, **values: Any) -> str:
    """The HTML that a template makes of `values`, whose texts are untrusted."""
    styles = {"light": declarations(LIGHT), "dark": declarations(DARK)}
    return _environment().get_template(template).render(**values, **styles)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("canary.reports"),
        autoescape=True,
        # Formats, labels, model names and settings are untrusted text. Markup (our own
        # figures) is a str as well, and goes through as it is.
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
