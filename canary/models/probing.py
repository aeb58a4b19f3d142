"""Random rows and walks by which a model is asked about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import (
    Children,
    Context,
    FloatArray,
    Ints,
    LanguageModel,
    Nodes,
    Rows,
    Walker,
)

_ROOMY = 2**24


def random_rows(model: LanguageModel, count: int, length: int, *, seed: int) -> Ints:
    """Rows of random tokens, of shape (count, length); shorter if the model takes no more."""
    size = min(model.facts.vocabulary, model.tokenizer.size)
    width = min(length, model.facts.length_limit or length)
    return np.random.default_rng(seed).integers(0, size, (count, width))


def row_table(model: LanguageModel, rows: Any) -> FloatArray:
    """Log-probabilities of rows of one length, from a single call; (rows, length - 1), nats."""
    return model.score(Rows.of(np.asarray(rows).tolist())).reshape(len(rows), -1)


def opened(model: LanguageModel, context: Any, *, states: int = 256) -> Walker:
    """A walker below a context, with memory for so many states at least."""
    memory = max(_ROOMY, states * model.memory().bytes_per_held_token)
    return model.open(Context(np.asarray(context, np.int32)), memory_bytes=memory)


def nodes_of(
    paths: Sequence[Sequence[int]], *, priced: int | None = None, handles: Ints | None = None
) -> Nodes:
    """Nodes of paths of any lengths; all of their tokens have a price unless said."""
    lengths = np.array([len(path) for path in paths], np.int64)
    padded = np.zeros((len(paths), max(int(lengths.max()), 1)), np.int32)
    for row, path in zip(padded, paths, strict=True):
        row[: len(path)] = path
    return Nodes(
        padded,
        lengths,
        lengths if priced is None else np.full(len(paths), priced, np.int64),
        np.full(len(paths), -1, np.int64) if handles is None else handles,
    )


def chain_log_probs(model: LanguageModel, ids: Ints, *, split: int) -> NDArray[np.float64]:
    """Log-probabilities of rows' tokens, the first `split` as context, then one by one.

    Parameters
    ----------
    model : LanguageModel
    ids : int64 array of shape (n, length)
        Rows whose first `split` tokens are the same; they are walked in a batch.
    split : int

    Returns
    -------
    array of shape (n, length - 1), nats
    """
    n, length = ids.shape
    below, handles = np.empty((n, length - split)), np.full(n, -1, np.int64)
    with opened(model, ids[0, :split], states=4 * n * (length - split + 1)) as walker:
        context = np.tile(walker.context_log_probs, (n, 1))
        for at in range(split, length):
            nodes = nodes_of(ids[:, split:at].tolist(), handles=handles)
            own = Children(ids[:, at].astype(np.int32), np.arange(n + 1))
            step = walker.expand(nodes, own)
            below[:, at - split], handles = step.log_probs, step.handles
    return np.concatenate([context, below], axis=1)
