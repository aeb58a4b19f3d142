"""Deterministic, acyclic automata over characters, with exact path counts, and their limits.

From the counts follow, in exact integers, the size of the space, the text at an index
and the index of a text. Texts are ordered as Python orders strings: a text before its
extensions, then by code point.

A format may come from somebody else, so there is a limit to what it may ask for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from canary.errors import FormatError

_Row = tuple[bool, list[int], tuple[str, ...], list[int], dict[str, int]]
"""Whether a state is final, and of its edges: texts before, characters, targets, places."""

_FEW = 64  # texts that are read one by one faster than together
_CELLS = 2**22  # characters that are unranked together

MAX_EDGES = 500_000
"""Edges that a hole may need."""

MAX_ALL_EDGES = 8_000_000
"""Edges of a whole format: eight words of a list of 267,735 need some 3,000,000. They take some 50
bytes each."""

MAX_STEPS = 4_000_000
"""Steps of Python's that a whole format may take to be compiled: some seconds."""

MAX_BITS = 4096
"""log2 of the largest space: counts stay cheap, and can be written in decimal."""


def too_large(edges: int = MAX_EDGES) -> FormatError:
    """The error for an automaton of more than `edges`."""
    return FormatError(
        f"the format needs an automaton of more than {edges:,} edges",
        cure="use shorter holes, fewer alternatives or fewer words "
        "({digit:9} alone holds 10^9 secrets)",
    )


def check_size(size: int) -> None:
    """Refuse spaces of more than 2^`MAX_BITS` texts, by a FormatError."""
    if size.bit_length() > MAX_BITS:
        raise FormatError(
            f"the format has more than 2^{MAX_BITS} fills",
            cure="use shorter holes ({digit:9} alone holds 10^9 secrets)",
        )


class Meter:
    """Counts the steps of one piece of work, and of the format that it is a part of."""

    def __init__(self, limit: int = 2 * MAX_EDGES) -> None:
        self._left = limit
        self._whole = _whole.get()

    def spend(self, steps: int) -> None:
        """Count `steps`; a FormatError if there are too many, here or in the whole format."""
        self._left -= steps
        if self._left < 0:
            raise too_large()
        if self._whole is not None:
            self._whole.spend(steps)


_whole: ContextVar[Meter | None] = ContextVar("whole", default=None)


@contextmanager
def in_all(steps: int = MAX_STEPS) -> Iterator[None]:
    """What is built within may take so many steps in all."""
    token = _whole.set(Meter(steps))
    try:
        yield
    finally:
        _whole.reset(token)


