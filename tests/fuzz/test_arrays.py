"""Arrays of any shape, type and content: an estimate, or a CanaryError."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fuzzing import attempt, cases, failed
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as shapes
from small_models import CHARACTERS, character_tokenizer

from canary.models.language_model import Children, Context, Nodes, Rows
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.statistics.exposures import exposure_by_bounds, exposure_by_draws, exposure_by_rank
from canary.statistics.extrapolation import exposure_by_skew_normal
from canary.statistics.histogram import HistogramBuilder
from canary.statistics.pvalues import fisher
from canary.statistics.skewfit import fit_skew_normal
from canary.tokens.fast import as_tokenizer

NUMBER = (
    st.floats() | st.floats(0, 60) | st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324, 1e-300])
)
DTYPES = st.sampled_from(
    ["f8", "f8", "f4", "f2", "g", "i8", "u1", "u8", "?", "c16", "O", "U3", "M8[s]", "V4"]
)


FEW = st.integers(0, 8)


@st.composite
def arrays(draw, sizes=FEW):
    """Any array, or what passes for one."""
    match draw(st.sampled_from(["flat", "flat", "flat", "list", "any", "odd"])):
        case "flat":
            values = np.random.default_rng(draw(st.integers(0, 9))).normal(30, 3, draw(sizes))
            for _ in range(draw(st.sampled_from([0, 0, 1, 2])) if len(values) else 0):
                values[draw(st.integers(0, len(values) - 1))] = draw(NUMBER)
            return values
        case "list":
            return draw(st.lists(NUMBER | st.integers() | st.none(), max_size=6))
        case "any":
            shape = draw(shapes.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
            dtype = np.dtype(draw(DTYPES))
            if dtype.kind in "OV":
                return np.full(shape, None, dtype) if dtype.kind == "O" else np.zeros(shape, dtype)
            return draw(shapes.arrays(dtype, shape))
        case _:
            return draw(
                st.sampled_from(
                    [None, 3.5, "12", b"1", [], [[]], [[1.0], [2.0, 3.0]], [["1"]], {}, {1.0}]
                )
                | st.sampled_from([[10**400], ["a"], [object], [True], range(5), [1j], (1.0, 2.0)])
            )


WHOLE = (
    st.integers()
    | st.integers(1, 10**6)
    | st.integers(1, 200).map(lambda n: 2**n)
    | st.sampled_from([10**5000, 0, True])
    | NUMBER
)
SHARE = st.sampled_from([0.95, 0.5]) | NUMBER | st.integers()


def sound(exposure):
    """Whether an exposure can be shown and kept."""
    assert exposure.bits is None or math.isfinite(exposure.bits)
    assert math.isfinite(exposure.lower_bits)
    assert not math.isnan(exposure.upper_bits)
    assert exposure.p_value is None or 0 < exposure.p_value <= 1
    return True


@cases(5_000)
@given(px=arrays(), draws=arrays(), size=WHOLE, confidence=SHARE, noise=SHARE)
def test_exposure_by_draws(px, draws, size, confidence, noise):
    found = attempt(
        exposure_by_draws, px, draws, space_size=size, confidence=confidence, noise_bits=noise
    )
    assert failed(found) or all(map(sound, found))


@cases(4_000)
@given(ranks=st.lists(WHOLE, min_size=3, max_size=3), size=WHOLE, ordered=st.booleans())
def test_exposure_by_rank(ranks, size, ordered):
    if ordered:
        ranks = sorted(ranks, key=lambda n: 0 if isinstance(n, float) else n)
    low, rank, high = ranks
    found = attempt(exposure_by_rank, rank, lower=low, upper=high, space_size=size)
    assert failed(found) or sound(found)
    bounds = attempt(exposure_by_bounds, lower=low, upper=high, space_size=size)
    assert failed(bounds) or (sound(bounds) and bounds.bits is None)


@cases(4_000)
@given(p=arrays() | st.lists(st.floats(0, 1), max_size=6), draws=st.none() | WHOLE)
def test_fisher(p, draws):
    found = attempt(fisher, p, shared_draws=draws)
    assert failed(found) or 0 < found.p_value <= 1


@cases(1_000, default=15)
@given(
    px=arrays(), draws=arrays(st.integers(38, 60)), size=WHOLE, seed=st.integers(0, 9), share=SHARE
)
def test_exposure_by_skew_normal(px, draws, size, seed, share):
    rng = np.random.default_rng(seed)
    found = attempt(
        exposure_by_skew_normal,
        px,
        draws,
        space_size=size,
        rng=rng,
        confidence=share,
        replicates=20,
    )
    if not failed(found):
        assert all(map(sound, found[0]))
        found[1].to_dict()


@cases(1_000)
@given(values=arrays(st.integers(18, 40)))
def test_fit_skew_normal(values):
    found = attempt(fit_skew_normal, values)
    assert failed(found) or found.scale_bits > 0


@cases(2_000)
@given(
    parts=st.lists(st.lists(NUMBER, max_size=6), max_size=3),
    width=NUMBER | st.integers(-8, 8).map(lambda n: 2.0**n),
)
def test_histogram(parts, width):
    builder = attempt(HistogramBuilder, width)
    if failed(builder):
        return
    other = HistogramBuilder()
    done = [attempt(builder.add, np.array(part)) for part in parts]
    if any(map(failed, done)):
        return
    built = builder.build()
    assert sum(built.counts) == sum(math.isfinite(x) for part in parts for x in part)
    if not failed(attempt(other.merge, built)):
        assert sum(other.build().counts) == sum(built.counts)


# Rows, nodes and children.

SIZE = len(CHARACTERS)
TOKEN = st.integers(0, SIZE - 1)
IDS = st.integers(-3, SIZE + 3) | TOKEN | TOKEN
INTS = st.lists(st.integers(-2, 6), max_size=5).map(lambda some: np.array(some, np.int64))


@pytest.fixture(scope="module")
def batcher():
    rng = np.random.default_rng(0)
    table = np.log(rng.dirichlet(np.ones(SIZE), 3))
    model = TableModel(rng.integers(0, 3, (3, SIZE)), table, as_tokenizer(character_tokenizer()))
    return Batcher(model)


@st.composite
def rows(draw):
    """Rows as they should be, or with one of their arrays changed."""
    made = draw(st.lists(st.lists(IDS, max_size=5), max_size=4))
    start = draw(st.integers(-1, 4) | st.lists(st.integers(1, 3), max_size=4))
    match draw(st.sampled_from(["of", "of", "ids", "offsets", "start"])):
        case "of":
            return lambda: Rows.of(made, start)
        case name:
            good = Rows.of(made)
            parts = {"ids": good.ids, "offsets": good.offsets, "start": good.start}
            parts[name] = draw(INTS | arrays())
            return lambda: Rows(**parts)


@cases(3_000)
@given(make=rows())
def test_rows(batcher, make):
    made = attempt(make)
    if failed(made):
        return
    found = attempt(batcher.score, made)
    if not failed(found):
        assert found.shape == (int(made.scored.sum()),)
        assert np.isfinite(found).all()


@st.composite
def below(draw):
    """Nodes and children as they should be, or with one of their arrays changed."""
    n, depth = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    ints = lambda low, high, size: draw(  # noqa: E731
        st.lists(st.integers(low, high), min_size=size, max_size=size)
    )
    paths = np.array(ints(0, SIZE - 1, n * depth), np.int32).reshape(n, depth)
    lengths = np.array(ints(0, depth, n), np.int64)
    parts = {
        "paths": paths,
        "lengths": lengths,
        "priced": np.minimum(lengths, np.array(ints(0, depth, n), np.int64)),
        "handles": np.array(ints(-1, 3, n), np.int64),
    }
    children = {"tokens": np.array(ints(0, SIZE - 1, draw(st.integers(0, 5))), np.int32)}
    if draw(st.booleans()):
        counts = ints(0, 2, n)
        children["offsets"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        children["tokens"] = np.array(ints(0, SIZE - 1, sum(counts)), np.int32)
    for group in (parts, children):
        if draw(st.sampled_from([False, False, True])):
            group[draw(st.sampled_from(sorted(group)))] = draw(INTS | arrays())
    return Nodes(**parts), Children(**children)


@cases(2_000)
@given(given=below(), context=st.lists(TOKEN, min_size=1, max_size=3), keep=st.booleans())
def test_nodes(batcher, given, context, keep):
    nodes, children = given
    with batcher.model.open(Context(np.array(context, np.int32)), memory_bytes=4096) as walker:
        found = attempt(batcher.expand, walker, nodes, children, keep=keep)
        if not failed(found):
            assert found.path_log_probs.shape == (len(nodes),)
            assert np.isfinite(found.log_probs).all()


@cases(1_000)
@given(transitions=arrays(), table=arrays(), square=st.booleans())
def test_tables(transitions, table, square):
    tokenizer = as_tokenizer(character_tokenizer())
    if square:
        transitions = np.zeros((2, SIZE), np.int64)
    attempt(TableModel, transitions, table, tokenizer)
