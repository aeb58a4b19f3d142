"""A walker that reuses states up to a length and computes whole rows beyond it.

As long as context and path fit into a sliding window, the window hides nothing and held
states are right. Beyond it they are not relied on.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Nodes,
    Walker,
    most_queries,
)

__all__ = ["WithinWalker"]


class WithinWalker:
    """Two walkers below one context: one for short nodes, one for long ones.

    Parameters
    ----------
    near, far : Walker
        For nodes of at most `horizon` tokens with the context, and for longer ones.
    context : Context
    horizon : float
    """

    def __init__(self, near: Walker, far: Walker, context: Context, *, horizon: float) -> None:
        self._near, self._far = near, far
        self._deepest = horizon - len(context.ids)
        self.context_log_probs: FloatArray = near.context_log_probs

    @property
    def room(self) -> int:
        """How many more nodes can be held."""
        return self._near.room

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`.

        One long node sends its whole batch to the slow walker: walks go level by level,
        so that a batch seldom holds both.
        """
        return self._for(nodes).expand(nodes, tokens, keep=keep)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> NDArray[np.int64]:
        """See `canary.models.language_model.TellsQueries`; the slow walker stands on no states."""
        walker = self._for(nodes)
        return most_queries(walker, nodes, held if walker is self._near else 0 * held, degrees)

    def _for(self, nodes: Nodes) -> Walker:
        longest = int(np.asarray(nodes.lengths).max(initial=0))
        return self._far if longest > self._deepest else self._near

    def release(self, handles: IntArray) -> None:
        """Let go of states."""
        self._near.release(handles)

    def __enter__(self) -> Self:
        self._near.__enter__()
        self._far.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._near.__exit__(kind, error, trace)
        self._far.__exit__(kind, error, trace)
