"""The page of membership attacks says what was found, no more and no less."""

from __future__ import annotations

import numpy as np
import pytest
from html_pages import render

import canary
from canary.membership.evaluation import evaluate
from canary.membership.shadow_survey import survey
from canary.signals.signal_table import SignalTable


def classifier(seed, *, gap=0.3, bold=0.1, samples=2000):
    """Members are right more often; a few of them stand out by how sure the model is."""
    rng = np.random.default_rng(seed)
    label, member = rng.integers(0, 2, samples), np.arange(samples) < samples // 2
    right = member | (rng.random(samples) >= gap)
    size = rng.uniform(1, 3, samples) + 9 * (member & (rng.random(samples) < bold))
    logits = np.zeros((samples, 2))
    logits[np.arange(samples), np.where(right, label, 1 - label)] = size
    return canary.measure(logits, y=label, member=member, outputs="logits")


@pytest.fixture(scope="module")
def found():
    return survey(classifier(1), classifier(2), attacks="correctness,entropy", fprs=[0.1, 0.01])


def test_surest_guesses_are_those_of_the_attack_that_is_surest(found):
    assert found.strongest.attack.name == "correctness"
    best = found.surest()
    assert (best.name, best.point.asked_fpr, best.attacks) == ("entropy", 0.01, 2)
    entropy = found.attacked[1]
    alone = entropy.points[1]
    assert (
        best.point.tpr.value
        == alone.tpr.value
        == max(one.points[1].tpr.value for one in found.attacked)
    )
    paid = evaluate(entropy.attack, found.target.member[0], confidence=0.975).tpr_at_fpr(0.01)
    assert best.point == paid
    assert paid.tpr.lower < alone.tpr.lower < alone.tpr.upper < paid.tpr.upper
    page = " ".join(render(found).split())
    tile = page[page.index("Surest guesses") :][:400]
    assert f"{100 * alone.tpr.value:.1f} % of members" in tile
    assert f"({100 * paid.tpr.lower:.1f} to {100 * paid.tpr.upper:.1f} %) found by entropy" in tile
    assert "the best of 2 attacks there, which the interval allows for" in tile
    assert found.to_dict()["surest"]["name"] == "entropy"


def test_swapped_flags_are_noted_of_target_and_of_shadow(found):
    def swapped(table: SignalTable) -> SignalTable:
        return SignalTable(**{**vars(table), "member": ~table.member})

    assert not any("swapped" in note for note in found.notes)
    again = survey(swapped(found.target), swapped(found.shadow), attacks="correctness")
    notes = [note for note in again.notes if "the flags member may be swapped" in note]
    assert [note[:10] for note in notes] == ["The target", "The shadow"]
    right = found.target.signal("correctness")[0][~found.target.member[0]].mean()
    assert f"right on {100 * right:.1f} % of members and 100.0 % of nonmembers" in notes[0]
