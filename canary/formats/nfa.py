"""Nondeterministic automata over characters: where texts can be read in several ways.

Patterns are built here, and holes that cannot be told apart at their seam. The
ambiguity is resolved by `canary.formats.automaton.determinize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from canary.formats.limits import MAX_EDGES, Meter

if TYPE_CHECKING:
    from canary.formats.automaton import Automaton

__all__ = ["Nfa"]


class Nfa:
    """An acyclic automaton under construction; state 0 is the start.

    Every edge leads to a state that is added later than its source, so there can be no
    cycle.

    Attributes
    ----------
    edges : list of list of (str, int)
        Of each state: the characters that may be read, and the state they lead to.
    skips : list of list of int
        Of each state: the states that are reached without reading.
    """

    def __init__(self) -> None:
        self.edges: list[list[tuple[str, int]]] = [[]]
        self.skips: list[list[int]] = [[]]
        self._meter = Meter(MAX_EDGES)

    def step(self, source: int, chars: str) -> int:
        """Add the state that is reached from `source` by any one of `chars`.

        Raises
        ------
        FormatError
            If the automaton has more than `MAX_EDGES` edges.
        """
        self._meter.spend(max(1, len(chars)))
        target = self._add()
        self.edges[source].append((chars, target))
        return target

    def literal(self, source: int, text: str) -> int:
        """Add the states that spell `text` after `source`, and return the last."""
        for char in text:
            source = self.step(source, char)
        return source

    def join(self, sources: Sequence[int]) -> int:
        """Add one state in which all `sources` end without reading further."""
        self._meter.spend(len(sources))
        target = self._add()
        for source in sources:
            self.skips[source].append(target)
        return target

    def graft(self, source: int, automaton: Automaton) -> int:
        """Add a deterministic automaton after `source`, and return the state of its ends."""
        self._meter.spend(len(automaton.chars))
        base = len(self.edges)
        for _ in automaton.counts:
            self._add()
        self.skips[source].append(base)
        offsets, targets = automaton.offsets.tolist(), automaton.targets.tolist()
        for state in range(len(automaton.counts)):
            self.edges[base + state] = [
                (automaton.chars[edge], base + targets[edge])
                for edge in range(offsets[state], offsets[state + 1])
            ]
        return self.join([base + int(state) for state in automaton.final.nonzero()[0]])

    def _add(self) -> int:
        self.edges.append([])
        self.skips.append([])
        return len(self.edges) - 1
