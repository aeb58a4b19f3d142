"""Token graphs: the texts of a graph, cut into tokens in every way that a machine allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.tokens.arrays import END, MOST_PATHS, TokenGraph, exact_counts, ranges
from canary.tokens.machines import NEVER, Table
from canary.tokens.pattern import UnknownRuleError
from canary.tokens.textgraph import TextGraph
from canary.tokens.unigram import UnigramMachine

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Symbols = tuple[str, ...]
Machine = Table | UnigramMachine
K = TypeVar("K")

MAX_EDGES = 12_000_000
"""Edges that are held at once: about a gigabyte while the tree is made."""

_BITS = 32  # of a key, for the state of the machine; the node stands above them
_ROOT = 2**_BITS - 1  # a piece has ended, or none has begun


def token_graph(
    graph: TextGraph,
    first: Mapping[Symbols, int],
    within: Mapping[Symbols, int],
    machine_of: Callable[[Sequence[Symbols], Sequence[Symbols]], Machine],
) -> TokenGraph:
    """Every way to cut the texts of a graph into tokens that a machine allows.

    `first` and `within` are token ids by what they stand for, at the beginning of a piece and
    within one. Given those that fit somewhere (the same list if the vocabularies are one),
    `machine_of` makes the machine; its tokens are numbered through both lists. Too many edges,
    or a tokenization that continues another, are an UnknownRuleError.
    """
    fits = _fitting(graph, first, within)
    found = _backward(_forward(graph, fits, machine_of(*fits.texts)), fits)
    same = (found.sources[1:] == found.sources[:-1]) & (found.tokens[1:] == found.tokens[:-1])
    return _determinized(found) if same.any() else found


def spellings(graph: TextGraph) -> int:
    """How many different sequences of symbols the texts of a graph are, wherever they are cut."""
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
    cuts: Bools
    targets: Ints
    texts: tuple[list[Symbols], list[Symbols]]
    ids: Ints
    order: Ints


def _trie(texts: Sequence[Sequence[Symbols]], names: Mapping[str, int]) -> tuple[Ints, Ints, Ints]:
    """Tokens by their symbols, a root for each list.

    By ascending keys, a node times the symbols and a symbol: the node that they lead to. And the
    token that ends at each node, or `NEVER`.
    """
    moves: dict[int, int] = {}
    token_at = [NEVER] * len(texts)
    for number, (root, text) in enumerate((r, t) for r, some in enumerate(texts) for t in some):
        node = root
        for symbol in text:
            node = moves.setdefault(node * len(names) + names[symbol], len(token_at))
            if node == len(token_at):
                token_at.append(NEVER)
        token_at[node] = number
    if not moves:
        raise _uncut()
    keys = np.array(sorted(moves), np.int64)
    return keys, np.array([moves[key] for key in keys.tolist()]), np.array(token_at)


def _fitting(
    graph: TextGraph, first: Mapping[Symbols, int], within: Mapping[Symbols, int]
) -> _Fits:
    """Read every token from every node at once, one more symbol at a time."""
    names = {name: number for number, name in enumerate(graph.names)}
    one = first is within
    vocabularies = [first] if one else [first, within]
    texts = [[text for text in words if names.keys() >= set(text)] for words in vocabularies]
    keys, below, token_of = _trie(texts, names)
    degrees = np.diff(graph.offsets)
    # First every edge of every node, then one more symbol of the same piece in each round.
    source, edges, cut = (
        np.repeat(np.arange(len(degrees)), degrees),
        np.arange(len(graph.symbols)),
        graph.cuts,
    )
    place = np.where(cut | one, 0, 1)
    parts: list[tuple[Ints, Ints, Bools, Ints]] = []
    total = 0
    while len(edges):
        wanted = place * len(names) + graph.symbols[edges]
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[at] == wanted
        source, reached, cut = source[there], graph.targets[edges[there]], cut[there]
        place = below[at[there]]
        tokens = token_of[place]
        whole = tokens != NEVER
        parts.append((source[whole], tokens[whole], cut[whole], reached[whole]))
        total += int(whole.sum())
        if total > MAX_EDGES or len(source) > MAX_EDGES:
            raise _too_large()
        counts = degrees[reached]
        rows, edges = (
            np.repeat(np.arange(len(reached)), counts),
            ranges(graph.offsets[reached], counts),
        )
        inside = ~graph.cuts[edges]
        rows, edges = rows[inside], edges[inside]
        source, place, cut = source[rows], place[rows], cut[rows]
    if not parts:
        raise _uncut()
    sources, tokens, cuts, targets = map(np.concatenate, zip(*parts, strict=True))
    used, tokens = np.unique(tokens, return_inverse=True)
    split = int(np.searchsorted(used, len(texts[0])))
    all_texts = [text for some in texts for text in some]
    mine = [all_texts[number] for number in used.tolist()]
    ids = [(first if k < split else within)[text] for k, text in enumerate(mine)]
    by_source = np.argsort(sources, kind="stable")
    offsets = np.searchsorted(sources[by_source], np.arange(len(graph.offsets)))
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
class _Level:
    """States that can be reached after some number of symbols, and the edges from them."""

    keys: Ints  # of the states, ascending
    final: Bools
    sources: Ints  # of the edges: position among the states
    tokens: Ints
    targets: Ints  # keys
    levels: Ints  # of the targets


def _forward(graph: TextGraph, fits: _Fits, machine: Machine) -> list[_Level]:
    """From the beginning of the texts through all tokens that may follow each other."""
    depth = int(graph.levels.max(initial=0)) + 1
    arriving: list[list[Ints]] = [[np.zeros(0, np.int64)] for _ in range(depth)]
    arriving[0].append(np.array([_ROOT], np.int64))
    walked: list[_Level] = []
    degrees, looked_at, kept = np.diff(fits.offsets), 0, 0
    goes_on = np.zeros(len(degrees), np.bool_)  # where a piece may go on
    goes_on[np.repeat(np.arange(len(degrees)), degrees)[~fits.cuts]] = True
    for level in range(depth):
        keys = np.unique(np.concatenate(arriving[level]))
        arriving[level] = []
        nodes, states = keys >> _BITS, keys & _ROOT
        begun = states != _ROOT
        ends = np.ones(len(states), np.bool_)
        ends[begun] = machine.ends(states[begun])
        counts = degrees[nodes]
        looked_at += int(counts.sum())
        if looked_at > 4 * MAX_EDGES:
            raise _too_large()
        rows, edges = np.repeat(np.arange(len(keys)), counts), ranges(fits.offsets[nodes], counts)
        tokens, cuts = fits.tokens[edges], fits.cuts[edges]
        after = np.where(cuts & ends[rows], machine.start[tokens], NEVER).astype(np.int64)
        inside = np.flatnonzero(~cuts & begun[rows])
        if len(inside):
            table, row = machine.rows(states[begun])
            place = np.cumsum(begun) - 1
            after[inside] = table[row[place[rows[inside]]], tokens[inside]]
        may = np.flatnonzero(after != NEVER)
        # Where every piece ends, it does not matter how.
        over = ~goes_on[fits.targets[edges[may]]]
        fine = ~over | machine.ends(after[may])
        may, over = may[fine], over[fine]
        to = fits.targets[edges[may]]
        targets = (to << _BITS) + np.where(over, _ROOT, after[may])
        reached = graph.levels[to]
        for later in np.unique(reached).tolist():
            arriving[later].append(np.unique(targets[reached == later]))
        final = graph.final[nodes] & ends
        walked.append(_Level(keys, final, rows[may], tokens[may], targets, reached))
        kept += len(may)
        if kept > MAX_EDGES:
            raise _too_large()
    return walked


def _backward(walked: Sequence[_Level], fits: _Fits) -> TokenGraph:
    """Drop what leads nowhere, and make states one that have the same edges."""
    classes: list[Ints] = [np.full(len(level.keys), NEVER, np.int64) for level in walked]
    paths, number = np.ones(1, np.int64), 1  # of END; there is more room than numbers
    parts: list[tuple[Ints, Ints, Ints]] = []
    for depth in range(len(walked) - 1, -1, -1):
        level = walked[depth]
        reached = np.full(len(level.sources), NEVER, np.int64)
        for later in np.unique(level.levels).tolist():
            here = level.levels == later
            place = np.searchsorted(walked[later].keys, level.targets[here])
            reached[here] = classes[later][place]
        alive = reached != NEVER
        sources, tokens, reached = level.sources[alive], level.tokens[alive], reached[alive]
        if level.final[sources].any():
            raise UnknownRuleError("a tokenization that continues another one")
        by_text = np.lexsort((reached, fits.order[tokens], sources))
        sources, tokens, reached = sources[by_text], tokens[by_text], reached[by_text]
        inner, first = np.unique(sources, return_index=True)
        counts = np.diff(np.append(first, len(sources)))
        merged, kept = _same_rows(tokens, reached, first, counts)
        classes[depth][level.final] = END
        classes[depth][inner] = number + merged
        rows = ranges(first[kept], counts[kept])
        owners = np.repeat(np.arange(len(kept)), counts[kept])
        parts.append((number + owners, fits.ids[tokens[rows]], reached[rows]))
        sums = _sums(paths[reached[rows]], counts[kept])
        paths = _with_room(paths, number + len(kept), sums.dtype)
        paths[number : number + len(kept)] = sums
        number += len(kept)
    root = int(classes[0][0])
    if root == NEVER:
        raise _uncut()
    sources, tokens, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TokenGraph(root, sources, tokens, targets, paths[:number])


def _with_room(numbers: NDArray[Any], count: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """The array, or a longer one with the same beginning that can hold such numbers."""
    kind = np.promote_types(numbers.dtype, kind)
    if len(numbers) >= count and numbers.dtype == kind:
        return numbers
    longer = np.empty(max(count, 2 * len(numbers)), kind)
    longer[: len(numbers)] = numbers
    return longer


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


def graph_of(root: K, moves: Callable[[K], Mapping[int, K]]) -> TokenGraph:
    """The graph below a state, given what each token leads to; states that lead alike are one.

    A state without moves is `END`.
    """
    numbers: dict[K, int] = {}
    merged: dict[tuple[tuple[int, int], ...], int] = {(): END}
    rows: dict[K, Mapping[int, K]] = {}
    paths, sources = [1], list[int]()
    pending, kept = [root], list[tuple[int, int]]()
    while pending:
        state = pending[-1]
        if state not in numbers and state not in rows:
            rows[state] = moves(state)
        waiting = [to for to in rows.get(state, {}).values() if to not in numbers]
        pending.extend(waiting)
        if waiting:
            continue
        pending.pop()
        if state in numbers:
            continue
        edges = tuple((token, numbers[to]) for token, to in rows.pop(state).items())
        numbers[state] = merged.setdefault(edges, len(paths))
        if numbers[state] == len(paths):
            sources.extend([len(paths)] * len(edges))
            kept.extend(edges)
            paths.append(sum(paths[to] for _, to in edges))
        if len(kept) > MAX_EDGES:
            raise _too_large()
    pairs = np.array(kept, np.int64).reshape(-1, 2)
    by = np.array(sources, np.int64)
    return TokenGraph(numbers[root], by, pairs[:, 0], pairs[:, 1], exact_counts(paths))


def _uncut() -> UnknownRuleError:
    return UnknownRuleError("texts that cannot be cut into its tokens")


def _too_large() -> UnknownRuleError:
    """That a graph would take too many edges."""
    return UnknownRuleError(f"tokens that fit, of which the tree takes over {MAX_EDGES:,} edges")


def _sums(values: Ints, counts: Ints) -> Ints:
    """Sums of the next ``counts[i]`` values, for each i; at least one each."""
    if not len(counts):
        return np.zeros(0, np.int64)
    first = np.cumsum(counts) - counts
    if np.add.reduceat(values.astype(np.float64), first).max() >= MOST_PATHS:
        values = values.astype(object)
    found: Ints = np.add.reduceat(values, first)
    return found
