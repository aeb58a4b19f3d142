"""Edits of the text of a suffix: Levenshtein's automaton over bytes, moved by whole tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from canary.passages.edits import Moves, misses

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_CLOSE = 1
"""Edits beyond the fewest so far up to which a token is looked at before it is drawn."""


class Vocabulary:
    """What tokens write: a trie of their bytes, which are None of those that write no text.

    Tokens that write nothing end a text, as special tokens do.
    """

    def __init__(self, written: Sequence[bytes | None]) -> None:
        lengths = np.array([len(each or b"") for each in written], np.int64)
        self.lengths, self.empty = lengths, np.flatnonzero(lengths == 0)
        self.table = np.zeros((len(written), max(int(lengths.max(initial=0)), 1)), np.int64)
        places: dict[bytes, int] = {b"": 0}
        above, last = [-1], [0]
        ends = list[tuple[int, int]]()
        for token in np.argsort(lengths, kind="stable").tolist():
            each = written[token] or b""
            self.table[token, : len(each)] = list(each)
            node = 0
            for stop in range(1, len(each) + 1):
                begin = each[:stop]
                below = places.get(begin)
                if below is None:
                    below = places[begin] = len(above)
                    above.append(node)
                    last.append(each[stop - 1])
                node = below
            if each:
                ends.append((node, token))
        self.below = _grouped(np.array(above[1:], np.int64), np.arange(1, len(above)), len(above))
        at, tokens = np.array(ends, np.int64).reshape(-1, 2).T
        self.ending = _grouped(at, tokens, len(above))
        self.last = np.array(last, np.int64)


def _grouped(keys: Ints, values: Ints, size: int) -> tuple[Ints, Ints]:
    """Where the values of each key begin, of shape (size + 1,), and the values in that order."""
    begins = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))])
    return begins, values[np.argsort(keys, kind="stable")]


def _spread(groups: tuple[Ints, Ints], keys: Ints) -> tuple[Ints, Ints]:
    """All values of some keys, and the position among the keys that each belongs to."""
    begins, values = groups
    counts = begins[keys + 1] - begins[keys]
    of = np.repeat(np.arange(len(keys)), counts)
    inside = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return values[begins[keys][of] + inside], of


@dataclass(frozen=True, eq=False)
class TextAutomaton:
    """Whether the text of a sample begins with one that is near that of a suffix.

    Of the table of edit distances a row has the places within `edits` of the bytes that were
    written, then that number of bytes, and last whether the text so far has such a beginning.

    Parameters
    ----------
    suffix : int32 array of shape (m,)
    edits : int
        Insertions, deletions and substitutions of bytes; fewer than the suffix has.
    vocabulary : Vocabulary
    """

    suffix: NDArray[np.int32]
    edits: int
    vocabulary: Vocabulary

    @property
    def levels(self) -> int:
        """Tokens of a sample."""
        return len(self.suffix) + self.edits

    @cached_property
    def text(self) -> Ints:
        """The bytes of the suffix."""
        table, lengths = self.vocabulary.table, self.vocabulary.lengths
        return np.concatenate([table[token, : lengths[token]] for token in self.suffix])

    @property
    def start(self) -> Ints:
        """The row before the first token."""
        band = np.arange(-self.edits, self.edits + 1)
        row = np.where(band < 0, self.edits + 1, band)
        return np.concatenate([row, [0, 0]])[None]

    def after(self, rows: Ints, written: Ints) -> Ints:
        """The rows after one more byte each."""
        far, length = self.edits + 1, len(self.text)
        band = np.arange(2 * self.edits + 1)
        done = rows[:, -2] + 1
        place = done[:, None] - self.edits + band
        there = (place >= 0) & (place <= length)
        other = self.text[np.clip(place - 1, 0, length - 1)] != written[:, None]
        new = rows[:, :-2] + (other | (place < 1)) * np.where(place < 1, far, 1)
        new[:, :-1] = np.minimum(new[:, :-1], rows[:, 1:-2] + 1)
        new = np.where(place >= 0, new, far)
        new = np.minimum.accumulate(new - band, axis=1) + band
        new = np.where(there, np.minimum(new, far), far)
        near = rows[:, -1] | ((place == length) & (new <= self.edits)).any(axis=1)
        return np.column_stack([new, done, near])

    def least(self, rows: Ints, done: int) -> Ints:
        """Fewest edits that a sample can end with after `done` tokens."""
        fewest: Ints = rows[:, :-2].min(axis=1)
        late = done >= self.levels
        return np.where(rows[:, -1] > 0, 0, self.edits + 1 if late else fewest)

    def near(self, rows: Ints, done: int) -> Bools:
        """Whether all samples below are near."""
        found: Bools = rows[:, -1] > 0
        return found

    def entered(self, rows: Ints, tokens: Ints, after: Ints) -> Ints:
        """The rows after these tokens, which were not looked at before."""
        new, lengths = rows.copy(), self.vocabulary.lengths[tokens]
        for at in range(int(lengths.max(initial=0))):
            more = lengths > at
            new[more] = self.after(new[more], self.vocabulary.table[tokens[more], at])
        new[lengths == 0, :-2] = self.edits + 1
        return new

    def moves(self, rows: Ints, done: int) -> Moves:
        """What follows: the tokens that leave a text near, and of each node all others together."""
        size = len(rows)
        most = np.minimum(rows[:, :-2].min(axis=1) + _CLOSE, self.edits)
        of, nodes, here = np.arange(size), np.zeros(size, np.int64), rows
        empty = np.tile(self.vocabulary.empty, size)  # after these nothing is near
        at = np.repeat(of, len(self.vocabulary.empty))
        found = [(at, empty, self.entered(rows[at], empty, rows[at]))]
        while len(of):
            below, at = _spread(self.vocabulary.below, nodes)
            here = self.after(here[at], self.vocabulary.last[below])
            keep = (here[:, -1] > 0) | (here[:, :-2].min(axis=1) <= most[of[at]])
            of, nodes, here = of[at][keep], below[keep], here[keep]
            tokens, at = _spread(self.vocabulary.ending, nodes)
            found.append((of[at], tokens, here[at]))
        above, tokens, after = map(np.concatenate, zip(*found, strict=True))
        # Each of the others has more than `most` edits at some place of its text, and so later.
        rest = np.where(most < self.edits, most + 1, self.edits + 1)
        rest = np.full(size, self.edits + 1) if done >= self.levels else rest
        return Moves(
            above=np.concatenate([above, np.arange(size)]),
            choices=np.concatenate([tokens, np.full(size, -1)]),
            rows=np.concatenate([after, rows]),
            least=np.concatenate([self.least(after, done), rest]),
            near=np.concatenate([self.near(after, done), np.zeros(size, np.bool_)]),
        )

    def guide(self, log_probs: Floats) -> Floats:
        """The chance of at most r misses from each byte of the suffix on, (bytes + 1, edits + 1).

        A miss is taken to cost one edit, which is little. Within a token it is as at its end.
        """
        lengths = self.vocabulary.lengths[self.suffix]
        begins = np.concatenate([[0], np.cumsum(lengths)])
        places = np.searchsorted(begins, np.arange(len(self.text) + 1))
        return misses(log_probs, self.edits)[places]

    def guess(self, guide: Floats, moves: Moves, done: int) -> Floats:
        """The chance of no more misses than are left, from the best place of the text on.

        Tokens that were not looked at write a byte or more, and so end a place further at least.
        """
        band, drawn = moves.rows[:, :-2], moves.choices < 0
        first = moves.rows[:, -2] - self.edits + drawn
        at = np.clip(first[:, None] + np.arange(band.shape[1]), 0, len(self.text))
        left = self.edits - np.maximum(band, moves.least[:, None])
        found: Floats = np.where(left >= 0, guide[at, left], 0.0).max(axis=1)
        return found
