"""One copy of the context for all rows: the same numbers as a copy for each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures import architecture
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import known, loaded

from canary.errors import OutOfMemory
from canary.models import key_values
from canary.models.key_values import KeyValueWalker
from canary.models.language_model import Children, Context
from canary.models.noise import nodes_of

TOKENS = Children(np.arange(6, dtype=np.int32))


class Layer:
    layer_idx = 0


def shared(query, key, value, context, **options):
    token = key_values._context.set([context])
    try:
        out, _ = key_values.attend(Layer(), query, key, value, None, **options)
    finally:
        key_values._context.reset(token)
    return out


@pytest.mark.parametrize("asked", [2, 3])
@pytest.mark.parametrize("scores", [1 << 25, 8])
def test_attention_of_several_tokens_is_that_of_each_alone(asked, scores, monkeypatch) -> None:
    """The last tokens of a row, one by one, each without those behind it."""
    monkeypatch.setattr(key_values, "_SCORES", scores)
    rng = torch.Generator().manual_seed(asked)
    make = lambda *shape: torch.randn(*shape, generator=rng)  # noqa: E731
    query, key, value = make(3, 4, asked, 8), make(3, 2, 5, 8), make(3, 2, 5, 6)
    context = make(1, 2, 7, 8), make(1, 2, 7, 6)
    together = shared(query, key, value, context)
    for at in range(asked):
        held = 5 - asked + at + 1
        alone = shared(query[:, :, at : at + 1], key[:, :, :held], value[:, :, :held], context)
        torch.testing.assert_close(together[:, at : at + 1], alone, atol=1e-5, rtol=1e-5)


@settings(max_examples=60)
@given(
    st.tuples(*[st.integers(1, most) for most in (5, 3, 3, 9, 4)]),
    st.sampled_from([1.0, 30.0]),
    st.integers(0, 2**31),
)
def test_attention_oracle(shape, size, seed) -> None:
    """Context and tail in one softmax, every row with its own copy, in float64."""
    n, groups, per_group, p, t = shape
    rng = torch.Generator().manual_seed(seed)
    make = lambda *shape: size * torch.randn(*shape, generator=rng)  # noqa: E731
    query = make(n, groups * per_group, 1, 4)
    key, value = make(n, groups, t, 4), torch.randn(n, groups, t, 6, generator=rng)
    context = make(1, groups, p, 4), torch.randn(1, groups, p, 6, generator=rng)
    keys, values = (
        torch.cat([c.expand(n, -1, -1, -1), own], 2).repeat_interleave(per_group, 1).double()
        for c, own in zip(context, (key, value), strict=True)
    )
    weights = torch.softmax(query.double() @ keys.transpose(-1, -2) * 4**-0.5, -1)
    wanted = (weights @ values).transpose(1, 2).float()
    torch.testing.assert_close(shared(query, key, value, context), wanted, atol=2e-3, rtol=1e-3)
    if size == 1.0:
        torch.testing.assert_close(
            shared(query, key, value, context, scaling=0.5), wanted, atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3"])
def test_walks_agree_with_copies(name: str) -> None:
    context = Context(np.array([3, 1, 4], np.int32))
    nodes = nodes_of([[1, 2, 3], [1, 5, 6], [7, 2, 9]], priced=1)
    found = []
    for shares in (True, False):
        with KeyValueWalker(known(name), context, 2**20, shares=shares) as walker:
            found.append(walker.expand(nodes, TOKENS))
    np.testing.assert_allclose(found[0].log_probs, found[1].log_probs, atol=2e-5)
    np.testing.assert_allclose(found[0].path_log_probs, found[1].path_log_probs, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gemma2", "soft-caps"),
        ("gpt_oss", "sinks"),
        ("falcon_alibi", "position bias"),
        ("gptj", "attention that is not in the interface"),
        ("deepseek3", "keys and values of different widths"),
    ],
)
def test_what_cannot_be_shared_is_copied(name: str, why: str) -> None:
    """Found by the probe: no architecture is listed anywhere."""
    capabilities = known(name).facts.capabilities
    assert "reuse" in capabilities
    assert "share" not in capabilities


def test_attention_that_forgets_the_context_is_not_used(monkeypatch) -> None:
    def forgetful(module, query, key, value, mask, **options):
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        return out.transpose(1, 2), None

    assert "share" in known("llama").facts.capabilities
    monkeypatch.setattr(key_values, "attend", forgetful)
    capabilities = loaded("llama").facts.capabilities
    assert "share" not in capabilities
    assert "reuse" in capabilities


def test_the_model_is_left_as_it_was(monkeypatch) -> None:
    """Its own attention is back after every step, and after one that fails."""
    module = architecture("llama")
    with loaded(module).open(Context(np.array([1, 2])), memory_bytes=2**20) as walker:
        walker.expand(nodes_of([[2]]), TOKENS)
        assert module.config._attn_implementation == "sdpa"

        def full(*arguments, **options):
            raise MemoryError("can't allocate memory")

        monkeypatch.setattr(type(module.lm_head), "forward", full)
        with pytest.raises(OutOfMemory):
            walker.expand(nodes_of([[2]]), TOKENS)
    assert module.config._attn_implementation == "sdpa"
