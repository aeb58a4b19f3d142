"""A report as a page: one template, our words, and texts of others escaped."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from canary.reports.document import Report, Text
from canary.reports.drawing import svg_of
from canary.reports.palette import DARK, LIGHT
from canary.statistics.numbers import clean

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_NUMBER = "number-of-this-report"
_OPTION = re.compile(r"(?<!\S)(--[\w-]+)")
_VALUE = r"(?: (?:\d[\d.,=]*(?<![.,=])|[A-Z]{3,}|all|rank|sampling|gaussian|document|float32)\b)?"
_PLAIN = re.compile(rf"(?<![\w-])(--[a-z][\w-]*{_VALUE}(?: --[a-z][\w-]*{_VALUE})*)")


def page_of(made: Report) -> str:
    """A report as HTML, with a number made of its words; all its texts may be untrusted."""
    page = _environment().get_template("page.html.j2").render(report=made, number=_NUMBER)
    words = re.sub("<svg.*?</svg>", "", page, flags=re.DOTALL)  # drawn otherwise elsewhere
    return page.replace(_NUMBER, sha256(words.encode()).hexdigest()[:8])


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("canary.reports"),
        autoescape=True,
        # What is Markup is ours, and goes through as it is.
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "inline": _inline,
        "lines": lambda text: Markup("<br>").join(
            map(_inline, text.split("\n") if isinstance(text, str) else [text])
        ),
        "quoted": _quoted,
        "kind": lambda block: "Text" if isinstance(block, str | tuple) else type(block).__name__,
        # The drawings hold our own numbers and words only.
        "drawn": lambda figure, wide: Markup(svg_of(figure, wide=wide)),  # noqa: S704
    }
    for name, colours in (("light", LIGHT), ("dark", DARK)):
        variables = " ".join(f"--{variable}: {colour};" for variable, colour in colours.items())
        environment.globals[name] = variables
    return environment


def _quoted(text: str) -> Markup:
    """A text as the inside of a string of CSS, in which nothing has a meaning of its own."""
    from markupsafe import Markup

    plain = (
        c if c.isascii() and (c.isalnum() or c == " ") else f"\\{ord(c):x} " for c in clean(text)
    )
    return Markup("".join(plain))  # noqa: S704 - letters, digits, spaces and escapes


def _inline(text: Text) -> Markup:
    """A text with its markup as elements; any other kind of a span is a colour."""
    from markupsafe import Markup, escape

    made = Markup("")
    spans = [(text, "")] if isinstance(text, str) else text
    for words, kind in (part for span in spans for part in _parts(*span)):
        element = "{1}"
        if kind in ("code", "em", "strong", "sub"):
            element = "<{0}>{1}</{0}>"
        elif kind:
            element = '<span class="mark" style="color: var(--{0})">{1}</span>'
        said = clean(words) if kind == "code" else _shown(words)
        if kind == "code":  # browsers break lines after the hyphens of an option
            said = _OPTION.sub(r'<span class="option">\1</span>', str(escape(said)))
            said = Markup(said)  # noqa: S704 - escaped
        made += Markup(element).format(kind, said)  # noqa: S704 - our own elements
    return made


def _parts(words: str, kind: str) -> list[tuple[str, str]]:
    """A span; of plain words, options with their values apart, as code."""
    if kind:
        return [(words, kind)]
    cut = enumerate(_PLAIN.split(words))
    return [(part, "code" if at % 2 else "") for at, part in cut if part]


def _shown(text: str) -> str:
    """Text without control characters, in which a number and its % stay in one line."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", clean(text))
