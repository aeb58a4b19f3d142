"""Members and non-members have equally many references, and noise looks the same in both."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from many_models import halves, table_of
from scipy.stats import t as student

from canary.membership.aggregate import evaluate_models
from canary.membership.many import attack_models
from canary.membership.references import kept, random_order, resolve

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import no_signal

NUMBERS = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def matched(members, nonmembers, *, models=6):
    """What members and non-members keep, of references outside and inside; with random orders."""
    counts = np.array(members + nonmembers)
    member = np.arange(counts.size) < len(members)
    order = random_order(counts.size)
    both = np.stack(
        [kept(counts, member, order), kept(models - counts, member, order, falling=True)]
    )
    assert (both <= [counts, models - counts]).all()
    return both[:, member], both[:, ~member]


def shares(found):
    """Share of samples with at most so many; shape (numbers,)."""
    return (found[:, None] <= np.arange(7)).mean(axis=0)


@given(NUMBERS, NUMBERS)
def test_both_kinds_keep_numbers_of_one_law_property(members, nonmembers):
    """To half a sample in each table, and no rule that takes some away keeps more."""
    ones, others = matched(members, nonmembers)
    half = 0.5 / min(len(members), len(nonmembers)) + 1e-12
    largest = np.maximum(shares(np.array(members)), shares(np.array(nonmembers)))
    for at in (0, 1):
        np.testing.assert_allclose(shares(ones[at]), shares(others[at]), atol=half)
    assert (np.abs(shares(ones[0]) - largest) <= 0.5 / len(members) + 1e-12).all()
    assert (np.abs(shares(others[0]) - largest) <= 0.5 / len(nonmembers) + 1e-12).all()


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_equally_many_of_both_kinds_agree_wholly_property(pairs):
    """Pairs of a number outside and one inside, too, of every table."""
    ones, others = matched(*map(list, zip(*pairs, strict=True)))
    assert sorted(zip(*ones.tolist(), strict=True)) == sorted(zip(*others.tolist(), strict=True))
    fewer = np.minimum(*(np.sort(kind) for kind in zip(*pairs, strict=True)))
    np.testing.assert_array_equal(np.sort(ones[0]), fewer)


def test_halves_lose_one_and_coins_nearly_none_golden():
    for found in matched([4] * 5, [3] * 7):
        assert (found[0] == 3).all()
    rng = np.random.default_rng(0)
    counts, member = rng.binomial(15, 0.5, 20_000), rng.random(20_000) < 0.5
    order = random_order(20_000)
    assert (counts - kept(counts, member, order)).mean() < 0.03
    assert (kept(counts, member & False, order) == counts).all()
    aside = order[:10_000]
    assert (kept(counts, member, aside)[order[10_000:]] == counts[order[10_000:]]).all()


EVERY = [
    *(("R", rule) for rule in ("empirical", "linear", "gaussian")),
    *((name, "empirical") for name in ("lira-online", "lira-online-fixed", "rmia")),
]


@pytest.mark.parametrize("losses", no_signal.LOSSES)
@pytest.mark.parametrize("split", ["one missing", "subsets of a fifth", "odd coins"])
def test_noise_is_no_signal_on_any_split_theory(split, losses):
    member = no_signal.members(split, 8, 40_000 if "fifth" in split else 8000, 0)
    table = no_signal.table_of(member, losses, 0.0, 0)
    for name, rule in EVERY:
        auc = evaluate_models(attack_models(table, name, rule=rule)).auc
        # One target has a deviation of 0.58 / sqrt(samples), and targets share references.
        slack = 0.58 / np.sqrt(table.samples) if losses != "equal" else 1e-12
        assert auc.mean == pytest.approx(0.5, abs=slack), name


@pytest.mark.slow
@pytest.mark.parametrize("models", [8, 16, 32])
@pytest.mark.parametrize("split", no_signal.SPLITS)
def test_noise_is_no_signal_coverage(split, models):
    """The grid of the benchmark: no attack is surely off 0.5, nor by much."""
    options = Namespace(samples=800, seeds=20, effect=0.0)
    found = no_signal.measured(split, models, options, no_signal.matched)
    assert len(found) >= 15
    surely = student.ppf(1 - 0.0005 / len(found), options.seeds - 1)
    for name, (auc, error) in found.items():
        assert abs(auc - 0.5) <= surely * error + 1e-9, (name, auc, error)


@pytest.mark.parametrize("split", ["halves", "coins"])
def test_nothing_is_lost_where_the_counts_agree_theory(split):
    """With 31 others the best test is near, whether or not others are left out."""
    rng = np.random.default_rng(0)
    member = halves(rng, 32, 2000) if split == "halves" else rng.random((32, 2000)) < 0.5
    known = member.sum(axis=0)
    table = no_signal.table_of(member[:, (known > 4) & (known < 28)], "continuous", 1.5, 0)
    matched = no_signal.matched(table, "lira-online-fixed", {"targets": range(4)})
    plain = no_signal.target_only(table, "lira-online-fixed", {})
    assert matched == pytest.approx(plain, abs=0.002)
    assert matched > 0.84  # the best test has 0.8556


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=15),
    st.lists(st.integers(0, 9), min_size=1, max_size=15),
)
def test_population_attack_orders_as_the_loss_property(population, members):
    """P rises as the loss falls, the same for equal ones; none is evidence at the top."""
    loss = np.array([population + members], float)
    member = np.arange(loss.size) >= len(population)
    score = attack_models(table_of(loss, member[None, :], np.zeros(loss.size, int)), "P").scores[0]
    capped = np.minimum(loss[0], max(population))
    below = capped[member][:, None] - capped[~member]
    higher = score[~member] - score[member][:, None]
    np.testing.assert_array_equal(np.sign(higher), np.sign(below))
    assert (score[capped == max(population)] == 0).all()


@pytest.mark.parametrize("kind", ["outside", "inside", "limited"])
def test_few_targets_go_without_the_references_that_many_would_oracle(kind):
    """A target by itself is looked up another way than all of them at once."""
    rng = np.random.default_rng(3)
    member = rng.random((9, 400)) < rng.choice([0.3, 0.5, 0.8], 400)
    table = table_of(rng.exponential(size=member.shape), member)
    every = resolve(table, "R", most=3).compared(slice(0, 400), kind)
    for row in range(9):
        one = resolve(table, "R", targets=[row], most=3).compared(slice(0, 400), kind)
        depth = len(one.less)
        np.testing.assert_array_equal(one.less[:, 0], every.less[:depth, row])
        assert (every.less[depth:, row] == -1).all()
        np.testing.assert_array_equal(one.count[0], every.count[row])
