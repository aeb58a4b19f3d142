"""The head of a causal decoder apart from its body, so that logits exist for few tokens at a time.

Logits of a vocabulary of 256,000 tokens take a megabyte for each token in float32; what the head
reads takes some kilobytes. The body runs once, and the model's own head, with whatever the
architecture does to logits after it, a part at a time. Whether the two give what the model
gives as a whole is tried at load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.models.language_model import Children, Ints
from canary.models.torch_model import Distributions
from canary.models.torch_support import computing, inference

LARGE = 1 << 13
"""Tokens of a vocabulary from which on it pays to keep the head apart."""

_AT_ONCE, _ON_GPU = 1 << 22, 1 << 26  # logits at a time
_SAME = 1e-4  # of the largest logit, where the dtype is float32
_COARSE = 2e-2


class Head:
    """Runs the body of a decoder and its head one after the other.

    Parameters
    ----------
    module : transformers.PreTrainedModel
        Or one wrapped by peft.
    plain : transformers.PreTrainedModel
        The model itself.
    vocabulary : int
    """

    def __init__(self, module: Any, plain: Any, vocabulary: int) -> None:
        self._module, self._plain = module, plain
        self._body = plain.base_model
        self._kind: Any = None  # what the body gives
        self.vocabulary = vocabulary

    def rows(self, device: torch.device) -> int:
        """Tokens whose logits are computed at a time."""
        most = _AT_ONCE if device.type == "cpu" else _ON_GPU
        return max(most // self.vocabulary, 1)

    def read(self, ids: torch.Tensor, **options: Any) -> tuple[torch.Tensor, Any]:
        """What the head reads after each token of `ids`, (n, t, width), and the cache."""
        found: list[Any] = []
        hook = self._body.register_forward_hook(lambda _part, _given, out: found.append(out))
        none = torch.zeros(0, dtype=torch.int64, device=ids.device)
        try:
            out = self._module(input_ids=ids, logits_to_keep=none, **options)
        finally:
            hook.remove()
        (seen,) = found
        self._kind = type(seen)
        states: torch.Tensor = seen[0]
        # Learned tokens in front of the row (prompt tuning) are read, too.
        return states[:, states.shape[1] - ids.shape[1] :], getattr(out, "past_key_values", None)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits after tokens whose `states` have the shape (k, width); (k, vocabulary)."""
        ids = torch.zeros((1, len(states)), dtype=torch.int64, device=states.device)
        given = self._kind(last_hidden_state=states[None])
        with inference(self._module), _instead(self._body, given):
            out: torch.Tensor = self._plain(input_ids=ids, use_cache=False).logits[0]
        return out

    def parts(self, states: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        """Places of `states`, (k, width), and their logits, a part at a time."""
        size = self.rows(states.device)
        for first in range(0, len(states), size):
            part = slice(first, min(first + size, len(states)))
            yield part, self.logits(states[part])

    def is_right(self, whole: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor) -> bool:
        """Whether body and head give what the model gives `whole`."""
        try:
            with inference(self._module):
                states, _ = self.read(ids, use_cache=False)
                apart = self.logits(states.flatten(0, 1)).float()
                expected = whole(ids).flatten(0, 1).float()
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError):
            return False
        if apart.shape != expected.shape or not bool(torch.isfinite(expected).any()):
            return False
        allowed = _SAME if states.dtype == torch.float32 else _COARSE
        finite = torch.isfinite(expected)
        off = (apart - expected)[finite].abs().max()
        same = bool((torch.isfinite(apart) == finite).all())
        return same and bool(off <= allowed * expected[finite].abs().max())


@contextmanager
def _instead(body: Any, given: Any) -> Iterator[None]:
    """The body gives what it is told, whatever it is asked."""
    before = body.__dict__.get("forward")
    body.forward = lambda *_, **__: given
    try:
        yield
    finally:
        if before is None:
            del body.forward
        else:
            body.forward = before


@dataclass(frozen=True, eq=False)
class Following:
    """Distributions after tokens, of which only what the head reads is kept.

    See `canary.models.state_cache.NextTokens`. The head runs for those rows alone that are asked.
    """

    states: torch.Tensor  # (n, width)
    head: Head

    def gather(self, rows: Ints, tokens: Ints) -> NDArray[np.float64]:
        """Log-probability of one token in each of the named rows, in nats."""
        found = np.empty(len(rows))
        distinct, place = np.unique(rows, return_inverse=True)
        order = np.argsort(place, kind="stable")
        for part, given in self._of(distinct):
            first, last = np.searchsorted(place[order], [part.start, part.stop])
            some = order[first:last]
            found[some] = given.gather(place[some] - part.start, tokens[some])
        return found

    def children(self, rows: Ints | None, children: Children) -> NDArray[np.float32]:
        """Log-probabilities of children in the named rows (None: all), in nats."""
        named = np.arange(len(self.states)) if rows is None else rows
        parts = [
            given.children(None, children.part(part.start, part.stop))
            for part, given in self._of(named)
        ]
        if not parts:
            return np.empty(children.shape(0), np.float32)
        return np.concatenate(parts)

    def _of(self, rows: Ints) -> Iterator[tuple[slice, Distributions]]:
        with computing():
            chosen = self.states[torch.from_numpy(rows).to(self.states.device)]
            for part, logits in self.head.parts(chosen):
                yield part, Distributions.of(logits)
