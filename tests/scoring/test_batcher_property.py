"""The batching engine: order, memory, numbers, tuning; and the options of how it is run."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Cramped, build
from walk_cases import told

from canary.errors import InputError, ModelError
from canary.formats.format import Format
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.scoring.batch_loop import BatchTuner
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.run_options import RunOptions, ScoreOptions
from canary.scoring.samples import class_log_probs
from canary.scoring.texts import score
from canary.search.enumerate import enumerate_leaves
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import compile_tree


def random_rows(seed: int, count: int) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows.of(
        [rng.integers(0, 40, rng.integers(1, 15)).tolist() for _ in range(count)],
        rng.integers(1, 4, count).tolist(),
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(0, 50), batch=st.integers(1, 60))
def test_score_keeps_the_order_of_the_input_property(seed: int, count: int, batch: int) -> None:
    model, rows = build("table"), random_rows(seed, count)
    wanted = model.score(rows)
    np.testing.assert_array_equal(Batcher(model, batch_size=batch).score(rows), wanted)
    np.testing.assert_array_equal(Batcher(model).score(rows), wanted)
    np.testing.assert_array_equal(Batcher(Cramped(model, 3)).score(rows), wanted)


@pytest.mark.parametrize(("batch_size", "most"), [(None, 10), (64, 4)])
def test_halves_are_tried_and_not_the_same_again(batch_size, most) -> None:
    """Also of a size that was asked for; that nothing is lost is tested beside this file."""
    rows, cramped = random_rows(1, 100), Cramped(build("table"), 5)
    batcher = Batcher(cramped, batch_size=batch_size)
    np.testing.assert_array_equal(batcher.score(rows), build("table").score(rows))
    assert cramped.refused <= most


def test_expand_in_halves_gives_each_node_its_children() -> None:
    model = build("table")
    paths = np.random.default_rng(0).integers(0, 40, (50, 2)).astype(np.int32)
    two, none = np.full(50, 2), np.full(50, -1)
    nodes, context = Nodes(paths, two, two, none), Context(np.array([1, 2], np.int32))
    own = Children(np.arange(100, dtype=np.int32) % 40, np.arange(51) * 2)
    for children in (Children(np.arange(4, dtype=np.int32)), own):
        cramped = Cramped(model, 7)
        with (
            model.open(context, memory_bytes=2**16) as walker,
            cramped.open(context, memory_bytes=2**16) as narrow,
        ):
            wanted = walker.expand(nodes, children).log_probs
            found = Batcher(cramped).expand(narrow, nodes, children).log_probs
        np.testing.assert_array_equal(found, wanted)


def test_progress_adds_up() -> None:
    rows, told = random_rows(3, 40), []
    Batcher(build("table"), batch_size=7, progress=told.append).score(rows)
    assert sum(told) == int(rows.scored.sum())
    assert len(told) == 6


def test_score_input() -> None:
    model = build("gpt2")
    with pytest.raises(ModelError, match="80 tokens is longer than the 64"):
        Batcher(model).score(Rows.of([[1] * 80]))
    with pytest.raises(InputError, match="batch_size .* at least 1, got 0"):
        Batcher(model, batch_size=0)

    class Diverged:
        tokenizer, facts, memory = model.tokenizer, model.facts, model.memory

        def score(self, rows):
            return np.full(int(rows.scored.sum()), np.nan, np.float32)

    with pytest.raises(ModelError, match="not finite"):
        Batcher(Diverged()).score(Rows.of([[1, 2]]))


def test_texts_golden() -> None:
    """On a table: 'ab' after the start token costs -log2 p(a|start) - log2 p(b|a)."""
    model = build("table")
    ids = [model.tokenizer.token_id(c) for c in "\nab"]
    parts = [float(model.score(Rows.of([ids[: k + 1]], k))[0].astype(np.float64)) for k in (1, 2)]
    found = score(model, ["ab", "b"], start_token="\n")
    assert found[0] == -(parts[0] + parts[1]) / np.log(2)
    assert score(model, ["a"]).tolist() == [0.0]  # a lone first token has no value


def test_row_sums_golden() -> None:
    rows = Rows.of([[0, 1, 2], [0], [0, 1]], 1)
    values = np.array([-1.0, -2.0, -4.0], np.float32)
    assert row_sums(values, rows).tolist() == [-3.0, 0.0, -4.0]
    assert row_sums(values, rows, at_most=np.array([1, 1, 0])).tolist() == [-1.0, 0.0, 0.0]


def peak(size, number):
    """A machine that is fastest at 1,024: overhead below, cache misses above."""
    return 1 / (1 / size + size / 1024**2)


def busy(size, number):
    """The same, ten times slower half of the time, in spells of 40 batches."""
    return peak(size, number) * (0.1 if number // 40 % 2 else 1.0)


def faster(size, number):
    return size


@pytest.mark.parametrize(
    ("options", "rate", "batches", "ends"),
    [
        ({"start": 64}, peak, 80, (512, 1024, 2048)),
        ({"start": 16384}, peak, 80, (512, 1024, 2048)),
        ({"start": 64}, busy, 400, (512, 1024, 2048)),
        ({"start": 64, "limit": 300}, faster, 200, (300,)),
        ({"start": 50, "fixed": True}, faster, 200, (50,)),
        # Two batches for each doubling: a short walk is soon at a good size.
        ({"start": 64}, lambda size, _: size / (1 + size / 1024), 9, (512, 1024)),
    ],
)
def test_the_tuner_climbs_to_the_fastest_size_theory(options, rate, batches, ends) -> None:
    tuner = BatchTuner(**options)
    for number in range(batches):
        tuner.observe(tuner.size, tuner.size / rate(tuner.size, number))
    assert tuner.size in ends


def test_the_tuner_takes_at_most_half_of_what_failed() -> None:
    for start, end in ((64, 32), (1, 1)):
        tuner = BatchTuner(start=start)
        tuner.shrink(tuner.size)
        for _ in range(200):
            tuner.observe(tuner.size, 1.0)
        assert tuner.size == end


@pytest.mark.parametrize("first", [0, 1])
def test_deep_nodes_are_not_compared_with_shallow_ones_theory(first) -> None:
    """Every other batch is of a kind twice as slow; no size is better than another."""
    tuner = BatchTuner(start=64)
    for number in range(200):
        kind = (number + first) % 2
        tuner.observe(tuner.size, tuner.size * (1 + kind), kind=kind)
    assert tuner.size in (32, 64, 128)


def test_time_that_other_programs_take_does_not_count() -> None:
    """Larger batches are interrupted for longer, and are the better ones nevertheless."""
    model = build("table")
    tree = compile_tree(Format("a{digit:5}"), CandidateEncoder(model.tokenizer))
    batcher = Batcher(model)
    with model.open(Context(tree.context), memory_bytes=2**22) as walker:
        slow = lambda nodes, *_, **__: time.sleep(len(nodes) ** 2 * 1e-7)  # noqa: E731
        walker.expand = told(walker.expand, slow)
        for _ in enumerate_leaves(tree, walker, batcher):
            pass
        assert batcher.node_batch(walker) > 64


class Fast:
    """A classifier that is faster the more samples it is given; keeps the sizes of its batches."""

    name, device, fingerprint = "fast", "elsewhere", None

    def __init__(self):
        self.sizes = []

    def log_probs(self, inputs):
        self.sizes.append(len(inputs))
        return np.full((len(inputs), 2), -np.log(2))


@pytest.mark.parametrize(("width", "most"), [(1, 2**20), (2**16, 2**28 // 2**19)])
def test_batches_of_samples_grow_as_far_as_they_are_small(width, most, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    model = Fast()
    inputs = np.broadcast_to(np.zeros(width), (200_000, width))
    places = [part for part, _ in class_log_probs(model, inputs)]
    assert sum(part.stop - part.start for part in places) == 200_000
    assert max(model.sizes) <= most
    assert max(model.sizes) > (4_096 if width == 1 else 256)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"start_token": 5}, InputError, "start_token must be text"),
        ({"start_token": "\ud800"}, InputError, "start_token holds half a character"),
        ({"context": 5}, InputError, "context must be text, .*None for none"),
        ({"batch_size": 0}, InputError, "batch_size .* at least 1, got 0; leave it out"),
        ({"start_tokn": 1}, TypeError, "start_tokn"),
    ],
)
@pytest.mark.parametrize("options", [ScoreOptions, RunOptions])
def test_how_a_model_is_run_input(options, change, error, message):
    with pytest.raises(error, match=message):
        options(**change)
    assert options(context=None) == options()
    assert type(options(start_token="a", batch_size=np.int64(4)).batch_size) is int
