"""Torch language models of the user's own, recurrent or without states.

The contract of a recurrent one: ``module(ids, state) -> (logits, state)`` with `ids` of shape
(batch, time), int64; `state` None at the start and afterwards a tensor, or nested tuples or
lists of tensors, with the batch in dimension 1 of each; `logits` of shape (batch, time,
vocabulary). One without states is ``module(ids) -> logits``: those after each token, of ids
that are padded on the right. Every node of its walks is computed as a whole row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from canary.errors import CanaryError, ModelError, OutOfMemory
from canary.models.language_model import Context, Ints, Walker
from canary.models.noise import with_measured_noise
from canary.models.state_cache import NONE, SlabWalker, Slots
from canary.models.ties import refuse_ties
from canary.models.torch_model import Distributions, TorchModel, context_read
from canary.models.torch_support import inference, slab_capacity
from canary.tokens.tokenizer import Tokenizer

_ROWS = 3  # of the probe: a batch of the size of a number of layers could pass by accident
_LONG = 256  # tokens of a row that is tried at load: longer than canary's own rows
_RECURRENT = (
    "make forward(ids, state) return (logits of shape (batch, time, vocabulary), state), "
    "with the batch in dimension 1 of every state tensor; without states return logits alone"
)
_STATELESS = (
    "make forward(ids) return logits of shape (batch, time, vocabulary), or forward(ids, state) "
    "return (logits, state)"
)


class RecurrentModel(TorchModel):
    """A torch module of the user's own behind the language-model seam.

    Parameters
    ----------
    module : torch.nn.Module
        Fulfils one of the contracts at the head of this file.
    tokenizer : Tokenizer
    name : str, optional
        What to call the model in results; what it is unless given.

    Raises
    ------
    ModelError
        If the module fulfils neither contract, or gives probabilities; found out at load.
    """

    def __init__(
        self, module: torch.nn.Module, tokenizer: Tokenizer, *, name: str | None = None
    ) -> None:
        super().__init__(module, tokenizer)
        self._stateless = self._keeps_no_state()
        ids = torch.arange(2 * _ROWS, device=self.device).view(_ROWS, 2) % max(tokenizer.size, 1)
        reuse: tuple[str, ...] = ()
        if self._stateless:
            logits = self.logits(ids)
        else:
            logits, state_bytes = self._checked_recurrence(ids)
            reuse = ("reuse",)
            self.bytes_per_held_token = state_bytes + Slots.BYTES
        facts = self.introduced(
            name or ("stateless" if self._stateless else "recurrent"),
            logits,
            capabilities=("score", "expand", *reuse),
        )
        self.facts = facts
        self.find_limit(_LONG)
        self.facts = with_measured_noise(self, self.facts)
        refuse_ties(self)

    def find_limit(self, tokens: int) -> None:
        """Set the length limit of the facts if rows of `tokens` tokens are too long for the module.

        Costs one row, and a row for each halving of `tokens` if it is too long.
        """
        low, high = 1, tokens + 1
        length = tokens
        while high - low > 1:
            ids = torch.arange(length, device=self.device)[None] % max(self.tokenizer.size, 1)
            try:
                with _places_checked(self.module):
                    self.logits(ids)
                low = length
            except OutOfMemory:
                raise
            except Exception:  # the module is the caller's own code, and has worked on short rows
                high = length
            length = (low + high) // 2
        if low < tokens:
            self.facts = replace(self.facts, length_limit=low)

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `canary.models.torch_model.TorchModel.logits`."""
        if not self._stateless:
            with inference(self.module):
                logits: torch.Tensor = self.module(ids, None)[0]
                return logits[:, skipped:]
        problem = f"does not work as a language model on rows of {ids.shape[1]} tokens"
        cure = _STATELESS if ids.shape[1] <= _LONG else "use a shorter format, context or text"
        given = self._called(problem, cure, ids)
        shape = tuple(getattr(given, "shape", ()))
        if not isinstance(given, torch.Tensor) or len(shape) != 3 or shape[:2] != ids.shape:
            shown = f"shape {shape}" if isinstance(given, torch.Tensor) else type(given).__name__
            raise ModelError(
                f"{type(self.module).__name__} gave {shown} for ids of shape {tuple(ids.shape)}",
                cure=_STATELESS,
            )
        return given[:, skipped:]

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context` that holds states, if there are any, within `memory_bytes`."""
        if self._stateless:
            return super().open(context, memory_bytes=memory_bytes)
        capacity = slab_capacity(memory_bytes, self.bytes_per_held_token)
        return RecurrentWalker(self.module, context, capacity, self.device)

    def _keeps_no_state(self) -> bool:
        """Whether the module takes ids alone, or gives logits alone."""
        try:
            inspect.signature(self.module.forward).bind(None, None)
        except TypeError:
            return True
        try:
            with inference(self.module):
                ids = torch.zeros((2, 2), dtype=torch.int64, device=self.device)
                return isinstance(self.module(ids, None), torch.Tensor)
        except Exception:  # the module is the caller's own code; its contract says what is wrong
            return False

    def _checked_recurrence(self, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Logits of the probe, and bytes of the state of one row."""

        def parts(given: Any) -> tuple[torch.Tensor, Any, list[torch.Tensor]]:
            logits, state = given
            if not isinstance(logits, torch.Tensor):
                raise TypeError(f"logits are a {type(logits).__name__}, a tensor was expected")
            return logits, state, _leaves(state)

        kind, name = "does not work as a recurrent model", type(self.module).__name__
        logits, state, leaves = self._called(kind, _RECURRENT, ids, None, read=parts)
        shapes = [tuple(leaf.shape) for leaf in leaves]
        if logits.shape[:2] != ids.shape or any(len(s) < 2 or s[1] != _ROWS for s in shapes):
            raise ModelError(
                f"{name} gave, for {_ROWS} rows of 2 tokens, "
                f"logits of shape {tuple(logits.shape)} and states of shapes {shapes}",
                cure=_RECURRENT,
            )
        first = _rebuild(state, [leaf[:, :1].contiguous() for leaf in leaves])
        cure = f"{_RECURRENT}, and keep nothing in the module between calls"
        problem = "does not go on from a state that it is given"
        later = self._called(
            problem, cure, ids[:1, :1], first, read=lambda given: _leaves(given[1])
        )
        after = [tuple(leaf.shape) for leaf in later]
        if after != [tuple(leaf[:, :1].shape) for leaf in leaves]:
            raise ModelError(
                f"the state of {name} has another shape after a token: {shapes} for {_ROWS} rows, "
                f"then {after} for one row",
                cure="return the logits alone, or a state whose shape stays",
            )
        return logits, sum(leaf.numel() // _ROWS * leaf.element_size() for leaf in leaves)

    def _called(
        self,
        problem: str,
        cure: str,
        *arguments: Any,
        read: Callable[[Any], Any] = lambda given: given,
    ) -> Any:
        """What `read` makes of what the module gives; what the module raises is its error."""
        try:
            with inference(self.module):
                return read(self.module(*arguments))
        except CanaryError:
            raise
        except Exception as error:
            raise ModelError(
                f"{type(self.module).__name__} {problem} ({type(error).__name__}: {error})",
                cure=cure,
            ) from error


class RecurrentWalker(SlabWalker):
    """Holds whole states; one step advances a batch of them by one token."""

    def __init__(
        self, module: torch.nn.Module, context: Context, capacity: int, device: torch.device
    ) -> None:
        self._module, self._device = module, device
        self._root_place = capacity
        with inference(module):
            ids = torch.from_numpy(np.asarray(context.ids, np.int64)).to(device).unsqueeze(0)
            logits, self._like = module(ids, None)
            log_probs, root = context_read(logits, ids)
            # Per state tensor of shape (a, 1, ...): a slab of shape (a, capacity + 1, ...)
            # whose last place is the root.
            self._slabs = []
            for leaf in _leaves(self._like):
                slab = leaf.new_empty(len(leaf), capacity + 1, *leaf.shape[2:])
                slab[:, capacity] = leaf[:, 0]
                self._slabs.append(slab)
        super().__init__(capacity, chained=False, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> Distributions:
        with inference(self._module):
            places = np.where(parents == NONE, self._root_place, parents)
            held, kept, ids = (
                torch.from_numpy(array).to(self._device)
                for array in (places, into, tokens[:, None])
            )
            leaves = [slab.index_select(1, held.to(slab.device)) for slab in self._slabs]
            state = _rebuild(self._like, leaves)
            logits, state = self._module(ids, state)
            if len(into):
                for slab, leaf in zip(self._slabs, _leaves(state), strict=True):
                    slab.index_copy_(1, kept.to(slab.device), leaf[:, : len(into)])
            return Distributions.of(logits[:, -1])


@contextmanager
def _places_checked(module: torch.nn.Module) -> Iterator[None]:
    """Raise for an index that an embedding does not have; on a GPU it would end the process."""

    def check(part: Any, given: tuple[Any, ...]) -> None:
        if given and int(given[0].max()) >= part.num_embeddings:
            raise IndexError(f"an embedding of {part.num_embeddings} was asked for more")

    parts = [part for part in module.modules() if isinstance(part, torch.nn.Embedding)]
    hooks = [part.register_forward_pre_hook(check) for part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _leaves(state: Any) -> list[torch.Tensor]:
    """The tensors of a nested state, in order."""
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, tuple | list):
        return [leaf for part in state for leaf in _leaves(part)]
    raise TypeError(f"a state holds a {type(state).__name__}, tensors were expected")


def _rebuild(like: Any, leaves: list[torch.Tensor]) -> Any:
    """A state nested as `like`, with other tensors; consumes `leaves`."""
    if isinstance(like, torch.Tensor):
        return leaves.pop(0)
    parts = [_rebuild(part, leaves) for part in like]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)
