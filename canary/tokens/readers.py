"""What the leaves of a tree say: token sequences back to fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from canary.formats.format import Format
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.textgraph import TextGraph

__all__ = ["CharacterReader", "GraphReader", "ListReader"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ListReader:
    """The fills of an explicit tree, in the order of its leaves."""

    listed: tuple[str, ...] = field(repr=False)

    def fills(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[str | None]:
        """See `canary.tokens.arrays.Reader`."""
        return [self.listed[number] for number in numbers.tolist()]

    def texts(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[tuple[str, ...]]:
        """See `canary.tokens.arrays.Reader`."""
        return [(self.listed[number],) for number in numbers.tolist()]


@dataclass(frozen=True, eq=False)
class CharacterReader:
    """Fills whose characters are one token each, between `before` and `after` others."""

    characters: Mapping[int, str]
    before: int
    after: int

    def fills(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[str | None]:
        """See `canary.tokens.arrays.Reader`."""
        return [text for (text,) in self.texts(rows, numbers)]

    def texts(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[tuple[str, ...]]:
        """See `canary.tokens.arrays.Reader`."""
        return [
            ("".join(self.characters[t] for t in row[self.before : len(row) - self.after]),)
            for row in rows
        ]


@dataclass(frozen=True, eq=False)
class GraphReader:
    """Fills read along the graph of the texts.

    Parameters
    ----------
    graph : TextGraph
    symbols : mapping of int to symbol tuples
        What each token stands for.
    format : Format
    encoder : CandidateEncoder
    head : str
        What comes before the texts of the graph.
    before, after : int
        Tokens before and after those texts.
    canonical : bool
        Whether all leaves are known to be canonical; if not, fills are encoded again.
    """

    graph: TextGraph
    symbols: Mapping[int, tuple[str, ...]]
    format: Format
    encoder: CandidateEncoder
    head: str
    before: int
    after: int
    canonical: bool

    def fills(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[str | None]:
        """See `canary.tokens.arrays.Reader`."""
        texts = self.texts(rows, numbers)
        spelled = [(number, fill) for number, fills in enumerate(texts) for fill in fills]
        found: list[str | None] = [None] * len(rows)
        if self.canonical and len(spelled) == len(rows):
            for number, fill in spelled:
                found[number] = fill
            return found
        encoded = self.encoder.encode([self.format.candidate(fill) for _, fill in spelled])
        for (number, fill), encoding in zip(spelled, encoded, strict=True):
            if encoding.ids == tuple(rows[number]):
                found[number] = fill
        return found

    def texts(self, rows: Sequence[Sequence[int]], numbers: Ints) -> list[tuple[str, ...]]:
        """See `canary.tokens.arrays.Reader`."""
        start, found = len(self.encoder.context) + len(self.format.prefix), []
        suffix = len(self.format.suffix)
        for row in rows:
            inner = row[self.before : len(row) - self.after]
            symbols = [symbol for token in inner for symbol in self.symbols[token]]
            found.append(
                tuple(
                    text[start : len(text) - suffix]
                    for text in (self.head + rest for rest in self.graph.spell(symbols))
                )
            )
        return found
