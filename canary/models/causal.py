"""Causal language models of `transformers`.

Whole rows are scored with right padding, which is exact. Below a context, states are
reused where a probe at load has shown that this is right; elsewhere (recurrent states,
beyond sliding windows) nodes are computed as whole rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from canary.errors import ModelError
from canary.models.cache_slots import Slots
from canary.models.distributions import token_log_probs, token_moments
from canary.models.forwards import CausalForward, Forward
from canary.models.key_values import KeyValueWalker, bytes_per_row
from canary.models.language_model import (
    Context,
    FloatArray,
    Memory,
    ModelFacts,
    Moments,
    Rows,
    Walker,
)
from canary.models.noise import with_measured_noise
from canary.models.reuse import horizon, length_limit, reuse_is_right
from canary.models.torch_support import (
    devices_of,
    dtype_at_work,
    dtype_name,
    free_bytes,
    pad,
    refuse_softmax,
    scored_positions,
)
from canary.models.whole_rows import WholeRowWalker
from canary.models.windowed_walker import WithinWalker
from canary.tokens.tokenizer import Tokenizer

__all__ = ["CausalModel"]


class CausalModel:
    """A `transformers` causal language model behind the language-model seam.

    Parameters
    ----------
    module : transformers.PreTrainedModel
        Or one wrapped by peft.
    tokenizer : Tokenizer
    name : str
        What to call the model in results.
    forward : Forward, optional
        How to call it, if not as a causal language model.

    Raises
    ------
    ModelError
        If the model has fewer tokens than its tokenizer, gives numbers that are not
        finite, or lets a token's probability depend on what comes after it.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: Tokenizer,
        *,
        name: str = "causal",
        forward: Forward | None = None,
    ) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self._forward: Forward = CausalForward(module) if forward is None else forward
        self._devices = devices_of(module) or [self._forward.device]
        config = module.config.get_text_config()
        probe = torch.zeros((1, 1), dtype=torch.int64, device=self._forward.device)
        vocabulary, self._held_bytes = self._measure(probe)
        dtype = dtype_at_work(module, module.dtype, lambda: self._forward.logits(probe))
        if vocabulary < tokenizer.size:
            raise ModelError(
                f"the model has {vocabulary} tokens, its tokenizer {tokenizer.size}",
                cure="give the tokenizer that the model was trained with",
            )
        self.facts = ModelFacts(
            name=name,
            vocabulary=vocabulary,
            length_limit=length_limit(config),
            dtype=dtype_name(dtype),
            attention=str(getattr(config, "_attn_implementation", None) or "none"),
            device=self._forward.device.type,
            fingerprint=self._forward.fingerprint(),
            noise_bits_per_token=0.0,
        )
        self._refuse_unless_causal()
        self._shares, self._horizon = self._probe(horizon(config) if self._held_bytes else 0)
        if self._horizon:
            known = (*self.facts.capabilities, "reuse", *(("share",) if self._shares else ()))
            self.facts = replace(self.facts, capabilities=known)
        self.facts = with_measured_noise(self, self.facts)

    def score(self, rows: Rows) -> FloatArray:
        """Log-probability of each scored token, flat, in nats."""
        if not len(rows) or not rows.scored.any():
            return np.zeros(0, np.float32)
        return token_log_probs(*self._asked(rows))

    def moments(self, rows: Rows) -> Moments:
        """See `canary.models.language_model.TellsMoments`."""
        if not len(rows) or not rows.scored.any():
            none = np.zeros(0, np.float32)
            return Moments(none, none, none)
        return token_moments(*self._asked(rows))

    def _asked(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits, targets, and which of them are scored."""
        ids = pad(rows, self._forward.device)
        wanted = scored_positions(rows, self._forward.device)
        skipped = int(rows.start.min()) - 1  # nothing is scored before
        logits = self._forward.logits(ids[:, :-1], skipped)
        return logits, ids[:, 1 + skipped :], wanted[:, skipped:]

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context` that holds states within `memory_bytes`."""
        forward = self._forward.given(context.source)
        if len(context.ids) > self._horizon:
            return WholeRowWalker(forward, context)
        near = KeyValueWalker(forward, context, memory_bytes, shares=self._shares)
        if math.isinf(self._horizon):
            return near
        far = WholeRowWalker(forward, context)
        return WithinWalker(near, far, context, horizon=self._horizon)

    def memory(self) -> Memory:
        """Free bytes on the tightest of its devices, and the keys and values of one token."""
        return Memory(free_bytes(*self._devices), self._held_bytes + Slots.BYTES)

    def _measure(self, probe: torch.Tensor) -> tuple[int, int]:
        """Number of tokens, and bytes of one token's keys and values (0: there are none)."""
        logits = self._probed(probe)
        refuse_softmax(logits, type(self.module).__name__)
        vocabulary = int(logits.shape[-1])
        try:
            _, cache = self._forward.cached(probe, None)
            return vocabulary, bytes_per_row(cache, 1)
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return vocabulary, 0  # it has states of another kind, or none

    def _probed(self, probe: torch.Tensor) -> torch.Tensor:
        """Logits of the probe, or what the model is if it is no language model."""
        name, shape = type(self.module).__name__, None
        try:
            logits = self._forward.logits(probe)
            shape = tuple(logits.shape)
        except (AttributeError, IndexError):
            logits = probe
        if shape is None or len(shape) != 3 or shape[:2] != probe.shape:
            raise ModelError(
                f"a {name} gives no logits of shape (rows, tokens, vocabulary), so it is no "
                "language model (a base model without its head, or a classifier?)",
                cure="load it with AutoModelForCausalLM, or give the folder",
            )
        return logits

    def _probe(self, farthest: float) -> tuple[bool, float]:
        """Whether the context's states are shared, and up to which length any are reused."""
        for shares in (True, False) if farthest else ():
            self._shares, self._horizon = shares, farthest
            if reuse_is_right(self, longest=farthest):
                return shares, farthest
        return False, 0

    def _refuse_unless_causal(self) -> None:
        """Other tokens to the right must not matter as tokens to the left do."""
        length = min(8, self.facts.length_limit or 8)
        if length < 4:
            return
        ids = np.arange(length) % min(self.facts.vocabulary, self.tokenizer.size)
        at = length // 2 - 2  # the last but one before those that change on the right
        other = np.stack([ids, ids, ids])
        other[1, at], other[2, at + 2 :] = ids[-1], ids[0]
        plain, left, right = self.score(Rows.of(other.tolist())).reshape(3, -1)[:, at]
        if abs(right - plain) > 0.25 * abs(left - plain):
            raise ModelError(
                "a token's probability depends on the tokens after it; this is no causal "
                "language model",
                cure="give a model that was trained to predict the next token",
            )
