"""States between tokens and the tokens that lead from one to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from canary.tokens.pattern import UnknownRuleError

Ints = NDArray[np.int64]
K = TypeVar("K")

END = 0
"""The state after the last token."""

MAX_EDGES = 12_000_000
"""Edges that are held at once: about a gigabyte while the tree is made."""

MOST_PATHS = 2.0**62
"""That int64 is trusted with; Python's integers beyond."""


@dataclass(frozen=True, eq=False)
class TokenGraph:
    """States between tokens, without those from which no text can be finished.

    Parameters
    ----------
    root : int
    sources, tokens, targets : int64 arrays of shape (edges,)
        Sorted by source, then as the tokens' texts are sorted; targets have smaller
        numbers than their sources. `END` has no edges.
    paths : array of shape (states,)
        How many ways lead from a state to `END`: int64, or Python's integers (dtype object)
        where those do not fit.
    """

    root: int
    sources: Ints
    tokens: Ints
    targets: Ints
    paths: Ints


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
            raise too_large()
    pairs = np.array(kept, np.int64).reshape(-1, 2)
    by = np.array(sources, np.int64)
    return TokenGraph(numbers[root], by, pairs[:, 0], pairs[:, 1], exact_counts(paths))


def exact_counts(counts: Sequence[int]) -> Ints:
    """Numbers of paths as int64, or as Python's integers where one is too large for sums."""
    large = max(counts, default=0) >= MOST_PATHS
    return np.array(counts, object if large else np.int64)


def too_large() -> UnknownRuleError:
    """That a graph would take too many edges."""
    return UnknownRuleError(f"so many tokens that fit that the tree takes over {MAX_EDGES:,} edges")
