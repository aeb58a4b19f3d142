"""Rows that begin alike: what they begin with is read once, if that is much of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.models.answered import checked_scores
from canary.models.language_model import FloatArray, IntArray, LanguageModel, Rows
from canary.statistics.number_checks import LN2

_LEAST_SAVED = 2_048  # tokens that need not be computed; else it is not worth it
_COMPARED = 256  # tokens of all rows at a time


class Beginning(Protocol):
    """A model behind tokens that many rows begin with, which were read once."""

    @property
    def log_probs(self) -> FloatArray:
        """Log-probabilities of these tokens after the first, in nats."""

    def score(self, rows: Rows) -> FloatArray:
        """`LanguageModel.score` of what follows; rows begin with the last of these tokens."""


@runtime_checkable
class SharesBeginnings(Protocol):
    """A model that reads what many rows begin with once."""

    def begun(self, ids: IntArray) -> Beginning | None:
        """The model behind `ids`; None if it cannot share them."""


class RunsRows(Protocol):
    """What is needed of a `Batcher`."""

    model: LanguageModel

    def check_length(self, tokens: int) -> None:
        """Refuse a sequence of more tokens than the model takes."""

    def check_numbers(self, values: FloatArray) -> None:
        """Refuse numbers that are no log-probabilities."""

    def run(
        self,
        rows: Rows,
        method: Callable[[Rows], Any],
        read: Callable[[Any, Rows], FloatArray],
        numbers: int,
    ) -> NDArray[np.float32]:
        """Numbers for each scored token, in the order of the rows."""


def scored_below(batcher: RunsRows, rows: Rows) -> NDArray[np.float32] | None:
    """`Batcher.score` with what all rows begin with read once.

    None if that is not worth it, if the model cannot, or if the first row, which is scored as a
    whole as well, differs by more than the model's noise.
    """
    model, shared = batcher.model, shared_beginning(rows)
    if not isinstance(model, SharesBeginnings) or not worth_sharing(model, shared, len(rows)):
        return None
    batcher.check_length(int(rows.lengths.max()))
    begun = model.begun(rows.ids[:shared])
    if begun is None:
        return None
    values, kept = begun.log_probs, shared - 1
    batcher.check_numbers(values)
    at = np.arange(len(rows.ids)) - np.repeat(rows.offsets[:-1], rows.lengths)
    offsets = np.append(0, np.cumsum(rows.lengths - kept))
    tails = Rows(rows.ids[at >= kept], offsets, np.maximum(rows.start - kept, 1))

    def read(answer: Any, batch: Rows) -> FloatArray:
        return checked_scores(answer, batch, model)[:, None]

    below = batcher.run(tails, begun.score, read, 1)[:, 0]
    ends, parts = np.append(0, np.cumsum(tails.scored)), []
    for row, start in enumerate(rows.start.tolist()):
        parts += [values[start - 1 : kept], below[ends[row] : ends[row + 1]]]
    found: NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
    first = rows.take(np.zeros(1, np.int64))
    whole = checked_scores(model.score(first), first, model)
    off = found[: len(whole)].sum(dtype=np.float64) - whole.sum(dtype=np.float64)
    fine = abs(float(off)) <= model.facts.noise_bits(int(rows.lengths[0])) * LN2
    return found if fine else None


def worth_sharing(model: LanguageModel, shared: int, rows: int) -> bool:
    """Whether a beginning of `shared` tokens is read once for this number of rows."""
    saved = (shared - 1) * (rows - 1)
    return isinstance(model, SharesBeginnings) and shared > 1 and saved >= _LEAST_SAVED


def shared_beginning(rows: Rows) -> int:
    """How many tokens all rows begin with."""
    most = int(rows.lengths.min()) if len(rows) > 1 else 0
    for first in range(0, most, _COMPARED):
        last = min(first + _COMPARED, most)
        table = rows.ids[rows.offsets[:-1, None] + np.arange(first, last)]
        differing = np.flatnonzero((table != table[0]).any(axis=0))
        if len(differing):
            return first + int(differing[0])
    return most
