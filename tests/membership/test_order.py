"""The order test: exact against the slow count of all orders, and on models that saw an order."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from small_models import build
from texts_and_models import random_words, trained_on

import canary
from canary.errors import CanaryError, EstimationError, InputError
from canary.membership.order import _Plan, _without_model, order, pair_fits
from canary.membership.order_result import Order
from canary.membership.shuffles import preference
from canary.models.language_model import Rows
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import ScoreOptions

TEXTS = random_words(np.random.default_rng(3), 96, words=5, vocabulary=120)
SEEN = "\n".join(TEXTS)
OTHERS = random_words(np.random.default_rng(3), 192, words=5, vocabulary=120)[96:]


def slow_p(shards):
    """Of all orders of all shards, counted one by one: the share as good as the one given."""
    sums = [
        [
            sum(fit[i, j] - effects(fit)[i][j] for i, j in itertools.pairwise(turn))
            for turn in itertools.permutations(range(len(fit)))
        ]
        for fit in shards
    ]
    totals = np.array([sum(each) for each in itertools.product(*sums)])
    return float(np.mean(totals >= totals[0] - 1e-9))


def effects(fit):
    """Effects of rows and columns by least squares over the pairs of different things."""
    k = len(fit)
    pairs = list(itertools.permutations(range(k), 2))
    design = np.zeros((len(pairs), 2 * k + 1))
    for row, (i, j) in zip(design, pairs, strict=True):
        row[[0, 1 + i, 1 + k + j]] = 1.0
    answer = np.linalg.lstsq(design, np.array([fit[p] for p in pairs]), rcond=None)[0]
    return answer[0] + answer[1 : k + 1, None] + answer[None, k + 1 :]


def test_p_is_the_share_of_all_orders():
    rng = np.random.default_rng(1)
    for signal in (0.0, 0.8):
        shards = [rng.normal(size=(4, 4)) + signal * np.eye(4, k=1) for _ in range(2)]
        exact, shuffles = slow_p(shards), 20_000
        found = preference(shards, shuffles=shuffles).p * (shuffles + 1) - 1
        low, high = binom.interval(0.9999, shuffles, exact)
        assert low <= found <= high


def test_false_alarms_are_at_the_level():
    """Of 1,000 sets of exchangeable texts, whatever makes them more probable by themselves."""
    rng = np.random.default_rng(5)
    p = []
    for seed in range(1000):
        heavy = [rng.standard_t(2, (6, 6)) + rng.normal(0, 30, (6, 1)) for _ in range(3)]
        p.append(preference(heavy, shuffles=99, seed=seed).p)
    for level in (0.01, 0.05, 0.2):
        assert np.sum(np.array(p) <= level) <= binom.ppf(0.9999, 1000, level)
        assert np.sum(np.array(p) <= level) >= binom.ppf(0.0001, 1000, level)


def test_ties_count_against_the_order():
    assert preference([np.zeros((5, 5))] * 3, shuffles=99).p == 1.0


@pytest.mark.parametrize("name", ["gpt2", "gru"])
def test_shared_prefixes_are_rows_of_their_own(name):
    model = build(name)
    rng = np.random.default_rng(0)
    drawn = [tuple(rng.integers(3, 20, int(n)).tolist()) for n in rng.integers(1, 9, 10)]
    prefixes, continuations = drawn[:5], drawn[5:]
    batcher = Batcher(model)
    fits = pair_fits(batcher, prefixes, continuations)
    for i, j in itertools.permutations(range(5), 2):
        row = Rows.of([prefixes[i] + continuations[j]], len(prefixes[i]))
        assert fits[i, j] == pytest.approx(batcher.score(row).sum(dtype=np.float64), abs=1e-3)
    assert not fits.diagonal().any()


def test_a_model_that_read_the_file_prefers_its_order():
    found = order(trained_on([SEEN] * 3), TEXTS, start_token="\n", reference=trained_on(OTHERS))
    assert found.outcome == "seen"
    assert found.preference.p <= 0.001
    assert found.preference.gain > 5 * found.preference.spread
    assert found.reference.p > 0.01
    other = order(trained_on(OTHERS), TEXTS, start_token="\n")
    assert other.outcome == "undecided"
    shuffled = np.random.default_rng(0).permutation(TEXTS).tolist()
    assert order(trained_on(["\n".join(shuffled)]), TEXTS, start_token="\n").preference.p > 0.001


def test_a_reversed_file_or_an_aversion_is_no_silent_undecided():
    model = trained_on([SEEN] * 3)
    found = order(model, TEXTS[::-1], start_token="\n")
    assert found.outcome == "undecided"
    assert found.backward <= 0.001
    (note,) = found.notes
    assert "looks reversed against the training's order. This is no all-clear" in note
    assert note in found.summary()
    assert note in canary.check(found, max_p=0.01).notes
    right = order(model, TEXTS, start_token="\n")
    assert right.disorder is None
    averse = replace(right, preference=replace(right.preference, p=0.9991), backward=0.4)
    assert "as if the training had another order" in averse.disorder
    assert replace(averse, preference=replace(right.preference, p=0.98)).disorder is None


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (sorted, "alphabet"),
        (lambda texts: sorted(texts, key=len), "length"),
        (lambda texts: [f"{at + 1}. {text}" for at, text in enumerate(texts)], "number"),
        (lambda texts: [f"{texts[at // 4]} {text}" for at, text in enumerate(texts)], "words"),
    ],
)
def test_an_order_that_is_special_without_a_model_accuses_nobody(make, named):
    texts = make(TEXTS)
    found = order(trained_on(["\n".join(texts)] * 3), texts, start_token="\n")
    assert found.outcome == "void" if found.preference.p <= 0.01 else "undecided"
    assert any(named in alarm for alarm in found.alarms)


def test_alarms_are_rare_where_the_order_is_random():
    rng = np.random.default_rng(2)
    found = order(trained_on(["a"]), TEXTS[:24], start_token="\n", shuffles=9, before=1, after=1)
    alarms = 0
    for _ in range(200):
        texts = rng.permutation(TEXTS).tolist()[:24]
        fits = _without_model([texts[at : at + 8] for at in range(0, 24, 8)])
        p = {name: preference(each, shuffles=399, seed=1).p for name, each in fits}
        alarms += bool(replace(found, without_model=p).alarms)
    assert alarms <= binom.ppf(0.9999, 200, 0.025)


def test_tokens_are_counted_before(tmp_path):
    counted = []

    def progress(name, total, unit="tokens"):
        counted.append([name, total, 0])

        def advance(tokens):
            counted[-1][2] += tokens

        return advance

    short = [text[:20] for text in TEXTS[:20]]
    found = order(build("gpt2"), short, start_token="\n", progress=progress)
    ((name, total, done),) = counted
    assert (name, total) == ("model", found.tokens)
    assert 0.9 * total <= done <= total
    assert found.shard == 8
    assert found.texts == 20


def test_a_run_resumes(tmp_path):
    model, texts = trained_on([SEEN]), TEXTS[:32]
    whole = order(model, texts, start_token="\n")
    stopped = RuntimeError()

    def progress(name, total, unit="tokens"):
        done = [0]

        def advance(tokens):
            done[0] += tokens
            if done[0] > total / 2:
                raise stopped

        return advance

    with pytest.raises(RuntimeError):
        order(model, texts, start_token="\n", parts=tmp_path / "p", progress=progress)
    assert len(list((tmp_path / "p").glob("*.shard"))) >= 1
    again = order(model, texts, start_token="\n", parts=tmp_path / "p")
    assert again.to_dict() == replace(whole, about=again.about).to_dict()
    with pytest.raises(CanaryError):
        order(model, texts[::-1], start_token="\n", parts=tmp_path / "p")


def test_what_is_between_texts_is_what_training_had():
    model = trained_on([SEEN])
    settings = {"separator": "\n", "before": 4, "after": 2}
    plan = _Plan.of(model, ScoreOptions(start_token="\n"), [["abc def", "ghi"]], settings)
    ((prefixes, then),) = plan.shards
    decode = lambda ids: model.tokenizer.decode(list(ids))  # noqa: E731
    assert [decode(ids) for ids in prefixes] == [" def", "\nghi"]
    assert [decode(ids) for ids in then] == ["\nab", "\ngh"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"texts": TEXTS[:7]}, "too few"),
        ({"shard": 2}, "shard"),
        ({"after": 0}, "after"),
        ({"texts": [*TEXTS[:9], 3]}, "texts"),
    ],
)
def test_what_cannot_be_tested_is_refused(given, word):
    with pytest.raises(InputError, match=word):
        order(**{"model": trained_on([SEEN]), "texts": TEXTS, **given})


def test_a_model_without_numbers_is_refused():
    with pytest.raises(EstimationError, match="finite"):
        preference([np.full((4, 4), -np.inf)])


def test_the_file_is_read_back(tmp_path):
    found = order(trained_on([SEEN]), TEXTS[:16], start_token="\n")
    found.save(tmp_path / "order.json")
    again = Order.load(tmp_path / "order.json")
    assert replace(again, file="") == found
    assert canary.read(tmp_path / "order.json") == again
    assert not any(text in json.dumps(found.to_dict()) for text in TEXTS)
