"""Attention of one token per row over a context that all rows share, and their own tails.

The context's keys and values exist once, whatever the batch: its scores are one matrix
product for all rows. The two parts are merged as log-sum-exps are: with m the largest
score, sum over both of e^(s-m) v divided by the sum over both of e^(s-m).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

NAME = "canary_shared_context"

KeysAndValues = list[tuple[torch.Tensor, torch.Tensor]]
"""Per layer, keys and values of shape (rows, heads, tokens, width)."""

_context: ContextVar[KeysAndValues] = ContextVar("context")


@contextmanager
def sharing(config: Any, context: KeysAndValues) -> Iterator[None]:
    """Models with this config attend to `context` before what their cache holds.

    Parameters
    ----------
    config : transformers.PreTrainedConfig
        Of the decoder; the attention that it names is put back afterwards.
    context : list of (tensor, tensor)
        Per layer, keys and values of shape (1, heads, p, width).
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
    """One token's attention over the shared context and the row's own keys.

    Parameters
    ----------
    module : torch.nn.Module
        The attention layer; its ``layer_idx`` finds its part of the context.
    query : tensor of shape (n, heads, 1, width)
    key, value : tensors of shape (n, groups, t, width)
        Of the row's own tokens, the last one included.

    Returns
    -------
    tensor of shape (n, 1, heads, width), None

    Raises
    ------
    ValueError
        If the layer asks for what this does not do: masks, soft-caps, sinks, position
        bias.
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
    # (groups, n * heads per group, width): rows lie together, so that one product does all.
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
