"""Nondeterministic automata over characters: where texts can be read in several ways.

Patterns are built here, and holes that cannot be told apart at their seam. The
ambiguity is resolved by `determinize`.
"""

from __future__ import annotations

from collections.abc import Sequence

from canary.formats.automaton import Automaton, minimal
from canary.formats.limits import MAX_EDGES, Meter


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


def determinize(nfa: Nfa, end: int) -> Automaton:
    """The minimal deterministic automaton of the texts that lead from state 0 to `end`.

    A text that `nfa` can read in several ways is one text here.

    Raises
    ------
    FormatError
        If it takes more than a million steps, if there are more than 2^4096 texts, or none.
    """
    moves = _subset_construction(nfa, end)
    # An edge leads to a subset with a greater minimum, so this order sees targets first.
    return minimal(
        (subset, end in subset, moves[subset].items())
        for subset in sorted(moves, key=min, reverse=True)
    )


def _subset_construction(nfa: Nfa, end: int) -> dict[frozenset[int], dict[str, frozenset[int]]]:
    """Which characters lead from which set of NFA states to which; the start included."""
    meter = Meter()
    start = _closure(nfa, end, {0}, meter)
    moves: dict[frozenset[int], dict[str, frozenset[int]]] = {}
    pending = [start]
    while pending:
        subset = pending.pop()
        if subset in moves:
            continue
        reached: dict[str, set[int]] = {}
        for state in subset:
            for chars, target in nfa.edges[state]:
                meter.spend(len(chars))
                for char in chars:
                    reached.setdefault(char, set()).add(target)
        # Characters that lead to the same states need their closure once.
        closures: dict[frozenset[int], frozenset[int]] = {}
        moves[subset] = {}
        for char, targets in reached.items():
            key = frozenset(targets)
            if key not in closures:
                closures[key] = _closure(nfa, end, targets, meter)
            if closures[key]:
                moves[subset][char] = closures[key]
        pending.extend(filter(None, closures.values()))
    return moves


def _closure(nfa: Nfa, end: int, states: set[int], meter: Meter) -> frozenset[int]:
    """`states` and what they reach without reading, as far as it matters what comes next."""
    found = set(states)
    pending = list(states)
    while pending:
        for target in nfa.skips[pending.pop()]:
            if target not in found:
                found.add(target)
                pending.append(target)
    meter.spend(len(found))
    return frozenset(state for state in found if nfa.edges[state] or state == end)
