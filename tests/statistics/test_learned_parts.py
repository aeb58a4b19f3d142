"""Secrets of which training read the beginning only, and those that were simply learned less."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from canary.statistics.learned_parts import LEVEL, learned_until

# Shares of candidates that cost less, by how well each place of a secret was learned.
HONEST = {
    "not learned": lambda rng, n, k: np.ones((n, k)),
    "learned a little, everywhere": lambda rng, n, k: np.full((n, k), 0.6),
    "learned well, everywhere": lambda rng, n, k: np.full((n, k), 0.1),
    "some canaries learned, others not": lambda rng, n, k: rng.choice([0.1, 1.0], (n, 1)),
    "the end learned better": lambda rng, n, k: np.linspace(0.9, 0.2, k)[None],
    "only the end learned": lambda rng, n, k: np.repeat([1.0, 0.2], [k - k // 2, k // 2])[None],
}


def drawn(shape, rng, canaries, places):
    """A power of a uniform number is smaller, the better the place was learned."""
    return rng.random((canaries, places)) ** (1 / shape(rng, canaries, places))


def alarms(shape, times, seed):
    rng = np.random.default_rng(seed)
    sizes = itertools.cycle([(4, 4), (8, 4), (4, 8), (8, 8), (24, 6)])
    return sum(
        learned_until(drawn(shape, rng, *size)) is not None
        for size, _ in zip(sizes, range(times), strict=False)
    )


@pytest.mark.parametrize("shape", HONEST.values(), ids=HONEST)
def test_what_was_learned_less_is_not_taken_for_cut(shape):
    assert alarms(shape, 200, 0) == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", HONEST.values(), ids=HONEST)
def test_false_alarms_are_rarer_than_the_level(shape):
    assert alarms(shape, 20_000, 1) <= LEVEL * 20_000


@pytest.mark.parametrize("cut", [2, 4, 6])
def test_a_cut_is_found_at_its_place(cut):
    rng, found = np.random.default_rng(cut), []
    for _ in range(20):
        shares = rng.random((8, 8))
        shares[:, :cut] *= 0.15
        found.append(learned_until(shares))
    assert sum(place is not None for place in found) >= 18
    assert all(abs(place - cut) <= 1 for place in found if place is not None)


@pytest.mark.parametrize(("canaries", "places"), [(3, 8), (8, 3), (0, 0), (8, 0)])
def test_too_few_decide_nothing(canaries, places):
    shares = np.full((canaries, places), 0.9)
    shares[:, :2] = 0.01
    assert learned_until(shares) is None
