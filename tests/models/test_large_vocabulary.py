"""Of a large vocabulary, logits exist for few tokens at a time, and the numbers stay the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import character_tokenizer
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from canary.models import apart
from canary.models.decoding import Scheme
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.models.loading import load

VOCABULARY = 9_000
ROWS = Rows.of([list(range(k, k + 9)) for k in range(40)], [1 + k % 4 for k in range(40)])
KINDS = {"gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2}, "llama": {}, "gemma2": {}}
SMALL = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "head_dim": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "final_logit_softcapping": 2.0,
}


class Largest(TorchDispatchMode):
    """The most numbers that one tensor had which was made meanwhile, weights left out."""

    numbers, name = 0, ""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.weights = {weight.untyped_storage().data_ptr() for weight in module.parameters()}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple | list) else (out,):
            if not isinstance(part, torch.Tensor) or part.numel() <= self.numbers:
                continue
            if part.untyped_storage().data_ptr() not in self.weights:
                self.numbers, self.name = part.numel(), f"{func} gave {tuple(part.shape)}"
        return out


def small(kind: str):
    torch.manual_seed(1)
    options = KINDS[kind] or SMALL
    config = CONFIG_MAPPING[kind](
        vocab_size=VOCABULARY, bos_token_id=None, eos_token_id=None, pad_token_id=None, **options
    )
    module = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.1 if "emb" in name or "wte" in name else 0.3)
    return module


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return load(small(request.param), tokenizer=character_tokenizer())


def whole_and_apart(model, monkeypatch, ask):
    """What a model gives with all logits at once, and with those of five tokens at a time."""
    monkeypatch.setattr(apart, "_AT_ONCE", 10**9)
    whole = ask()
    monkeypatch.setattr(apart, "_AT_ONCE", 5 * VOCABULARY)
    with Largest(model.module) as seen:
        parts = ask()
    assert seen.numbers <= 5 * VOCABULARY, seen.name
    return whole, parts


def test_rows_are_the_same_to_within_rounding(model, monkeypatch):
    assert model.head is not None
    for ask in (
        lambda: [model.score(ROWS)],
        lambda: list(vars(model.moments(ROWS)).values()),
        lambda: list(vars(model.decoded(ROWS, [Scheme(), Scheme(top_k=3)])).values()),
    ):
        whole, parts = whole_and_apart(model, monkeypatch, ask)
        for one, other in zip(whole, parts, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, atol=2e-5)


def test_walks_are_the_same_to_within_rounding(model, monkeypatch):
    paths = np.random.default_rng(0).integers(0, VOCABULARY, (30, 3)).astype(np.int32)
    lengths = np.array([1, 2, 3] * 10)
    none = np.zeros(30, np.int64)
    deep = Nodes(paths, lengths, none, none - 1)
    level = Nodes(paths[:, :1], none + 1, none, none - 1)
    union = Children(np.arange(7, dtype=np.int32))
    own = Children(np.arange(60, dtype=np.int32) % 11, np.arange(0, 61, 2))

    def ask():
        found = []
        with model.open(Context(np.arange(12)), memory_bytes=20_000) as walker:
            found.append(walker.context_log_probs)
            for nodes in (deep, level):
                for children in (union, own):
                    expansion = walker.expand(nodes, children)
                    found += [expansion.path_log_probs, expansion.log_probs]
                    walker.release(expansion.handles)
        return found

    whole, parts = whole_and_apart(model, monkeypatch, ask)
    for one, other in zip(whole, parts, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=3e-5)


def test_a_head_that_is_not_the_same_apart_is_not_used():
    class Shifted(type(small("gpt2"))):
        def forward(self, input_ids=None, **options):
            out = super().forward(input_ids=input_ids, **options)
            if input_ids.any():  # what it does to logits depends on the tokens
                out.logits = out.logits * 1.1
            return out

    module = small("gpt2")
    module.__class__ = Shifted
    model = load(module, tokenizer=character_tokenizer())
    assert model.head is None
    assert model.score(ROWS).shape == (int(ROWS.scored.sum()),)
