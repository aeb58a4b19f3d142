"""Canaries within documents: at the boundary of a sentence, between separators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Edit, Shape, Slot, edit_text
from canary.corpus.occurrences import Finder, find_canaries
from canary.corpus.surroundings import Copies
from canary.errors import CorpusError, InputError
from canary.records.validation import whole_number

__all__ = [
    "MODES",
    "SEPARATORS",
    "Remover",
    "Splicer",
    "allot",
    "boundaries",
    "check_clean",
    "check_mode",
    "check_separators",
    "hostable",
]

MODES = ("record", "splice")

SEPARATORS = ("\n", " ")
"""What stands before and after a spliced canary, unless a format of files allows no newline.

A newline before keeps the canary's first token what it is at the start of a text; a
space after does not join a full stop, as a newline does in some tokenizers.
"""

# Neither the fills' nor the places' stream of the same seed.
_STREAM = int.from_bytes(b"splices", "big")

# The end of a sentence with its closing quotes and the space after it, or of a line.
_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*\s|[。！？]|\n)\s*")  # noqa: RUF001

_TRIES = 16
_GOLDEN = 0.6180339887498949


def check_mode(mode: str, separators: Sequence[str] | None = None) -> None:
    """Check that `mode` is one of `MODES`, and that `separators` are given for splices alone."""
    if mode not in MODES:
        raise InputError(f"unknown mode {mode!r:.40}", cure=f"use one of {', '.join(MODES)}")
    if mode == "record" and separators is not None:
        raise InputError(
            "records of their own have no separators",
            cure="leave separators (--separators) out, or splice (--mode splice)",
            where="separators",
        )


def check_separators(
    separators: Sequence[str] | None, default: tuple[str, str] = SEPARATORS
) -> tuple[str, str]:
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


def hostable(slots: Sequence[Slot], shape: Shape) -> bool:
    """Whether a canary can be spliced into a record: its columns hold text."""
    if len(slots) == len(shape.names) == 1 and not shape.chat:  # nearly always
        return len(slots[0].path) == 1
    depth = 3 if shape.chat else 1
    fits = all(len(slot.path) == depth for slot in slots)
    return fits and len({slot.path[0] for slot in slots}) == len(shape.names)


def check_clean(slots: Sequence[Slot], find: Finder, where: str = "") -> None:
    """Check that no canary is left in the slots of a record that was stripped.

    Raises
    ------
    CorpusError
        If one is: it stands in a text, but not between the separators.
    """
    for name in find.count(slot.text for slot in slots):
        raise CorpusError(
            f"still holds {name}, which stands neither alone nor between the separators",
            cure="name the separators with which it was spliced in",
            where=where,
        )


class Remover:
    """Takes spliced canaries out of texts again.

    Parameters
    ----------
    canaries : CanarySet
    separators : (str, str)
        What stands before and after each of them.
    """

    def __init__(self, canaries: CanarySet, separators: tuple[str, str]) -> None:
        self._find = find_canaries(canaries, canaries.injected, *separators)

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


@dataclass(frozen=True)
class Splicer:
    """Puts canaries into records, so that they can be taken out again.

    Parameters
    ----------
    texts : tuple of str
        The candidates of the injected canaries, between separators.
    remover : Remover
    find : Finder
        Of all candidates, without separators.
    shape : Shape
    """

    texts: tuple[str, ...] = field(repr=False)
    remover: Remover
    find: Finder
    shape: Shape

    @classmethod
    def of(cls, canaries: CanarySet, separators: tuple[str, str], shape: Shape) -> Splicer:
        """The splicer of all injected canaries of a set.

        Raises
        ------
        InputError
            If a canary between the separators would be part of a longer run of characters.
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
        return cls(
            texts=texts,
            remover=Remover(canaries, separators),
            find=find_canaries(canaries, canaries),
            shape=shape,
        )

    def edits(
        self,
        slots: Sequence[Slot],
        record: Mapping[str, Any],
        guests: Sequence[tuple[int, float]],
        where: str = "",
    ) -> list[Edit]:
        """Insertions of some canaries into one record.

        Parameters
        ----------
        slots : sequence of Slot
        record : mapping
        guests : sequence of (int, float)
            Which canary, and a number in [0, 1) that decides where it goes.
        where : str
            The record, for an error.

        Raises
        ------
        CorpusError
            If there is no place from which they could be told apart from the text
            around them.
        """
        for _ in range(_TRIES):
            edits = self._try(slots, record, guests)
            if self._clean(slots, edits, len(guests)):
                return edits
            guests = [(who, (draw + _GOLDEN) % 1.0) for who, draw in guests]
        raise CorpusError(
            "a canary between these separators cannot be told apart from the text around it",
            cure="use other separators, or begin and end the formats with fixed text",
            where=where,
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


def allot(
    hosts: int, copies: Sequence[int], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Which host takes each copy (ascending), whose copy it is, and a draw for its place.

    Hosts are drawn without replacement as long as they suffice; with more copies than
    hosts, each host takes as many as any other, give or take one.

    Parameters
    ----------
    hosts : int
        Records that can take a copy, at least 1.
    copies : sequence of int
        Copies of each canary.
    seed : int
    """
    seed = whole_number(seed, "inject: seed", at_least=0)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    owners = rng.permutation(np.repeat(np.arange(len(copies)), np.array(copies, np.int64)))
    rounds, rest = divmod(len(owners), hosts)
    chosen = np.concatenate(
        [np.tile(np.arange(hosts), rounds), rng.choice(hosts, rest, replace=False, shuffle=False)]
    ).astype(np.int64)
    return np.sort(chosen), owners, rng.random(len(owners))
