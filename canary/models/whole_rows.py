"""A walker that computes every node's whole row: context and path, from the first token.

For torch models whose states cannot be reused. One row gives the distribution over all
children of its node; nothing is held, and handles are always -1.
"""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from canary.models.distributions import Distributions, token_log_probs
from canary.models.forwards import RowForward
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Nodes,
    Rows,
)
from canary.models.torch_support import pad, scored_positions

__all__ = ["WholeRowWalker"]


class WholeRowWalker:
    """Expands nodes below a context, one whole row for each.

    Parameters
    ----------
    forward : RowForward
    context : Context
    """

    room = 0

    def __init__(self, forward: RowForward, context: Context) -> None:
        self._forward = forward
        self._context: list[int] = np.asarray(context.ids).tolist()

    @cached_property
    def context_log_probs(self) -> FloatArray:
        """Log-probabilities of the context's tokens after its first, shape (p - 1,), nats."""
        ids = torch.tensor([self._context], device=self._forward.device)
        wanted = torch.ones_like(ids[:, 1:], dtype=torch.bool)
        return token_log_probs(self._forward.logits(ids)[:, :-1], ids[:, 1:], wanted)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; `keep` has no effect."""
        n = len(nodes)
        lengths = np.asarray(nodes.lengths, np.int64)
        above = len(self._context)
        rows = Rows.of(
            [
                self._context + path[:k].tolist()
                for path, k in zip(nodes.paths, lengths, strict=True)
            ],
            (above + np.asarray(nodes.priced, np.int64)).tolist(),
        )
        skipped = int(np.minimum(rows.start, rows.lengths).min(initial=above)) - 1
        ids = pad(rows, self._forward.device)
        logits = self._forward.logits(ids, skipped)
        wanted = scored_positions(rows, self._forward.device)[:, skipped:]
        unpriced = token_log_probs(logits[:, :-1], ids[:, 1 + skipped :], wanted)
        path = np.zeros(n)
        np.add.at(path, np.repeat(np.arange(n), rows.scored), unpriced.astype(np.float64))
        last = torch.from_numpy(rows.lengths - 1 - skipped).to(logits.device)
        ends = Distributions.of(logits[torch.arange(n, device=logits.device), last])
        handles: NDArray[np.int64] = np.full(n, -1, np.int64)
        return Expansion(path, ends.children(None, tokens), handles, int(lengths.sum()))

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
