"""A walker for models that can only score whole rows.

Every child of every node is a row of its own, so a node with k children costs k rows of
its whole length. Nothing is held; handles are always -1. It is slow and right: the
fallback where states cannot be reused, and the oracle of faster walkers.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Nodes,
    Rows,
)

__all__ = ["RowWalker"]


class Scorer(Protocol):
    """The part of a language model that this walker needs."""

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        ...


class RowWalker:
    """Expands nodes below a context by scoring one row per child.

    Parameters
    ----------
    model : object with `score`
    context : Context
    """

    room = 0

    def __init__(self, model: Scorer, context: Context) -> None:
        self._model = model
        self._context = np.asarray(context.ids, np.int32)
        self.context_log_probs: FloatArray = model.score(Rows.of([self._context.tolist()]))

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; `keep` has no effect."""
        n = len(nodes)
        counts = (
            np.full(n, len(tokens.tokens))
            if tokens.offsets is None
            else np.diff(np.asarray(tokens.offsets, np.int64))
        )
        children = np.tile(tokens.tokens, n) if tokens.offsets is None else tokens.tokens
        # A node without children still has its path priced: one row without a child.
        rows_per_node = np.maximum(counts, 1)
        owner = np.repeat(np.arange(n), rows_per_node)
        childless = np.repeat(counts == 0, rows_per_node)
        below = iter(children.tolist())
        prefix = self._context.tolist()
        paths = [path[:k].tolist() for path, k in zip(nodes.paths, nodes.lengths, strict=True)]
        rows = [
            prefix + paths[node] + ([] if bare else [next(below)])
            for node, bare in zip(owner, childless, strict=True)
        ]
        starts = len(prefix) + np.asarray(nodes.priced, np.int64)
        scored = self._model.score(Rows.of(rows, starts[owner].tolist()))
        unpriced = np.asarray(nodes.lengths - nodes.priced, np.int64)[owner]
        ends = np.cumsum(unpriced + ~childless)
        path = np.zeros(n)
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        for node, row in enumerate(first):
            begin = ends[row] - unpriced[row] - (not childless[row])
            path[node] = scored[begin : begin + unpriced[row]].sum(dtype=np.float64)
        log_probs: NDArray[np.float32] = scored[ends[~childless] - 1]
        if tokens.offsets is None:
            log_probs = log_probs.reshape(n, len(tokens.tokens))
        below_context = sum(len(row) - len(prefix) for row in rows)
        return Expansion(path, log_probs, np.full(n, -1, np.int64), below_context)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> NDArray[np.int64]:
        """See `canary.models.language_model.TellsQueries`: each child is a row of its own."""
        queries: NDArray[np.int64] = np.maximum(degrees, 1) * (np.asarray(nodes.lengths) + 1)
        return queries

    def release(self, handles: IntArray) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None
