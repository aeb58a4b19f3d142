"""A report as plain data: what a page, a terminal, a notebook or a summary of a build shows.

Builders make one from a result (`canary.reports.builders`); what shows it knows no result.
Figures are numbers: each `Mark` is a call of matplotlib's axes that was not made yet.
The longer words are in ``words.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from canary.statistics.numbers import count


class Span(NamedTuple):
    """Some words, and how they are marked: ``code``, ``em``, ``strong``, ``sub``, or a colour."""

    text: str
    kind: str = ""


Text = str | tuple[Span, ...]
"""A line or a paragraph. A str is shown as it is, whatever is in it."""

UNKNOWN = ("", "not named", "not recorded")
"""What a fact of a report says that nobody gave."""

_MARKUP = re.compile(r"`(?P<code>[^`]+)`|\*(?P<em>[^*]+)\*|~(?P<sub>[^~]+)~")
_FLAG = re.compile(r"\[(not )?(\w+)\] ")


class _Number(int):
    """A whole number as a count; of ``{n:one word|# words}`` it chooses the first or the second."""

    def __format__(self, words: str) -> str:
        singular, _, many = (words or "#|#").partition("|")
        return (singular if self == 1 else many).replace("#", count(int(self)))


def prose(*sentences: str, **values: object) -> tuple[Span, ...]:
    """Our own words, with ```code```, ``*emphasis*`` and ``~subscripts~``.

    Sentences are joined by spaces. ``{name}`` is replaced by a value after markup was looked
    for, so that untrusted text can make none; ``{name:look|# looks}`` by words that fit a
    whole number, with the number in the place of ``#``. A paragraph that is one value keeps the
    markup of that value.
    """
    text = " ".join(filter(None, sentences))
    if isinstance(whole := values.get(text[1:-1]), tuple) and text[:1] + text[-1:] == "{}":
        return whole
    numbers = {name: _Number(value) for name, value in values.items() if type(value) is int}
    spans, end = [], 0
    for markup in _MARKUP.finditer(text):
        kind = str(markup.lastgroup)
        spans += [Span(text[end : markup.start()]), Span(markup[kind], kind)]
        end = markup.end()
    spans.append(Span(text[end:]))
    known = values | numbers
    return tuple(Span(span.text.format(**known), span.kind) for span in spans if span.text)


def words_of(text: Text) -> str:
    """A text without its markup."""
    return text if isinstance(text, str) else "".join(span.text for span in text)


def said(key: str, **values: object) -> list[tuple[Span, ...]]:
    """The paragraphs below a heading of ``words.md``, as `prose`.

    A value is what ``{name}`` stands for, and by which ``[name]`` decides whether a line is
    there. It may be untrusted text.
    """
    paragraphs = []
    for lines in paragraphs_of()[key]:
        shown = []
        for line in lines:
            flag = _FLAG.match(line)
            if flag is None:
                shown.append(line)
            elif bool(values.get(flag[2])) != bool(flag[1]):
                shown.append(line[flag.end() :])
        if shown:
            paragraphs.append(prose(*shown, **values))
    return paragraphs


def said_in_one(key: str, **values: object) -> tuple[Span, ...]:
    """`said`, of a heading with one paragraph."""
    (paragraph,) = said(key, **values)
    return paragraph


def sentence(key: str, **values: object) -> str:
    """`said_in_one` without its markup."""
    return words_of(said_in_one(key, **values))


def basis(kind: str, fact: str, verdict: str, **values: object) -> tuple[Span, ...]:
    """What a verdict rests on, in the same words on all pages.

    Parameters
    ----------
    kind : str
        ``"shown"`` by the result, ``"checked"``, ``"claimed"`` by an option of who
        ran the test, ``"taken"`` from the files that were given, or ``"unknown"``.
    fact : str
        What must be true, a clause: ``the planted secrets were in the training data``.
    verdict : str
        What means nothing if it is not.
    **values
        What else ``words.md`` asks below ``basis``.
    """
    return said_in_one("basis", **{kind: True}, fact=fact, verdict=verdict, **values)


def in_a_row(words: Iterable[str]) -> str:
    """``a, b and c``."""
    *some, last = words
    return " and ".join(filter(None, [", ".join(some), last]))


def name_with(missing: Iterable[str]) -> str:
    """By which options facts of a report that are missing are named."""
    options = ("model-name", "corpus-name", "auditor")
    named = {"Model": "model-name", "Tested by": "auditor"}
    given = {named.get(fact, "corpus-name") for fact in missing}
    asked = [option for option in options if option in given]
    row = in_a_row(f"`--{option}`" for option in asked)
    python = in_a_row(f"`{option.replace('-', '_')}`" for option in asked)
    return f"Name what is missing with {row} (in Python {python})."


def if_claimed(label: str, tone: str, fact: str) -> tuple[str, str]:
    """A label and its tone; what is calm by a fact that nobody checked names it, and is open."""
    return (f"{label}, if {fact}", "undecided") if tone == "not-found" and fact else (label, tone)


@cache
def paragraphs_of() -> dict[str, list[list[str]]]:
    """The headings of ``words.md``, and the lines of each paragraph below."""
    text = Path(__file__).with_name("words.md").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("\n# ")[1:])
    return {
        key: [paragraph.splitlines() for paragraph in body.strip().split("\n\n")]
        for key, _, body in parts
    }


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
    """Rows whose first cell is a name; a cell may have several lines."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    tones: Sequence[str] = ()  # of each row, a word of the style sheet
    style: str = ""  # "words" where most cells are no numbers
    numbers: int = 0  # of such a table, how many of the last columns are numbers all the same
    closed: str = ""  # the words to open it by; on a page, a table of members is closed


class Mark(NamedTuple):
    """A call of matplotlib's axes: its name, its numbers, its style."""

    call: str
    data: tuple[Any, ...]
    style: Mapping[str, Any]
    only: str = ""  # "wide" or "narrow", where figures for a desk and for a phone differ


