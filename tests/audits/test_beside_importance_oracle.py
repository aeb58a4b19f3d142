"""What a walk and importance draws tell together of one rank."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from canary.audits.by_rank import beside_importance
from canary.statistics.exposures import (
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
    exposure_by_draws,
)
from canary.statistics.importance import ImportanceCount, RankCount, exposure_by_importance

SIZE = 10**9


def walked(lower, upper, rank=None):
    (drawn,) = exposure_by_draws([1.0], [2.0] * 1000, space_size=SIZE)
    certain = exposure_by_bounds(lower=lower, upper=upper, rank=rank, space_size=SIZE)
    return exposure_by_bounds_and_draws(certain, drawn)


def by_importance(total, *, variance, found, unseen):
    count = ImportanceCount(float(total), variance, found, 1.0, unseen)
    (drawn,) = exposure_by_draws([1.0], [2.0] * 1000, space_size=SIZE)
    (made,) = exposure_by_importance(
        [RankCount(count, count, count, 1, 1, 1)], [drawn], space_size=SIZE
    )
    return made


def test_an_exact_rank_is_kept_whoever_counted_it_oracle() -> None:
    for rank in (*range(2, 200), 1999):
        exact = by_importance(rank - 1, variance=0.0, found=rank - 1, unseen=0)
        both = beside_importance(walked(1, SIZE // 2), exact)
        assert (both.rank, both.bits) == (rank, pytest.approx(math.log2(SIZE / rank)))
        sample = by_importance(40, variance=9.0, found=3, unseen=10**6)
        assert beside_importance(walked(rank, rank, rank), sample).rank == rank


def test_the_smaller_p_value_stands() -> None:
    sample = by_importance(40, variance=9.0, found=30, unseen=50)
    one = walked(1, SIZE // 2)
    assert sample.p_value < one.p_value
    assert beside_importance(one, sample).p_value == sample.p_value
    other = replace(one, p_value=1e-9)
    assert beside_importance(other, sample).p_value == 1e-9


def test_certain_ranks_cut_both_ends() -> None:
    sample = by_importance(40, variance=100.0, found=3, unseen=10**6)
    assert SIZE / 2**sample.upper_bits < 35
    assert SIZE / 2**sample.lower_bits > 45
    both = beside_importance(walked(35, 45), sample)
    assert both.upper_bits == pytest.approx(math.log2(SIZE / 35))
    assert both.lower_bits == pytest.approx(math.log2(SIZE / 45))
    assert both.lower_bits <= both.bits <= both.upper_bits
    assert (both.rank_lower, both.rank_upper) == (35, 45)


def test_a_sample_that_misses_all_that_is_possible_is_left_out() -> None:
    sample = by_importance(40, variance=4.0, found=3, unseen=10**6)
    walk = walked(500, 900)
    both = beside_importance(walk, sample)
    assert (both.lower_bits, both.upper_bits) == (walk.lower_bits, walk.upper_bits)


@pytest.mark.parametrize("place", [3, 7, 1001, 123_457])
def test_an_interval_that_only_touches_what_is_certain_is_no_contradiction(place: int) -> None:
    sample = by_importance(40, variance=100.0, found=1, unseen=10**6)
    touching = replace(
        sample, lower_bits=math.log2(SIZE / place), upper_bits=math.log2(SIZE / place) + 1.0
    )
    both = beside_importance(walked(place, SIZE // 2), touching)
    assert both.method == sample.method
    assert both.lower_bits <= both.bits <= both.upper_bits
