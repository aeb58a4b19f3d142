"""Canaries within documents: at the boundary of a sentence, between separators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Edit, Shape, Slot, edit_text
from canary.corpus.corpora import Position
from canary.corpus.occurrences import Copies, Finder, find_canaries
from canary.corpus.places import Guests
from canary.errors import CorpusError, InputError

# The end of a sentence with its closing quotes and the space after it, or of a line.
_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*\s|[。！？]|\n)\s*")  # noqa: RUF001

_TRIES = 16
_GOLDEN = 0.6180339887498949


def check_mode(mode: str, separators: Sequence[str] | None) -> None:
    """Refuse an unknown mode, and separators for records of their own."""
    if mode not in ("record", "splice"):
        raise InputError(f"unknown mode {mode!r:.40}", cure="use one of record, splice")
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
    parts = tuple(separators)
    if len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise InputError(
            "separators are two texts, one before and one after the canary, neither empty",
            cure='give a pair such as ("\\n", " ")',
        )
    return parts[0], parts[1]


def hostable(slots: Sequence[Slot], shape: Shape, *, special: bool) -> bool:
    """Whether a canary can be spliced into a record: its columns hold text.

    `special`: the canary needs quotes.
    """
    if special and any(slot.bare for slot in slots):
        return False
    depth = 3 if shape.chat else 1
    if len(slots) == 1 == len(shape.names):  # nearly always
        return len(slots[0].path) == depth
    fits = all(len(slot.path) == depth for slot in slots)
    return fits and len({slot.path[0] for slot in slots}) == len(shape.names)


class Remover:
    """Takes spliced canaries out of texts again."""

    def __init__(self, canaries: CanarySet, separators: tuple[str, str]) -> None:
        self._between = find_canaries(canaries, canaries.injected, *separators)
        self._anywhere = find_canaries(canaries, canaries.injected)

    def edits(self, slots: Sequence[Slot]) -> list[Edit]:
        """Cuts that take every spliced canary out, from left to right."""
        cuts = []
        for slot in slots:
            free = 0
            for start, stop, _ in self._between(slot.text):
                if start >= free:
                    cuts.append(Edit(slot.path, start, stop, ""))
                    free = stop
        return cuts

    def touches(self, slots: Sequence[Slot]) -> bool:
        """Whether there is a canary in the slots, between separators or not."""
        return any(self._anywhere(slot.text) for slot in slots)

    def check_clean(self, texts: Iterable[str]) -> None:
        """Refuse the texts of a stripped record with a canary in them, by a CorpusError."""
        for name in self._anywhere.count(texts):
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
        guests = self.guests[position]
        hosts = {n: [slot for slot in slots if slot.path[0] == n] for n in self.shape.names}
        if self.shape.chat:
            whole = record(position)
            for name, mine in hosts.items():
                answers = [s for s in mine if whole[name][s.path[1]]["role"] == "assistant"]
                hosts[name] = answers or mine
        for _ in range(_TRIES):
            edits = [
                self._insertion(who, draw, mine) for who, draw in guests for mine in hosts.values()
            ]
            if self._clean(slots, edits, len(guests)):
                return edits
            guests = [(who, (draw + _GOLDEN) % 1.0) for who, draw in guests]
        raise CorpusError(
            "a canary between these separators cannot be told apart from the text around it",
            cure="use other separators, or begin and end the formats with fixed text",
        )

    def _insertion(self, who: int, draw: float, slots: Sequence[Slot]) -> Edit:
        """A canary at a boundary of one of the slots: the start, after a sentence, the end."""
        drawn = draw * len(slots)
        slot = slots[int(drawn)]
        ends = (match.end() for match in _END.finditer(slot.text))
        boundaries = sorted({0, *ends, len(slot.text)})
        place = boundaries[int((drawn - int(drawn)) * len(boundaries))]
        return Edit(slot.path, place, place, self.texts[who])

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
