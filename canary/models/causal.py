"""Causal language models of `transformers`.

The context is computed once. Below it every node owns one row of keys and values per
layer in the walker's slab; a step gathers the rows of a node's ancestors behind those of
the context and computes one token. Whether a model computes the same that way is found
out at load; where it does not (recurrent states, sliding windows), nodes are scored as
whole rows.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.base import Children, Context, FloatArray, Memory, ModelFacts, Rows, Walker
from canary.models.by_scoring import RowWalker
from canary.models.distributions import Distributions, token_log_probs
from canary.models.noise import chain_log_probs, with_measured_noise
from canary.models.slab import SlabWalker
from canary.models.slots import Slots
from canary.models.torch_support import (
    fingerprint,
    free_bytes,
    inference,
    pad,
    scored_positions,
    slab_capacity,
)
from canary.tokens.base import Tokenizer

__all__ = ["CausalModel"]

Ints = NDArray[np.int64]

_PROBE_PREFIX = 16
_PROBE_BELOW = 6
_PROBE_TOLERANCE = 1e-3  # of the effect of dropping the prefix


class CausalModel:
    """A `transformers` causal language model behind the language-model seam.

    Parameters
    ----------
    module : transformers.PreTrainedModel
    tokenizer : Tokenizer
    name : str
        What to call the model in results.
    """

    def __init__(self, module: Any, tokenizer: Tokenizer, *, name: str = "causal") -> None:
        self.module = module
        self.tokenizer = tokenizer
        self._device: torch.device = module.device
        self._selects_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        config = module.config.get_text_config()
        vocabulary = int(module.get_output_embeddings().weight.shape[0])
        if vocabulary < tokenizer.size:
            raise ModelError(
                f"the model has {vocabulary} tokens, its tokenizer {tokenizer.size}",
                cure="give the tokenizer that the model was trained with",
            )
        self._reuses = False
        plain = ModelFacts(
            name=name,
            vocabulary=vocabulary,
            length_limit=_length_limit(config),
            dtype=str(module.dtype).removeprefix("torch."),
            attention=str(getattr(config, "_attn_implementation", None) or "none"),
            device=self._device.type,
            fingerprint=fingerprint(module),
            noise_bits_per_token=0.0,
        )
        self.facts = plain
        if _may_reuse(config) and self._probe_reuse():
            self._reuses = True
            plain = replace(plain, capabilities=("score", "expand", "reuse"))
        self.facts = with_measured_noise(self, plain)

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        if not len(rows) or int(rows.lengths.max()) < 2:
            return np.zeros(0, np.float32)
        with inference(self.module):
            ids = pad(rows, self._device)
            wanted = scored_positions(rows, self._device)
            options: dict[str, Any] = {"use_cache": False}
            skipped = 0
            if self._selects_logits:
                # Logits only from the first position that any row is scored at.
                skipped = max(int(rows.start.min()) - 1, 0)
                options["logits_to_keep"] = ids.shape[1] - 1 - skipped
                if options["logits_to_keep"] < 1:
                    return np.zeros(0, np.float32)
            logits = self.module(input_ids=ids[:, :-1], **options).logits
            return token_log_probs(logits, ids[:, 1 + skipped :], wanted[:, skipped:])

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context` that holds states within `memory_bytes`."""
        if not self._reuses:
            return RowWalker(self, context)
        return CausalWalker(self.module, context, memory_bytes, self._device)

    def memory(self) -> Memory:
        """Free bytes on the module's device, and the keys and values of one token."""
        config = self.module.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        size = 2 * config.num_hidden_layers * heads * width * self.module.dtype.itemsize
        return Memory(free_bytes(self._device), int(size) + Slots.BYTES)

    def _probe_reuse(self) -> bool:
        """Whether a walk with held states gives what whole rows give.

        Measured against the effect of dropping the prefix altogether: an absolute bound
        would pass a model at initialisation that ignores its states.
        """
        limit = self.facts.length_limit or _PROBE_PREFIX + _PROBE_BELOW
        length = min(_PROBE_PREFIX + _PROBE_BELOW, limit)
        split = max(length - _PROBE_BELOW, 1)
        rng = np.random.default_rng(0)
        ids = rng.integers(0, min(self.facts.vocabulary, self.tokenizer.size), length)
        whole = self.score(Rows.of([ids.tolist()]))
        self._reuses = True
        try:
            chain = chain_log_probs(self, ids, split=split)
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
            return False  # this architecture has no cache of keys and values
        finally:
            self._reuses = False
        alone = self.score(Rows.of([ids[split - 1 :].tolist()]))
        effect = float(np.abs(alone - whole[split - 1 :]).max())
        return bool(np.abs(chain - whole).max() < _PROBE_TOLERANCE * effect)


