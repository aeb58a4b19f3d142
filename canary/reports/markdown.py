"""A report as Markdown, for pages that show builds or comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from canary.reports.document import (
    Block,
    Bullets,
    Facts,
    Figure,
    Heading,
    Note,
    Report,
    Table,
    Text,
    words_of,
)
from canary.statistics.numbers import clean

# A backslash is text before what is no punctuation, and at no end of a line or cell.
_MARKUP = re.compile(r"(\\(?!\w)|[`*_{}\[\]<>#|~&])")
# GitHub, GitLab and their like read these in plain text: @name, #1, GH-1, !1, addresses, e-mail.
_CALLS = re.compile(
    r"(@|#(?=\w)|!(?=\d)|:(?=//)|\bGH-|\bwww(?=\.)|\bmailto:|\bxmpp:)", re.IGNORECASE
)


def markdown_of(made: Report, *, level: int = 2, first: Sequence[Text] | None = None) -> str:
    """A report as Markdown in which untrusted text is text; of figures the numbers.

    For pages that show builds or comments. The sections for specialists are left out. `level` is
    that of the title. After the answer follow the paragraphs of `first`, if given, and the rest
    is folded.
    """
    marks = "#" * level
    parts = [f"{marks} {_escaped(made.title)}", f"**{_escaped(made.label)}**"]
    parts += map(_escaped, made.sentences)
    parts += [_escaped(made.basis)] if made.basis else []
    parts += map(_escaped, made.warnings)
    if first is not None:
        parts += map(_escaped, first)
        parts.append("<details><summary>The report</summary>")
    if made.about:
        parts += _parts(Facts(made.about))
    for part in (*made.parts(), *made.sections):
        if not part.specialist:
            parts.append(f"{marks}# {_escaped(part.heading)}")
            parts += [words for block in part.blocks for words in _parts(block, level + 2)]
    parts += ["</details>"] * (first is not None)
    return "\n\n".join(parts) + "\n"


def _parts(block: Block, level: int = 4) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"{'#' * level} {_escaped(text)}"
        case Note(text):
            yield _escaped(text)
        case Bullets(items):
            yield "\n".join(f"- {_escaped(item)}" for item in items)
        case Facts(items):
            yield from _parts(Table("", ("", ""), list(items.items())))
        case Table():
            lines = [" | ".join(map(_escaped, row)) for row in (block.columns, *block.rows)]
            numbers = block.numbers if block.style == "words" else len(block.columns) - 1
            words = len(block.columns) - numbers
            lines.insert(1, " | ".join([*["---"] * words, *["---:"] * numbers]))
            yield "\n".join(f"| {line} |" for line in lines)
        case Figure():
            yield _escaped(block.table.title if block.table else block.caption)
            if block.table is not None:
                yield from _parts(block.table)
        case _:
            yield _escaped(block)


def _escaped(text: Text) -> str:
    """Untrusted text as one line of Markdown in which nothing is markup, or calls anybody.

    What a page would make a link of is parted by an empty comment, which nobody sees; a
    backslash alone does not stop the pages that look for names in the finished text.
    """
    parted = _CALLS.split(clean(words_of(text)))
    escaped = [_MARKUP.sub(r"\\\1", part) for part in parted]
    return "".join(part + ("<!-- -->" if at % 2 else "") for at, part in enumerate(escaped))
