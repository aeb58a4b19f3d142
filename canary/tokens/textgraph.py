"""The texts of an automaton as the model gets them: symbols, and where pieces begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from canary.tokens.pattern import OddTextError, UnknownRuleError
from canary.tokens.rules import Rules, cut_symbol
from canary.tokens.scanner import Scanner, State

Ints = NDArray[np.int64]
Edge = tuple[int, bool, int]  # a symbol, whether a piece begins with it, and a node

_MAX_EDGES = 1_000_000


@dataclass(frozen=True, eq=False)
class TextGraph:
    """Nodes between symbols; each text is one way from node 0 to a final node."""

    offsets: Ints  # node g has the edges offsets[g]:offsets[g + 1]
    symbols: Ints  # of each edge, numbers in `names`
    cuts: NDArray[np.bool_]  # whether a piece begins with the symbol
    targets: Ints
    final: NDArray[np.bool_]  # of each node
    levels: Ints  # most symbols before the node
    names: tuple[str, ...]
    _rules: Rules
    _scanner: Scanner

    @classmethod
    def of(cls, rules: Rules) -> TextGraph:
        """The graph of the texts for which the rules of a tokenizer were read.

        An UnknownRuleError is raised if it takes more than a million edges, or a character that is
        no space may leave nothing: such a text cannot be encoded.
        """
        texts, scanner = rules.texts, Scanner(rules.levels)
        numbers: dict[str, int] = {}
        places = {(0, scanner.start): 0}
        queue = [(0, scanner.start)]
        edges: list[list[Edge]] = [[]]  # of each node
        silent: list[list[int]] = [[]]  # nodes that it passes into without a symbol
        final = [False]
        dropping: list[int] = []  # nodes behind a character that left nothing
        total = 0

        def node() -> int:
            edges.append([])
            silent.append([])
            final.append(False)
            return len(edges) - 1

        def place(state: int, scanned: State) -> int:
            if (state, scanned) not in places:
                places[state, scanned] = node()
                queue.append((state, scanned))
            return places[state, scanned]

        for state, scanned in queue:  # grows while it is read
            here, cut = places[state, scanned], rules.cuts.get(state)
            if cut is not None:
                if scanner.ends(scanned):
                    symbol = numbers.setdefault(cut_symbol(cut.token), len(numbers))
                    edges[here].append((symbol, True, place(cut.stop, scanner.start)))
                continue
            final[here] = bool(texts.final[state]) and scanner.ends(scanned)
            for edge in range(int(texts.offsets[state]), int(texts.offsets[state + 1])):
                target = int(texts.targets[edge])
                for read, after in _read(rules, scanner, scanned, texts.chars[edge], state):
                    end = place(target, after)
                    if not read:
                        silent[here].append(end)
                        if not texts.chars[edge].isspace():
                            dropping.append(end)
                    source = here
                    for k, (name, begins) in enumerate(read, 1):
                        to = end if k == len(read) else node()
                        edges[source].append((numbers.setdefault(name, len(numbers)), begins, to))
                        source = to
                    total += len(read)
            if total > _MAX_EDGES:
                raise UnknownRuleError("texts whose graph takes over a million edges")
        alive = list(final)
        ways = [[*_targets(row), *more] for row, more in zip(edges, silent, strict=True)]
        for here in _backwards(ways):
            for to in silent[here]:
                edges[here].extend(edges[to])
                final[here] = final[here] or final[to]
            alive[here] = final[here] or any(alive[to] for to in _targets(edges[here]))
        if any(alive[here] for here in dropping):
            raise OddTextError("a character that it leaves out")
        return cls(*_packed(edges, final, alive), tuple(numbers), rules, scanner)

    @property
    def longest_piece(self) -> int:
        """Most symbols in a piece of some text; O(edges)."""
        offsets, cuts, targets = self.offsets.tolist(), self.cuts.tolist(), self.targets.tolist()
        length = [0] * len(self.final)  # of the piece that is being read
        longest = 0
        for here in range(len(length)):
            for edge in range(offsets[here], offsets[here + 1]):
                read = 1 if cuts[edge] else length[here] + 1
                length[targets[edge]] = max(length[targets[edge]], read)
                longest = max(longest, read)
        return longest

    def spell(self, symbols: Sequence[str]) -> Iterator[str]:
        """The texts that the model gets as these symbols; nearly always one."""
        texts, scanner, (state, begun, ways) = self._rules.texts, self._scanner, self._beginning
        pending = [
            (state, scanned, len(read), begun)
            for scanned, read in ways
            if tuple(symbols[: len(read)]) == read
        ]
        while pending:
            state, scanned, done, text = pending.pop()
            if cut := self._rules.cuts.get(state):
                if scanner.ends(scanned) and symbols[done : done + 1] == [cut_symbol(cut.token)]:
                    pending.append((cut.stop, scanner.start, done + 1, text + cut.text))
                continue
            if texts.final[state] and done == len(symbols) and scanner.ends(scanned):
                yield text
            for edge in range(int(texts.offsets[state]), int(texts.offsets[state + 1])):
                char = texts.chars[edge]
                for read, after in _read(self._rules, scanner, scanned, char, state):
                    end = done + len(read)
                    if tuple(symbols[done:end]) == tuple(symbol for symbol, _ in read):
                        pending.append((int(texts.targets[edge]), after, end, text + char))

    @cached_property
    def _beginning(self) -> tuple[int, str, list[tuple[State, tuple[str, ...]]]]:
        """What all texts begin with: the state after it, and how it may be read."""
        texts, state, text = self._rules.texts, 0, ""
        ways: list[tuple[State, tuple[str, ...]]] = [(self._scanner.start, ())]
        while (
            state not in self._rules.cuts
            and not texts.final[state]
            and texts.offsets[state + 1] - texts.offsets[state] == 1
        ):
            edge = int(texts.offsets[state])
            char = texts.chars[edge]
            ways = [
                (after, (*read, *(symbol for symbol, _ in more)))
                for scanned, read in ways
                for more, after in _read(self._rules, self._scanner, scanned, char, state)
            ]
            state, text = int(texts.targets[edge]), text + char
        return state, text, ways


def _packed(
    edges: list[list[Edge]], final: list[bool], alive: list[bool]
) -> tuple[Ints, Ints, NDArray[np.bool_], Ints, NDArray[np.bool_], Ints]:
    """Arrays of the nodes through which a text passes, sources before targets; see `TextGraph`."""
    kept = [here for here in _backwards([*map(_targets, edges)])[::-1] if alive[here]]
    number = {here: k for k, here in enumerate(kept)}
    rows = [
        [(symbol, cut, number[to]) for symbol, cut, to in dict.fromkeys(edges[here]) if alive[to]]
        for here in kept
    ]
    levels = [0] * len(kept)
    for here, row in enumerate(rows):
        for to in _targets(row):
            levels[to] = max(levels[to], levels[here] + 1)
    columns = list(zip(*(edge for row in rows for edge in row), strict=True)) or [(), (), ()]
    return (
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array(columns[0], np.int64),
        np.array(columns[1], np.bool_),
        np.array(columns[2], np.int64),
        np.array([final[here] for here in kept], np.bool_),
        np.array(levels, np.int64),
    )


def _read(
    rules: Rules, scanner: Scanner, state: State, char: str, at: int
) -> list[tuple[list[tuple[str, bool]], State]]:
    """What reading one character at a state gives the model: symbols, and the state after."""
    begins, first = at in rules.leads, at == 0 and not rules.head
    text = rules.leads.get(at, "") + rules.normalized[char]
    return [
        (
            [
                (symbol, cut and not k)
                for c, cut in read
                for k, symbol in enumerate(rules.symbols[c])
            ],
            after,
        )
        for read, after in scanner.read(state, text, begins=begins, first=first)
    ]


def _targets(edges: list[Edge]) -> list[int]:
    return [to for _, _, to in edges]


def _backwards(targets: list[list[int]]) -> list[int]:
    """The nodes that can be reached from node 0, targets before sources."""
    order: list[int] = []
    seen = {0}
    pending = [(0, iter(targets[0]))]
    while pending:
        here, rest = pending[-1]
        to = next((to for to in rest if to not in seen), None)
        if to is None:
            order.append(here)
            pending.pop()
        else:
            seen.add(to)
            pending.append((to, iter(targets[to])))
    return order
