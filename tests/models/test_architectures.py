"""Every adapter and architecture passes the conformance checks, its states reused or not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from architectures import architecture
from small_models import CHARACTERS, build, conforms, known, loaded

from canary.errors import ModelError
from canary.models import causal
from canary.models.by_scoring import RowWalker
from canary.models.causal import horizon, length_limit, reuse_is_right
from canary.models.key_values import KeyValueWalker
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.models.noise import EPSILON, chain_log_probs

WINDOWS = ("mistral", "gemma2", "gemma3")
REUSED = ("gpt2", "llama", "qwen3", "neox", *WINDOWS)
RECOMPUTED = ("mamba", "rwkv", "recurrent_gemma", "jamba", "falcon_h1", "lfm2")
# Each goes the way of one above.
SLOW = ("gemma", "qwen2", "qwen3_moe", "mixtral", "gptj", "opt", "bloom", "falcon_alibi", "phi3")
SLOW += ("deepseek3", "gpt_neo", "gpt_oss", "llama4", "phi3_longrope")
SLOW_RECOMPUTED = ("mamba2", "falcon_mamba", "bamba", "qwen3_next", "granite_hybrid", "zamba2")
NAMES = [*REUSED, *RECOMPUTED]
NAMES += [pytest.param(name, marks=pytest.mark.slow) for name in SLOW + SLOW_RECOMPUTED]


@pytest.mark.parametrize("name", NAMES)
def test_conformance(name: str) -> None:
    model = known(name)
    assert ("reuse" in model.facts.capabilities) == (name not in RECOMPUTED + SLOW_RECOMPUTED)
    conforms(model)
    # The checks mean something: tokens hang on what came ten tokens before, far beyond noise.
    ids = np.random.default_rng(7).integers(0, len(CHARACTERS), 12).tolist()
    whole, alone = (model.score(Rows.of([row]))[-1] for row in (ids, ids[-2:]))
    noise = model.facts.noise_bits(len(ids)) * np.log(2)
    assert abs(whole - alone) > 100 * noise


@pytest.mark.parametrize("name", ["table", "lstm", "gru", "by_rows"])
def test_conformance_of_other_adapters(name: str) -> None:
    """Held states are reused, or no handle is ever given."""
    model, reused = build(name), name != "by_rows"
    assert ("reuse" in model.facts.capabilities) == reused
    assert bool(model.open(Context(np.arange(3)), memory_bytes=2**20).room) == reused
    conforms(model)
    assert model.score(Rows.of([[3]])).shape == (0,)
    assert model.score(Rows.of([[3, 4], [5]])).shape == (1,)


def test_noise_is_measured() -> None:
    """A table has none; float32 networks have little; it grows with the tokens."""
    assert build("table").facts.noise_bits(1000) == 0.0
    for model in (build("lstm"), known("gpt2")):
        facts = model.facts
        assert 0 < facts.noise_bits_per_token < 1e-3
        assert facts.noise_bits(48) == pytest.approx(48 * facts.noise_bits_per_token)
        assert facts.noise_bits(3) == facts.noise_bits(24)


COARSE = [("mistral", torch.bfloat16), ("gemma3", torch.float16), ("falcon_mamba", torch.float16)]


@pytest.mark.parametrize(("name", "dtype"), COARSE)
def test_conformance_in_16_bits(name: str, dtype: torch.dtype) -> None:
    model = loaded(architecture(name).to(dtype))
    assert model.facts.dtype == str(dtype).removeprefix("torch.")
    assert ("reuse" in model.facts.capabilities) == (name != "falcon_mamba")
    rounding = EPSILON[model.facts.dtype]  # even where no row of the measurement shows it
    assert rounding <= model.facts.noise_bits_per_token < 30 * rounding
    conforms(model)


def test_numbers_that_overflow_are_refused() -> None:
    """Float16 ends at 65504; a model that was trained in bfloat16 may pass it."""
    module = architecture("llama")
    with torch.no_grad():
        module.model.layers[0].mlp.down_proj.weight.mul_(1e6)
    with pytest.raises(ModelError, match="float32"):
        loaded(module.to(torch.float16))


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_oracle(name: str) -> None:
    """States are reused as far as the window reaches, and no number moves at its edge."""
    model = known(name)
    ids = np.random.default_rng(1).integers(0, len(CHARACTERS), 14).astype(np.int32)
    context = Context(ids[:5])
    slow = RowWalker(model, context)
    children = Children(np.arange(4, dtype=np.int32))
    with model.open(context, memory_bytes=2**20) as walker:
        handles = np.array([-1])
        for depth in range(1, 9):
            at = np.array([depth])
            nodes = Nodes(ids[None, 5 : 5 + depth], at, at, handles)
            found, wanted = walker.expand(nodes, children), slow.expand(nodes, children)
            np.testing.assert_allclose(found.log_probs, wanted.log_probs, atol=1e-4)
            inside = 5 + depth <= 8
            assert (found.handles[0] != -1) == inside
            assert found.queries == (1 if inside else depth)
            handles = found.handles
    assert model.open(Context(ids[:9]), memory_bytes=2**20).room == 0


def test_windows_regression_beyond_the_edge_the_probe_says_no() -> None:
    """The context's cache of a sliding layer has lost rows, and is known by that."""
    model = loaded("mistral")
    model._horizon = 64
    assert not reuse_is_right(model)
    model._horizon = 8
    assert reuse_is_right(model, longest=8)


