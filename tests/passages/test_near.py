"""The probability of coming near a suffix, beside what going through all continuations gives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from chains import chain_model, distance, exact_mass
from small_models import build

from canary.errors import InputError
from canary.models.decoding import Scheme, drawn_probabilities
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.passages.edits import TokenAutomaton
from canary.passages.near import edits_of
from canary.passages.near_walk import near_mass
from canary.passages.verbatim import verbatim
from canary.scoring.batcher import Batcher

SCHEMES = [Scheme(), Scheme(temperature=0.7, top_k=4), Scheme(top_p=0.8), Scheme(min_p=0.1)]


def walked(model, suffix, edits, *, scheme=SCHEMES[0], width=80, seed=0):
    batcher = Batcher(model)
    rows = Rows.of([[0, *suffix.tolist()]])
    logs = batcher.decoded(rows, [scheme]).log_probs[:, 0].astype(np.float64)
    with model.open(Context(np.zeros(1, np.int32)), memory_bytes=2**22) as walker:
        options = {"scheme": scheme, "log_probs": logs, "width": width}
        rng = np.random.default_rng(seed)
        automaton = TokenAutomaton(suffix, edits)
        return near_mass(walker, batcher, automaton, rng=rng, **options), math.exp(logs.sum())


@pytest.mark.parametrize("edits", range(4))
def test_the_automaton_is_the_table_of_edit_distances(edits):
    suffix = np.array([0, 1, 1, 2], np.int32)
    automaton = TokenAutomaton(suffix, edits)
    for sample in itertools.product(range(3), repeat=4):
        rows = automaton.start
        true = distance(sample, tuple(suffix.tolist()))
        for done, token in enumerate(sample, 1):
            rows = automaton.after(rows, (suffix == token)[None])
            assert (automaton.least(rows, done)[0] <= edits) >= (true <= edits)
            assert automaton.near(rows, done)[0] <= (true <= edits)
        assert (rows[0, -1] <= edits) == (true <= edits)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_wide_walk_is_exact(scheme):
    """With room for all nodes the mass is what going through all samples gives."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model, suffix = chain_model(rng, length=4, vocabulary=5, states=4)
        for edits in range(3):
            found, verbatim_mass = walked(model, suffix, edits, scheme=scheme, width=10_000)
            shares = drawn_probabilities(model._log_probs, scheme)
            truth = 0.0
            for sample in itertools.product(range(5), repeat=4):
                state, mass = 1, 1.0
                for token in sample:
                    mass, state = mass * shares[state, token], model._transitions[state, token]
                truth += mass * (distance(sample, tuple(suffix.tolist())) <= edits)
            assert truth == pytest.approx(exact_mass(model, suffix, edits, scheme), rel=1e-9)
            if edits == 0:
                assert found.mass == pytest.approx(verbatim_mass, rel=1e-6)
                assert found.deviation == 0.0
            assert found.least <= truth * (1 + 1e-6)
            assert found.most >= truth * (1 - 1e-6)
            low, high = found.interval(0.95)
            assert low - 1e-9 <= truth * (1 + 1e-6)
            assert found.mass == pytest.approx(truth, rel=0.05)
            assert low * (1 - 1e-6) <= found.mass <= high * (1 + 1e-6)


@pytest.mark.parametrize(("length", "edits", "sure"), [(9, 1, 0.7), (12, 2, 0.6), (14, 3, 0.8)])
def test_a_narrow_walk_has_no_bias_and_says_how_far_it_is_off(length, edits, sure):
    model, suffix = chain_model(
        np.random.default_rng(length), length=length, vocabulary=9, states=8, sure=sure
    )
    truth = exact_mass(model, suffix, edits)
    runs = [walked(model, suffix, edits, width=16, seed=seed)[0] for seed in range(60)]
    masses = np.array([run.mass for run in runs])
    spread = masses.std(ddof=1)
    assert abs(masses.mean() - truth) < 4.5 * spread / math.sqrt(len(runs))
    said = math.sqrt(np.mean([run.deviation**2 for run in runs]))
    assert 0.6 < said / spread < 2.5
    inside = sum(low <= truth <= high for low, high in (run.interval(0.95) for run in runs))
    assert inside >= 50  # of 60 at 95 %: fewer in one case of 2,000
    assert max(run.queries for run in runs) <= 1 + 24 * length


