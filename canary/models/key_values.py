"""The walker over held keys and values of attention layers.

The context is computed once. Below it every node owns one row of keys and values per
layer in the walker's slab; a step gathers the rows of a node's ancestors and computes one
token. The context's rows are shared by all nodes, or copied in front of each one's own.

Shared, they exist once, whatever the batch: their scores are one matrix product for all rows.
The two parts are merged as log-sum-exps are: with m the largest score, sum over both of
e^(s-m) v divided by the sum over both of e^(s-m).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import torch

from canary.models.language_model import Context, Ints
from canary.models.state_cache import SlabWalker, Slots
from canary.models.torch_model import Distributions, context_read
from canary.models.torch_support import computing, slab_capacity

NAME = "canary_shared_context"

KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer, keys and values of shape (rows, heads, tokens, width)."""

_context: ContextVar[KeysAndValues] = ContextVar("context")


class Decoder(Protocol):
    """The part of a decoder that walking needs; logits are those after each token."""

    device: torch.device

    def cached(self, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """Logits of tokens behind those in `cache` (None: none), and the cache after them."""

    def below(
        self, ids: torch.Tensor, cache: Any, context: KeysAndValues
    ) -> tuple[torch.Tensor, Any]:
        """One token of each row behind a shared context and the row's own `cache`.

        A ValueError if the model's attention cannot be done that way.
        """


class KeyValueWalker(SlabWalker):
    """Holds one row of keys and values per layer for each held token.

    With `shares`, nodes attend to one copy of the context (`Decoder.below`), not to one each.
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
            context_rows = _context_rows(cache, ids.shape[1])
            capacity = slab_capacity(memory_bytes, _row_bytes(context_rows) + Slots.BYTES)
            # Per layer, keys and values of the context, (1, heads, p, width), and of held tokens,
            # (capacity, heads, width).
            self._slabs = [
                (pair, [rows.new_empty(capacity, rows.shape[1], rows.shape[3]) for rows in pair])
                for pair in context_rows
            ]
        super().__init__(capacity, chained=True, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> Distributions:
        from transformers import DynamicCache

        with computing():
            chain = self._slots.ancestors(parents, depth)
            above, kept, ids = (
                torch.from_numpy(array).to(self._decoder.device)
                for array in (chain.reshape(-1), into, tokens[:, None])
            )
            # The rows of each node's ancestors: (n, heads, depth, width).
            shared = [pair for pair, _ in self._slabs]
            own = [
                tuple(_held(slab, above, chain.shape) for slab in slabs) for _, slabs in self._slabs
            ]
            if self._shares:
                logits, cache = self._decoder.below(ids, DynamicCache(own), shared)
            else:
                rows = [
                    tuple(
                        torch.cat([first.expand(len(held), -1, -1, -1), held], dim=2)
                        for first, held in zip(*pairs, strict=True)
                    )
                    for pairs in zip(shared, own, strict=True)
                ]
                logits, cache = self._decoder.cached(ids, DynamicCache(rows))
            if len(into):
                for layer, (_, slabs) in zip(cache.layers, self._slabs, strict=True):
                    for slab, states in zip(slabs, (layer.keys, layer.values), strict=True):
                        slab.index_copy_(0, kept.to(slab.device), states[: len(into), :, -1])
            return Distributions.of(logits[:, -1])


def _held(slab: torch.Tensor, above: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    rows = slab.index_select(0, above.to(slab.device))
    return rows.view(*shape, *slab.shape[1:]).transpose(1, 2)


def bytes_per_row(cache: Any, length: int) -> int:
    """Bytes of the keys and values of one token in all layers; 0 if there are none."""
    try:
        return _row_bytes(_context_rows(cache, length))
    except (AttributeError, ValueError):
        return 0


def _row_bytes(pairs: KeysAndValues) -> int:
    return sum(t[0, :, 0].numel() * t.element_size() for pair in pairs for t in pair)


def _context_rows(cache: Any, length: int) -> KeysAndValues:
    """Keys and values of the context; a ValueError if a layer holds no row for each token."""
    pairs = [(layer.keys, layer.values) for layer in cache.layers]
    if any(t is None or t.dim() != 4 or t.shape[2] != length for pair in pairs for t in pair):
        raise ValueError("a layer of this model does not hold one row for each token")
    return pairs


@contextmanager
def sharing(config: Any, context: KeysAndValues) -> Iterator[None]:
    """Decoders with this `transformers` config attend to `context` before what their cache holds.

    The attention that the config names is put back afterwards.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)
    before = config._attn_implementation
    token = _context.set(context)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        _context.reset(token)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """One token's attention over the shared context and the row's own keys; (n, 1, heads, width).

    Parameters
    ----------
    module : torch.nn.Module
        The attention layer; its ``layer_idx`` finds its part of the context.
    query : tensor of shape (n, heads, 1, width)
    key, value : tensors of shape (n, groups, t, width)
        Of the row's own tokens, the last one included.

    Raises
    ------
    ValueError
        If the layer asks for masks, soft-caps, sinks or position bias, which are not done.
    """
    for name in ("softcap", "s_aux", "position_bias", "alibi"):
        if options.get(name) is not None:
            raise ValueError(f"attention over a shared context has no {name}")
    if attention_mask is not None or query.shape[2] != 1:
        raise ValueError("attention over a shared context takes one token and no mask")
    keys, values = _context.get()[module.layer_idx]
    n, heads, _, width = query.shape
    groups = key.shape[1]
    scale = width**-0.5 if scaling is None else scaling
    own = (query * scale).view(n, groups, heads // groups, width)
    # (groups, n * heads per group, width): rows are side by side, so that one product does all.
    together = own.transpose(0, 1).reshape(groups, -1, width)
    above = torch.matmul(together, keys[0].transpose(-1, -2)).float()
    below = torch.matmul(own, key.transpose(-1, -2)).float()
    below = below.transpose(0, 1).reshape(groups, together.shape[1], -1)
    largest = torch.maximum(above.amax(-1, keepdim=True), below.amax(-1, keepdim=True))
    above = above.sub_(largest).exp_()
    below = below.sub_(largest).exp_()
    total = above.sum(-1, keepdim=True) + below.sum(-1, keepdim=True)
    from_context = torch.matmul(above.to(values.dtype), values[0])
    weights = below.view(groups, n, heads // groups, -1).transpose(0, 1)
    from_tail = torch.matmul(weights.to(value.dtype), value).transpose(0, 1)
    merged = (from_context + from_tail.reshape(from_context.shape)) / total.to(value.dtype)
    per_row = merged.view(groups, n, heads // groups, -1).transpose(0, 1)
    return per_row.reshape(n, 1, heads, -1), None
