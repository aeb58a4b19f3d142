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

from canary.models.apart import Following, Head
from canary.models.language_model import Context, FloatArray, Ints
from canary.models.state_cache import NextTokens, SlabWalker, Slots
from canary.models.torch_model import Distributions, context_read, token_log_probs
from canary.models.torch_support import computing, slab_capacity

NAME = "canary_shared_context"

KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer, keys and values of shape (rows, heads, tokens, width)."""

_SCORES = 1 << 25  # of queries over a context, at a time

_context: ContextVar[KeysAndValues] = ContextVar("context")


class Decoder(Protocol):
    """The part of a decoder that walking needs; logits are those after each token."""

    device: torch.device
    head: Head | None
    """Where it is kept apart: then `bare` calls give what it reads, in the place of logits."""

    def cached(
        self, ids: torch.Tensor, cache: Any, *, bare: bool = False
    ) -> tuple[torch.Tensor, Any]:
        """Logits of tokens behind those in `cache` (None: none), and the cache after them."""

    def below(
        self, ids: torch.Tensor, cache: Any, context: KeysAndValues, *, bare: bool = False
    ) -> tuple[torch.Tensor, Any]:
        """Tokens of each row behind a shared context and the row's own `cache`.

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
        given, cache = decoder.cached(ids, None, bare=is_large(decoder, ids.numel()))
        with computing():
            log_probs, root = read_context(decoder, given, ids)
            pairs = context_rows(cache, ids.shape[1])
            capacity = slab_capacity(memory_bytes, _row_bytes(pairs) + Slots.BYTES)
            # Per layer, keys and values of the context, (1, heads, p, width), and of held tokens,
            # (capacity, heads, width).
            self._slabs = [
                (pair, [rows.new_empty(capacity, rows.shape[1], rows.shape[3]) for rows in pair])
                for pair in pairs
            ]
        super().__init__(capacity, chained=True, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> NextTokens:
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
            bare = is_large(self._decoder, len(ids))
            if self._shares:
                given, cache = self._decoder.below(ids, DynamicCache(own), shared, bare=bare)
            else:
                rows = [
                    tuple(
                        torch.cat([first.expand(len(held), -1, -1, -1), held], dim=2)
                        for first, held in zip(*pairs, strict=True)
                    )
                    for pairs in zip(shared, own, strict=True)
                ]
                given, cache = self._decoder.cached(ids, DynamicCache(rows), bare=bare)
            if len(into):
                for layer, (_, slabs) in zip(cache.layers, self._slabs, strict=True):
                    for slab, states in zip(slabs, (layer.keys, layer.values), strict=True):
                        slab.index_copy_(0, kept.to(slab.device), states[: len(into), :, -1])
            if bare and self._decoder.head is not None:
                return Following(given[:, -1], self._decoder.head)
            return Distributions.of(given[:, -1])


def is_large(decoder: Decoder, tokens: int) -> bool:
    """Whether the logits of this number of tokens are not to exist at once."""
    head = decoder.head
    return head is not None and tokens > head.rows(decoder.device)


def read_context(
    decoder: Decoder, given: torch.Tensor, ids: torch.Tensor
) -> tuple[FloatArray, Distributions]:
    """As `context_read`, of logits or of what the head reads."""
    head = decoder.head
    if head is None or not is_large(decoder, ids.numel()):
        return context_read(given, ids)
    states, targets = given[0], ids[0, 1:]
    priced = [
        token_log_probs(logits[None], targets[part].to(logits.device)[None], _all_of(logits))
        for part, logits in head.parts(states[:-1])
    ]
    return np.concatenate(priced), Distributions.of(head.logits(states[-1:]))


def _all_of(logits: torch.Tensor) -> torch.Tensor:
    return torch.ones((1, len(logits)), dtype=torch.bool, device=logits.device)


def _held(slab: torch.Tensor, above: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    rows = slab.index_select(0, above.to(slab.device))
    return rows.view(*shape, *slab.shape[1:]).transpose(1, 2)


def bytes_per_row(cache: Any, length: int) -> int:
    """Bytes of the keys and values of one token in all layers; 0 if there are none."""
    try:
        return _row_bytes(context_rows(cache, length))
    except (AttributeError, ValueError):
        return 0


def _row_bytes(pairs: KeysAndValues) -> int:
    return sum(t[0, :, 0].numel() * t.element_size() for pair in pairs for t in pair)


def context_rows(cache: Any, length: int) -> KeysAndValues:
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
    """Attention of a row's last tokens over the shared context and the row's own keys.

    The result has the shape (n, q, heads, width) for q tokens.

    Parameters
    ----------
    module : torch.nn.Module
        The attention layer; its ``layer_idx`` finds its part of the context.
    query : tensor of shape (n, heads, q, width)
    key, value : tensors of shape (n, groups, t, width)
        Of the row's own tokens, the last q included.

    Raises
    ------
    ValueError
        If the layer asks for masks, soft-caps, sinks or position bias, which are not done.
    """
    for name in ("softcap", "s_aux", "position_bias", "alibi"):
        if options.get(name) is not None:
            raise ValueError(f"attention over a shared context has no {name}")
    if attention_mask is not None:
        raise ValueError("attention over a shared context takes no mask")
    keys, values = _context.get()[module.layer_idx]
    n, heads, asked, width = query.shape
    groups = key.shape[1]
    scale = width**-0.5 if scaling is None else scaling
    own = (query * scale).reshape(n, groups, heads // groups * asked, width)
    # (groups, n * heads per group * q, width): rows are side by side, so that one product does all.
    together = own.transpose(0, 1).reshape(groups, -1, width)
    below = torch.matmul(own, key.transpose(-1, -2)).float()
    if asked > 1:  # each token sees itself and those before it
        held = key.shape[2]
        later = torch.ones(asked, held, dtype=torch.bool, device=key.device).triu(held - asked + 1)
        below.view(n, groups, -1, asked, held).masked_fill_(later, -torch.inf)
    below = below.transpose(0, 1).reshape(groups, together.shape[1], -1)
    largest, total, from_context = _over_context(together, keys[0], values[0])
    most = torch.maximum(largest, below.amax(-1, keepdim=True))
    below = below.sub_(most).exp_()
    share = (largest - most).exp_()
    total = total * share + below.sum(-1, keepdim=True)
    weights = below.view(groups, n, heads // groups * asked, -1).transpose(0, 1)
    from_tail = torch.matmul(weights.to(value.dtype), value).transpose(0, 1)
    both = from_context * share.to(values.dtype) + from_tail.reshape(from_context.shape)
    merged = both / total.to(value.dtype)
    per_row = merged.view(groups, n, heads // groups, asked, -1).permute(1, 3, 0, 2, 4)
    return per_row.reshape(n, asked, heads, -1), None


def _over_context(
    together: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Largest score, sum of the exponentials below it, and the sum of values they weigh.

    For queries of shape (groups, k, width); a part at a time where the context is long.
    """
    size = max(_SCORES // (keys.shape[0] * keys.shape[1]), 1)
    parts = []
    for first in range(0, together.shape[1], size):
        above = torch.matmul(together[:, first : first + size], keys.transpose(-1, -2)).float()
        largest = above.amax(-1, keepdim=True)
        above = above.sub_(largest).exp_()
        weighed = torch.matmul(above.to(values.dtype), values)
        parts.append((largest, above.sum(-1, keepdim=True), weighed))
    if len(parts) == 1:
        return parts[0]
    largest, total, weighed = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))
    return largest, total, weighed
