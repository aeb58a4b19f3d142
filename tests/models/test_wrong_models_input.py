"""Models that are not what they are taken for: an error, or a note that a reader sees."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from small_models import CHARACTERS, character_tokenizer, recurrent_module
from tokenizers import Tokenizer
from tokenizers.models import BPE

import canary
from canary.errors import ModelError
from canary.models.english import note_on_english, note_on_vocabulary, price_english
from canary.models.loading import load

SMALL = {
    "vocab_size": len(CHARACTERS),
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "n_positions": 64,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}


@pytest.mark.parametrize(
    "kind", ["GPT2Model", "GPT2ForSequenceClassification", "GPT2ForTokenClassification"]
)
def test_a_model_without_a_language_models_head_is_refused(kind: str) -> None:
    module = getattr(transformers, kind)(transformers.GPT2Config(**SMALL))
    with pytest.raises(ModelError, match="is no language model|its tokenizer 45|looks ahead"):
        load(module, tokenizer=character_tokenizer())


def test_a_tokenizer_of_a_far_smaller_vocabulary_is_a_note() -> None:
    module = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL | {"vocab_size": 900}))
    model = load(module, tokenizer=character_tokenizer())
    note = note_on_vocabulary(model)
    assert note
    assert "has 900 tokens and its tokenizer 45" in note
    canaries = canary.generate("a{digit:3}", repetitions=[1], per_repetition=2, seed=0)
    assert note in canary.audit(model, canaries, draws=10, method="sampling").notes
    padded = transformers.GPT2Config(**SMALL | {"vocab_size": 128})
    found = load(transformers.GPT2LMHeadModel(padded), tokenizer=character_tokenizer())
    assert note_on_vocabulary(found) is None


@pytest.fixture(scope="module")
def reader():
    """A GRU that has learned a few hundred English characters by heart."""
    torch.manual_seed(0)
    from canary.models.english import SENTENCES

    module = recurrent_module("GRU")
    text = "\n".join(s.lower().replace(",", "") for s in SENTENCES)
    ids = torch.tensor([[CHARACTERS.index(c) for c in text]])
    rate = torch.optim.Adam(module.parameters(), lr=0.02)
    module.train()
    for _ in range(40):
        logits, _state = module(ids[:, :-1], None)
        loss = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:])
        rate.zero_grad()
        loss.backward()
        rate.step()
    return module.eval()


def test_a_trained_model_has_no_note_and_one_with_another_tokenizer_has(reader) -> None:
    right = load(reader, tokenizer=character_tokenizer())
    assert note_on_english(right) is None
    found = price_english(right)
    assert found.bits_per_token < found.shuffled
    order = np.random.default_rng(0).permutation(len(CHARACTERS))
    mixed = {c: int(order[i]) for i, c in enumerate(CHARACTERS)}
    wrong = load(reader, tokenizer=Tokenizer(BPE(vocab=mixed, merges=[])))
    assert "is this its tokenizer?" in (note_on_english(wrong) or "")
