"""Ranks among controls: exact p-values where canaries and controls are all there is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare
from small_models import build

import canary
from canary.audits.auditing import audit
from canary.errors import InputError, ModelError
from canary.models.language_model import Rows
from canary.scoring.pool_sampling import _samples, sample_pool

TEXTS = [f"{a}{b} {c}" for a in "abcd" for b in "efgh" for c in "ijkl"]


def pool_set(seed=0, controls=56):
    from canary.formats.format import Format

    return canary.generate(
        Format("no. {text}", words=TEXTS), repetitions=[1, 2], per_repetition=4,
        controls=controls, seed=seed,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["table", "gpt2"])
def test_p_values_oracle(name):
    canaries, model = pool_set(), build(name)
    found = audit(model, canaries)
    assert found.formats[0].method == "controls"
    costs = canary.score(model, [canaries.text(c) for c in canaries])
    px = dict(zip([c.id for c in canaries], costs, strict=True))
    stayed = [c.id for c in canaries.controls]
    for one in found.canaries:
        others = [px[name] for name in stayed if name != one.id]
        hits = sum(other <= px[one.id] + 1e-9 for other in others)
        assert one.exposure.p_value == pytest.approx((1 + hits) / (1 + len(others)))
    assert "Controls are compared with each other" in " ".join(found.formats[0].notes)


def test_p_values_of_canaries_that_were_not_learned_are_uniform_theory():
    """Which texts are canaries has nothing to do with the model: 400 sets under one model."""
    px = np.sort(canary.score(build("table"), [f"no. {text}" for text in TEXTS]))
    rank = {f"no. {text}": p for text, p in zip(TEXTS, canary.score(
        build("table"), [f"no. {text}" for text in TEXTS]), strict=True)}  # fmt: skip
    assert len(np.unique(px)) == len(px)
    values = []
    for seed in range(400):
        canaries = pool_set(seed)
        others = np.array([rank[canaries.text(c)] for c in canaries.controls])
        one = rank[canaries.text(canaries.injected[0])]
        values.append((1 + (others <= one).sum()) / (1 + len(others)))
    # At most 5 % below 0.05, and a binomial of 400 exceeds 36 once in 1,700.
    assert np.mean(np.array(values) <= 0.05) <= 36 / 400
    assert 0.4 < np.mean(values) < 0.62


def test_exposures_among_controls_are_named_by_them():
    """In a table of methods they are not those of uniform draws."""
    found = canary.exposure(build("table"), pool_set(controls=20), method="controls")
    assert {*found.to_frame().method} == {"controls"}
    assert "controls" in found.summary().partition("method")[2]


def test_too_few_controls_are_refused_and_auto_does_not_choose_them():
    few = pool_set(controls=10)
    assert audit(build("table"), few).formats[0].method == "enumeration"
    with pytest.raises(InputError, match="there are 10 controls, and 20 are the fewest"):
        audit(build("table"), few, method="controls")


def test_samples_are_as_likely_as_the_pool_says_and_within_the_band():
    model = build("gpt2")
    pool = sample_pool(model, 70, tokens=6, prompt="it ", band=(0.5, 6.0), seed=1)
    assert len(set(pool.texts)) == 70
    before = canary.score(model, ["it "])[0]
    px = canary.score(model, [pool.prompt + text for text in pool.texts])
    assert np.allclose((px - before) / 6, pool.bits, atol=1e-3)
    assert all(0.5 <= bits <= 6.0 for bits in pool.bits)
    assert sample_pool(model, 70, tokens=6, prompt="it ", band=(0.5, 6.0), seed=1) == pool
    hot = sample_pool(model, 70, tokens=6, prompt="it ", temperature=4.0, seed=1)
    plain = sample_pool(model, 70, tokens=6, prompt="it ", seed=1)
    assert np.mean(hot.bits) > np.mean(plain.bits)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_draws_follow_the_model_theory(temperature):
    """First tokens of 1,280 samples against the probabilities of the model itself."""
    model, rng = build("gpt2"), np.random.default_rng(0)
    size, (before,) = model.tokenizer.size, model.tokenizer.encode(["a"])
    log_probs = model.score(Rows.of([[*before.ids, token] for token in range(size)]))
    expected = np.exp(log_probs.astype(np.float64) / temperature)
    drawn = np.zeros(size)
    for _ in range(20):
        rows, _ = _samples(model, before.ids, 1, temperature, rng)
        drawn += np.bincount([row[0] for row in rows], minlength=size)
    expected *= drawn.sum() / expected.sum()
    often = expected >= 5
    pairs = [
        np.append(one[often], [one[~often].sum()] * (not often.all())) for one in (drawn, expected)
    ]
    assert chisquare(*pairs).pvalue > 1e-4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"band": (0.0, 1e-9), "prompt": "a"}, "the middle half has"),
        ({"band": (3, 2), "prompt": "a"}, "make no sense"),
        ({"temperature": 0.0, "prompt": "a"}, "make no sense"),
        ({}, "nothing comes before a text"),
    ],
)
def test_what_cannot_be_sampled_is_refused(options, told):
    with pytest.raises(InputError, match=told):
        sample_pool(build("table"), 10, tokens=4, **options)


def new_model(*, added=True, seed=0):
    import transformers
    from trained import trained

    from canary.models.new_tokens import add_new_tokens

    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=trained("gpt2"))
    config = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, n_positions=32, vocab_size=len(tokenizer),
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    module = transformers.GPT2LMHeadModel(config).eval()
    if added:
        assert add_new_tokens(module, tokenizer, "The key is {new:60}", seed=seed) == 60
        with pytest.raises(InputError, match="60 of the new tokens are in the tokenizer already"):
            add_new_tokens(module, tokenizer, "The key is {new:60}")
    return canary.load(module, tokenizer=tokenizer)


def test_new_tokens_are_one_token_each_and_none_is_preferred_before_training():
    canaries = canary.generate(
        "The key is {new:60}", repetitions=[1], per_repetition=10, controls=50, seed=0
    )
    found = audit(new_model(), canaries)
    assert found.formats[0].method == "controls"
    assert found.injected_p.p_value > 0.001
    model = new_model()
    lengths = {len(e.ids) for e in model.tokenizer.encode([c.fill for c in canaries])}
    assert lengths == {1}


def test_new_tokens_that_the_tokenizer_does_not_have_are_refused():
    canaries = canary.generate(
        "The key is {new:60}", repetitions=[1], per_repetition=10, controls=50, seed=0
    )
    with pytest.raises(ModelError, match="has no tokens for .*reads them as ordinary text"):
        audit(new_model(added=False), canaries)
    from canary.models.new_tokens import add_new_tokens

    with pytest.raises(InputError, match="has no hole"):
        add_new_tokens(None, None, "The key is {digit:4}")
