"""The seam to anything that assigns probabilities to token sequences.

numpy crosses it, torch stays below it. An adapter implements `LanguageModel`; the walks reach it
only through `canary.scoring`'s batcher. Log-probabilities are natural logarithms (nats) here.
Adapters compute logits and log-softmax in float32, callers sum in float64.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.facts import ModelFacts
from canary.tokens.tokenizer import Tokenizer

Ints = NDArray[np.int64]
IntArray = Ints | NDArray[np.int32]
FloatArray = NDArray[np.float64] | NDArray[np.float32]


@dataclass(frozen=True)
class Memory:
    """What the batcher plans with: what a batch or walk may take, and the size of a state."""

    free_bytes: int
    bytes_per_held_token: int


def _offsets(counts: Ints) -> Ints:
    """Where spans of some lengths, end to end, begin and end."""
    return np.append(0, np.cumsum(counts, dtype=np.int64))


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
        Where scoring starts in each row; at least 1, since the first token has no value.
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
        starts = np.asarray(start, np.int64)
        if starts.shape not in ((), lengths.shape):
            problem = f"{starts.size} starts were given for {len(lengths)} rows"
            raise InputError(problem, cure="give one for all rows, or one for each")
        return cls(flat, offsets, np.broadcast_to(starts, lengths.shape).copy())

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
        Of the log-probability of a next token drawn from the model at each place:
        ``mean = sum_v p_v log p_v`` over the vocabulary, and
        ``deviation**2 = sum_v p_v (log p_v - mean)**2``. ``0 log 0`` is 0.
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
        """Shape of an array of one number for each child of some nodes: (n, k), or flat."""
        return (nodes, len(self.tokens)) if self.offsets is None else (len(self.tokens),)

    def counts(self, nodes: int) -> Ints:
        """Number of children of each node."""
        return np.full(nodes, len(self.tokens)) if self.offsets is None else np.diff(self.offsets)

    def places(self, nodes: Ints) -> Ints:
        """What selects the children of some nodes in an array of `shape`."""
        return nodes if self.offsets is None else _places(self.offsets, nodes)

    def index(self, rows: Ints) -> tuple[Ints, IntArray]:
        """What selects children, in this batch's `shape`, in a table of all tokens.

        ``rows`` names each node's row of that table.
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
        Nats, of `Children.shape`; normalised over the whole vocabulary, to within
        `ROUNDING_NATS`.
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

    @classmethod
    def joined(cls, parts: Sequence[Expansion]) -> Expansion:
        """The expansion of a batch from those of its parts, in their order."""
        bounded = any(part.exact is not None for part in parts)
        exact = [part.log_probs <= np.inf if part.exact is None else part.exact for part in parts]
        return cls(
            np.concatenate([part.path_log_probs for part in parts]),
            np.concatenate([part.log_probs for part in parts]),
            np.concatenate([part.handles for part in parts]),
            sum(part.queries for part in parts),
            np.concatenate(exact) if bounded else None,
        )


class Walker(Protocol):
    """A model below one context; leaving this context manager frees the states that it holds."""

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

    def __exit__(self, *error: Any) -> None: ...


@runtime_checkable
class TellsQueries(Protocol):
    """A walker that does not always compute from the states it is given, and says the cost."""

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """Queries that each node costs at most, where these or the first of them are expanded.

        `held` tokens of each path have a state at the node's handle, 0 without one, and
        `degrees` are the numbers of children; all of shape (n,).
        """


def most_queries(walker: Walker, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
    """As `TellsQueries.most_queries`; without that method a walker costs ``lengths - held``."""
    if isinstance(walker, TellsQueries):
        return walker.most_queries(nodes, held, degrees)
    return np.asarray(nodes.lengths, np.int64) - held


class LanguageModel(Protocol):
    """Anything that assigns probabilities to the next token; see `RowModel` for a base class."""

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
    """A model that also says how surprising any next token would have been."""

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


def peak_memory(model: LanguageModel) -> int:
    """Bytes of the most memory in use so far: of the model's devices, or of this process."""
    told = getattr(model, "peak_device_bytes", None)
    on_device: int = told() if told else 0
    unit = 1 if sys.platform == "darwin" else 1024
    return on_device or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
