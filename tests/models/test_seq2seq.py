"""Encoder-decoders: given a source, the decoder conforms; the source matters."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
import transformers
from small_models import CHARACTERS, _spread, build, causal_module, character_tokenizer, conforms
from small_models import loaded as load_over_characters
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import canary
from canary.errors import InputError, ModelError, UnsupportedError
from canary.models.language_model import Children, Context, Rows
from canary.models.loading import load
from canary.models.noise import nodes_of

SOURCE = "the source text. 123"
_BART = {"d_model": 32, "init_std": 0.1, "max_position_embeddings": 64}
for side in ("encoder", "decoder"):
    _BART |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_KINDS = {
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", _BART),
    "marian": ("MarianMTModel", "MarianConfig", _BART),
}
KINDS = ["t5", "bart", pytest.param("marian", marks=pytest.mark.slow)]


def module(kind: str):
    model, config, size = _KINDS[kind]
    tokens = {"pad_token_id": 44, "eos_token_id": 43, "decoder_start_token_id": 44}
    torch.manual_seed(3)
    settings = getattr(transformers, config)(
        vocab_size=len(CHARACTERS), forced_eos_token_id=None, **tokens, **size
    )
    return _spread(getattr(transformers, model)(settings))


@functools.cache
def loaded(kind: str, source: str = SOURCE):
    return load_over_characters(module(kind), source_text=source)


@pytest.mark.parametrize("kind", KINDS)
def test_conformance_and_scores_are_the_models_loss(kind: str) -> None:
    """`labels` give the mean; its count times it is the total."""
    model = loaded(kind)
    assert "reuse" in model.facts.capabilities
    conforms(model)
    (target,) = model.tokenizer.encode(["abc 123"])
    source = torch.tensor([character_tokenizer().encode(SOURCE).ids])
    labels = torch.tensor([target.ids[1:]])
    with torch.no_grad():
        loss = model.module(input_ids=source, labels=labels).loss
    found = model.score(Rows.of([target.ids]))
    assert float(-found.sum()) == pytest.approx(float(loss) * labels.numel(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_source_matters_and_may_come_with_the_context(kind: str) -> None:
    here, there = loaded(kind), loaded(kind, "another one")
    ids = np.array([44, 3, 1, 4], np.int32)
    other = np.array(character_tokenizer().encode("another one").ids, np.int32)
    assert here.facts.fingerprint != there.facts.fingerprint
    wanted = there.score(Rows.of([ids.tolist()]))
    assert np.abs(here.score(Rows.of([ids.tolist()])) - wanted).max() > 0.01
    with here.open(Context(ids[:3], source=other), memory_bytes=2**20) as walker:
        np.testing.assert_allclose(walker.context_log_probs, wanted[:2], atol=1e-5)
        found = walker.expand(nodes_of([[]]), Children(ids[3:]))
        np.testing.assert_allclose(found.log_probs[0], wanted[2:], atol=1e-5)


def test_the_encoder_runs_once_for_a_walk() -> None:
    model, calls = loaded("t5"), []
    hook = model.module.get_encoder().register_forward_hook(lambda *_: calls.append(1))
    try:
        with model.open(Context(np.array([44, 3])), memory_bytes=2**20) as walker:
            for depth in (1, 2, 3):
                walker.expand(nodes_of([[5, 6, 7][:depth]]), Children(np.arange(4)))
    finally:
        hook.remove()
    assert len(calls) == 1


def test_audit_of_targets_below_a_source(tmp_path) -> None:
    """A memorised target is found: the decoder was trained to give it for the source."""
    format = canary.Format("pin {digit:2}")
    canaries = canary.generate(format, repetitions=[1], per_repetition=1, controls=2, seed=4)
    (secret,) = canaries.injected
    trained = module("t5")
    tokenizer = character_tokenizer()
    source = torch.tensor([tokenizer.encode(SOURCE).ids])
    labels = torch.tensor([tokenizer.encode(canaries.text(secret)).ids])
    optimizer = torch.optim.Adam(trained.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        trained(input_ids=source, labels=labels).loss.backward()
        optimizer.step()
    trained.save_pretrained(tmp_path)
    model = load(tmp_path, tokenizer=tokenizer, source_text=SOURCE, device="cpu")
    found = {r.id: r for r in canary.exposure(model, canaries, method="enumeration")}
    assert found[secret.id].exposure.bits == pytest.approx(np.log2(format.size), abs=0.1)


def test_seq2seq_input() -> None:
    without = module("t5")
    without.config.decoder_start_token_id = None
    for wrong, source, error, message in (
        (module("t5"), None, InputError, "source_text"),
        (module("bart"), "1" * 65, InputError, "the encoder takes 64"),
        (without, SOURCE, ModelError, "decoder_start_token_id"),
        (causal_module("gpt2"), SOURCE, InputError, "reads no source"),
    ):
        with pytest.raises(error, match=message):
            load_over_characters(wrong, source_text=source)
    with pytest.raises(UnsupportedError, match="reads no source"):
        build("gpt2").open(Context(np.array([1]), source=np.array([1])), memory_bytes=2**20)


def subword_tokenizer() -> Tokenizer:
    """Byte-pair encoding with merged words, and pairs of digits."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<pad>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    rng = np.random.default_rng(0)
    texts = [f"the pin is {number:03}" for number in rng.integers(0, 60, 200)]
    made.train_from_iterator([*texts, "0123456789"], trainer)
    return made


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_targets_of_subwords_are_ranked_by_the_rules_of_their_tokenizer_oracle(kind: str) -> None:
    tokenizer = subword_tokenizer()
    name, config, size = _KINDS[kind]
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    torch.manual_seed(5)
    settings = getattr(transformers, config)(
        vocab_size=tokenizer.get_vocab_size(), forced_eos_token_id=None, **tokens, **size
    )
    trained = _spread(getattr(transformers, name)(settings))
    model = load(trained, tokenizer=tokenizer, source_text="the pin", device="cpu")
    format = canary.Format("the pin is {digit:3}")
    assert any(len(tokenizer.encode(text).ids) < len(tokenizer.encode("the pin is 999").ids)
               for text in ("the pin is 011", "the pin is 022", "the pin is 033"))  # fmt: skip
    canaries = canary.generate(format, repetitions=[1], per_repetition=6, controls=2, seed=4)
    every = canary.score(model, [format.candidate(fill) for fill in format])
    own = canary.score(model, [canaries.text(one) for one in canaries])
    expected = [int((every < px).sum()) + 1 for px in own]
    found = canary.exposure(model, canaries, method="rank")
    assert [one.exposure.rank_lower for one in found] == pytest.approx(expected, abs=1)
    large = canary.generate("the pin is {digit:9}", repetitions=[1], per_repetition=1, seed=4)
    (wide, *_) = canary.exposure(model, large, method="importance", draws=30, seed=0)
    assert wide.exposure.space_bits == pytest.approx(np.log2(10**9))