def test_hybrid_regression_keys_and_values_are_not_the_whole_state(monkeypatch) -> None:
    """Falcon-H1 has keys and values in every layer, and a recurrent state beside them."""
    assert not known("falcon_h1")._horizon
    monkeypatch.setattr(causal, "horizon", lambda config: float("inf"))
    assert "reuse" not in loaded("falcon_h1").facts.capabilities


def test_siblings_that_see_each_other_are_caught(monkeypatch) -> None:
    """A state shared by mistake shows only in batches, so the probe walks in batches."""
    model, walk = known("llama"), KeyValueWalker._step

    def mixed(self, parents, depth, tokens, into):
        return walk(self, np.full_like(parents, parents[0]), depth, tokens, into)

    assert reuse_is_right(model)
    monkeypatch.setattr(KeyValueWalker, "_step", mixed)
    ids = np.random.default_rng(0).integers(0, len(CHARACTERS), (1, 22))
    alone = model.score(Rows.of(ids.tolist()))
    np.testing.assert_allclose(chain_log_probs(model, ids, split=16)[0], alone, atol=1e-4)
    assert not reuse_is_right(model)


def test_rope_that_switches_ends_the_model_there_regression() -> None:
    """Longer rows get other frequencies for all their tokens, the early ones included.

    Padding would switch them too: up to the length where that happens, rows score alike
    alone and beside longer ones.
    """
    model = known("phi3_longrope")
    assert model.facts.length_limit == 12
    row = list(range(10))
    alone = model.score(Rows.of([row]))
    beside = model.score(Rows.of([row, [*row, 10, 11]]))[:9]
    np.testing.assert_allclose(beside, alone, atol=1e-5)
    longer = model.score(Rows.of([row, [*row, *range(10, 20)]]))[:9]
    assert np.abs(longer - alone).max() > 0.01
    assert length_limit(architecture("phi3").config) == 64


def test_horizon_of_configs() -> None:
    unused = transformers.Qwen2Config(sliding_window=64, use_sliding_window=False)
    assert horizon(transformers.MistralConfig(sliding_window=4096)) == 4096
    assert horizon(transformers.LlamaConfig()) == horizon(unused) == float("inf")
    assert horizon(architecture("llama4").config) == 8
    assert horizon(architecture("lfm2").config) == 0
