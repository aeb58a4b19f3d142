"""Torch language models of the user's own, recurrent or without states.

The contract of a recurrent one: ``module(ids, state) -> (logits, state)`` with `ids` of shape
(batch, time), int64; `state` None at the start and afterwards a tensor, or nested tuples or
lists of tensors, with the batch in dimension 1 of each; `logits` of shape (batch, time,
vocabulary). One without states is ``module(ids) -> logits``: those after each token, of ids
that are padded on the right. Every node of its walks is computed as a whole row.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from canary.errors import CanaryError, ModelError
from canary.models.cache_slots import NONE, Slots
from canary.models.distributions import Distributions, token_log_probs
from canary.models.language_model import Context, Ints
from canary.models.noise import with_measured_noise
from canary.models.state_cache import SlabWalker
from canary.models.torch_model import TorchModel
from canary.models.torch_support import inference, input_device, slab_capacity
from canary.tokens.tokenizer import Tokenizer

__all__ = ["RecurrentModel", "StatelessModel", "own_model"]

_ROWS = 3
"""Of the probe: a batch of the size of a number of layers could pass by accident."""

_RECURRENT = (
    "make forward(ids, state) return (logits of shape (batch, time, vocabulary), state), "
    "with the batch in dimension 1 of every state tensor"
)
_STATELESS = (
    "make forward(ids) return logits of shape (batch, time, vocabulary), or forward(ids, state) "
    "return (logits, state)"
)


def own_model(
    module: torch.nn.Module, tokenizer: Tokenizer, *, name: str
) -> RecurrentModel | StatelessModel:
    """A torch module of the caller's own behind the seam, with states or without.

    Raises
    ------
    ModelError
        If it fulfils neither contract.
    """
    kind = StatelessModel if _keeps_no_state(module) else RecurrentModel
    return kind(module, tokenizer, name=name)


def _keeps_no_state(module: torch.nn.Module) -> bool:
    """Whether a module takes ids alone, or gives logits alone."""
    try:
        inspect.signature(module.forward).bind(None, None)
    except TypeError:
        return True
    ids = torch.zeros((2, 2), dtype=torch.int64, device=input_device(module))
    try:
        with inference(module):
            return isinstance(module(ids, None), torch.Tensor)
    except Exception:  # the module is the caller's own code; its contract says what is wrong
        return False


class _OwnModel(TorchModel):
    def _probe(self) -> torch.Tensor:
        ids = torch.arange(2 * _ROWS, device=self.device).view(_ROWS, 2)
        return ids % max(self.tokenizer.size, 1)

    def _called(self, kind: str, cure: str, *arguments: Any) -> Any:
        """What the module gives; what it raises, it being the caller's own code, is an error."""
        try:
            with inference(self.module):
                return self.module(*arguments)
        except CanaryError:
            raise
        except Exception as error:
            raise ModelError(
                f"{type(self.module).__name__} {kind} ({type(error).__name__}: {error})",
                cure=cure,
            ) from error


class StatelessModel(_OwnModel):
    """A torch module without states behind the language-model seam.

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
        If the module does not fulfil the contract, or gives probabilities.
    """

    def __init__(
        self, module: torch.nn.Module, tokenizer: Tokenizer, *, name: str = "stateless"
    ) -> None:
        super().__init__(module, tokenizer)
        facts = self.introduced(name, self.logits(self._probe()))
        self.facts = with_measured_noise(self, facts)

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `canary.models.torch_model.TorchModel.logits`."""
        logits = self._called("does not work as a language model", _STATELESS, ids)
        shape = tuple(getattr(logits, "shape", ()))
        if not isinstance(logits, torch.Tensor) or len(shape) != 3 or shape[:2] != ids.shape:
            shown = f"shape {shape}" if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise ModelError(
                f"{type(self.module).__name__} gave {shown} for ids of shape {tuple(ids.shape)}",
                cure=_STATELESS,
            )
        return logits[:, skipped:]


class RecurrentModel(_OwnModel):
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
        super().__init__(module, tokenizer)
        logits, state_bytes = self._checked_contract()
        self.bytes_per_held_token = state_bytes + Slots.BYTES
        facts = self.introduced(name, logits, capabilities=("score", "expand", "reuse"))
        self.facts = with_measured_noise(self, facts)

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `canary.models.torch_model.TorchModel.logits`."""
        with inference(self.module):
            logits: torch.Tensor = self.module(ids, None)[0]
            return logits[:, skipped:]

    def open(self, context: Context, *, memory_bytes: int) -> RecurrentWalker:
        """A walker below `context` that holds states within `memory_bytes`."""
        capacity = slab_capacity(memory_bytes, self.bytes_per_held_token)
        return RecurrentWalker(self.module, context, capacity, self.device)

    def _checked_contract(self) -> tuple[torch.Tensor, int]:
        """Logits of the probe, and bytes of the state of one row."""
        ids = self._probe()
        kind = "does not work as a recurrent model"
        given = self._called(kind, _RECURRENT, ids, None)
        try:
            logits, state = given
            leaves = _leaves(state)
            shapes = [tuple(t.shape) for t in leaves]
            shape = tuple(logits.shape)
        except (TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"{type(self.module).__name__} {kind} ({type(error).__name__}: {error})",
                cure=_RECURRENT,
            ) from error
        if shape[:2] != ids.shape or any(len(s) < 2 or s[1] != _ROWS for s in shapes):
            raise ModelError(
                f"{type(self.module).__name__} gave, for {_ROWS} rows of 2 tokens, "
                f"logits of shape {shape} and states of shapes {shapes}",
                cure=_RECURRENT,
            )
        first = _rebuild(state, [leaf[:, :1].contiguous() for leaf in leaves])
        cure = f"{_RECURRENT}, and keep nothing in the module between calls"
        self._called("does not go on from a state that it is given", cure, ids[:1, :1], first)
        return logits, sum(t.numel() // _ROWS * t.element_size() for t in leaves)


class RecurrentWalker(SlabWalker):
    """Holds whole states; one step advances a batch of them by one token."""

    def __init__(
        self, module: torch.nn.Module, context: Context, capacity: int, device: torch.device
    ) -> None:
        self._module = module
        self._device = device
        with inference(module):
            ids = torch.from_numpy(np.asarray(context.ids, np.int64)).to(device).unsqueeze(0)
            logits, state = module(ids, None)
            everything = torch.ones_like(ids[:, 1:], dtype=torch.bool)
            log_probs = token_log_probs(logits[:, :-1], ids[:, 1:], everything)
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