def test_a_walk_costs_a_hundredth_of_sampling():
    """At a mass near 1e-3 plain samples of the same cost vary ten times as much."""
    model, suffix = chain_model(
        np.random.default_rng(1), length=15, vocabulary=12, states=15, sure=0.5
    )
    truth = exact_mass(model, suffix, 3)
    assert 1e-4 < truth < 1e-2
    runs = [walked(model, suffix, 3, width=60, seed=seed)[0] for seed in range(12)]
    variance = np.mean([(run.mass - truth) ** 2 for run in runs])
    samples = np.mean([run.queries for run in runs]) / len(suffix)
    assert truth * (1 - truth) / samples > 100 * variance


def test_windows_have_their_mass_and_a_run_resumes(tmp_path):
    model, texts = build("table"), ["0123456789ab" * 2, "ba9876543210" * 2]
    options = {"prefix": 4, "suffix": 4, "near": 1, "near_width": 40, "start_token": None}
    found = verbatim(model, texts, parts=tmp_path / "parts", **options)
    again = verbatim(model, texts, parts=tmp_path / "parts", **options)
    assert again.texts == found.texts
    table = found.to_frame()
    assert (table["near"] >= np.exp(table["nats t=1"]) * (1 - 1e-5)).all()
    assert (table["near lower"] <= table["near"]).all()
    assert (table["near upper"] >= table["near"]).all()
    assert found.near_rate(tries=10**6).texts.hits >= found.rate(tries=10**6).texts.hits
    none = verbatim(model, texts, prefix=4, suffix=4, start_token=None)
    assert none.to_frame()["near"].isna().all()
    with pytest.raises(InputError, match="not measured"):
        none.near_rate()
    assert type(found).from_dict(found.to_dict()) == found
    exact = verbatim(model, texts, **{**options, "near": 0}).texts
    masses = [mass for mass, *_ in exact.near]
    np.testing.assert_allclose(masses, np.exp(exact.log_prob(0)), rtol=1e-5)


def test_one_edit_of_a_real_model_is_what_all_its_samples_give():
    """A mass of a transformer, three tokens long, beside the sum over all samples."""
    model = build("gpt2")
    size, text = model.facts.vocabulary, "0123456"
    found = verbatim(
        model, [text], prefix=4, suffix=3, near=1, near_width=4000, start_token=None
    )  # fmt: skip
    encoding = model.tokenizer.encode([text])[0].ids
    suffix, rows = tuple(encoding[4:]), np.arange(size, dtype=np.int32)
    with model.open(Context(np.array(encoding[:4], np.int32)), memory_bytes=2**24) as walker:
        total = np.zeros(())
        for length in range(3):
            paths = np.array(list(itertools.product(range(size), repeat=length)), np.int32)
            paths = paths.reshape(size**length, length)
            lengths = np.full(len(paths), length)
            nodes = Nodes(paths, lengths, lengths, np.full(len(paths), -1))
            step = walker.expand(nodes, Children(rows), keep=False).log_probs.astype(np.float64)
            total = (total[..., None] if length else 0.0) + step.reshape((size,) * (length + 1))
    near = 0.0
    for sample in itertools.product(range(size), repeat=3):
        if sum(a != b for a, b in zip(sample, suffix, strict=True)) <= 1:
            near += math.exp(total[sample])
    assert found.texts.near[0][0] == pytest.approx(near, rel=0.02)


@pytest.mark.parametrize("near", [-1, 4, 1.5, float("nan")])
def test_what_makes_no_sense_is_refused_input(near):
    with pytest.raises(InputError, match="near="):
        edits_of(near, 4)
    given = (0, 5, 0.1, 49, "5", "10%", " 0.5% ")
    assert [edits_of(n, 50) for n in given] == [(n, False) for n in (0, 5, 5, 49, 5, 5, 0)]
    assert edits_of("60c", 50) == (60, True)
