"""A shadow of the target's own split is seen, and splits that have nothing to do with it pass."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from html_pages import answer_of, render

import canary
from canary.errors import CanaryError, InputError
from canary.fleet.splits import halves
from canary.membership.association import associated
from canary.membership.attacking import scored
from canary.membership.privacy import attack_epsilon
from canary.membership.shadow_survey import survey

N, CLASSES = 1200, 10


def noise(seed, labels, hardness, member):
    """A model that learned nothing of its members, and finds the same samples hard as others."""
    logits = np.random.default_rng(seed).normal(size=(len(labels), CLASSES))
    logits += (3 + 2 * hardness[:, None]) * np.eye(CLASSES)[labels]
    return canary.measure(logits, y=labels, member=member, outputs="logits")


def samples(seed, ordered=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, N)
    if ordered is not None:
        labels = np.arange(N) % CLASSES if ordered == "in turn" else np.sort(labels)
    return labels, rng.normal(size=N), rng.random(N) < 0.5


def pair(seed, split="same", ordered=None):
    """Target and shadow of the same samples, the shadow with other flags."""
    labels, hardness, member = samples(seed, ordered)
    other = member ^ (np.random.default_rng(seed + 3000).random(N) < SPLITS[split])
    return (
        noise(seed + 1000, labels, hardness, member),
        noise(seed + 2000, labels, hardness, other),
    )


SPLITS = {"same": 0.0, "mostly the same": 0.4, "opposite": 1.0}
"""The share of flags that the shadow has otherwise."""


@pytest.mark.parametrize("ordered", [None, "in turn", "sorted"])
@pytest.mark.parametrize("split", SPLITS)
def test_splits_that_go_together_are_not_blind(split, ordered):
    """Accuracies of .558 and bounds on epsilon above 0 came of pure noise."""
    target, shadow = pair(1, split, ordered)
    with pytest.raises(InputError, match="learn answers from the shadow"):
        canary.attack(target, "modified-entropy", shadow=shadow)
    scores = scored(target, "modified-entropy", shadow=shadow)
    assert not scores.blind
    words = "target's non-members" if split == "opposite" else "target's members"
    assert any(words in note for note in scores.notes)
    with pytest.raises(CanaryError, match="no bound on epsilon"):
        attack_epsilon(scores, target.member[0], coins=True)


def test_a_survey_says_that_it_is_no_outsiders_figure():
    target, shadow = pair(2)
    found = survey(target, shadow, attacks="modified-entropy,correctness")
    said = found.to_dict()
    assert (said["blind"], said["told_apart"]) == (False, None)
    assert "1,200 of 1,200 samples have the same flag in both" in " ".join(said["notes"])
    assert "so the attack knew part of the answers" in answer_of(found)
    assert "The test is void" in render(found)
    with pytest.raises(CanaryError, match="know coins that they are to guess"):
        survey(target, shadow, attacks="loss", coins=True)


def test_splits_at_random_pass_coverage():
    """At 0.1 % a note in 400 pairs is usual, and four are not."""
    target, shadow = pair(3)
    rng, found = np.random.default_rng(4), 0
    for turn in range(400):
        flags = rng.permuted(np.arange(N) < N // 2) if turn % 2 else rng.random(N) < 0.5
        shadow.member[0] = flags
        found += associated(target, shadow) is not None
    assert found <= 3


def sharing(member, models, shared, rng):
    """Flags of shadows: `shared` members of the target are the first one's, half of the others'."""
    shadows = np.zeros((models, N), bool)
    for number, flags in enumerate(shadows):
        inside = shared if number == 0 else N // 4
        for kind, count in ((member, inside), (~member, N // 2 - inside)):
            flags[rng.permutation(np.flatnonzero(kind))[:count]] = True
    return shadows


@pytest.mark.parametrize(("models", "level"), [(1, 1e-3), (4, 1e-3 / 2 / 4)])
def test_the_level_of_a_note_golden(models, level):
    """0.1 % in all: half of it for the models one by one, and that for each of them."""
    labels, hardness, _ = samples(11)
    rng = np.random.default_rng(12)
    member = rng.permuted(np.arange(N) < N // 2)
    target = noise(13, labels, hardness, member)
    ways = [math.comb(N // 2, k) ** 2 for k in range(N // 2 + 1)]
    chances = (2 * sum(ways[k:]) / math.comb(N, N // 2) for k in range(N // 2 + 1))
    least = next(k for k, chance in enumerate(chances) if chance < level)
    for shared, noted in ((least - 1, False), (least, True), (N // 2 - least, True)):
        flags = sharing(member, models, shared, rng)
        losses = [
            noise(at, labels, hardness, one).values["loss"][0] for at, one in enumerate(flags)
        ]
        shadow = canary.measure(losses, y=labels, member=flags, outputs="losses")
        assert (associated(target, shadow) is not None) is noted


def test_other_samples_pass_whatever_their_flags():
    """Also where both files are sorted by class with the members of each class first."""
    assert associated(pair(5)[0], pair(6)[0]) is None
    labels = np.arange(N) * CLASSES // N
    first = np.arange(N) % (N // CLASSES) < N // CLASSES // 2
    both = [noise(seed, labels, samples(seed)[1] + first, first) for seed in (7, 8)]
    assert associated(*both) is None
    assert canary.attack(both[0], "loss", shadow=both[1]).blind


@pytest.mark.parametrize("models", [2, 16])
def test_models_of_one_table(models):
    """Each sample in half of the models: the others tell; by coins they do not."""
    labels, hardness, _ = samples(9)
    balanced = halves()(labels, models, 0).member
    coins = np.random.default_rng(1).random((models, N)) < 0.5
    for member, blind in ((balanced, False), (coins, True)):
        said = [noise(at, labels, hardness, flags) for at, flags in enumerate(member)]
        losses = [one.values["loss"][0] for one in said]
        table = canary.measure(losses, y=labels, member=member, outputs="losses")
        assert canary.attack(table, "loss", target=1).blind is blind


def with_inputs(split, *, of=1, start=0, order=0):
    """A target of the first N of 2 N samples; a shadow of N from `start` on, in another order.

    `split` says which of all samples the shadow was trained on, by the target's members.
    """
    rng = np.random.default_rng(of)
    labels, inputs = rng.integers(0, CLASSES, 2 * N), rng.integers(0, 255, (2 * N, 4, 4))
    inputs[5] = inputs[7]  # a sample that occurs twice says nothing
    hardness, member = rng.normal(size=2 * N), rng.random(2 * N) < 0.5
    turned = np.random.default_rng(order).permutation(np.arange(start, start + N))
    tables = []
    for rows, flags in ((np.arange(N), member), (turned, split(member))):
        one = noise(of + len(tables), labels[rows], hardness[rows], flags[rows])
        tables.append(replace(one, inputs=inputs[rows].astype("u1" if tables else "f4")))
    return tables


@pytest.mark.parametrize("start", [0, N // 2])
def test_the_same_inputs_in_another_order_are_the_same_samples(start):
    """Half of the target's samples are enough, the others are the shadow's own."""
    target, shadow = with_inputs(lambda member: member, start=start)
    said = associated(target, shadow)
    inside = target.member[0, start:].sum() - target.member[0, [5, 7]].sum() * (start == 0)
    assert f"trained on {inside:,} of the target's" in said
    assert "members and 0 of its" in said
    assert not scored(target, "loss", shadow=shadow).blind
    opposite = with_inputs(np.logical_not)
    assert "trained on 0 of the target's" in associated(*opposite)


def with_ids(seed, flags):
    """A target, and a shadow of the same samples in another order, of which the ids tell."""
    labels, hardness, member = samples(seed)
    turned = np.random.default_rng(seed).permutation(N)
    ids = np.array([f"sample {n}" for n in range(N)])
    target = noise(seed + 1, labels, hardness, member)
    shadow = noise(seed + 2, labels[turned], hardness[turned], flags(member)[turned])
    return replace(target, ids=ids), replace(shadow, ids=ids[turned])


def test_the_same_ids_in_another_order_are_the_same_samples():
    same, opposite = (with_ids(3, flags) for flags in (np.copy, np.logical_not))
    for pair_, words in ((same, "ids show .* trained on"), (opposite, "ids show .* non-members")):
        assert re.search(words, associated(*pair_))
        assert associated(*(replace(table, ids=None) for table in pair_)) is None
        assert survey(*pair_, attacks="loss").outcome() == "void"
    coins = with_ids(3, lambda member: np.random.default_rng(8).random(N) < 0.5)
    assert associated(*coins) is None
    # The same numbers for other samples: their labels differ.
    others = with_ids(4, np.copy)[1]
    assert associated(same[0], others) is None


def test_a_shadow_trained_on_some_members_is_known_by_their_ids():
    """The shadow's other samples are not the target's: by labels in order nothing is seen."""
    target, same = with_ids(3, np.copy)
    shared = same.member[0] & (np.arange(N) % 2 == 0)
    shadow = replace(same, ids=np.where(shared, same.ids, [f"other {n}" for n in range(N)]))
    assert "ids show that the shadow was trained on" in associated(target, shadow)
    assert survey(target, shadow, attacks="loss").outcome() == "void"


def test_non_members_of_both_are_answers_too():
    """A network that learns on shared non-members gains a third of what it gains on both kinds."""
    target, shadow = with_inputs(lambda member: member)
    fresh = shadow.inputs.copy()
    fresh[shadow.member[0]] += np.uint8(1)  # members of its own
    said = associated(target, replace(shadow, inputs=fresh))
    assert said.startswith("The inputs show that among the shadow's non-members are 0 of")


def test_inputs_of_other_splits_and_other_samples_pass():
    def coins(member):
        return np.random.default_rng(8).random(len(member)) < 0.5

    assert associated(*with_inputs(coins)) is None
    assert associated(*with_inputs(lambda member: member, start=N)) is None
    # Numbered otherwise, the inputs do not match; the order shows it.
    target, shadow = pair(1)
    assert associated(replace(target, inputs=np.zeros((N, 2))), shadow) is not None
    rows = np.arange(2.0 * N).reshape(N, 2)
    assert associated(replace(target, inputs=rows), replace(shadow, inputs=-1 - rows)) is not None
