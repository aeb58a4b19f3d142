"""Causal language models of `transformers`.

Whole rows are scored with right padding, which is exact. Below a context, states are
reused where a probe at load has shown that this is right; elsewhere (recurrent states,
beyond sliding windows) nodes are computed as whole rows.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from canary.errors import ModelError, UnsupportedError
from canary.models.by_scoring import WithinWalker
from canary.models.key_values import KeyValueWalker, bytes_per_row
from canary.models.language_model import Context, IntArray, Rows, Walker
from canary.models.noise import with_measured_noise
from canary.models.reuse import horizon, length_limit, reuse_is_right
from canary.models.shared_context import KeysAndValues, sharing
from canary.models.state_cache import Slots
from canary.models.torch_model import TorchModel, WholeRowWalker
from canary.models.torch_support import inference
from canary.tokens.tokenizer import Tokenizer


class CausalModel(TorchModel):
    """A `transformers` causal language model behind the language-model seam.

    Parameters
    ----------
    module : transformers.PreTrainedModel
        Or one wrapped by peft.
    tokenizer : Tokenizer
    name : str
        What to call the model in results.

    Raises
    ------
    ModelError
        If the model has fewer tokens than its tokenizer, gives numbers that are not
        finite, or lets a token's probability depend on what comes after it.
    """

    def __init__(self, module: Any, tokenizer: Tokenizer, *, name: str = "causal") -> None:
        super().__init__(module, tokenizer)
        plain = module.get_base_model() if hasattr(module, "get_base_model") else module
        self._selects_logits = "logits_to_keep" in inspect.signature(plain.forward).parameters
        config = module.config.get_text_config()
        probe = torch.zeros((1, 1), dtype=torch.int64, device=self.device)
        logits, held_bytes = self._probed(probe)
        self.bytes_per_held_token = held_bytes + Slots.BYTES
        self.facts = self.introduced(
            name,
            logits,
            length_limit=length_limit(config),
            attention=str(getattr(config, "_attn_implementation", None) or "none"),
        )
        self._refuse_unless_causal()
        self._shares, self._horizon = self._reuse(horizon(config) if held_bytes else 0)
        if self._horizon:
            known = (*self.facts.capabilities, "reuse", *(("share",) if self._shares else ()))
            self.facts = replace(self.facts, capabilities=known)
        self.facts = with_measured_noise(self, self.facts)

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `TorchModel.logits`."""
        kept = ids.shape[1] - skipped
        options: dict[str, Any] = {"logits_to_keep": kept} if self._selects_logits else {}
        with inference(self.module):
            logits: torch.Tensor = self.module(input_ids=ids, use_cache=False, **options).logits
            # Learned tokens in front of the row (prompt tuning) have logits too.
            return logits[:, logits.shape[1] - kept :]

    def cached(self, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """See `canary.models.key_values.Decoder.cached`."""
        with inference(self.module):
            out = self.module(input_ids=ids, past_key_values=cache, use_cache=True)
            return out.logits, out.past_key_values

    def below(
        self, ids: torch.Tensor, cache: Any, context: KeysAndValues
    ) -> tuple[torch.Tensor, Any]:
        """See `canary.models.key_values.Decoder.below`."""
        position = context[0][0].shape[2] + cache.get_seq_length()
        with inference(self.module), sharing(self.module.config.get_text_config(), context):
            out = self.module(
                input_ids=ids,
                past_key_values=cache,
                position_ids=torch.full_like(ids, position),
                use_cache=True,
            )
            return out.logits, out.past_key_values

    def reading(self, source: IntArray | None) -> Self:
        """The same model, which reads no source."""
        if source is None:
            return self
        raise UnsupportedError(
            "this model reads no source text, and a source was given",
            cure="leave the source out, or give a sequence-to-sequence model",
        )

    def open(self, context: Context, *, memory_bytes: int) -> Walker:
        """A walker below `context` that holds states within `memory_bytes`."""
        model = self.reading(context.source)
        far = WholeRowWalker(model, context)
        if len(context.ids) > self._horizon:
            return far
        near = KeyValueWalker(model, context, memory_bytes, shares=self._shares)
        if math.isinf(self._horizon):
            return near
        return WithinWalker(near, far, context, horizon=self._horizon)

    def _probed(self, probe: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Logits of the probe, and bytes of one token's keys and values (0: there are none).

        Raises
        ------
        ModelError
            If it is no language model.
        """
        try:
            logits = self.logits(probe)
        except (AttributeError, IndexError):
            logits = probe
        if logits.ndim != 3 or logits.shape[:2] != probe.shape:
            raise ModelError(
                f"a {type(self.module).__name__} gives no logits of shape (rows, tokens, "
                "vocabulary), so it is no language model (a base model without its head, or a "
                "classifier?)",
                cure="load it with AutoModelForCausalLM, or give the folder",
            )
        try:
            return logits, bytes_per_row(self.cached(probe, None)[1], 1)
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return logits, 0  # it has states of another kind, or none

    def _reuse(self, farthest: float) -> tuple[bool, float]:
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
