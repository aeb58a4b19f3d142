"""Nondeterministic automata over characters: what a format's holes are built of.

A kind of hole adds its states behind a given one and returns the state in which it
ends, so that a format is the concatenation of its pieces. Ambiguity is allowed here and
resolved by `canary.formats.automaton.determinize`.
"""

from __future__ import annotations

from collections.abc import Sequence

from canary.errors import FormatError

__all__ = ["MAX_EDGES", "Nfa", "too_large"]

MAX_EDGES = 500_000
"""Edges that a format may need: format strings are untrusted, memory is not endless."""


class Nfa:
    """An acyclic automaton under construction; state 0 is the start.

    Every edge leads to a state that is added with it, so a target is always greater
    than its source and there can be no cycle.

    Attributes
    ----------
    edges : list of list of (str, int)
        Of each state: the characters that may be read, and the state they lead to.
    skips : list of list of int
        Of each state: the states that are reached without reading.
    longest : list of int
        Of each state: the characters of the longest text that leads to it.
    """

    def __init__(self) -> None:
        self.edges: list[list[tuple[str, int]]] = [[]]
        self.skips: list[list[int]] = [[]]
        self.longest = [0]
        self._used = 0

    def step(self, source: int, chars: str) -> int:
        """Add the state that is reached from `source` by any one of `chars`.

        Raises
        ------
        FormatError
            If the automaton has more than `MAX_EDGES` edges.
        """
        self._used += len(chars)
        if self._used > MAX_EDGES:
            raise too_large()
        target = self._add(self.longest[source] + 1)
        self.edges[source].append((chars, target))
        return target

    def literal(self, source: int, text: str) -> int:
        """Add the states that spell `text` after `source`, and return the last."""
        for char in text:
            source = self.step(source, char)
        return source

    def join(self, sources: Sequence[int]) -> int:
        """Add one state in which all `sources` end without reading further."""
        target = self._add(max(self.longest[source] for source in sources))
        for source in sources:
            self.skips[source].append(target)
        return target

    def _add(self, longest: int) -> int:
        self.edges.append([])
        self.skips.append([])
        self.longest.append(longest)
        return len(self.edges) - 1


def too_large() -> FormatError:
    """The error for an automaton beyond `MAX_EDGES`."""
    return FormatError(
        f"the format needs an automaton of more than {MAX_EDGES:,} edges",
        cure="use shorter holes or fewer alternatives ({digit:9} alone holds 10^9 secrets)",
    )
