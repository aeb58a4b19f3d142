"""A walker that reuses states up to a length and computes whole rows beyond it.

As long as context and path fit into a sliding window, the window hides nothing and held
states are right. Beyond it they are not relied on.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Ints,
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
        For nodes of at most `horizon` tokens with the context, and for longer ones; `far`
        holds no states.
    context : Context
    horizon : float
    """

    def __init__(self, near: Walker, far: Walker, context: Context, *, horizon: float) -> None:
        self._near, self._far = near, far
        self._deepest = horizon - len(context.ids)
        self.context_log_probs: FloatArray = near.context_log_probs
        self.release = near.release

    @property
    def room(self) -> int:
        """How many more nodes can be held."""
        return self._near.room

    def _for(self, nodes: Nodes) -> Walker:
        # One long node sends its whole batch to the slow walker: a batch seldom holds both.
        longest = int(np.asarray(nodes.lengths).max(initial=0))
        return self._far if longest > self._deepest else self._near

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`."""
        return self._for(nodes).expand(nodes, tokens, keep=keep)

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> Ints:
        """See `canary.models.language_model.TellsQueries`."""
        return most_queries(self._for(nodes), nodes, held, degrees)

    def __enter__(self) -> Self:
        self._near.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._near.__exit__(*error)