@dataclass(frozen=True, eq=False)
class Automaton:
    """The minimal deterministic automaton of a finite set of texts; state 0 is the start.

    From every state a final one can be reached, and edges lead to greater states, so
    one backward pass over the states sees all targets before their sources. The last
    state is the one final state without edges.

    Parameters
    ----------
    offsets : int64 array of shape (states + 1,)
        The edges of state ``s`` are ``offsets[s]`` to ``offsets[s + 1] - 1``.
    chars : tuple of str, length edges
        What an edge reads; ascending within a state.
    targets : int32 array of shape (edges,)
        Where an edge leads.
    final : bool array of shape (states,)
        Whether a text may end in the state.
    counts : tuple of int, length states
        Exact number of texts that can be read from the state on.
    """

    offsets: NDArray[np.int64]
    chars: tuple[str, ...]
    targets: NDArray[np.int32]
    final: NDArray[np.bool_]
    counts: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of texts."""
        return self.counts[0]

    @cached_property
    def prefix_free(self) -> bool:
        """Whether no text is a proper prefix of another; decided exactly."""
        return self.prefix_free_before("")

    def prefix_free_before(self, suffix: str) -> bool:
        """Whether no text is a proper prefix of another once each is followed by `suffix`.

        Exact. Let ``a·s`` be a proper prefix of ``b·s``. Then ``b = a·w`` with ``w`` not
        empty, and ``s`` begins ``w·s``: either ``s`` begins ``w``, or ``w`` is the first p
        characters of ``s`` and p is a period of it. So it is enough to read ``s`` from
        every final state at once, and to look whether it can be read to its end, or a text
        ends after p characters of it.
        """
        states = np.flatnonzero(self.final & (np.diff(self.offsets) > 0))
        for p, char in enumerate(suffix, start=1):
            states = self.read(states, char)
            if not states.size:
                return True
            if suffix.startswith(suffix[p:]) and self.final[states].any():
                return False
        return not states.size

    @cached_property
    def longest(self) -> int:
        """Number of characters of the longest text."""
        length = [0] * len(self.counts)
        offsets, targets = self.offsets.tolist(), self.targets.tolist()
        for state in range(len(length) - 2, -1, -1):
            length[state] = 1 + max(length[t] for t in targets[offsets[state] : offsets[state + 1]])
        return length[0]

    def unrank(self, index: int) -> str:
        """The text at `index`, which must be in ``0 .. size - 1``."""
        chars: list[str] = []
        state = 0
        while True:
            final, starts, row, targets, _ = self._row(state)
            if index < final:
                return "".join(chars)
            edge = bisect_right(starts, index) - 1
            index -= starts[edge]
            chars.append(row[edge])
            state = targets[edge]

    def unrank_many(self, indices: Sequence[int]) -> list[str]:
        """The texts at `indices`, all at once where the space is smaller than 2^63."""
        # numpy drops trailing zeros from text.
        if len(indices) < _FEW or self.size >= 2**63 or "\0" in self.chars:
            return [self.unrank(index) for index in indices]
        numbers = np.array(indices, dtype=np.int64)
        step = max(1, _CELLS // max(1, self.longest))
        texts: list[str] = []
        for start in range(0, len(numbers), step):
            texts += self._unrank_block(numbers[start : start + step])
        return texts

    def index(self, text: str) -> int | None:
        """The index of `text`, or None if it is not among the texts."""
        path = self._path(text)
        # A final state counts its own text before those of its edges.
        return path[1] if path is not None and self.final[path[0]] else None

    def after(self, text: str) -> Automaton | None:
        """The automaton of what may follow `text`, or None if nothing begins so.

        It is minimal again: its states are states of this one.
        """
        path = self._path(text)
        if path is None:
            return None
        start, _ = path
        # Edges lead to greater states, so one pass sees every source before its targets.
        reached = np.zeros(len(self.counts), np.bool_)
        reached[start] = True
        for state in range(start, len(self.counts)):
            if reached[state]:
                reached[self.targets[self.offsets[state] : self.offsets[state + 1]]] = True
        states = np.flatnonzero(reached)
        numbers = np.cumsum(reached) - 1
        edges_of = np.repeat(reached, np.diff(self.offsets))
        degrees = np.diff(self.offsets)[states]
        return Automaton(
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]),
            chars=tuple(self.chars[i] for i in np.flatnonzero(edges_of)),
            targets=numbers[self.targets[edges_of]].astype(np.int32),
            final=self.final[states],
            counts=tuple(self.counts[state] for state in states),
        )

    def _path(self, text: str) -> tuple[int, int] | None:
        """The state that `text` leads to, and the number of texts that come before it."""
        state = before = 0
        for char in text:
            _, starts, _, targets, edges = self._row(state)
            edge = edges.get(char)
            if edge is None:
                return None
            before += starts[edge]
            state = targets[edge]
        return state, before

    def ends(self, text: str, start: int) -> Iterator[int]:
        """Where the texts that begin at `text[start]` end, from the shortest on."""
        state = 0
        for position in range(start, len(text) + 1):
            final, _, _, targets, edges = self._row(state)
            if final:
                yield position
            edge = edges.get(text[position : position + 1])
            if edge is None:
                return
            state = targets[edge]

    def occurs(self, part: str) -> bool:
        """Whether `part` occurs anywhere within some text."""
        states = np.arange(len(self.counts))
        for char in part:
            states = self.read(states, char)
        return bool(states.size)

    def read(self, states: NDArray[np.int64], char: str) -> NDArray[np.int64]:
        """The states that `char` leads to from any of `states`, each once."""
        inside = np.zeros(len(self.counts), dtype=np.bool_)
        inside[states] = True
        edges = (self.codes == ord(char)) & np.repeat(inside, np.diff(self.offsets))
        return np.unique(self.targets[edges]).astype(np.int64)

    def __iter__(self) -> Iterator[str]:
        """The texts in the order of their index."""
        pending = [("", 0)]
        while pending:
            text, state = pending.pop()
            final, _, row, targets, _ = self._row(state)
            if final:
                yield text
            pending.extend(
                (text + row[edge], targets[edge]) for edge in range(len(row) - 1, -1, -1)
            )

    def _unrank_block(self, rest: NDArray[np.int64]) -> list[str]:
        """The texts at the indices `rest`: one character of all of them at a time."""
        state = np.zeros(len(rest), dtype=np.int64)
        live = np.arange(len(rest))
        columns: list[NDArray[np.uint32]] = []
        halvings = int(np.diff(self.offsets).max(initial=1) - 1).bit_length()
        while True:
            live = live[(rest[live] > 0) | ~self.final[state[live]]]
            if not live.size:
                break
            here, index = state[live], rest[live]
            # The last edge whose texts begin at or before the index.
            low, high = self.offsets[here], self.offsets[here + 1]
            for _ in range(halvings):
                middle = (low + high) >> 1
                beyond = self._starts[middle] > index
                low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
            rest[live] -= self._starts[low]
            state[live] = self.targets[low]
            column = np.zeros(len(rest), dtype=np.uint32)
            column[live] = self.codes[low]
            columns.append(column)
        if not columns:
            return [""] * len(rest)
        texts: list[str] = np.stack(columns, axis=1).view(f"=U{len(columns)}")[:, 0].tolist()
        return texts

    @cached_property
    def codes(self) -> NDArray[np.uint32]:
        """What an edge reads, as a code point; shape (edges,)."""
        return np.fromiter(map(ord, self.chars), dtype=np.uint32, count=len(self.chars))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Of each edge: the texts of its state that come before its own; below 2^63."""
        counts = np.array(self.counts, dtype=np.uint64)[self.targets]
        # Sums over all edges may wrap around; differences within a state do not.
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(counts)])
        rows = np.repeat(np.arange(len(self.counts)), np.diff(self.offsets))
        starts: NDArray[np.int64] = (total[:-1] - total[self.offsets[rows]]).astype(np.int64)
        return starts + self.final[rows]

    def _row(self, state: int) -> _Row:
        """A state as plain lists: single elements of numpy arrays are several times slower."""
        row = self._rows.get(state)
        if row is None:
            begin, end = self.offsets[[state, state + 1]].tolist()
            chars, targets = self.chars[begin:end], self.targets[begin:end].tolist()
            final = bool(self.final[state])
            starts = list(
                accumulate((self.counts[target] for target in targets), initial=int(final))
            )
            edges = {char: edge for edge, char in enumerate(chars)}
            row = self._rows[state] = (final, starts, chars, targets, edges)
        return row

    @cached_property
    def _rows(self) -> dict[int, _Row]:
        """Of the states that were visited; those of all would take most of the memory."""
        return {}


