"""The batching engine: order, memory, numbers, tuning."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Cramped, build

from canary.errors import InputError, ModelError
from canary.formats.format import Format
from canary.models.language_model import Children, Context, Nodes, Rows
from canary.scoring.batch_loop import BatchTuner
from canary.scoring.batcher import Batcher, row_sums
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


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(0, 50), batch=st.integers(1, 60))
def test_score_property_keeps_the_order_of_the_input(seed: int, count: int, batch: int) -> None:
    model, rows = build("table"), random_rows(seed, count)
    wanted = model.score(rows)
    np.testing.assert_array_equal(Batcher(model, batch_size=batch).score(rows), wanted)
    np.testing.assert_array_equal(Batcher(model).score(rows), wanted)
    np.testing.assert_array_equal(Batcher(Cramped(model, 3)).score(rows), wanted)


def test_halves_are_tried_and_not_the_same_again() -> None:
    """Also of a size that was asked for; that nothing is lost is tested beside this file."""
    rows = random_rows(1, 100)
    for batch_size, most in ((None, 10), (64, 4)):
        cramped = Cramped(build("table"), 5)
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
    rows = random_rows(3, 40)
    told: list[int] = []
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


def simulated(tuner: BatchTuner, rate, batches: int) -> int:
    for number in range(batches):
        size = tuner.size
        tuner.observe(size, size / rate(size, number))
    return tuner.size


def test_tuner_theory_climbs_to_the_fastest_size() -> None:
    """A machine that is fastest at 1,024: overhead below, cache misses above."""
    peak = lambda size, number: 1 / (1 / size + size / 1024**2)  # noqa: E731
    assert simulated(BatchTuner(start=64), peak, 80) in (512, 1024, 2048)
    assert simulated(BatchTuner(start=16384), peak, 80) in (512, 1024, 2048)


def test_tuner_theory_a_short_walk_is_soon_at_a_good_size() -> None:
    """Two batches for each doubling: from 64 to 512 within 2,000 nodes."""
    tuner, nodes = BatchTuner(start=64), 0
    while nodes < 2_000:
        nodes += tuner.size
        tuner.observe(tuner.size, 1 + tuner.size / 1024)
    assert tuner.size >= 512


def test_tuner_theory_a_busy_moment_slows_both_sizes_alike() -> None:
    """A machine that is ten times slower half of the time, in spells of 40 batches."""

    def busy(size: int, number: int) -> float:
        return (0.1 if number // 40 % 2 else 1.0) / (1 / size + size / 1024**2)

    assert simulated(BatchTuner(start=64), busy, 400) in (512, 1024, 2048)


def test_tuner_theory_deep_nodes_are_not_compared_with_shallow_ones() -> None:
    """Every other batch is of a kind twice as slow; no size is better than another."""
    for first in (0, 1):
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
        expand = walker.expand

        def interrupted(nodes, tokens, *, keep=True):
            time.sleep(len(nodes) ** 2 * 1e-7)
            return expand(nodes, tokens, keep=keep)

        walker.expand = interrupted
        for _ in enumerate_leaves(tree, walker, batcher):
            pass
        assert batcher.node_batch(walker) > 64


def test_tuner_limits() -> None:
    faster = lambda size, number: size  # noqa: E731
    assert simulated(BatchTuner(start=64, limit=300), faster, 200) == 300
    assert simulated(BatchTuner(start=50, fixed=True), faster, 200) == 50
    tuner = BatchTuner(start=64)
    tuner.shrink(tuner.size)
    assert simulated(tuner, faster, 200) == 32
    tuner = BatchTuner(start=1)
    tuner.shrink(tuner.size)
    assert tuner.size == 1
