"""Sequence-to-sequence models of `transformers`, bound to a source text.

Given what its encoder reads, the decoder is a causal language model: a candidate is a
target text, its context begins with the decoder's start token, and everything that works
below a context works here. The source is encoded once for a walk or a batch and shared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from canary.errors import InputError, ModelError, UnsupportedError
from canary.models.causal import CausalModel
from canary.models.language_model import IntArray
from canary.models.torch_support import inference, input_device
from canary.models.weight_digest import fingerprint
from canary.tokens.tokenizer import Encoding, Tokenizer

__all__ = ["Seq2SeqForward", "TargetTokenizer", "seq2seq_model"]


def seq2seq_model(
    module: Any, tokenizer: Tokenizer, *, source_text: str | None, name: str = "seq2seq"
) -> CausalModel:
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
    if source_text is None:
        raise InputError(
            f"{name} is a sequence-to-sequence model: its probabilities depend on a source text",
            cure="give what it reads: load(..., source_text=...)",
        )
    start = getattr(module.config, "decoder_start_token_id", None)
    if start is None:
        raise ModelError(
            "the config names no decoder_start_token_id",
            cure="set it as it was in training, and save the model again",
        )
    source = np.array(tokenizer.encode([source_text])[0].ids, np.int32)
    limit = getattr(module.config, "max_position_embeddings", None)
    if limit and len(source) > limit:
        raise InputError(
            f"the source text has {len(source)} tokens, the encoder takes {limit}",
            cure="give a shorter source text",
        )
    return CausalModel(
        module,
        TargetTokenizer(tokenizer, int(start)),
        name=name,
        forward=Seq2SeqForward(module, source),
    )


class TargetTokenizer:
    """A tokenizer that puts the decoder's start token before every text.

    Parameters
    ----------
    inner : Tokenizer
    start : int
    """

    def __init__(self, inner: Tokenizer, start: int) -> None:
        self._inner = inner
        self._start = start
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


class Seq2SeqForward:
    """Calls the decoder of an encoder-decoder that reads one source.

    Parameters
    ----------
    module : transformers.PreTrainedModel
    source : int array of shape (s,)
        Token ids that the encoder reads.
    """

    def __init__(self, module: Any, source: IntArray) -> None:
        self.module = module
        self.source = np.asarray(source, np.int32)
        self.device = input_device(module)
        self._held: tuple[torch.Tensor, Any] | None = None

    def logits(self, ids: torch.Tensor, skipped: int = 0) -> torch.Tensor:
        """See `canary.models.forwards.Forward.logits`."""
        with inference(self.module):
            logits: torch.Tensor = self.module(
                encoder_outputs=self._encoded(self._read(), len(ids)),
                decoder_input_ids=ids,
                use_cache=False,
            ).logits
            return logits[:, skipped:]

    def cached(self, ids: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """See `canary.models.forwards.Forward.cached`.

        The first call, without a cache, reads the source; those after it share the
        decoder's keys and values of the source, one copy for all rows.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        with inference(self.module):
            if cache is None:
                hidden, whole = self._read(), None
            else:
                assert self._held is not None
                hidden, cross = self._held
                shared = [
                    (k.expand(len(ids), -1, -1, -1), v.expand(len(ids), -1, -1, -1))
                    for k, v in cross
                ]
                whole = EncoderDecoderCache(cache, DynamicCache(shared))
            out = self.module(
                encoder_outputs=self._encoded(hidden, len(ids)),
                decoder_input_ids=ids,
                past_key_values=whole,
                use_cache=True,
            )
            found = out.past_key_values
            if cache is None:
                layers = found.cross_attention_cache.layers
                self._held = hidden, [(layer.keys, layer.values) for layer in layers]
            return out.logits, found.self_attention_cache

    def below(
        self, ids: torch.Tensor, cache: Any, context: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, Any]:
        """Not done: the decoder's attention has position biases, or no positions to give."""
        raise UnsupportedError(
            "a sequence-to-sequence decoder does not share its context's keys and values",
            cure="copy them for each row",
        )

    def given(self, source: IntArray | None) -> Seq2SeqForward:
        """The same model reading `source`, or this one's source, held anew."""
        return Seq2SeqForward(self.module, self.source if source is None else source)

    def fingerprint(self) -> str:
        """SHA-256 of the parameters and the source."""
        parameters = fingerprint(self.module).encode()
        return hashlib.sha256(parameters + self.source.tobytes()).hexdigest()

    def _read(self) -> torch.Tensor:
        ids = torch.from_numpy(self.source.astype(np.int64)).to(self.device).unsqueeze(0)
        hidden: torch.Tensor = self.module.get_encoder()(input_ids=ids).last_hidden_state
        return hidden

    @staticmethod
    def _encoded(hidden: torch.Tensor, n: int) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=hidden.expand(n, -1, -1))
