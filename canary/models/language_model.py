"""The seam to anything that assigns probabilities to token sequences.

numpy crosses this seam; torch stays below it, so that walks and estimators are tested
without a neural network. An adapter implements `LanguageModel`; the walks reach it only
through `canary.scoring`'s batcher.

Log-probabilities are natural logarithms (nats) here; bits appear at the edge of the
package. Adapters compute logits and log-softmax in float32, callers sum in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.model_facts import ROUNDING_NATS, Memory, ModelFacts
from canary.tokens.tokenizer import Tokenizer

__all__ = [
    "ROUNDING_NATS",
    "Children",
    "Context",
    "Expansion",
    "FloatArray",
    "IntArray",
    "Ints",
    "LanguageModel",
    "Memory",
    "ModelFacts",
    "Moments",
    "Nodes",
    "Rows",
    "Spread",
    "TellsMoments",
    "TellsQueries",
    "Walker",
    "most_queries",
]

Ints = NDArray[np.int64]
IntArray = Ints | NDArray[np.int32]
FloatArray = NDArray[np.float64] | NDArray[np.float32]


def _offsets(counts: Ints) -> Ints:
    """Where spans of some lengths begin and end that lie end to end."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _places(offsets: IntArray, chosen: IntArray) -> Ints:
    """The places of the chosen spans, end to end."""
    counts = np.diff(offsets)[chosen]
    firsts: Ints = np.repeat(offsets[:-1][chosen] - (np.cumsum(counts) - counts), counts)
    return firsts + np.arange(len(firsts))


@dataclass(frozen=True, eq=False)
class Context:
    """The fixed tokens before the first token that depends on the fill.

    Parameters
    ----------
    ids : int32 array of shape (p,)
        Start tokens, preceding text and the beginning of the format. Never empty: a
        model needs something to condition on (`--start-token`).
    source : int32 array of shape (s,), optional
        What a sequence-to-sequence model reads.
    """

    ids: IntArray
    source: IntArray | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Token sequences to score, end to end in one flat array.

    Parameters
    ----------
    ids : int32 array of shape (total,)
    offsets : int64 array of shape (n + 1,)
        Row ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.
    start : int64 array of shape (n,)
        Scoring starts at this position of each row; at least 1, since the first token
        has no value.
    """

    ids: IntArray
    offsets: IntArray
    start: IntArray

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]], start: int | Sequence[int] = 1) -> Rows:
        """Rows from Python sequences; `start` is shared or one per row."""
        lengths = np.fromiter((len(ids) for ids in sequences), np.int64, len(sequences))
        offsets = _offsets(lengths)
        flat = np.fromiter((t for ids in sequences for t in ids), np.int32, int(offsets[-1]))
        given = np.asarray(start, np.int64)
        if given.shape not in ((), lengths.shape):
            raise InputError(
                f"{given.size} starts were given for {len(lengths)} rows",
                cure="give one for all rows, or one for each",
            )
        return cls(flat, offsets, np.broadcast_to(given, lengths.shape).copy())

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each row."""
        return np.diff(self.offsets)

    @property
    def scored(self) -> Ints:
        """Number of scored tokens of each row."""
        scored: Ints = np.maximum(self.lengths - self.start, 0)
        return scored

    def take(self, order: IntArray) -> Rows:
        """The rows at the positions `order`, in that order."""
        offsets = _offsets(self.lengths[order])
        return Rows(self.ids[_places(self.offsets, order)], offsets, self.start[order])


@dataclass(frozen=True, eq=False)
class Moments:
    """Scored tokens beside the distributions that they were drawn from, in nats.

    Parameters
    ----------
    log_probs : float32 array of shape (sum of scored,)
        Of the scored tokens, flat.
    means, deviations : float32 arrays of the same shape
        Mean and standard deviation of the log-probability of the next token at each of their
        places, where it is drawn from the model: ``mean = sum_v p_v log p_v`` over the
        vocabulary, and ``deviation**2 = sum_v p_v (log p_v - mean)**2``. ``0 log 0`` is 0.
    """

    log_probs: FloatArray
    means: FloatArray
    deviations: FloatArray


@dataclass(frozen=True, eq=False)
class Nodes:
    """Prefixes of token choices below a context.

    Parameters
    ----------
    paths : int32 array of shape (n, d)
        Token choices below the context, right-padded (with any valid token).
    lengths : int64 array of shape (n,)
        Number of tokens of each path; 0 is the root.
    priced : int64 array of shape (n,)
        How many tokens of the path already have their cost. The log-probabilities of
        the others come back as `Expansion.path_log_probs`.
    handles : int64 array of shape (n,)
        Handle of the longest held proper ancestor, -1 if none.
    """

    paths: IntArray
    lengths: IntArray
    priced: IntArray
    handles: IntArray

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, part: slice) -> Nodes:
        return Nodes(self.paths[part], self.lengths[part], self.priced[part], self.handles[part])


