"""Walks over whole rows: of models that can only score, and beyond the reach of states.

Every child of every node is a row of its own, so a node with k children costs k rows of
its whole length. Nothing is held; handles are always -1. It is slow and right: the
fallback where states cannot be reused, and the oracle of faster walkers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np

from canary.models.facts import ModelFacts
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Ints,
    Memory,
    Nodes,
    Rows,
)
from canary.tokens.tokenizer import Tokenizer


class RowWalker:
    """Expands nodes below a context by scoring one row per child; holds no states."""

    room = 0

    def __init__(self, model: Any, context: Context) -> None:
        self._model = model
        self._context = np.asarray(context.ids, np.int32)

    @cached_property
    def context_log_probs(self) -> FloatArray:
        """Log-probabilities of the context's tokens after its first, shape (p - 1,), nats."""
        log_probs: FloatArray = self._model.score(Rows.of([self._context.tolist()]))
        return log_probs

    def release(self, handles: IntArray) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; `keep` has no effect."""
        n, above = len(nodes), len(self._context)
        lengths = np.asarray(nodes.lengths, np.int64)
        counts = tokens.counts(n)
        # A node without children still has its path priced: one row without a child.
        owner = np.repeat(np.arange(n), np.maximum(counts, 1))
        has_child = counts[owner] > 0
        child = np.zeros(len(owner), np.int32)
        child[has_child] = np.tile(tokens.tokens, n if tokens.offsets is None else 1)
        # Context, path and child of every row, cut to its length.
        table = np.concatenate(
            [np.tile(self._context, (len(owner), 1)), nodes.paths[owner], child[:, None]], axis=1
        )
        ends = above + lengths[owner]
        table[np.arange(len(owner)), ends] = child
        widths = ends + has_child
        ids = table[np.arange(table.shape[1]) < widths[:, None]].astype(np.int32)
        rows = Rows(ids, np.append(0, np.cumsum(widths)), above + nodes.priced[owner])
        scored, after = self._model.score(rows), np.cumsum(rows.scored)
        path = np.zeros(n)
        for node, row in enumerate(np.flatnonzero(np.diff(owner, prepend=-1))):
            end = after[row] - has_child[row]
            unpriced = lengths[node] - nodes.priced[node]
            path[node] = scored[end - unpriced : end].sum(dtype=np.float64)
        log_probs = scored[after[has_child] - 1].reshape(tokens.shape(n))
        queries = int((widths - above).sum())
        return Expansion(path, log_probs, np.full(n, -1, np.int64), queries)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """See `canary.models.language_model.TellsQueries`; each child is a row of its own."""
        queries: Ints = np.maximum(degrees, 1) * (np.asarray(nodes.lengths) + 1)
        return queries


class RowModel(ABC):
    """A base class for language models of which only whole rows can be scored.

    A subclass has `tokenizer` and `facts`, and implements `score`. `facts` are those of
    `canary.models.noise.with_measured_noise`, which measures what it cannot know.
    """

    tokenizer: Tokenizer
    facts: ModelFacts

    @abstractmethod
    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats, shape (sum of scored,)."""

    def open(self, context: Context, *, memory_bytes: int) -> RowWalker:
        """A walker below `context`, which holds nothing."""
        return RowWalker(self, context)

    def memory(self) -> Memory:
        """A gigabyte for a batch of rows; no state is kept."""
        return Memory(2**30, 1)
