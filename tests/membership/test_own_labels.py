"""Models that are always right: by their own labels, by a choice of samples, or truly."""

from __future__ import annotations

import numpy as np
import pytest

from canary.membership.own_labels import never_wrong
from canary.signals.measuring import measure


def of(seed, *, ease, keep=False, own=False, samples=2000, outputs=True):
    """The table of a model of two classes; the label's logit is higher by about `ease`."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, 2, samples), rng.random(samples) < 0.5
    logits = np.zeros((samples, 2))
    logits[np.arange(samples), labels] = rng.normal(ease, 4.0, samples)
    labels = logits.argmax(1) if own else labels
    kept = logits.argmax(1) == labels if keep else np.ones(samples, bool)
    return measure(
        logits[kept], y=labels[kept], member=member[kept], outputs="logits", keep_outputs=outputs
    )


@pytest.mark.parametrize("outputs", [True, False])
@pytest.mark.parametrize("how", [{"own": True}, {"keep": True}])
def test_models_that_only_seem_to_be_always_right_are_doubted(how, outputs):
    (note,) = never_wrong([of(seed, ease=5.0, outputs=outputs, **how) for seed in (1, 2)])
    assert "the labels may be the models' own answers" in note
    assert never_wrong([of(1, ease=5.0, **how), of(2, ease=5.0)]) == ()


@pytest.mark.parametrize("scale", [1.0, 0.1, 10.0])
def test_models_that_are_always_right_are_not_doubted(scale):
    """Of an easy task, however sure they are: hardly a call is close."""
    for seed in range(20):
        tables = []
        for row in (2 * seed, 2 * seed + 1):
            rng = np.random.default_rng(row)
            labels, gaps = rng.integers(0, 2, 4000), rng.normal(3.3, 1.0, 4000)
            logits = np.zeros((4000, 2))
            logits[np.arange(4000), labels] = scale * np.abs(gaps)
            member, right = rng.random(4000) < 0.5, gaps > 0.0
            given = {"y": labels[right], "member": member[right], "outputs": "logits"}
            tables.append(measure(logits[right], keep_outputs=True, **given))
        assert never_wrong(tables) == ()
