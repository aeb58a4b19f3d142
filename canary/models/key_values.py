"""The walker over held keys and values of attention layers.

The context is computed once. Below it every node owns one row of keys and values per
layer in the walker's slab; a step gathers the rows of a node's ancestors behind those of
the context and computes one token.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.models.base import Children, Context, FloatArray
from canary.models.distributions import Distributions, token_log_probs
from canary.models.slab import SlabWalker
from canary.models.slots import Slots
from canary.models.torch_support import inference, slab_capacity

__all__ = ["KeyValueWalker", "bytes_per_row"]

Ints = NDArray[np.int64]


class KeyValueWalker(SlabWalker):
    """Holds one row of keys and values per layer for each held token."""

    def __init__(
        self, module: Any, context: Context, memory_bytes: int, device: torch.device
    ) -> None:
        self._module = module
        self._device = device
        with inference(module):
            ids = torch.from_numpy(np.asarray(context.ids, np.int64)).to(device).unsqueeze(0)
            out = module(input_ids=ids, use_cache=True)
            wanted = torch.ones((1, ids.shape[1] - 1), dtype=torch.bool, device=device)
            log_probs = token_log_probs(out.logits[:, :-1], ids[:, 1:], wanted)
            root = Distributions.of(out.logits[:, -1])
            # Per layer, keys and values of the context: (1, heads, p, width).
            self._shared = _context_rows(out.past_key_values, ids.shape[1])
            capacity = slab_capacity(memory_bytes, _row_bytes(self._shared) + Slots.BYTES)
            # Per layer, keys and values of held tokens: (capacity, heads, width).
            self._slabs = [
                (_rows_like(k, capacity), _rows_like(v, capacity)) for k, v in self._shared
            ]
        super().__init__(capacity, chained=True, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> Distributions:
        from transformers import DynamicCache

        n = len(tokens)
        with inference(self._module):
            chain = torch.from_numpy(self._slots.ancestors(parents, depth))
            cache = DynamicCache(
                [
                    (_behind(k, slab_k, chain), _behind(v, slab_v, chain))
                    for (k, v), (slab_k, slab_v) in zip(self._shared, self._slabs, strict=True)
                ]
            )
            ids = torch.from_numpy(tokens).to(self._device).view(n, 1)
            out = self._module(input_ids=ids, past_key_values=cache, use_cache=True)
            if len(into):
                for layer, (slab_k, slab_v) in zip(
                    out.past_key_values.layers, self._slabs, strict=True
                ):
                    to = torch.from_numpy(into).to(slab_k.device)
                    slab_k.index_copy_(0, to, layer.keys[: len(into), :, -1])
                    slab_v.index_copy_(0, to, layer.values[: len(into), :, -1])
            return Distributions.of(out.logits[:, -1])

    def _gather(self, distributions: Distributions, rows: Ints, tokens: Ints) -> Any:
        with inference(self._module):
            return distributions.gather(rows, tokens)

    def _children(
        self, distributions: Distributions, rows: Ints | None, tokens: Children
    ) -> FloatArray:
        with inference(self._module):
            return distributions.children(rows, tokens)

    def _free_slab(self) -> None:
        self._slabs = []
        self._shared = []


def bytes_per_row(cache: Any, length: int) -> int:
    """Bytes of the keys and values of one token in all layers; 0 if there are none."""
    try:
        return _row_bytes(_context_rows(cache, length))
    except (AttributeError, ValueError):
        return 0


def _row_bytes(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> int:
    return sum(t[0, :, 0].numel() * t.element_size() for pair in pairs for t in pair)


def _context_rows(cache: Any, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of the context, per layer: (1, heads, length, width).

    Raises
    ------
    ValueError
        If a layer does not hold one row for each token.
    """
    pairs = [(layer.keys, layer.values) for layer in cache.layers]
    if any(t is None or t.dim() != 4 or t.shape[2] != length for pair in pairs for t in pair):
        raise ValueError("a layer of this model does not hold one row for each token")
    return pairs


def _rows_like(shared: torch.Tensor, capacity: int) -> torch.Tensor:
    _, heads, _, width = shared.shape
    return torch.empty((capacity, heads, width), dtype=shared.dtype, device=shared.device)


def _behind(shared: torch.Tensor, slab: torch.Tensor, chain: torch.Tensor) -> torch.Tensor:
    """The context's rows, then those of each node's ancestors: (n, heads, p + depth, width)."""
    n, depth = chain.shape
    at = chain.reshape(-1).to(slab.device)
    held = slab.index_select(0, at).view(n, depth, *slab.shape[1:])
    return torch.cat([shared.expand(n, -1, -1, -1), held.transpose(1, 2)], dim=2)
