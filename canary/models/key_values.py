"""The walker over held keys and values of attention layers.

The context is computed once. Below it every node owns one row of keys and values per
layer in the walker's slab; a step gathers the rows of a node's ancestors and computes one
token. The context's rows are shared by all nodes, or copied in front of each one's own.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

from canary.models.language_model import Context, Ints
from canary.models.shared_context import KeysAndValues
from canary.models.state_cache import SlabWalker, Slots
from canary.models.torch_model import Distributions, context_read
from canary.models.torch_support import SlabPlaces, computing, slab_capacity


class Decoder(Protocol):
    """The part of a decoder that walking needs; logits are those after each token."""

    device: torch.device

    def cached(self, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """Logits of tokens behind those in `cache` (None: none), and the cache after them."""

    def below(
        self, ids: torch.Tensor, cache: Any, context: KeysAndValues
    ) -> tuple[torch.Tensor, Any]:
        """One token of each row behind a shared context and the row's own `cache`.

        Raises
        ------
        UnsupportedError, ValueError
            If the model's attention cannot be done that way.
        """


class KeyValueWalker(SlabWalker):
    """Holds one row of keys and values per layer for each held token.

    Parameters
    ----------
    decoder : Decoder
    context : Context
    memory_bytes : int
    shares : bool
        Attend to one copy of the context (`Decoder.below`) instead of a copy per node.
    """

    def __init__(
        self, decoder: Decoder, context: Context, memory_bytes: int, *, shares: bool = False
    ) -> None:
        self._decoder = decoder
        self._shares = shares
        ids = torch.from_numpy(np.asarray(context.ids, np.int64)).to(decoder.device).unsqueeze(0)
        logits, cache = decoder.cached(ids, None)
        with computing():
            log_probs, root = context_read(logits, ids)
            # Per layer, keys and values of the context: (1, heads, p, width).
            self._context = _context_rows(cache, ids.shape[1])
            capacity = slab_capacity(memory_bytes, _row_bytes(self._context) + Slots.BYTES)
            # Per layer, keys and values of held tokens: (capacity, heads, width).
            self._slabs = [
                (_rows_like(k, capacity), _rows_like(v, capacity)) for k, v in self._context
            ]
        super().__init__(capacity, chained=True, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> Distributions:
        from transformers import DynamicCache

        with computing():
            chain = self._slots.ancestors(parents, depth)
            above, kept = SlabPlaces(chain.reshape(-1)), SlabPlaces(into)
            held = [
                (_held(slab_k, above, chain.shape), _held(slab_v, above, chain.shape))
                for slab_k, slab_v in self._slabs
            ]
            ids = torch.from_numpy(tokens).to(self._decoder.device).unsqueeze(1)
            if self._shares:
                logits, cache = self._decoder.below(ids, DynamicCache(held), self._context)
            else:
                rows = [
                    (_behind(k, own_k), _behind(v, own_v))
                    for (k, v), (own_k, own_v) in zip(self._context, held, strict=True)
                ]
                logits, cache = self._decoder.cached(ids, DynamicCache(rows))
            if len(into):
                for layer, (slab_k, slab_v) in zip(cache.layers, self._slabs, strict=True):
                    kept.write(slab_k, layer.keys[: len(into), :, -1])
                    kept.write(slab_v, layer.values[: len(into), :, -1])
            return Distributions.of(logits[:, -1])

    def _free_slab(self) -> None:
        self._slabs = []
        self._context = []


def bytes_per_row(cache: Any, length: int) -> int:
    """Bytes of the keys and values of one token in all layers; 0 if there are none."""
    try:
        return _row_bytes(_context_rows(cache, length))
    except (AttributeError, ValueError):
        return 0


def _row_bytes(pairs: KeysAndValues) -> int:
    return sum(t[0, :, 0].numel() * t.element_size() for pair in pairs for t in pair)


def _context_rows(cache: Any, length: int) -> KeysAndValues:
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


def _held(slab: torch.Tensor, above: SlabPlaces, shape: tuple[int, ...]) -> torch.Tensor:
    """The rows of each node's ancestors, of `shape` (n, depth): (n, heads, depth, width)."""
    rows = above.read(slab)
    return rows.view(*shape, *slab.shape[1:]).transpose(1, 2)


def _behind(shared: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
    """The context's rows, then those of each node: (n, heads, p + depth, width)."""
    return torch.cat([shared.expand(len(held), -1, -1, -1), held], dim=2)
