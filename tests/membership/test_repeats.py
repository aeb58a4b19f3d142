"""Models with the same losses are found, but where two places may hold one."""

from __future__ import annotations

import numpy as np

from canary.membership.repeats import Repeat, repeated_models

A, B, C = np.random.default_rng(0).exponential(size=(3, 50))


def test_a_model_that_stands_twice_is_found_in_one_place_and_in_two():
    assert repeated_models({"models": np.stack([A, B, C])}) == []
    (found,) = repeated_models({"models": np.stack([A, B, A])})
    assert found == Repeat(("models", 0), ("models", 2), certain=True)
    (found,) = repeated_models({"query": np.stack([A, B]), "calibration": np.stack([C, B])})
    assert found == Repeat(("query", 1), ("calibration", 1), certain=True)


def test_places_that_may_hold_one_model_are_named_by_who_asks():
    losses = {"query": np.stack([A, B]), "target": B[None]}
    assert len(repeated_models(losses)) == 1
    assert repeated_models(losses, may_be_one={("query", "target")}) == []
    twice = {"query": np.stack([B, B]), "target": B[None]}
    assert len(repeated_models(twice, may_be_one={("query", "target")})) == 1


def test_few_different_losses_leave_it_open():
    hard = np.where(A > 1, np.inf, 0.0)
    (found,) = repeated_models({"models": np.stack([hard, hard])})
    assert not found.certain
