"""Samples are uniform, without replacement, and not a sorted beginning of anything."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from canary.formats.format import Format, draw_indices

# Seeds are fixed; an honest generator fails such a test once in 10,000 seeds.
_ALPHA = 1e-4


def test_nine_digits_are_uniform_at_every_position():
    fills = Format("The random number is {digit:9}").sample(65_536, rng=np.random.default_rng(1))
    assert len(set(fills)) == 65_536
    digits = np.frombuffer("".join(fills).encode(), np.uint8).reshape(-1, 9) - ord("0")
    for position in range(9):
        assert chisquare(np.bincount(digits[:, position], minlength=10)).pvalue > _ALPHA
    # Neither does the order say anything: the first half is a uniform sample as well.
    assert chisquare(np.bincount(digits[:32_768, 0], minlength=10)).pvalue > _ALPHA


@pytest.mark.parametrize("size", [4, 7])  # by permutation, and by passing over repeats
def test_every_sequence_is_equally_likely(size):
    rng = np.random.default_rng(2)
    found = Counter(tuple(draw_indices(size, 2, rng=rng)) for _ in range(20_000))
    sequences = list(itertools.permutations(range(size), 2))
    assert set(found) == set(sequences)
    assert chisquare([found[pair] for pair in sequences]).pvalue > _ALPHA


@pytest.mark.parametrize("size", [2**63, 2**63 + 1, 10**40, 2**4096])
def test_huge_spaces_are_uniform(size):
    drawn = draw_indices(size, 30_000, rng=np.random.default_rng(3))
    assert len(set(drawn)) == 30_000
    assert all(type(index) is int and 0 <= index < size for index in drawn)
    # Thirds of the range, and the lowest bits.
    assert chisquare(np.bincount([3 * index // size for index in drawn])).pvalue > _ALPHA
    assert chisquare(np.bincount([index % 8 for index in drawn])).pvalue > _ALPHA


def test_the_generator_alone_decides():
    space = Format("{letter:6}")
    one, two = (space.sample(10, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == two != space.sample(10, rng=np.random.default_rng(6))