def _length_limit(config: Any) -> int | None:
    limit = getattr(config, "max_position_embeddings", None)
    return int(limit) if limit else None


def _may_reuse(config: Any) -> bool:
    """Whether every layer attends to everything before it, as far as the config tells."""
    kinds = getattr(config, "layer_types", None)
    if kinds and set(kinds) != {"full_attention"}:
        return False
    window = getattr(config, "sliding_window", None)
    return not (window and not kinds and getattr(config, "use_sliding_window", True))


class CausalWalker(SlabWalker):
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
            self._shared = [(layer.keys, layer.values) for layer in out.past_key_values.layers]
            row_bytes = sum(
                t[0, :, 0].numel() * t.element_size() for pair in self._shared for t in pair
            )
            capacity = slab_capacity(memory_bytes, row_bytes + Slots.BYTES)
            # Per layer, keys and values of held tokens: (capacity, heads, width).
            self._slabs = [
                (_rows_like(k, capacity), _rows_like(v, capacity)) for k, v in self._shared
            ]
        super().__init__(capacity, chained=True, context_log_probs=log_probs, root=root)

    def _step(self, parents: Ints, depth: int, tokens: Ints, into: Ints) -> Distributions:
        from transformers import DynamicCache

        n = len(tokens)
        with inference(self._module):
            chain = torch.from_numpy(self._slots.ancestors(parents, depth)).to(self._device)
            cache = DynamicCache(
                [
                    (_behind(k, slab_k, chain), _behind(v, slab_v, chain))
                    for (k, v), (slab_k, slab_v) in zip(self._shared, self._slabs, strict=True)
                ]
            )
            ids = torch.from_numpy(tokens).to(self._device).view(n, 1)
            out = self._module(input_ids=ids, past_key_values=cache, use_cache=True)
            if len(into):
                to = torch.from_numpy(into).to(self._device)
                for layer, (slab_k, slab_v) in zip(
                    out.past_key_values.layers, self._slabs, strict=True
                ):
                    slab_k.index_copy_(0, to, layer.keys[: len(into), :, -1])
                    slab_v.index_copy_(0, to, layer.values[: len(into), :, -1])
            return Distributions.of(out.logits[:, -1])

    def _gather(self, distributions: Distributions, rows: Ints, tokens: Ints) -> Any:
        return distributions.gather(rows, tokens)

    def _children(
        self, distributions: Distributions, rows: Ints | None, tokens: Children
    ) -> FloatArray:
        return distributions.children(rows, tokens)

    def _free_slab(self) -> None:
        self._slabs = []
        self._shared = []


def _rows_like(shared: torch.Tensor, capacity: int) -> torch.Tensor:
    _, heads, _, width = shared.shape
    return torch.empty((capacity, heads, width), dtype=shared.dtype, device=shared.device)


def _behind(shared: torch.Tensor, slab: torch.Tensor, chain: torch.Tensor) -> torch.Tensor:
    """The context's rows, then those of each node's ancestors: (n, heads, p + depth, width)."""
    n, depth = chain.shape
    held = slab.index_select(0, chain.reshape(-1)).view(n, depth, *slab.shape[1:])
    return torch.cat([shared.expand(n, -1, -1, -1), held.transpose(1, 2)], dim=2)