@dataclass(frozen=True, eq=False)
class Children:
    """Which next tokens are wanted below a batch of nodes.

    Parameters
    ----------
    tokens : int32 array
        The union of the batch's children, of shape (k,), the same for every node; or,
        with `offsets`, each node's own children end to end.
    offsets : int64 array of shape (n + 1,), optional
        Node ``i`` has the children ``tokens[offsets[i]:offsets[i + 1]]``.
    """

    tokens: IntArray
    offsets: IntArray | None = None

    def shape(self, nodes: int) -> tuple[int, ...]:
        """Shape of an array of one number for each child of so many nodes: (n, k), or flat."""
        own = self.offsets is not None
        return (len(self.tokens),) if own else (nodes, len(self.tokens))

    def counts(self, nodes: int) -> Ints:
        """Number of children of each of so many nodes."""
        return np.full(nodes, len(self.tokens)) if self.offsets is None else np.diff(self.offsets)

    def places(self, nodes: Ints) -> Ints:
        """What selects the children of some nodes in an array of `shape`."""
        return nodes if self.offsets is None else _places(self.offsets, nodes)

    def index(self, rows: Ints) -> tuple[Ints, IntArray]:
        """What selects the children of each node in a table of all tokens.

        ``rows`` names each node's row of that table; the result has this batch's `shape`.
        """
        if self.offsets is None:
            return rows[:, None], self.tokens
        return np.repeat(rows, np.diff(self.offsets)), self.tokens

    def take(self, nodes: Ints) -> Children:
        """The children of some nodes of the batch."""
        if self.offsets is None:
            return self
        return Children(self.tokens[self.places(nodes)], _offsets(self.counts(0)[nodes]))

    def part(self, start: int, stop: int) -> Children:
        """The children of the nodes ``start:stop`` of the batch."""
        return self.take(np.arange(start, stop))


@dataclass(frozen=True, eq=False)
class Expansion:
    """What a model says about the children of a batch of nodes.

    Parameters
    ----------
    path_log_probs : float64 array of shape (n,)
        Nats: sum over the tokens between `Nodes.priced` and the end of each path.
    log_probs : float32 array
        Nats, of shape (n, k) for a union of children, flat for `Children.offsets`;
        normalised over the whole vocabulary, to within `ROUNDING_NATS`.
    handles : int64 array of shape (n,)
        Handles of the nodes themselves; -1 where the state was not kept.
    queries : int
        Tokens computed below the context.
    exact : bool array of the shape of `log_probs`, optional
        False marks an upper bound on the probability; None means all exact.
    """

    path_log_probs: NDArray[np.float64]
    log_probs: FloatArray
    handles: Ints
    queries: int
    exact: NDArray[np.bool_] | None = None


class Walker(Protocol):
    """A model below one context: expands nodes and holds their states.

    A context manager; leaving it frees what it holds.
    """

    @property
    def context_log_probs(self) -> FloatArray:
        """Log-probabilities of the context's tokens after its first, shape (p - 1,), nats."""

    @property
    def room(self) -> int:
        """How many more nodes can be held."""

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """Log-probabilities of the children of `nodes`.

        A handle that is -1, stale, or of a state longer than `Nodes.priced` is not used:
        the missing states are recomputed from the path, once within the batch, and counted
        as queries. With `keep` the states of the nodes are held as far as `room` goes. An
        `expand` that raises has taken no handles.
        """

    def release(self, handles: IntArray) -> None:
        """Let go of states; -1 and stale handles are ignored."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class TellsQueries(Protocol):
    """A walker that does not always compute from the states it is given, and says the cost."""

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """Queries that each node costs at most where these, or the first of them, are expanded.

        `held` tokens of each path have a state at the node's handle, 0 without one, and
        `degrees` are the numbers of children; all of shape (n,). A walker without this
        method costs ``lengths - held``.
        """


def most_queries(walker: Walker, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
    """What each node costs at most, as `TellsQueries` says; shape (n,)."""
    if isinstance(walker, TellsQueries):
        return walker.most_queries(nodes, held, degrees)
    return np.asarray(nodes.lengths, np.int64) - held


class LanguageModel(Protocol):
    """Anything that assigns probabilities to the next token.

    `canary.models.by_scoring.RowModel` is a base class for one that only scores whole rows.
    """

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the model was trained with."""

    @property
    def facts(self) -> ModelFacts:
        """Vocabulary, limits, dtype, fingerprint, noise, capabilities."""

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats, shape (sum of scored,)."""

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context` that holds states within `memory_bytes`."""

    def memory(self) -> Memory:
        """Free bytes, and bytes per held token."""


@runtime_checkable
class TellsMoments(Protocol):
    """A model that also says how surprising any next token would have been.

    The distributions stay where they are computed: three numbers for each scored token
    come out, whatever the vocabulary.
    """

    def moments(self, rows: Rows) -> Moments:
        """What `LanguageModel.score` gives, with the moments at each place."""


@runtime_checkable
class Spread(Protocol):
    """A model that is kept several times, so that as many batches are computed at once."""

    @property
    def workers(self) -> int:
        """How many times it is kept."""

    def score_each(self, batches: Sequence[Rows]) -> list[FloatArray]:
        """What `LanguageModel.score` gives for each batch, each computed as it is."""

    def moments_each(self, batches: Sequence[Rows]) -> list[Moments]:
        """What `TellsMoments.moments` gives, likewise, if the model has it."""
