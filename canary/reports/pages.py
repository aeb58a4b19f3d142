"""Reports as pages: one HTML file each, with no script and nothing from outside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.records.files import PAGES, atomic_write
from canary.records.sealing import sealed
from canary.records.validation import file_path, one_or_more
from canary.reports.builders import report_of
from canary.reports.drawing import svg_of
from canary.reports.palette import DARK, LIGHT, declarations
from canary.statistics.numbers import clean

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from canary.reports.document import Figure, Report, Text

_TAGS = ("code", "em", "strong", "sub")


@sealed
def report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
    name: str | None = None,
) -> Path:
    """Write a result as a report that a person can read and defend, or compare several audits.

    Parameters
    ----------
    result : a result, or a sequence of Audit
        What a function of canary returned: an `Audit`, several of them to compare, the
        `History` of a training, an `Extraction`, a `Verdict`, a survey of membership attacks,
        a `Forgetting`.
    path : path-like
        The file to write; its folder must exist.
    labels : sequence of str, optional
        Of several audits, what each stands for; the names of their models unless given.
    test_losses : sequence of float or None, optional
        Of several audits, the utility of each model: its mean loss on the same test text,
        in nats per token. With them comes the Pareto front of utility and exposure.
    name : str, optional
        What the model is called where its result does not say it.

    Returns
    -------
    Path
        `path`, now one self-contained HTML file, readable by its owner only: it refers to
        nothing outside itself, and shows no secret in clear (but see
        `canary.audits.audit_result`: keep it like the model). The same result gives the same
        bytes.

    Raises
    ------
    InputError
        If there is no report of such a result; if labels or losses are not one for each audit,
        or come without several audits.
    OutputError
        If the file cannot be written. What was there before is left as it was.
    """
    target = file_path(path, "path", cure="give the file that the report is to be in")
    made = report_of(shown(result, labels, test_losses), **({"name": name} if name else {}))
    atomic_write(target, page_of(made), private=True, replaces=PAGES)
    return target


def shown(
    result: Any,
    labels: Sequence[str] | None = None,
    test_losses: Sequence[float | None] | None = None,
) -> Any:
    """What is shown of a result: several audits are compared, a single one in a list is itself."""
    several: tuple[Audit, ...] = ()
    if isinstance(result, list | tuple):
        cure = "give what canary.audit or Audit.load returned"
        several = one_or_more(result, Audit, "a result, or several audits", cure=cure)
    if len(several) > 1:
        from canary.reports.comparison import compare

        return compare(several, labels=labels, test_losses=test_losses)
    if labels is not None or test_losses is not None:
        raise InputError(
            "labels and test losses are for comparing audits, and there is one result",
            cure="give several audits, or leave them away",
        )
    return several[0] if several else result


def page_of(made: Report) -> str:
    """A report as HTML; all its texts may be untrusted."""
    return _environment().get_template("page.html.j2").render(report=made)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("canary.reports"),
        autoescape=True,
        # What is Markup is ours, and goes through as it is.
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": _inline, "lines": _lines, "kind": _kind, "drawn": _drawn}
    environment.globals |= {"light": declarations(LIGHT), "dark": declarations(DARK)}
    return environment


def _inline(text: Text) -> Markup:
    """A text with its markup as elements."""
    from markupsafe import Markup, escape

    if isinstance(text, str):
        return escape(clean(text))
    made = Markup("")
    for words, kind in text:
        if kind in _TAGS:
            made += Markup(f"<{kind}>{{}}</{kind}>").format(clean(words))  # noqa: S704 - our own tag
        elif kind:
            coloured = '<span class="mark" style="color: var(--{})">{}</span>'
            made += Markup(coloured).format(kind, clean(words))  # noqa: S704 - our own words
        else:
            made += clean(words)
    return made


def _lines(text: Text) -> Markup:
    """A text in which line breaks are kept."""
    from markupsafe import Markup

    if not isinstance(text, str):
        return _inline(text)
    return Markup("<br>").join(map(_inline, text.split("\n")))


def _kind(block: object) -> str:
    """The name of a block's class; a paragraph has none."""
    return "Text" if isinstance(block, str | tuple) else type(block).__name__


def _drawn(figure: Figure, wide: bool) -> Markup:  # noqa: FBT001 - a filter of the template
    from markupsafe import Markup

    # The drawings hold our own numbers and words only.
    return Markup(svg_of(figure, wide=wide))  # noqa: S704
