"""Deterministic, acyclic automata over characters, with exact path counts.

From the counts follow, in exact integers, the size of the space, the text at an index
and the index of a text. Texts are ordered as Python orders strings: a text before its
extensions, then by code point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from canary.errors import FormatError
from canary.formats.nfa import MAX_EDGES, Nfa, too_large

__all__ = ["MAX_BITS", "Automaton", "determinize"]

MAX_BITS = 4096
"""log2 of the largest space: counts stay cheap, and can be written in decimal."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """The minimal deterministic automaton of a finite set of texts; state 0 is the start.

    From every state a final one can be reached, and edges lead to greater states, so
    one backward pass over the states sees all targets before their sources.

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
        """Whether no text is a proper prefix of another.

        Exact: every state leads to a final one, so a final state with an edge is a text
        with an extension, and there is no other way to have one.
        """
        return not np.any(self.final & (np.diff(self.offsets) > 0))

    def unrank(self, index: int) -> str:
        """The text at `index`, which must lie in ``0 .. size - 1``."""
        rows, final = self._rows, self._final
        chars: list[str] = []
        state = 0
        while True:
            if final[state]:
                if index == 0:
                    return "".join(chars)
                index -= 1
            for char, target, count in rows[state]:
                if index < count:
                    chars.append(char)
                    state = target
                    break
                index -= count

    def index(self, text: str) -> int | None:
        """The index of `text`, or None if it is not among the texts."""
        rows, final = self._rows, self._final
        state = index = 0
        for wanted in text:
            index += final[state]
            for char, target, count in rows[state]:
                if char == wanted:
                    state = target
                    break
                index += count
            else:
                return None
        return index if final[state] else None

    def ends(self, text: str, start: int) -> Iterator[int]:
        """Where the texts that begin at `text[start]` end, from the shortest on."""
        rows, final = self._steps, self._final
        state: int | None = 0
        for at in range(start, len(text) + 1):
            if state is None:
                return
            if final[state]:
                yield at
            state = rows[state].get(text[at]) if at < len(text) else None

    def __iter__(self) -> Iterator[str]:
        """The texts in the order of their index."""
        pending = [("", 0)]
        while pending:
            text, state = pending.pop()
            if self._final[state]:
                yield text
            pending.extend((text + char, target) for char, target, _ in self._rows[state][::-1])

    # Plain lists: reading single elements of numpy arrays is several times slower.

    @cached_property
    def _rows(self) -> list[list[tuple[str, int, int]]]:
        targets, offsets = self.targets.tolist(), self.offsets.tolist()
        edges = [
            (char, target, self.counts[target])
            for char, target in zip(self.chars, targets, strict=True)
        ]
        return [edges[a:b] for a, b in pairwise(offsets)]

    @cached_property
    def _steps(self) -> list[dict[str, int]]:
        return [{char: target for char, target, _ in row} for row in self._rows]

    @cached_property
    def _final(self) -> list[bool]:
        final: list[bool] = self.final.tolist()
        return final


def determinize(nfa: Nfa, end: int) -> Automaton:
    """The minimal deterministic automaton of the texts that lead from state 0 to `end`.

    A text that `nfa` can read in several ways is one text here.

    Raises
    ------
    FormatError
        If it takes more than 2 · `MAX_EDGES` steps, if there are more than 2^`MAX_BITS`
        texts, or none.
    """
    moves = _subset_construction(nfa, end)
    # Merging equal states from the end backwards minimises an acyclic automaton. An edge
    # leads to a subset with a greater minimum, so this order sees targets first.
    states: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    counts: list[int] = []
    merged: dict[frozenset[int], int] = {}
    for subset in sorted(moves, key=min, reverse=True):
        edges = tuple((c, merged[t]) for c, t in sorted(moves[subset].items()) if t in merged)
        final = end in subset
        if not (final or edges):
            continue
        state = merged[subset] = states.setdefault((final, edges), len(states))
        if state == len(counts):
            counts.append(final + sum(counts[target] for _, target in edges))
            if counts[state].bit_length() > MAX_BITS:
                raise FormatError(
                    f"the format has more than 2^{MAX_BITS} fills",
                    cure="use shorter holes ({digit:9} alone holds 10^9 secrets)",
                )
    if not states:
        raise FormatError("the format has no fill at all", cure="give each hole a possible text")
    return _pack(states, counts)


def _subset_construction(nfa: Nfa, end: int) -> dict[frozenset[int], dict[str, frozenset[int]]]:
    """Which characters lead from which set of NFA states to which; the start included."""
    steps = 0
    start = _closure(nfa, end, {0})
    moves: dict[frozenset[int], dict[str, frozenset[int]]] = {}
    pending = [start]
    while pending:
        subset = pending.pop()
        if subset in moves:
            continue
        reached: dict[str, set[int]] = {}
        for state in subset:
            for chars, target in nfa.edges[state]:
                steps += len(chars)
                for char in chars:
                    reached.setdefault(char, set()).add(target)
        moves[subset] = {}
        for char, targets in reached.items():
            following = _closure(nfa, end, targets)
            steps += len(following)
            if following:
                moves[subset][char] = following
                pending.append(following)
        if steps > 2 * MAX_EDGES:
            raise too_large()
    return moves


def _closure(nfa: Nfa, end: int, states: set[int]) -> frozenset[int]:
    """`states` and what they reach without reading, as far as it matters what comes next."""
    found = set(states)
    pending = list(states)
    while pending:
        for target in nfa.skips[pending.pop()]:
            if target not in found:
                found.add(target)
                pending.append(target)
    return frozenset(state for state in found if nfa.edges[state] or state == end)


def _pack(
    states: dict[tuple[bool, tuple[tuple[str, int], ...]], int], counts: list[int]
) -> Automaton:
    """Arrays of states that were found backwards: the last becomes state 0."""
    last = len(states) - 1
    rows = list(states)[::-1]
    return Automaton(
        offsets=np.cumsum([0, *(len(edges) for _, edges in rows)], dtype=np.int64),
        chars=tuple(char for _, edges in rows for char, _ in edges),
        targets=np.array([last - t for _, edges in rows for _, t in edges], dtype=np.int32),
        final=np.array([final for final, _ in rows], dtype=np.bool_),
        counts=tuple(counts[::-1]),
    )
