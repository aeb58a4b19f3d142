"""A served model that tells only the likeliest next tokens: bounds where it tells nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import UnsupportedError
from canary.models.language_model import (
    Children,
    Context,
    Expansion,
    FloatArray,
    IntArray,
    Nodes,
    Rows,
    Walker,
)
from canary.models.served.echoed import ServedModel
from canary.models.served.request_format import log_probs_of
from canary.models.served.verified_cache import Asking


class LikeliestModel(ServedModel):
    """Expands nodes, each with a request of its own for the tokens that may come next."""

    def score(self, rows: Rows) -> FloatArray:
        """Refused: what is not among the likeliest has no log-probability, only a bound."""
        raise UnsupportedError(
            f"the server of {self.facts.name!r} tells only the {self._asking.top} likeliest next "
            "tokens, so whole texts have no log-perplexity",
            cure="use canary exposure or extract, which give bounds, or a server that echoes "
            "prompts with log-probabilities (vLLM)",
        )

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker that asks for the next tokens at each node and holds nothing."""
        return _Below(self._asking, context)


class _Below:
    """Costs below a context. The context's own is left out: no server of this kind tells it."""

    room = 0

    def __init__(self, asking: Asking, context: Context) -> None:
        self._asking = asking
        self._context = tuple(np.asarray(context.ids).tolist())
        self.context_log_probs: FloatArray = np.zeros(len(self._context) - 1, np.float32)

    def expand(self, nodes: Nodes, tokens: Children, *, keep: bool = True) -> Expansion:
        """See `canary.models.language_model.Walker.expand`; upper bounds where a token is not told.

        Where that is one of the path, all children are marked. A query is a request.
        """
        n = len(nodes)
        paths = [tuple(p[:k].tolist()) for p, k in zip(nodes.paths, nodes.lengths, strict=True)]
        priced = np.asarray(nodes.priced, np.int64).tolist()
        wanted = [
            self._context + path[:depth]
            for path, first in zip(paths, priced, strict=True)
            for depth in range(first, len(path) + 1)
        ]
        told = self._asking.ask(wanted)
        path_log_probs, values, exact = np.zeros(n), [], []
        for node, (path, first) in enumerate(zip(paths, priced, strict=True)):
            sure = True
            for depth in range(first, len(path)):
                token = np.array(path[depth : depth + 1], np.int32)
                value, known = log_probs_of(told[self._context + path[:depth]], token)
                path_log_probs[node] += value[0]
                sure &= bool(known[0])
            below, known = log_probs_of(told[self._context + path], _children(tokens, node))
            values.append(below)
            exact.append(known & sure)
        shape = (n, -1) if tokens.offsets is None else (-1,)
        return Expansion(
            path_log_probs,
            np.concatenate(values).astype(np.float32).reshape(shape),
            np.full(n, -1, np.int64),
            len(set(wanted)),
            np.concatenate(exact).reshape(shape),
        )

    def most_queries(self, nodes: Nodes, held: IntArray, degrees: IntArray) -> NDArray[np.int64]:
        """See `canary.models.language_model.TellsQueries`: one for each token without a price."""
        queries: NDArray[np.int64] = np.asarray(nodes.lengths) - np.asarray(nodes.priced) + 1
        return queries

    def release(self, handles: IntArray) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def _children(tokens: Children, node: int) -> Any:
    if tokens.offsets is None:
        return tokens.tokens
    return tokens.tokens[tokens.offsets[node] : tokens.offsets[node + 1]]
