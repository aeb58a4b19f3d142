"""Models that are always right: by their own labels, by a choice of samples, or truly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

from canary.membership.own_labels import never_wrong, sorted_rows, too_flat
from canary.membership.unlike import only_hides
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


def test_rows_that_are_sorted_by_class_are_noted():
    """Logits and labels were sorted, the flags of members perhaps not."""
    rng = np.random.default_rng(0)
    labels, member = rng.integers(0, 3, 300), rng.random(300) < 0.5
    for order, noted in ((np.argsort(labels, kind="stable"), 1), (np.arange(300), 0)):
        table = measure(rng.random(300), y=labels[order], member=member, outputs="losses")
        assert len([*sorted_rows(table)]) == noted
    alone = measure(rng.random(300), y=np.zeros(300, int), member=member, outputs="losses")
    assert not [*sorted_rows(alone)]


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


def fitted(steps, *, classes, smoothing=0.0, rate=0.3, noise=1.2, samples=1500):
    """Logits, labels and members of a linear model that was fitted by gradient descent to half."""
    rng = np.random.default_rng(7)
    labels, member = rng.integers(0, classes, samples), np.arange(samples) % 2 == 0
    inputs = rng.normal(size=(classes, 60))[labels] + noise * rng.normal(size=(samples, 60))
    wanted = (1 - smoothing) * np.eye(classes)[labels] + smoothing / classes
    weights = np.zeros((60, classes))
    for _ in range(steps):
        off = softmax(inputs[member] @ weights, axis=1) - wanted[member]
        weights -= rate * inputs[member].T @ off / member.sum()
    return inputs, inputs @ weights, labels, member


def flat(outputs, labels, member, kind="logits"):
    return too_flat(measure(outputs, y=labels, member=member, outputs=kind), 0, "target")


SQUEEZED = {
    "sigmoids": lambda logits: softmax(expit(2.0 * logits - 4.0), axis=1),
    "a second softmax": lambda logits: softmax(softmax(logits, axis=1), axis=1),
}


@pytest.mark.parametrize("classes", [3, 10, 40])
@pytest.mark.parametrize("how", SQUEEZED)
def test_answers_that_are_never_sure_beside_a_model_that_is_right_are_doubted(how, classes):
    _, logits, labels, member = fitted(3000, classes=classes, noise=2.5, samples=300)
    note = flat(SQUEEZED[how](logits), labels, member, "probs")
    assert "of its members, and gives no right class more than" in note
    assert only_hides(note)
    assert flat(logits, labels, member) is None


@pytest.mark.parametrize("classes", [3, 10, 40])
def test_flat_answers_of_honest_trainings_are_not_doubted(classes):
    """After few steps of training, of smoothed labels, and of trees that vote."""
    for steps in (1, 3, 10, 30, 100):
        _, logits, labels, member = fitted(steps, classes=classes, rate=0.05)
        assert flat(logits, labels, member) is None, steps
    for smoothing in (0.1, 0.5, 0.8):
        _, logits, labels, member = fitted(400, classes=classes, smoothing=smoothing)
        assert flat(logits, labels, member) is None, smoothing
    inputs, _, labels, member = fitted(0, classes=classes)
    votes = AdaBoostClassifier(DecisionTreeClassifier(max_depth=8, random_state=0), n_estimators=9)
    answers = votes.fit(inputs[member], labels[member]).predict_proba(inputs)
    assert (answers.argmax(1) == labels)[member].mean() > 0.8
    assert flat(answers, labels, member, "probs") is None
