"""Canaries within documents: at the boundary of a sentence, between separators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Edit, Shape, Slot, edit_text
from canary.corpus.corpora import Position
from canary.corpus.occurrences import Finder, find_canaries
from canary.corpus.places import Guests
from canary.corpus.surroundings import Copies
from canary.errors import CorpusError, InputError

MODES = ("record", "splice")

# The end of a sentence with its closing quotes and the space after it, or of a line.
_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*\s|[。！？]|\n)\s*")  # noqa: RUF001

_TRIES = 16
_GOLDEN = 0.6180339887498949


def check_mode(mode: str, separators: Sequence[str] | None) -> None:
    """Check that `mode` is one of `MODES`, and that `separators` are given for splices alone."""
    if mode not in MODES:
        raise InputError(f"unknown mode {mode!r:.40}", cure=f"use one of {', '.join(MODES)}")
    if mode == "record" and separators is not None:
        raise InputError(
            "records of their own have no separators",
            cure="leave separators (--separators) out, or splice (--mode splice)",
            where="separators",
        )


def check_separators(separators: Sequence[str] | None, default: tuple[str, str]) -> tuple[str, str]:
    """The separators before and after, neither of them empty."""
    if separators is None:
        return default
    found = tuple(separators)
    if len(found) != 2 or not all(isinstance(part, str) and part for part in found):
        raise InputError(
            "separators are two texts, one before and one after the canary, neither empty",
            cure='give a pair such as ("\\n", " ")',
        )
    return found[0], found[1]


def boundaries(text: str) -> list[int]:
    """Where a sentence may be put in: the start, after each sentence, the end."""
    return sorted({0, *(match.end() for match in _END.finditer(text)), len(text)})


def hostable(slots: Sequence[Slot], shape: Shape, *, special: bool) -> bool:
    """Whether a canary can be spliced into a record: its columns hold text.

    `special`: the canary needs quotes.
    """
    if special and any(slot.bare for slot in slots):
        return False
    if len(slots) == 1 and not shape.chat and len(shape.names) == 1:  # nearly always
        return len(slots[0].path) == 1
    depth = 3 if shape.chat else 1
    fits = all(len(slot.path) == depth for slot in slots)
    return fits and len({slot.path[0] for slot in slots}) == len(shape.names)


class Remover:
    """Takes spliced canaries out of texts again."""

    def __init__(self, canaries: CanarySet, separators: tuple[str, str]) -> None:
        self._find = find_canaries(canaries, canaries.injected, *separators)
        self._left = find_canaries(canaries, canaries.injected)

    def edits(self, slots: Sequence[Slot]) -> list[Edit]:
        """Cuts that take every spliced canary out, from left to right."""
        found = []
        for slot in slots:
            free = 0
            for start, stop, _ in self._find(slot.text):
                if start >= free:
                    found.append(Edit(slot.path, start, stop, ""))
                    free = stop
        return found

    def touches(self, slots: Sequence[Slot]) -> bool:
        """Whether there is a canary in the slots, between separators or not."""
        return any(self._left(slot.text) for slot in slots)

    def check_clean(self, texts: Iterable[str]) -> None:
        """Refuse the texts of a stripped record with a canary in them, by a CorpusError."""
        for name in self._left.count(texts):
            raise CorpusError(
                f"still holds {name}, which stands neither alone nor between the separators",
                cure="name the separators with which it was spliced in",
            )


@dataclass(frozen=True)
class Splicer:
    """Puts canaries into records, so that they can be taken out again.

    `texts` are the injected canaries between separators; `find` finds canaries alone.
    """

    texts: tuple[str, ...] = field(repr=False)
    remover: Remover
    find: Finder
    shape: Shape
    guests: Guests = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, canaries: CanarySet, separators: tuple[str, str], shape: Shape) -> Splicer:
        """The splicer of all injected canaries of a set.

        An InputError if one would be part of a longer run of characters.
        """
        before, after = separators
        texts = tuple(before + canaries.text(canary) + after for canary in canaries.injected)
        copies = Copies(canaries)
        if any(copies.hits(text)[1] for text in texts):
            raise InputError(
                "a separator continues the letters or digits of a canary, which is no copy then",
                cure="take separators that end and begin with a space, a newline or a sign",
                where="separators",
            )
        remover = Remover(canaries, separators)
        return cls(texts, remover, find_canaries(canaries, canaries), shape)

    def __call__(
        self, position: Position, slots: list[Slot], record: Callable[[Position], Mapping[str, Any]]
    ) -> list[Edit]:
        """Insertions of the guests of a record, as `Edits.decide`.

        A CorpusError if they could not be told apart from the text around them.
        """
        guests, whole = self.guests[position], record(position)
        for _ in range(_TRIES):
            edits = self._try(slots, whole, guests)
            if self._clean(slots, edits, len(guests)):
                return edits
            guests = [(who, (draw + _GOLDEN) % 1.0) for who, draw in guests]
        raise CorpusError(
            "a canary between these separators cannot be told apart from the text around it",
            cure="use other separators, or begin and end the formats with fixed text",
        )

    def _try(
        self, slots: Sequence[Slot], record: Mapping[str, Any], guests: Sequence[tuple[int, float]]
    ) -> list[Edit]:
        edits = []
        for who, draw in guests:
            for name in self.shape.names:
                mine = [slot for slot in slots if slot.path[0] == name]
                if self.shape.chat:
                    mine = [s for s in mine if _role(record, s) == "assistant"] or mine
                at = draw * len(mine)
                slot = mine[int(at)]
                places = boundaries(slot.text)
                place = places[int((at - int(at)) * len(places))]
                edits.append(Edit(slot.path, place, place, self.texts[who]))
        return edits

    def _clean(self, slots: Sequence[Slot], edits: Sequence[Edit], guests: int) -> bool:
        """Whether the copies, and no others, are found, and cutting them restores the text."""
        copies = 0
        for slot in slots:
            mine = [edit for edit in edits if edit.path == slot.path]
            if not mine:
                continue
            text = edit_text(slot.text, mine)
            copies += len(self.find(text))
            if edit_text(text, self.remover.edits([Slot(slot.path, text)])) != slot.text:
                return False
        return copies == guests * len(self.shape.names)


def _role(record: Mapping[str, Any], slot: Slot) -> object:
    return record[str(slot.path[0])][slot.path[1]]["role"]
