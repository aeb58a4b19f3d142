"""Swapped flags are noted where a model is clearly better on nonmembers, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from canary.membership.flags import swapped_flags
from canary.signals.table import SignalTable


def table(values, member, name="correctness"):
    member = np.atleast_2d(member)
    given = np.atleast_2d(np.asarray(values, float))
    return SignalTable({name: given}, member, np.zeros(member.shape[1], np.int64), 2)


def rights(rng, inside, outside, samples=400):
    member = np.arange(samples) < samples // 2
    return (rng.random(samples) < np.where(member, inside, outside)).astype(float), member


@pytest.mark.parametrize("name", ["correctness", "loss"])
def test_only_the_wrong_way_round_is_noted(name):
    right, member = rights(np.random.default_rng(0), 0.99, 0.7)
    losses = np.random.default_rng(1).exponential(2.1 - 2 * right)
    values = right if name == "correctness" else losses
    assert swapped_flags(table(values, member, name), "target") == ()
    (note,) = swapped_flags(table(values, ~member, name), "target")
    assert note.startswith(f"The target is {'better' if name == 'correctness' else 'surer'} on")
    assert "They are 1 for samples that the model was trained on and 0 for others" in note


def test_each_model_is_judged_by_itself():
    rng = np.random.default_rng(2)
    rows, flags = zip(*(rights(rng, 0.99, 0.7) for _ in range(3)), strict=True)
    member = np.array(flags)
    member[1] = ~member[1]
    (note,) = swapped_flags(table(rows, member), "shadow")
    assert note.startswith("The shadow has 1 of 3 models that are better on nonmembers")


def test_models_that_do_alike_on_both_are_hardly_ever_noted():
    rng = np.random.default_rng(3)
    noted = sum(bool(swapped_flags(table(*rights(rng, 0.9, 0.9)), "target")) for _ in range(2000))
    assert noted <= 5  # 1 expected; 6 and more have a chance of 0.06 %
