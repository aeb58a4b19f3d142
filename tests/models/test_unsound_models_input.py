"""Models whose differences are no rounding are refused at load, not booked as noise."""

from __future__ import annotations

import pytest
import torch
import transformers
from small_models import CHARACTERS, _spread, character_tokenizer, recurrent_module

from canary.errors import ModelError
from canary.models.loading import load


class Wrapped(torch.nn.Module):
    """An honest GRU with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.net, self.fault = recurrent_module("GRU"), fault

    def forward(self, ids, state=None):
        if self.fault == "forgets":
            return self.net(ids, None)
        if self.fault == "looks ahead":
            logits, state = self.net(ids, state)
            return logits + logits.flip(1), state
        logits, state = self.net(ids, state)
        return torch.nn.functional.dropout(logits, 0.5, training=True), state


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("forgets", "below a held state than in whole rows"),
        ("looks ahead", "looks ahead|another batch|whole rows"),
        ("is random", "in another batch"),
    ],
)
def test_unsound_recurrent_models(fault: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(Wrapped(fault), tokenizer=character_tokenizer())


def test_a_bidirectional_transformer_is_no_language_model() -> None:
    config = transformers.BertConfig(
        vocab_size=len(CHARACTERS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        is_decoder=False,
    )
    with pytest.raises(ModelError, match="looks ahead|another batch|whole rows|tokens after it"):
        load(_spread(transformers.BertLMHeadModel(config)), tokenizer=character_tokenizer())


def test_a_frozen_layer_stays_in_evaluation_mode() -> None:
    module = recurrent_module("LSTM").train()
    module.embed.eval()
    load(module, tokenizer=character_tokenizer())
    assert module.training
    assert not module.embed.training


def test_states_may_be_named_tuples() -> None:
    from collections import namedtuple

    State = namedtuple("State", "hidden cell")

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = recurrent_module("LSTM")

        def forward(self, ids, state=None):
            logits, state = self.net(ids, None if state is None else tuple(state))
            return logits, State(*state)

    assert load(Named(), tokenizer=character_tokenizer()).facts.noise_bits_per_token < 1e-4


@pytest.mark.parametrize("error", [RuntimeError, KeyError, ZeroDivisionError])
def test_a_module_that_raises(error: type[Exception]) -> None:
    class Raises(torch.nn.Module):
        def forward(self, ids, state=None):
            raise error("broken")

    with pytest.raises(ModelError, match="does not work as a recurrent model"):
        load(Raises(), tokenizer=character_tokenizer())


def test_a_state_with_the_batch_elsewhere() -> None:
    """A batch-first state of as many layers as a batch of two has rows passed once."""

    class BatchFirst(torch.nn.Module):
        def forward(self, ids, state=None):
            return torch.zeros(*ids.shape, len(CHARACTERS)), torch.zeros(len(ids), 2, 5)

    with pytest.raises(ModelError, match="dimension 1 of every state"):
        load(BatchFirst(), tokenizer=character_tokenizer())


def test_logits_of_the_last_token_alone() -> None:
    class Last(torch.nn.Module):
        def forward(self, ids, state=None):
            return torch.zeros(len(ids), 1, len(CHARACTERS)), torch.zeros(1, len(ids), 5)

    with pytest.raises(ModelError, match="rows of 2 tokens"):
        load(Last(), tokenizer=character_tokenizer())
