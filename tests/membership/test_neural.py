"""Neural attacks: what they learn from a shadow, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch

import canary
from canary.errors import EstimationError, InputError
from canary.membership.neural import arranged, white_box_attack
from canary.models.attacker import train_attackers
from canary.records.progress import Timed
from canary.signals.gradients import GradientFeatures


@cache
def table(seed, *, samples=400, classes=5, second=3.0, own=0.0):
    """Members have one wrong class that is higher, non-members two that are half as likely.

    So the label's confidence is the same for both, and the whole vector tells them apart.
    With `own` the confidence tells as well.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    member = rng.random(samples) < 0.5
    logits = rng.normal(0, 0.7, (samples, classes))
    rows = np.arange(samples)
    logits[rows, labels] += 2 + own * member
    if second:
        logits[rows, (labels + 1) % classes] += np.where(member, second, second - np.log(2))
        logits[rows, (labels + 2) % classes] += np.where(member, 0.0, second - np.log(2))
    return canary.measure(logits, y=labels, member=member, outputs="logits", keep_outputs=True)


def accuracy(target, name, shadow):
    return canary.evaluate(canary.attack(target, name, shadow=shadow), target.member[0]).accuracy


def test_label_comes_first_and_the_others_by_size_golden():
    # p = (1/2, 1/4, 1/8, 1/8): log-odds 0, -ln 3, -ln 7, -ln 7.
    logs = np.log(np.array([[0.5, 0.25, 0.125, 0.125]] * 2, np.float32))
    found = arranged(logs, np.array([1, 2]), 3)
    ln3, ln7 = np.log(3), np.log(7)
    np.testing.assert_allclose(found, [[-ln3, 0, -ln7], [-ln7, 0, -ln3]], atol=1e-6)
    # Of p near 1 the log-odds come from the others: log p itself is 0 in float32.
    near = arranged(np.array([[0.0, -20.0, -np.inf]], np.float32), np.array([0]), 3)
    np.testing.assert_allclose(near, [[20, -20, -30]], atol=1e-5)


def test_whole_vector_tells_more_than_any_metric_theory():
    target, shadow = table(0, samples=600), table(1, samples=600)
    neural = accuracy(target, "neural", shadow)
    for name in ("correctness", "confidence", "entropy", "modified-entropy"):
        assert neural.lower > accuracy(target, name, shadow).value + 0.05, name


def test_a_network_for_each_class_where_classes_differ():
    rng, tables = np.random.default_rng(4), []
    for _ in range(2):
        labels = rng.integers(0, 3, 900)
        labels[:10] = 2
        member = rng.random(900) < 0.5
        logits = rng.normal(0, 1, (900, 4))
        # Members of class 0 are surer, those of class 1 less sure.
        logits[np.arange(900), labels] += 1 + member * np.choose(labels, [2.5, -2.5, 0])
        logits[:10] = 0
        labels[:10] = 3
        options = {"outputs": "logits", "keep_outputs": True}
        tables.append(canary.measure(logits, y=labels, member=member, **options))
    scores = canary.attack(tables[0], "neural-per-class", shadow=tables[1])
    assert canary.evaluate(scores, tables[0].member[0]).accuracy.lower > 0.65
    assert scores.notes == (
        "1 of 4 classes have fewer than 20 members or non-members in the shadow: the network of "
        "all classes is used for them",
    )


def test_nothing_to_learn_gives_nothing_away_theory():
    target, shadow = table(2, second=0.0), table(3, second=0.0)
    with Timed(None) as timed:
        scores = canary.attack(target, "neural", shadow=shadow)
    assert [*timed.seconds] == ["Training the networks of an attack"]
    auc = canary.evaluate(scores, target.member[0], confidence=0.999).auc
    assert auc.lower <= 0.5 <= auc.upper


@pytest.mark.filterwarnings("ignore:The target is better on non-members")
def test_seeded_and_blind_to_the_members_of_the_target_property():
    target, shadow = table(5, own=1.0, samples=200), table(6, own=1.0, samples=200)
    turned = replace(target, member=~target.member)
    state = torch.random.get_rng_state()
    one, again, other = (
        canary.attack(asked, "neural", shadow=shadow, seed=seed).scores
        for asked, seed in ((target, 3), (turned, 3), (target, 4))
    )
    np.testing.assert_array_equal(one, again)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not np.array_equal(one, other)


def test_stopped_where_the_held_out_loss_is_least():
    # Labels are coins: whatever is learned is wrong, so no network gets far.
    rng = np.random.default_rng(7)
    x = rng.normal(size=(200, 30)).astype(np.float32)
    member = np.arange(200) % 2 == 0
    order = rng.permutation(200)
    rest = order[150:]
    found = train_attackers(x, member, learn=[order[:150]], held_out=[rest], seed=0)
    assert found.epochs < 60
    odds = found.logits(x[rest], slice(0, 1))
    losses = np.logaddexp(0, np.where(member[rest], -odds, odds))
    assert losses.mean() < 0.74  # 0.78 after the last epoch


def features(made, seed):
    rng = np.random.default_rng(seed)
    return GradientFeatures(
        ("weight", "bias"),
        np.exp(rng.normal(size=(made.samples, 2)) - 2.0 * made.member[0][:, None]),
        made.signal("loss")[0],
        np.abs(rng.normal(size=(made.samples, made.classes))).astype(np.float32),
        rng.normal(size=(made.samples, 6)).astype(np.float32),
    )


def test_white_box_reads_what_the_outputs_do_not_tell():
    target, shadow = table(10, second=0.0), table(11, second=0.0)
    known = {"shadow": shadow, "shadow_features": features(shadow, 1)}
    given = features(target, 0)
    scores = white_box_attack(target, given, **known)
    assert canary.evaluate(scores, target.member[0]).accuracy.lower > 0.75
    # The target's hidden units in another order, and with other signs, are the same model.
    turned = replace(given, label_rows=-given.label_rows[:, ::-1].copy())
    np.testing.assert_array_equal(white_box_attack(target, turned, **known).scores, scores.scores)


def test_refused_input():
    target, small = table(0), table(1, samples=30)
    given = {"shadow": table(11), "shadow_features": features(table(11), 1)}
    wide = replace(given["shadow_features"], norms=np.ones((400, 3)))
    white_box, attack = partial(white_box_attack, **given), partial(canary.attack, target)
    for error, words, ask in (
        (
            InputError,
            "outputs of the models were not kept; measure with",
            lambda: canary.attack(replace(target, outputs=None), "neural", shadow=table(2)),
        ),
        (
            EstimationError,
            "a network needs 20; give a larger shadow",
            lambda: attack("neural", shadow=small),
        ),
        (
            InputError,
            "unknown attack 'nerual'; did you mean neural.*neural-per-class",
            lambda: attack("nerual", shadow=small),
        ),
        (
            InputError,
            "gradients of 400 samples for a table of 1 x 30",
            lambda: white_box(small, features(target, 0)),
        ),
        (
            InputError,
            "gradients by 2 and by 3 parameter tensors",
            lambda: white_box(target, features(target, 0), shadow_features=wide),
        ),
    ):
        with pytest.raises(error, match=words):
            ask()
