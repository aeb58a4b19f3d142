"""A report as plain data: what a page, a terminal, a notebook or a summary of a build shows.

Builders make one from a result (`canary.reports.builders`); what shows it knows no result.
Figures are numbers: each `Mark` is a call of matplotlib's axes that was not made yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "Axis",
    "Block",
    "Bullets",
    "Facts",
    "Figure",
    "Heading",
    "Mark",
    "Note",
    "Panel",
    "Report",
    "Section",
    "Span",
    "Table",
    "Text",
    "Tile",
    "mark",
    "prose",
    "words_of",
]


class Span(NamedTuple):
    """Some words, and how they stand out: ``code``, ``em``, ``strong``, ``sub``, or a colour."""

    text: str
    kind: str = ""


Text = str | tuple[Span, ...]
"""A line or a paragraph. A str is shown as it is, whatever is in it."""

_MARKUP = re.compile(r"`(?P<code>[^`]+)`|\*(?P<em>[^*]+)\*|~(?P<sub>[^~]+)~")


def prose(*sentences: object, **values: object) -> tuple[Span, ...]:
    """Our own words, with ```code```, ``*emphasis*`` and ``~subscripts~``.

    Parameters
    ----------
    *sentences
        Joined by spaces; what is empty, or no text, is left out.
    **values
        What ``{name}`` stands for. Markup is looked for before they are put in, so that
        untrusted text can make none.
    """
    text = " ".join(s for s in sentences if isinstance(s, str) and s)
    spans, end = [], 0
    for found in _MARKUP.finditer(text):
        spans.append(Span(text[end : found.start()]))
        kind = str(found.lastgroup)
        spans.append(Span(found[kind], kind))
        end = found.end()
    spans.append(Span(text[end:]))
    return tuple(Span(s.text.format(**values), s.kind) for s in spans if s.text)


def words_of(text: Text) -> str:
    """A text without its markup."""
    return text if isinstance(text, str) else "".join(span.text for span in text)


@dataclass(frozen=True)
class Heading:
    """Of what follows in a section."""

    text: Text


@dataclass(frozen=True)
class Note:
    """A paragraph in small print."""

    text: Text


@dataclass(frozen=True)
class Bullets:
    """Paragraphs that do not follow from each other."""

    items: Sequence[Text]


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    items: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """Rows whose first cell is a name.

    Parameters
    ----------
    title : str
        Read aloud; where nothing above a table names it, shown as well.
    columns, rows : sequences
        A cell may have several lines.
    tones : sequence of str
        For each row a word of the style sheet: ``control``, or the tone of a verdict.
    style : str
        Of the table as a whole: ``words`` if most cells are no numbers.
    numbers : int
        Of such a table, how many of the last columns are numbers all the same.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    tones: Sequence[str] = ()
    style: str = ""
    numbers: int = 0


class Mark(NamedTuple):
    """A call of matplotlib's axes: its name, its numbers, its style.

    `only` is ``wide`` or ``narrow`` where a figure for a desk and one for a phone differ.
    """

    call: str
    data: tuple[Any, ...]
    style: Mapping[str, Any]
    only: str = ""


def mark(call: str, *data: Any, **style: Any) -> Mark:
    """A `Mark`."""
    return Mark(call, data, style)


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a panel.

    Parameters
    ----------
    label : str
    limits : (float or None, float or None)
        None where the marks decide.
    ticks : mapping of numbers to str, optional
        Where the words stand. On a logarithmic axis without it at the powers of ten.
    log : bool
    ruled : bool
        Whether ticks have lines of their own; names have none.
    few : bool
        At most seven ticks, at round numbers.
    """

    label: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Mapping[Any, str] | None = None
    log: bool = False
    ruled: bool = True
    few: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Parameters
    ----------
    marks : sequence of Mark
    x, y : Axis
    narrow_x : Axis, optional
        In place of `x` on a phone.
    title : str
    grid : {"x", "y", "both", ""}
    legend : str
        Where the names of the marks are: ``above``, or as matplotlib calls the place; on a
        phone many of them are above the axes. None if empty.
    key : sequence of (str, str)
        Colours and names, where the legend names what no mark does.
    height : float
        Share of a stack that this panel takes; 0 for the rest.
    """

    marks: Sequence[Mark]
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    narrow_x: Axis | None = None
    title: str = ""
    grid: str = "both"
    legend: str = ""
    key: Sequence[tuple[str, str]] = ()
    height: float = 0.0


@dataclass(frozen=True, eq=False)
class Figure:
    """A drawing as numbers, with the words that stand in for it.

    Parameters
    ----------
    name : str
        Of its own in the page.
    words : str
        What it shows, for those who do not see it.
    panels : sequence of Panel
        Beside each other, or from top to bottom on one x axis if it is a stack.
    caption : Text
    table : Table, optional
        The numbers of the figure, folded away.
    stack : bool
    narrow_columns : int
        Panels beside each other on a phone.
    x, y : str
        Names of the axes that all panels have in common.
    """

    name: str
    words: str
    panels: Sequence[Panel]
    caption: Text = ""
    table: Table | None = None
    stack: bool = False
    narrow_columns: int = 1
    x: str = ""
    y: str = ""


Block = str | tuple[Span, ...] | Heading | Note | Bullets | Facts | Table | Figure
"""What a section is made of; a `Text` is a paragraph."""


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report with a heading.

    Parameters
    ----------
    name : str
        Of its own in the report: letters, digits and hyphens.
    heading : str
    blocks : sequence of Block
    specialist : bool
        Whether it says how numbers were made; short forms of a report leave it out.
    """

    name: str
    heading: Text
    blocks: Sequence[Block]
    specialist: bool = False


class Tile(NamedTuple):
    """A number behind the answer: its name, its value, what it is."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, eq=False)
class Report:
    """What there is to say about a result.

    Parameters
    ----------
    title : str
    label : str
        The verdict in a word or two.
    tone : str
        Of the verdict: ``memorized``, ``undecided``, ``not-found``, ``suspect`` or nothing.
    sentences : sequence of Text
        The answer.
    remark : Text
        How the answer is to be taken, in small print.
    actions : sequence of Text
        What to do about it.
    tiles : sequence of Tile
    notes : sequence of Text
        What the reader must know before the numbers.
    sections : sequence of Section
    brief : sequence of Block
        What a terminal shows above the answer.
    """

    title: str
    label: str
    sentences: Sequence[Text]
    tone: str = ""
    remark: Text = ""
    actions: Sequence[Text] = ()
    tiles: Sequence[Tile] = ()
    notes: Sequence[Text] = ()
    sections: Sequence[Section] = ()
    brief: Sequence[Block] = ()