def mark(call: str, *data: Any, **style: Any) -> Mark:
    """A `Mark`."""
    return Mark(call, data, style)


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a panel. Ends and ticks that are None follow from the marks."""

    label: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Mapping[Any, str] | None = None  # where the words are; else round numbers or powers
    log: bool = False
    ruled: bool = True  # whether ticks have lines of their own; names have none
    few: bool = False  # at most seven ticks
    short: str = ""  # the label where that is too long


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes with its marks."""

    marks: Sequence[Mark]
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    narrow_x: Axis | None = None  # in place of `x` on a phone
    title: str = ""
    grid: str = "both"  # or "x", "y" or nothing
    legend: str = ""  # "above", or a place as matplotlib calls it; many names are above
    key: Sequence[tuple[str, str]] = ()  # colours and names, if the legend names what no mark does
    height: float = 0.0  # share of a stack; 0 for the rest


@dataclass(frozen=True, eq=False)
class Figure:
    """A drawing as numbers, with the words that replace it.

    Its panels are beside each other, or from top to bottom on one x axis if it is a stack.
    """

    name: str  # of its own in the page
    words: str  # what it shows, for those who do not see it
    panels: Sequence[Panel]
    caption: Text = ""
    table: Table | None = None  # its numbers, folded away; a figure of a page needs them
    stack: bool = False
    narrow_columns: int = 1  # panels beside each other on a phone
    x: str = ""  # names of the axes that all panels have in common
    y: str = ""


Block = str | tuple[Span, ...] | Heading | Note | Bullets | Facts | Table | Figure
"""What a section is made of; a `Text` is a paragraph."""


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report with a heading; those for specialists say how numbers were made."""

    name: str  # of its own in the report: letters, digits and hyphens
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
    """What there is to say about a result, in the order in which a reader needs it."""

    title: str
    label: str  # the verdict in a few words
    sentences: Sequence[Text]  # the answer, in words that need no statistics
    tone: str = ""  # "memorized", "undecided", "not-found", "suspect" or nothing
    about: Mapping[str, str] = field(default_factory=dict)  # what was tested, and the limit
    basis: Text = ""  # what the verdict rests on, of `basis`; beside the verdict
    notes: Sequence[Text] = ()  # what to know of the numbers; warnings begin in bold
    tiles: Sequence[Tile] = ()
    outcome: Sequence[Block] = ()  # what came out: paragraphs, and a figure
    decide: Sequence[Text] = ()  # what to do for who decides: plain words, no commands
    actions: Sequence[Text] = ()  # what to do for engineers: methods and commands
    unsaid: Sequence[Text] = ()  # what must not be concluded from it
    sections: Sequence[Section] = ()  # those for specialists are folded at the end of a page
    brief: Sequence[Block] = ()  # paragraphs and tables for a terminal, which has no sections

    @property
    def warnings(self) -> list[Text]:
        """The notes that a reader must know before anything else."""
        return [
            note for note in self.notes if not isinstance(note, str) and note[0].kind == "strong"
        ]

    @property
    def to_do(self) -> dict[str, Sequence[Text]]:
        """What to do, by who does it; with it, what to name before the report is filed."""
        missing = [name for name, fact in self.about.items()
                   if fact in UNKNOWN and f"file.{name}" in paragraphs_of()]  # fmt: skip
        file: Text = ""
        name: Text = ""
        if self.decide and missing:
            file = said_in_one("file", names=in_a_row(sentence(f"file.{name}") for name in missing))
            name = prose(name_with(missing))
        parts: dict[str, list[Text]] = {
            "For the person who decides": [*self.decide, file],
            "For the engineers" if self.decide else "": [*self.actions, name],
        }
        kept = {heading: [item for item in items if item] for heading, items in parts.items()}
        return {heading: items for heading, items in kept.items() if items}

    def parts(self) -> Iterator[Section]:
        """What a page shows before its sections, with our headings, as far as given."""
        notes = [note for note in self.notes if note not in self.warnings]
        to_do: list[Block] = []
        for heading, items in self.to_do.items():
            to_do += [Heading(heading)] if heading else []
            to_do.append(Bullets(items))
        parts: dict[str, Sequence[Block]] = {
            "What came out": self.outcome,
            "What to do": to_do,
            "What this does not say": [Bullets(self.unsaid)] if self.unsaid else (),
            "Notes for the engineers": [Bullets(notes)] if notes else (),
        }
        for heading, blocks in parts.items():
            if blocks:
                yield Section(heading.lower().replace(" ", "-"), heading, blocks)
