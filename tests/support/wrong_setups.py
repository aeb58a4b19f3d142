"""The page of wrong set-ups, line by line, and what canary says of each that is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import Outcome

from canary.errors import CanaryError

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "wrong-setups.md"

OUTCOMES = {0: "Note", 1: "Memorized", 2: "Error", 3: "Undecided"}
"""What the page calls the exit codes of the command line."""


@dataclass(frozen=True)
class Line:
    """A line of the page: its name, the verdict it promises, the words that are said."""

    name: str
    outcome: str
    words: tuple[str, ...]


def lines(section: str) -> list[Line]:
    """The lines of one table of the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [_line(row) for row in re.findall(r"^\| [A-Z]\d+ \|.*$", text, re.MULTILINE)]


def _line(row: str) -> Line:
    name, _, cell = (cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])
    said, _, _ = cell.partition("<br>")  # what to do comes after it
    (outcome,) = re.findall(r"\*\*(\w+)\*\*", said)
    words = re.findall(r"`([^`]+)`", said.replace(r"\|", "|"))
    assert words, name
    return Line(name, outcome, tuple(words))


class Said:
    """What canary said of a set-up: the outcome, and the words on one line."""

    def __init__(self, outcome: str, text: str) -> None:
        self.outcome, self.text = outcome, " ".join(text.split())

    def fits(self, line: Line) -> None:
        """Fail unless it is what the line of the page says."""
        assert self.outcome == line.outcome, self.text
        missing = [words for words in line.words if words not in self.text]
        assert not missing, self.text

    def fits_none(self, table: Sequence[Line]) -> None:
        """Fail if what some line promises is said of a set-up that is right."""
        false = [one.name for one in table if all(words in self.text for words in one.words)]
        assert not false, self.text


def of_command(outcome: Outcome) -> Said:
    """What a command printed."""
    return Said(OUTCOMES[outcome.code], outcome.err + outcome.out)


def of_call(call: Callable[[], Any]) -> Said:
    """The error of a call, or the notes of what it returned."""
    try:
        found = call()
    except CanaryError as error:
        return Said("Error", str(error))
    return Said("Note", "\n".join(found.notes))


def test_all_are_made(request):
    """Of the module that imports it, whose table is `TABLE` and whose set-ups are `made`."""
    request.module.made.are_of(request.module.TABLE)


def test_is_said(request, line, desk):
    request.module.made[line.name](desk).fits(line)


class Setups(dict[str, Callable[..., Said]]):
    """Functions that make the set-ups of a table, by the names of its lines."""

    def __call__(self, name: str) -> Callable[[Callable[..., Said]], Callable[..., Said]]:
        def keep(make: Callable[..., Said]) -> Callable[..., Said]:
            self[name] = make
            return make

        return keep

    def are_of(self, table: Sequence[Line]) -> None:
        """Fail unless the table has lines, and each is made here."""
        assert table
        assert [line.name for line in table] == [*self]
