"""Probabilities under decoding schemes: against enumeration, and against `generate` itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import transformers
from scipy.stats import binom
from small_models import CHARACTERS, build, known

from canary.errors import InputError, UnsupportedError
from canary.models import decoded_tokens as decoded
from canary.models import decoding
from canary.models.decoded_tokens import decoded_tokens
from canary.models.decoding import Scheme, TellsDecoding, _processors
from canary.models.language_model import Rows
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher

SCHEMES = [
    Scheme(),
    Scheme(temperature=0.7),
    Scheme(top_k=1),
    Scheme(top_k=3),
    Scheme(top_k=10**6),
    Scheme(top_p=0.63),
    Scheme(top_p=1.0),
    Scheme(min_p=0.2),
    Scheme(min_p=1.0),
    Scheme(temperature=1.3, top_k=5, top_p=0.8, min_p=0.1),
]
MODELS = ("gpt2", "llama", "mamba")


def step(log_probs, scheme):
    """The distribution of one token under a scheme, written out; lists, and no torch."""
    logits = log_probs / scheme.temperature
    kept = np.isfinite(logits)
    if scheme.top_k:
        limit = sorted(logits, reverse=True)[: scheme.top_k][-1]
        kept &= logits >= limit
    probs = np.where(kept, np.exp(logits - logits.max()), 0.0)
    if scheme.top_p is not None and scheme.top_p < 1.0:
        # From the least probable on, the first of those that tie first, tokens are taken away
        # while those taken have no more than 1 - top_p together.
        order, taken = sorted(range(len(probs)), key=lambda t: (probs[t], t)), 0.0
        for token in order[:-1]:
            taken += probs[token] / probs.sum()
            if taken > 1.0 - scheme.top_p:
                break
            kept[token] = False
        probs = np.where(kept, probs, 0.0)
    if scheme.min_p is not None:
        probs = np.where(probs >= scheme.min_p * probs.max() * (1 - 1e-12), probs, 0.0)
    return probs / probs.sum()


def toy():
    """Five tokens, of which two tie at each state; 0 and 1 are impossible after some."""

    class Five:
        size = 5

    probs = np.array([
        [0.3, 0.3, 0.2, 0.15, 0.05],
        [0.0, 0.25, 0.25, 0.4, 0.1],
        [0.1, 0.1, 0.35, 0.35, 0.1],
    ])  # fmt: skip
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    moves = np.array([[0, 1, 2, 1, 2], [2, 0, 1, 0, 2], [1, 2, 0, 0, 1]])
    return TableModel(moves, logs, Five()), moves, logs


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_suffixes_have_the_probability_that_enumeration_gives_them(scheme):
    model, moves, logs = toy()
    suffixes = list(itertools.product(range(5), repeat=4))
    found = Batcher(model).decoded(Rows.of([(3, 1, *s) for s in suffixes], 2), [scheme])
    total = np.exp(found.log_probs.reshape(-1, 4).sum(axis=1, dtype=np.float64))
    state = moves[moves[0, 3], 1]
    expected = []
    for suffix in suffixes:
        at, chance = state, 1.0
        for token in suffix:
            chance *= step(logs[at], scheme)[token]
            at = moves[at, token]
        expected.append(chance)
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-6)
    assert total.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("top_k", [None, 1, 2, 7, 40, 10**6])
@pytest.mark.parametrize("top_p", [None, 0.01, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("bins", [512, 4])
def test_limits_among_logits_alone_are_those_of_the_processors_of_transformers(
    top_k, top_p, temperature, bins, monkeypatch
):
    """Small vocabularies are sorted whole, unless there are few bins for their logits."""
    monkeypatch.setattr(decoded, "_BINS", bins)
    scheme = Scheme(temperature=temperature, top_k=top_k, top_p=top_p)
    processors, nothing = _processors(scheme), torch.zeros((0, 0), dtype=torch.int64)
    source = torch.Generator().manual_seed(7)
    for trial, size in enumerate([1, 2, 5, 41, 60, 150, 300] * 4):
        logits = torch.randn(40, size, generator=source) * (0.3 + trial % 5)
        if trial % 3:  # nearly all tie, or as many as in half precision
            logits = logits.round() if trial % 3 == 1 else logits.bfloat16().float()
        if trial % 4 == 0:
            logits[:, 1:][torch.rand(40, size - 1, generator=source) < 0.3] = -np.inf
        tokens = torch.randint(0, size, (40,), generator=source)
        scores = logits
        for processor in processors:
            scores = processor(nothing, scores)
        expected = scores.log_softmax(-1).gather(1, tokens[:, None])[:, 0].numpy()
        found = decoded_tokens(logits, tokens, [scheme]).log_probs[:, 0]
        assert (np.isneginf(found) == np.isneginf(expected)).all()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("rounded", [False, True])
def test_limits_in_bins_are_those_of_the_processors_where_rounding_decides_too(
    top_p, rounded, monkeypatch
):
    """Each token of flat rows is wanted once, so that some are right at the limit."""
    asked, exactly = [], decoded._exactly
    monkeypatch.setattr(decoded, "_exactly", lambda *a: asked.append(len(a[0])) or exactly(*a))
    logits = torch.randn(1, 1500, generator=torch.Generator().manual_seed(3)) * 0.3
    logits = (logits.bfloat16().float() if rounded else logits).expand(1500, -1)
    for schemes in ([Scheme(top_p=top_p)], [Scheme(), Scheme(top_k=900), Scheme(top_p=top_p)]):
        found = decoded_tokens(logits, torch.arange(1500), schemes).log_probs[:, -1]
        scores = decoding.warped(logits[:1], schemes[-1])
        np.testing.assert_allclose(found, scores.log_softmax(-1)[0].numpy(), rtol=0, atol=1e-5)
    assert len(asked) == 0 or rounded  # only ties need the processors


def sampled(name, scheme, count, *, length=3, seed=0):
    """What `generate` draws after a fixed prefix, and the log-probability that it says."""
    module = known(name).module
    prefix = torch.tensor([[4, 17, 30, 2]])
    torch.manual_seed(seed)
    options = {"temperature": scheme.temperature, "top_k": scheme.top_k or 0}
    options |= {"top_p": scheme.top_p or 1.0, "min_p": scheme.min_p}
    config = transformers.GenerationConfig(
        do_sample=True,
        num_return_sequences=count,
        max_new_tokens=length,
        output_scores=True,
        return_dict_in_generate=True,
        eos_token_id=None,
        pad_token_id=0,
        **options,
    )
    with torch.no_grad():
        drawn = module.generate(prefix, generation_config=config)
    new = drawn.sequences[:, prefix.shape[1] :]
    logs = [s.log_softmax(-1).gather(1, new[:, [i]]) for i, s in enumerate(drawn.scores)]
    return drawn.sequences.tolist(), torch.cat(logs, dim=1).double().sum(dim=1).numpy()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_samples_of_generate_have_the_log_probability_that_generate_drew_them_with(name, scheme):
    rows, expected = sampled(name, scheme, 40)
    found = Batcher(known(name)).decoded(Rows.of(rows, 4), [Scheme(), scheme])
    total = found.log_probs[:, 1].reshape(-1, 3).sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("count", [4_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_samples_of_generate_are_as_frequent_as_computed(count):
    scheme = Scheme(temperature=1.2, top_k=6, top_p=0.9)
    rows, _ = sampled("gpt2", scheme, count)
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    found = Batcher(known("gpt2")).decoded(Rows.of(kinds.tolist(), 4), [scheme])
    chance = np.exp(found.log_probs.reshape(-1, 3).sum(axis=1, dtype=np.float64))
    level = 1e-6 / len(kinds)
    assert (binom.sf(counts - 1, count, chance) > level).all()
    assert (binom.cdf(counts, count, chance) > level).all()
    unseen = 1.0 - chance.sum()
    assert unseen < 0.2  # most of the mass was looked at


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_generate(name):
    model, rng, length = known(name), np.random.default_rng(3), 6
    prefixes = rng.integers(0, len(CHARACTERS), (60, 5))
    config = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=length, eos_token_id=None, pad_token_id=0
    )
    with torch.no_grad():
        # Every token counts, also that which fills up rows.
        mask = torch.ones(prefixes.shape, dtype=torch.int64)
        options = {"generation_config": config, "attention_mask": mask}
        given = model.module.generate(torch.from_numpy(prefixes), **options).numpy()
    rows = given.copy()
    places = rng.integers(0, 2 * length, 60)  # half of the suffixes are changed at a place
    for row, place in enumerate(places):
        if place < length:
            rows[row, 5 + place] = (rows[row, 5 + place] + 1) % len(CHARACTERS)
    found = Batcher(model).decoded(Rows.of(rows.tolist(), 5), [Scheme()]).greedy.reshape(60, -1)
    leading = np.cumprod(found, axis=1).sum(axis=1)
    agreeing = np.cumprod(rows[:, 5:] == given[:, 5:], axis=1).sum(axis=1)
    assert (leading == agreeing).all()
    assert set(agreeing) == set(range(length + 1))


@pytest.mark.parametrize("name", ["table", "lstm", *MODELS])
def test_batches_and_parts_change_nothing_beyond_the_noise(name):
    model = build(name) if name in ("table", "lstm") else known(name)
    rows = np.random.default_rng(1).integers(0, len(CHARACTERS), (40, 9)).tolist()
    schemes = [Scheme(), Scheme(temperature=0.8, top_p=0.99)]
    alone = Batcher(model, batch_size=1).decoded(Rows.of(rows, 4), schemes)
    together = Batcher(model, batch_size=40).decoded(Rows.of(rows, 4), schemes)
    np.testing.assert_allclose(alone.log_probs, together.log_probs, atol=1e-4)
    plain = Batcher(model).score(Rows.of(rows, 4))
    np.testing.assert_allclose(alone.log_probs[:, 0], plain, atol=1e-4)
    logits, tokens = torch.randn(50, 30), torch.arange(50) % 30
    few = decoded_tokens(logits, tokens, schemes, at_once=60)
    many = decoded_tokens(logits, tokens, schemes)
    np.testing.assert_array_equal(few.log_probs, many.log_probs)
    np.testing.assert_array_equal(few.greedy, many.greedy)


@pytest.mark.parametrize("scheme", [*SCHEMES, Scheme(temperature=0.1, min_p=0.0)], ids=str)
def test_schemes_are_read_as_they_are_written(scheme):
    assert Scheme.parsed(str(scheme)) == scheme
    assert Scheme.from_dict(scheme.to_dict()) == scheme


def test_options_that_are_not_set_are_not_written():
    assert Scheme(top_k=5).to_dict() == {"top_k": 5}
    before = {"temperature": 1.0, "top_k": 5, "top_p": None, "min_p": None}
    assert Scheme.from_dict(before) == Scheme(top_k=5)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "'' is no decoding scheme"),
        ("t", "no decoding scheme"),
        ("t=1,t=2", "no decoding scheme"),
        ("x=1", "no decoding scheme"),
        ("k=2.5", "no decoding scheme"),
        ("t=0", "temperature of 0.0 makes no sense.*greedy decoding is measured without it"),
        ("t=nan", "temperature of nan makes no sense"),
        ("k=0", "top-k of 0 makes no sense"),
        ("p=0", "top-p of 0.0 makes no sense"),
        ("p=1.1", "top-p of 1.1 makes no sense"),
        ("m=-0.1", "min-p of -0.1 makes no sense"),
    ],
)
def test_schemes_that_make_no_sense_are_refused(written, message):
    with pytest.raises(InputError, match=message):
        Scheme.parsed(written)


def test_a_model_without_distributions_is_refused():
    model = build("by_rows")
    assert not isinstance(model, TellsDecoding)
    with pytest.raises(UnsupportedError, match="over its whole vocabulary.*load the model here"):
        Batcher(model).decoded(Rows.of([[1, 2]]), [Scheme()])
