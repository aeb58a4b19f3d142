"""Sequence-to-sequence models of `transformers`, bound to a source text.

Given what its encoder reads, the decoder is a causal language model: a candidate is a
target text, its context begins with the decoder's start token, and everything that works
below a context works here. The source is encoded once for a walk or a batch and shared.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from canary.errors import InputError, ModelError
from canary.models.causal import CausalModel
from canary.models.key_values import KeysAndValues
from canary.models.language_model import IntArray
from canary.models.torch_support import inference
from canary.tokens.fast import FastTokenizer
from canary.tokens.tokenizer import Encoding, Tokenizer


class TargetTokenizer:
    """The `inner` tokenizer, which puts the decoder's `start` token before every text."""

    def __init__(self, inner: Tokenizer, start: int) -> None:
        self._inner, self._start = inner, start
        self.size = inner.size

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Each text as tokens, the start token with an empty span before them."""
        return [
            Encoding((self._start, *e.ids), None if e.spans is None else ((0, 0), *e.spans))
            for e in self._inner.encode(texts)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens left out."""
        ids = list(ids)
        return self._inner.decode(ids[1:] if ids[:1] == [self._start] else ids)


class FastTargetTokenizer(FastTokenizer):
    """The same of a tokenizer that shows its rules, so that token trees follow them."""

    def __init__(self, inner: FastTokenizer, start: int) -> None:
        vars(self).update(vars(inner))
        self._start = start

    def template(self, text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens before a text, the start token first, and after it."""
        before, after = super().template(text)
        return (self._start, *before), after

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Each text as tokens, the start token with an empty span before them."""
        return [
            Encoding((self._start, *e.ids), ((0, 0), *(e.spans or ())))
            for e in super().encode(texts)
        ]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of token ids, without the start token."""
        ids = list(ids)
        return super().decode(ids[1:] if ids[:1] == [self._start] else ids, special=special)


def target_tokenizer(inner: Tokenizer, start: int) -> Tokenizer:
    """The `inner` tokenizer with the decoder's `start` token before every text."""
    if isinstance(inner, FastTokenizer):
        return FastTargetTokenizer(inner, start)
    return TargetTokenizer(inner, start)


class Seq2SeqModel(CausalModel):
    """An encoder-decoder behind the language-model seam, reading one source text.

    Parameters
    ----------
    module : transformers.PreTrainedModel
        With an encoder and a decoder.
    tokenizer : Tokenizer
        Of both sides.
    source_text : str
        What the encoder reads.
    name : str
        What to call the model in results.

    Raises
    ------
    InputError
        If there is no source text, or it is longer than the encoder takes.
    ModelError
        If the model does not say with which token its decoder starts.
    """

    may_share = False  # its attention has position biases, or takes no positions

    def __init__(
        self, module: Any, tokenizer: Tokenizer, *, source_text: str | None, name: str = "seq2seq"
    ) -> None:
        if source_text is None:
            raise InputError(
                f"{name} is a sequence-to-sequence model: its probabilities depend on a source "
                "text",
                cure="give what it reads: load(..., source_text=...)",
            )
        start = getattr(module.config, "decoder_start_token_id", None)
        if start is None:
            cure = "set it as it was in training, and save the model again"
            raise ModelError("the config names no decoder_start_token_id", cure=cure)
        self._source = np.array(tokenizer.encode([source_text])[0].ids, np.int32)
        limit = getattr(module.config, "max_position_embeddings", None)
        if limit and len(self._source) > limit:
            problem = f"the source text has {len(self._source)} tokens, the encoder takes {limit}"
            raise InputError(problem, cure="give a shorter source text")
        self._held: tuple[torch.Tensor, KeysAndValues]
        super().__init__(module, target_tokenizer(tokenizer, int(start)), name=name)

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `canary.models.torch_model.TorchModel.logits`."""
        with inference(self.module):
            logits: torch.Tensor = self._decoded(ids, self._read(), use_cache=False).logits
            return logits[:, skipped:]

    def cached(
        self, ids: torch.Tensor, cache: Any, *, bare: bool = False
    ) -> tuple[torch.Tensor, Any]:
        """See `canary.models.key_values.Decoder.cached`.

        The first call, without a cache, reads the source; those after it share the
        decoder's keys and values of the source, one copy for all rows.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        with inference(self.module):
            if cache is None:
                hidden, whole = self._read(), None
            else:
                hidden, cross = self._held
                shared = [tuple(t.expand(len(ids), -1, -1, -1) for t in pair) for pair in cross]
                whole = EncoderDecoderCache(cache, DynamicCache(shared))
            out = self._decoded(ids, hidden, past_key_values=whole, use_cache=True)
            states = out.past_key_values
            if cache is None:
                layers = states.cross_attention_cache.layers
                self._held = hidden, [(layer.keys, layer.values) for layer in layers]
            return out.logits, states.self_attention_cache

    def reading(self, source: IntArray | None) -> Self:
        """The same model reading `source`, or this one's source, for one walk."""
        model = copy.copy(self)
        if source is not None:
            model._source = np.asarray(source, np.int32)
        return model

    def fingerprint(self) -> str:
        """SHA-256 of the parameters and the source."""
        parameters = super().fingerprint().encode()
        return hashlib.sha256(parameters + self._source.tobytes()).hexdigest()

    def _read(self) -> torch.Tensor:
        ids = torch.from_numpy(self._source.astype(np.int64)).to(self.device).unsqueeze(0)
        hidden: torch.Tensor = self.module.get_encoder()(input_ids=ids).last_hidden_state
        return hidden

    def _decoded(self, ids: torch.Tensor, hidden: torch.Tensor, **options: Any) -> Any:
        """What the decoder gives for rows of `ids` that all read the same source."""
        from transformers.modeling_outputs import BaseModelOutput

        read = BaseModelOutput(last_hidden_state=hidden.expand(len(ids), -1, -1))
        return self.module(encoder_outputs=read, decoder_input_ids=ids, **options)