def minimal(
    states: Iterable[tuple[Hashable, bool, Iterable[tuple[str, Hashable]]]],
) -> Automaton:
    """The minimal automaton of states (name, whether final, edges) that are given backwards.

    The targets of a state's edges, each a character and a name, come before it; the start
    comes last. Targets that were not given, or lead to no end, are left out. A FormatError if
    there are more than 2^4096 texts, or none.
    """
    # Merging equal states from the end backwards minimises an acyclic automaton.
    register: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    counts: list[int] = []
    merged: dict[Hashable, int] = {}
    start: int | None = None
    for name, final, edges in states:
        row = tuple(sorted((c, merged[t]) for c, t in edges if t in merged))
        start = None
        if not (final or row):
            continue
        start = merged[name] = register.setdefault((final, row), len(register))
        if start == len(counts):
            counts.append(final + sum(counts[target] for _, target in row))
            check_size(counts[start])
    if start is None:
        raise FormatError("the format has no fill at all", cure="give each hole a possible text")
    # The states were found backwards: the last becomes state 0.
    rows, last = list(register)[::-1], len(register) - 1
    return Automaton(
        offsets=np.cumsum([0, *(len(edges) for _, edges in rows)], dtype=np.int64),
        chars=tuple(char for _, edges in rows for char, _ in edges),
        targets=np.array([last - t for _, edges in rows for _, t in edges], dtype=np.int32),
        final=np.array([final for final, _ in rows], dtype=np.bool_),
        counts=tuple(counts[::-1]),
    )
