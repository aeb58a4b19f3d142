"""Recurrent torch language models of the user's own.

The contract: ``module(ids, state) -> (logits, state)`` with `ids` of shape (batch, time),
int64; `state` None at the start and afterwards a tensor, or nested tuples or lists of
tensors, with the batch in dimension 1 of each; `logits` of shape (batch, time, vocabulary).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.cache_slots import NONE, Slots
from canary.models.distributions import Distributions, token_log_probs, token_moments
from canary.models.language_model import (
    Context,
    FloatArray,
    Memory,
    ModelFacts,
    Moments,
    Rows,
)
from canary.models.noise import with_measured_noise
from canary.models.torch_support import (
    dtype_at_work,
    dtype_name,
    free_bytes,
    inference,
    pad,
    refuse_softmax,
    scored_positions,
    slab_capacity,
)
from canary.models.torch_walker import TorchWalker
from canary.models.weight_digest import fingerprint
from canary.tokens.tokenizer import Tokenizer

__all__ = ["RecurrentModel"]

Ints = NDArray[np.int64]

_PROBED = 3


class RecurrentModel:
    """A recurrent torch module behind the language-model seam.

    Parameters
    ----------
    module : torch.nn.Module
        Fulfils the contract at the head of this file.
    tokenizer : Tokenizer
    name : str
        What to call the model in results.

    Raises
    ------
    ModelError
        If the module does not fulfil the contract; found out with one token at load.
    """

    def __init__(
        self, module: torch.nn.Module, tokenizer: Tokenizer, *, name: str = "recurrent"
    ) -> None:
        self.module = module
        self.tokenizer = tokenizer
        parameter = next(module.parameters(), torch.empty(0))
        self._device = parameter.device
        with inference(module):
            vocabulary, self._state_bytes = self._check_contract()
            probe = torch.zeros((1, 1), dtype=torch.int64, device=self._device)
            dtype = dtype_at_work(module, parameter.dtype, lambda: module(probe, None))
        self.facts = with_measured_noise(
            self,
            ModelFacts(
                name=name,
                vocabulary=vocabulary,
                length_limit=None,
                dtype=dtype_name(dtype),
                attention="none",
                device=self._device.type,
                fingerprint=fingerprint(module),
                noise_bits_per_token=0.0,
                capabilities=("score", "expand", "reuse"),
            ),
        )

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        if not len(rows) or int(rows.lengths.max()) < 2:
            return np.zeros(0, np.float32)
        with inference(self.module):
            return token_log_probs(*self._asked(rows))

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`."""
        if not len(rows) or int(rows.lengths.max()) < 2:
            none = np.zeros(0, np.float32)
            return Moments(none, none, none)
        with inference(self.module):
            return token_moments(*self._asked(rows))

    def _asked(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits, targets, and which of them are scored."""
        ids = pad(rows, self._device)
        logits, _ = self.module(ids[:, :-1], None)
        return logits, ids[:, 1:], scored_positions(rows, self._device)

    def open(self, context: Context, *, memory_bytes: int) -> RecurrentWalker:
        """A walker below `context` that holds states within `memory_bytes`."""
        return RecurrentWalker(
            self.module, context, slab_capacity(memory_bytes, self._state_bytes), self._device
        )

    def memory(self) -> Memory:
        """Free bytes on the module's device, and the size of one state."""
        return Memory(free_bytes(self._device), self._state_bytes)

    def _check_contract(self) -> tuple[int, int]:
        # Three rows: a batch of the size of a number of layers could pass by accident.
        size = max(self.tokenizer.size, 1)
        ids = torch.arange(2 * _PROBED, device=self._device).view(_PROBED, 2) % size
        cure = (
            "make forward(ids, state) return (logits of shape (batch, time, vocabulary), state), "
            "with the batch in dimension 1 of every state tensor"
        )
        try:
            logits, state = self.module(ids, None)
            leaves = _leaves(state)
        except Exception as error:  # the module is the caller's own code
            raise ModelError(
                f"{type(self.module).__name__} does not work as a recurrent model "
                f"({type(error).__name__}: {error})",
                cure=cure,
            ) from error
        shapes = [tuple(t.shape) for t in leaves]
        if logits.shape[:2] != ids.shape or any(len(s) < 2 or s[1] != _PROBED for s in shapes):
            raise ModelError(
                f"{type(self.module).__name__} gave, for {_PROBED} rows of 2 tokens, "
                f"logits of shape {tuple(logits.shape)} and states of shapes {shapes}",
                cure=cure,
            )
        try:
            one = _rebuild(state, [leaf[:, :1].contiguous() for leaf in leaves])
            self.module(ids[:1, :1], one)
        except Exception as error:
            raise ModelError(
                f"{type(self.module).__name__} does not go on from a state that it is given "
                f"({type(error).__name__}: {error})",
                cure=f"{cure}, and keep nothing in the module between calls",
            ) from error
        refuse_softmax(logits, type(self.module).__name__)
        if logits.shape[2] < self.tokenizer.size:
            raise ModelError(
                f"the model has {logits.shape[2]} tokens, its tokenizer {self.tokenizer.size}",
                cure="give the tokenizer that the model was trained with",
            )
        state_bytes = sum(t.numel() // _PROBED * t.element_size() for t in leaves)
        return int(logits.shape[2]), state_bytes + Slots.BYTES


class RecurrentWalker(TorchWalker):
    """Holds whole states; one step advances a batch of them by one token."""

    def __init__(
        self, module: torch.nn.Module, context: Context, capacity: int, device: torch.device
    ) -> None:
        self._module = module
        self._device = device
        with inference(module):
            ids = torch.from_numpy(np.asarray(context.ids, np.int64)).to(device).unsqueeze(0)
            logits, state = module(ids, None)
            wanted = torch.ones((1, ids.shape[1] - 1), dtype=torch.bool, device=device)
            log_probs = token_log_probs(logits[:, :-1], ids[:, 1:], wanted)
            root = Distributions.of(logits[:, -1])
            self._like = state
            # Per state tensor of shape (a, 1, ...): a slab of shape (a, capacity + 1, ...)
            # whose last place is the root.
            self._slabs = [_slab(t, capacity) for t in _leaves(state)]
        self._root_place = capacity
        super().__init__(capacity, chained=False, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> Distributions:
        with inference(self._module):
            places = np.where(parents == NONE, self._root_place, parents)
            at = torch.from_numpy(places).to(self._device)
            state = _rebuild(self._like, [slab.index_select(1, at) for slab in self._slabs])
            ids = torch.from_numpy(tokens).to(self._device).unsqueeze(1)
            logits, state = self._module(ids, state)
            if len(into):
                to = torch.from_numpy(into).to(self._device)
                for slab, tensor in zip(self._slabs, _leaves(state), strict=True):
                    slab.index_copy_(1, to, tensor[:, : len(into)])
            return Distributions.of(logits[:, -1])

    def _free_slab(self) -> None:
        self._slabs = []


def _leaves(state: Any) -> list[torch.Tensor]:
    """The tensors of a nested state, in order."""
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, tuple | list):
        return [t for part in state for t in _leaves(part)]
    raise TypeError(f"a state holds a {type(state).__name__}, tensors were expected")


def _rebuild(like: Any, leaves: list[torch.Tensor]) -> Any:
    """A state nested as `like`, with other tensors; consumes `leaves`."""
    if isinstance(like, torch.Tensor):
        return leaves.pop(0)
    parts = [_rebuild(part, leaves) for part in like]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _slab(state: torch.Tensor, capacity: int) -> torch.Tensor:
    a, _, *rest = state.shape
    slab = torch.empty((a, capacity + 1, *rest), dtype=state.dtype, device=state.device)
    slab[:, capacity] = state[:, 0]
    return slab
