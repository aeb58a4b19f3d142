"""Edits of the tokens of a suffix: Levenshtein's automaton, and what a walk asks of one."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Moves(NamedTuple):
    """What may follow the nodes of a level: tokens that are looked at, and all others together.

    Positions of the nodes above, tokens (-1 for all others of a node), the rows after them, the
    fewest edits that a sample can end with, and whether all samples below are near.
    """

    above: Ints
    choices: Ints
    rows: Ints
    least: Ints
    near: Bools

    def chosen(self, which: Bools) -> Moves:
        """Some of them."""
        return Moves(
            self.above[which],
            self.choices[which],
            self.rows[which],
            self.least[which],
            self.near[which],
        )


class Edits(Protocol):
    """An automaton that counts edits: rows of its table are the states, `start` the first."""

    @property
    def suffix(self) -> NDArray[np.int32]:
        """The tokens of the suffix."""
        ...

    @property
    def levels(self) -> int:
        """Tokens of a sample."""
        ...

    @property
    def edits(self) -> int:
        """How many a near sample has at most."""
        ...

    @property
    def start(self) -> Ints:
        """The row before the first token, of shape (1, n)."""
        ...

    def moves(self, rows: Ints, done: int) -> Moves:
        """What follows the rows; `done` counts its tokens."""
        ...

    def entered(self, rows: Ints, tokens: Ints, after: Ints) -> Ints:
        """Rows after tokens that were not looked at; `after` is that of all of these together."""
        ...

    def least(self, rows: Ints, done: int) -> Ints:
        """Fewest edits that a sample can end with after `done` tokens."""
        ...

    def near(self, rows: Ints, done: int) -> Bools:
        """Whether all samples below are near."""
        ...

    def guide(self, log_probs: Floats) -> Floats:
        """What `guess` looks up."""
        ...

    def guess(self, guide: Floats, moves: Moves, done: int) -> Floats:
        """About the chance that a sample below is near."""
        ...


class TokenAutomaton:
    """Levenshtein's automaton of a suffix, for samples of its length."""

    def __init__(self, suffix: NDArray[np.int32], edits: int) -> None:
        self.suffix, self.edits, self.levels = suffix, edits, len(suffix)
        self.places = np.arange(len(suffix) + 1)
        self.start = np.minimum(self.places, edits + 1)[None]

    def after(self, rows: Ints, matches: Bools) -> Ints:
        """The rows after one more token; `matches` says of which tokens of the suffix it is one."""
        best = np.minimum(rows[:, :-1] + ~matches, rows[:, 1:] + 1)
        new = np.column_stack([rows[:, :1] + 1, best]) - self.places
        return np.minimum(np.minimum.accumulate(new, axis=1) + self.places, self.edits + 1)

    def least(self, rows: Ints, done: int) -> Ints:
        """Fewest edits that a sample can end with after `done` tokens."""
        fewest: Ints = (rows + np.abs(self.places - done)).min(axis=1)
        return fewest

    def near(self, rows: Ints, done: int) -> Bools:
        """Whether all samples below are near: the most edits that one can end with are allowed."""
        left = len(self.suffix) - np.minimum(self.places, done)
        whole: Bools = (rows + left).min(axis=1) <= self.edits
        return whole

    def moves(self, rows: Ints, done: int) -> Moves:
        """What follows: tokens that match one of the suffix nearby, and all others together."""
        nodes, places = np.nonzero(rows[:, :-1] <= self.edits)
        pairs = np.unique(np.column_stack([nodes, self.suffix[places]]), axis=0)
        nodes, tokens = pairs[:, 0], pairs[:, 1]
        above = np.concatenate([nodes, np.arange(len(rows))])
        matches = np.zeros((len(above), len(self.suffix)), np.bool_)
        matches[: len(nodes)] = self.suffix == tokens[:, None]
        after = self.after(rows[above], matches)
        choices = np.concatenate([tokens, np.full(len(rows), -1)])
        return Moves(above, choices, after, self.least(after, done), self.near(after, done))

    def entered(self, rows: Ints, tokens: Ints, after: Ints) -> Ints:
        """The rows after tokens that match nothing, which they have in common."""
        return after

    def guide(self, log_probs: Floats) -> Floats:
        """The chance of at most r misses from each place on, of shape (m + 1, edits + 1)."""
        return misses(log_probs, self.edits)

    def guess(self, guide: Floats, moves: Moves, done: int) -> Floats:
        """The chance of no more misses than are left."""
        found: Floats = guide[done, np.maximum(self.edits - moves.least, 0)]
        return found


def misses(log_probs: Floats, edits: int) -> Floats:
    """The chance of at most r misses from each of m tokens on, of shape (m + 1, edits + 1)."""
    table = np.ones((len(log_probs) + 1, edits + 1))
    for at in range(len(log_probs) - 1, -1, -1):
        hit = math.exp(min(log_probs[at], 0.0))
        table[at] = hit * table[at + 1]
        table[at, 1:] += (1.0 - hit) * table[at + 1, :-1]
    return table
