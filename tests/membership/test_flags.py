"""Swapped flags are noted where a model is clearly better on nonmembers, and only there."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from canary.membership.doubts import doubts, doubts_of_models, upside_down
from canary.signals.signal_table import SignalTable
from canary.statistics.roc import roc


def table(values, member, name="correctness"):
    member = np.atleast_2d(member)
    given = np.atleast_2d(np.asarray(values, float))
    return SignalTable({name: given}, member, np.zeros(member.shape[1], np.int64), 2)


def swapped_flags(table, what, names=()):
    notes = doubts_of_models(table, names) if names else doubts(table, what)
    return tuple(note for note in notes if "may be swapped" in note)


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
    (note,) = swapped_flags(table(rows, member), "", "abc")
    assert note.startswith("The model b is better on nonmembers")
    assert "That holds" not in note


def test_models_that_do_alike_on_both_are_hardly_ever_noted():
    rng = np.random.default_rng(3)
    noted = sum(bool(swapped_flags(table(*rights(rng, 0.9, 0.9)), "target")) for _ in range(2000))
    assert noted <= 5  # 1 expected; 6 and more have a chance of 0.06 %


def test_attacks_upside_down_are_hardly_ever_noted_of_noise():
    rng = np.random.default_rng(5)
    member = np.arange(200) < 100

    def noted(shift):
        curves = [roc(rng.normal(size=200) - shift * member, member) for _ in range(4)]
        aucs = {str(at): partial(at_level, curve) for at, curve in enumerate(curves)}
        return upside_down(aucs, "files")

    assert sum(bool(noted(0.0)) for _ in range(1000)) <= 4  # at most 0.5 expected
    assert "the files of members and nonmembers may be swapped" in noted(1.0)[0]


def at_level(curve, confidence):
    return curve.auc(confidence=confidence)
