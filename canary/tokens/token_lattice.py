"""The texts of a graph, cut into tokens in every way that a machine allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.tokens.machine import NEVER, Machine, Table
from canary.tokens.pattern import UnknownRuleError
from canary.tokens.textgraph import TextGraph
from canary.tokens.token_graph import END, MAX_EDGES, MOST_PATHS, TokenGraph, graph_of, too_large

Ints = NDArray[np.int64]
Symbols = tuple[str, ...]

_BITS = 32  # of a key, for the state of the machine; the node stands above them
_ROOT = 2**_BITS - 1  # a piece has ended, or none has begun


def token_graph(
    graph: TextGraph,
    first: Mapping[Symbols, int],
    within: Mapping[Symbols, int],
    machine_of: Callable[[Sequence[Symbols], Sequence[Symbols]], Machine],
) -> TokenGraph:
    """Every way to cut the texts of a graph into tokens that a machine allows.

    Parameters
    ----------
    graph : TextGraph
    first, within : mapping of symbol tuples to int
        Token ids by what they stand for, at the beginning of a piece and within one.
    machine_of : callable
        Given the tokens that fit somewhere, those of `first` and those of `within` (the
        same list if the vocabularies are one), makes the machine; its tokens are numbered
        through both lists.

    Raises
    ------
    UnknownRuleError
        If it would take too many edges, or a tokenization continues another.
    """
    fits = _fitting(graph, first, within)
    machine = machine_of(*fits.texts)
    walked = _forward(graph, fits, machine)
    found = _backward(walked, fits.ids, fits.order)
    same = (found.sources[1:] == found.sources[:-1]) & (found.tokens[1:] == found.tokens[:-1])
    return _determinized(found) if same.any() else found


def spellings(graph: TextGraph) -> int:
    """How many different sequences of symbols the texts of a graph are, wherever they are cut.

    Raises
    ------
    UnknownRuleError
        As `token_graph`.
    """
    symbols: dict[Symbols, int] = {(name,): k for k, name in enumerate(graph.names)}

    def anything(some: Sequence[Symbols], _same: Sequence[Symbols]) -> Machine:
        zeros = np.zeros((1, len(some)), np.int32)
        return Table(zeros[0], zeros, np.ones(1, np.bool_))

    found = token_graph(graph, symbols, symbols, anything)
    return int(found.paths[found.root])


@dataclass(frozen=True, eq=False)
class _Fits:
    """Tokens at the nodes where they fit.

    `tokens` are numbers of the machine; `texts` and `ids` say which those are, `order`
    how their texts are sorted. Sorted by source; node ``g`` has ``offsets[g]`` and so on.
    """

    offsets: Ints
    tokens: Ints
    cuts: NDArray[np.bool_]
    targets: Ints
    texts: tuple[list[Symbols], list[Symbols]]
    ids: Ints
    order: Ints


class _Trie:
    """Tokens by their symbols, as a table of (node, symbol) -> node."""

    def __init__(self, texts: Sequence[Sequence[Symbols]], names: Mapping[str, int]) -> None:
        self._width = max(1, len(names))
        moves: dict[int, int] = {}
        self.token = [NEVER] * len(texts)  # the roots are the first nodes
        number = 0
        for root, some in enumerate(texts):
            for text in some:
                at = root
                for symbol in text:
                    key = at * self._width + names[symbol]
                    at = moves.setdefault(key, len(self.token))
                    if at == len(self.token):
                        self.token.append(NEVER)
                self.token[at] = number
                number += 1
        self._keys = np.array(sorted(moves), np.int64)
        self._ends = np.array([moves[key] for key in self._keys.tolist()], np.int64)
        self.tokens = np.array(self.token, np.int64)

    def move(self, nodes: Ints, symbols: Ints) -> Ints:
        """The node below each by a symbol; `NEVER` if there is none."""
        if not len(self._keys):
            return np.full(len(nodes), NEVER, np.int64)
        wanted = nodes * self._width + symbols
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[at] == wanted, self._ends[at], NEVER)


def _fitting(
    graph: TextGraph, first: Mapping[Symbols, int], within: Mapping[Symbols, int]
) -> _Fits:
    """Read every token from every node at once, one more symbol at a time."""
    names = {name: number for number, name in enumerate(graph.names)}
    one = first is within
    vocabularies = [first] if one else [first, within]
    texts = [[text for text in words if names.keys() >= set(text)] for words in vocabularies]
    trie = _Trie(texts, names)
    nodes = np.arange(len(graph.final), dtype=np.int64)
    degrees = np.diff(graph.offsets)
    source, at = nodes, nodes
    place, cut = np.full(len(nodes), NEVER, np.int64), np.zeros(len(nodes), np.bool_)
    parts: list[tuple[Ints, Ints, NDArray[np.bool_], Ints]] = []
    total, begins = 0, True
    while len(source):
        counts = degrees[at]
        rows, edges = np.repeat(np.arange(len(at)), counts), _ranges(graph.offsets[at], counts)
        cuts = graph.cuts[edges]
        if begins:
            place = np.where(cuts | one, 0, 1)
            cut = cuts
        else:
            inside = ~cuts
            rows, edges = rows[inside], edges[inside]
            place, cut = place[rows], cut[rows]
        place = trie.move(place, graph.symbols[edges])
        there = place != NEVER
        source, at = source[rows][there], graph.targets[edges][there]
        place, cut = place[there], cut[there]
        begins = False
        tokens = trie.tokens[place]
        whole = tokens != NEVER
        parts.append((source[whole], tokens[whole], cut[whole], at[whole]))
        total += int(whole.sum())
        if total > MAX_EDGES or len(source) > MAX_EDGES:
            raise too_large()
    sources, tokens, cuts, targets = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    used, tokens = np.unique(tokens, return_inverse=True)
    split = int(np.searchsorted(used, len(texts[0])))
    all_texts = [text for some in texts for text in some]
    mine = [all_texts[number] for number in used.tolist()]
    ids = [(first if k < split else within)[text] for k, text in enumerate(mine)]
    by_source = np.argsort(sources, kind="stable")
    offsets = np.searchsorted(sources[by_source], np.arange(len(nodes) + 1))
    order = np.empty(len(mine), np.int64)
    order[sorted(range(len(mine)), key=mine.__getitem__)] = np.arange(len(mine))
    return _Fits(
        offsets.astype(np.int64),
        tokens.reshape(-1)[by_source].astype(np.int64),
        cuts[by_source],
        targets[by_source],
        (mine[:split], mine if one else mine[split:]),
        np.array(ids, np.int64),
        order,
    )


@dataclass(frozen=True, eq=False)
class _Walked:
    """States that can be reached, by level, and the edges between them."""

    keys: list[Ints]  # of the states of each level, ascending
    final: list[NDArray[np.bool_]]
    sources: list[Ints]  # of each level's edges: position among the level's states
    tokens: list[Ints]
    targets: list[Ints]  # keys
    levels: list[Ints]  # of the targets


def _forward(graph: TextGraph, fits: _Fits, machine: Machine) -> _Walked:
    """From the beginning of the texts through all tokens that may follow each other."""
    depth = int(graph.levels.max(initial=0)) + 1
    arriving: list[list[Ints]] = [[] for _ in range(depth)]
    arriving[0].append(np.array([_ROOT], np.int64))
    walked = _Walked([], [], [], [], [], [])
    degrees, total = np.diff(fits.offsets), 0
    goes_on = np.zeros(len(degrees), np.bool_)  # where a piece may go on
    goes_on[np.repeat(np.arange(len(degrees)), degrees)[~fits.cuts]] = True
    for level in range(depth):
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *arriving[level]]))
        arriving[level] = []
        nodes, states = keys >> _BITS, keys & _ROOT
        begun = states != _ROOT
        ends = np.ones(len(states), np.bool_)
        ends[begun] = machine.ends(states[begun])
        final = graph.final[nodes] & ends
        counts = degrees[nodes]
        total += int(counts.sum())
        if total > 4 * MAX_EDGES:
            raise too_large()
        rows, edges = np.repeat(np.arange(len(keys)), counts), _ranges(fits.offsets[nodes], counts)
        tokens, cuts = fits.tokens[edges], fits.cuts[edges]
        after = np.where(cuts & ends[rows], machine.start[tokens], NEVER).astype(np.int64)
        inside = np.flatnonzero(~cuts & begun[rows])
        if len(inside):
            table, row = machine.rows(states[begun])
            place = np.cumsum(begun) - 1
            after[inside] = table[row[place[rows[inside]]], tokens[inside]]
        may = after != NEVER
        rows, tokens, to = rows[may], tokens[may], fits.targets[edges][may]
        after = after[may]
        # Where every piece ends, it does not matter how.
        over = ~goes_on[to]
        dead = over & ~machine.ends(after)
        targets = (to << _BITS) + np.where(over, _ROOT, after)
        rows, tokens, to, targets = rows[~dead], tokens[~dead], to[~dead], targets[~dead]
        reached = graph.levels[to]
        order = np.argsort(reached, kind="stable")
        parts = np.searchsorted(reached[order], np.arange(depth + 1))
        for later in np.unique(reached).tolist():
            arriving[later].append(np.unique(targets[order[parts[later] : parts[later + 1]]]))
        for name, values in (
            ("keys", keys),
            ("final", final),
            ("sources", rows),
            ("tokens", tokens),
            ("targets", targets),
            ("levels", reached),
        ):
            getattr(walked, name).append(values)
        if sum(map(len, walked.tokens)) > MAX_EDGES:
            raise too_large()
    return walked


def _backward(walked: _Walked, ids: Ints, order: Ints) -> TokenGraph:
    """Drop what leads nowhere, and make states one that have the same edges."""
    classes: list[Ints] = [np.full(len(keys), NEVER, np.int64) for keys in walked.keys]
    paths = [np.ones(1, np.int64)]  # of END
    number = 1
    parts: list[tuple[Ints, Ints, Ints]] = []
    for level in range(len(walked.keys) - 1, -1, -1):
        final, sources = walked.final[level], walked.sources[level]
        reached = np.full(len(sources), NEVER, np.int64)
        for later in np.unique(walked.levels[level]).tolist():
            here = walked.levels[level] == later
            at = np.searchsorted(walked.keys[later], walked.targets[level][here])
            reached[here] = classes[later][at]
        alive = reached != NEVER
        sources, tokens, reached = sources[alive], walked.tokens[level][alive], reached[alive]
        if final[sources].any():
            raise UnknownRuleError("a tokenization that continues another one")
        by_text = np.lexsort((reached, order[tokens], sources))
        sources, tokens, reached = sources[by_text], tokens[by_text], reached[by_text]
        known = np.concatenate(paths)
        inner, first = np.unique(sources, return_index=True)
        counts = np.diff(np.append(first, len(sources)))
        merged, kept = _same_rows(tokens, reached, first, counts)
        classes[level][final] = END
        classes[level][inner] = number + merged
        rows = _ranges(first[kept], counts[kept])
        owners = np.repeat(np.arange(len(kept)), counts[kept])
        parts.append((number + owners, ids[tokens[rows]], reached[rows]))
        paths.append(_sums(known[reached[rows]], counts[kept]))
        number += len(kept)
    root = int(classes[0][0])
    if root == NEVER:
        raise UnknownRuleError("texts that cannot be cut into its tokens")
    sources, tokens, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TokenGraph(root, sources, tokens, targets, np.concatenate(paths))


def _same_rows(tokens: Ints, targets: Ints, first: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Which rows of edges are equal: the class of each, and one row of each class."""
    if not len(first):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.arange(len(tokens)) - np.repeat(first, counts)
    mixed = _mix(_mix(tokens.astype(np.uint64) + np.uint64(1)) + targets.astype(np.uint64))
    sums = np.add.reduceat(_mix(mixed + place.astype(np.uint64)), first)
    keys = np.stack([sums, counts.astype(np.uint64)], axis=1)
    _, kept, merged = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    merged = merged.reshape(-1)
    like = np.repeat(first[kept[merged]], counts) + place
    if (tokens[like] != tokens).any() or (targets[like] != targets).any():
        # Two different rows with one sum: nothing is lost by keeping all rows.
        return np.arange(len(first)), np.arange(len(first))
    return merged.astype(np.int64), kept.astype(np.int64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: a bijection that scatters its bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _determinized(graph: TokenGraph) -> TokenGraph:
    """Sets of states instead of states, where one token leads to several."""
    offsets = np.searchsorted(graph.sources, np.arange(len(graph.paths) + 1)).tolist()
    tokens, targets = graph.tokens.tolist(), graph.targets.tolist()

    def moves(subset: frozenset[int]) -> dict[int, frozenset[int]]:
        if subset == {END}:
            return {}
        if END in subset:
            raise UnknownRuleError("a tokenization that continues another one")
        found: dict[int, set[int]] = {}
        for state in sorted(subset):
            for edge in range(offsets[state], offsets[state + 1]):
                found.setdefault(tokens[edge], set()).add(targets[edge])
        return {token: frozenset(to) for token, to in found.items()}

    return graph_of(frozenset([graph.root]), moves)


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """``starts[i] .. starts[i] + counts[i] - 1`` for each i, end to end."""
    before = np.cumsum(counts) - counts
    found: Ints = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return found


def _sums(values: Ints, counts: Ints) -> Ints:
    """Sums of the next ``counts[i]`` values, for each i; at least one each."""
    if not len(counts):
        return np.zeros(0, np.int64)
    first = np.cumsum(counts) - counts
    if np.add.reduceat(values.astype(np.float64), first).max() >= MOST_PATHS:
        values = values.astype(object)
    found: Ints = np.add.reduceat(values, first)
    return found
