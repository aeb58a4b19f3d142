"""LiRA on the losses of tokens, against dense matrices and on fleets that learned nothing."""

from __future__ import annotations

import numpy as np
import pytest

from canary.errors import InputError
from canary.membership.aggregate import evaluate_models
from canary.membership.by_tokens import Reference
from canary.membership.fleet_doubts import fleet_doubts
from canary.membership.token_lira import PRIOR, attack_tokens, neighbours, products
from canary.membership.voting import attack_windows
from canary.signals.token_losses import TokenLosses


def texts_of(counts):
    ends = np.cumsum(counts)
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def dense(count, correlation):
    place = np.arange(count)
    return correlation ** np.abs(place[:, None] - place)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
def test_products_are_those_of_dense_inverses(correlation):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 30, 12)
    left, right = rng.normal(size=(2, counts.sum()))
    slow = [
        left[text] @ np.linalg.inv(dense(count, correlation)) @ right[text]
        for text, count in zip(texts_of(counts), counts, strict=True)
    ]
    assert products(left, right, counts, correlation) == pytest.approx(slow)


def test_correlation_is_that_of_neighbours_in_one_text():
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 40, 300)
    drawn = [
        np.linalg.cholesky(dense(count, 0.6)) @ rng.normal(size=(count, 5)) for count in counts
    ]
    apart = np.concatenate(drawn).T
    pairs = np.concatenate(
        [[(row[at - 1], row[at]) for row in one.T for at in range(1, len(one))] for one in drawn
         if len(one) > 1]
    )  # fmt: skip
    before, here = pairs.T
    slow = before @ here / np.sqrt((before @ before) * (here @ here))
    assert neighbours(apart, counts) == pytest.approx(slow)
    assert neighbours(apart, counts) == pytest.approx(0.6, abs=0.03)
    assert neighbours(-apart[:, :1], np.array([1])) == 0.0


def slow_score(losses, inside, outside, counts):
    """Of one target, with a matrix for each text."""
    groups = [np.array(inside), np.array(outside)]
    apart = np.concatenate([group - group.mean(axis=0) for group in groups])
    free = sum(len(group) - 1 for group in groups)
    common = (apart**2).sum() / (free * len(losses))
    scale = np.sqrt(((apart**2).sum(axis=0) + PRIOR * common) / (free + PRIOR))
    correlation = neighbours(apart / scale, counts)
    middle = (groups[0].mean(axis=0) + groups[1].mean(axis=0)) / 2
    scores = []
    for text, count in zip(texts_of(counts), counts, strict=True):
        covariance = dense(count, correlation) * np.outer(scale[text], scale[text])
        weights = np.linalg.solve(covariance, np.ones(count))
        scores.append(float(weights @ (middle - losses)[text]))
    return scores


def test_scores_are_likelihood_ratios_with_a_matrix_for_each_text():
    """All texts in the same models, of which the target is compared with all others."""
    rng = np.random.default_rng(2)
    counts = rng.integers(2, 20, 8)
    tokens = TokenLosses(rng.gamma(2.0, size=(7, counts.sum())), counts)
    # In half of the others, so that nothing is left away from members or non-members.
    member = np.zeros((7, 8), np.bool_)
    member[:3], member[6, :4] = True, True
    found = attack_tokens(tokens, member, targets=[6]).scores[0]
    level = tokens.losses - (tokens.losses - tokens.losses.mean(axis=0)).mean(axis=1)[:, None]
    assert found == pytest.approx(slow_score(level[6], level[:3], level[3:6], counts))


def fleet(rng, *, gain, models=12, texts=150):
    """Losses whose noise differs between tokens and is correlated within texts."""
    counts = rng.integers(10, 40, texts)
    member = np.array([rng.permutation(models) < models // 2 for _ in range(texts)]).T
    scale, usual = rng.gamma(1.0, size=(2, counts.sum()))
    noise = np.concatenate(
        [np.linalg.cholesky(dense(c, 0.7)) @ rng.normal(size=(c, models)) for c in counts]
    ).T
    level = rng.normal(size=(models, 1))
    losses = usual + level + scale * noise - gain * np.repeat(member, counts, axis=1)
    return TokenLosses(losses, counts), member


@pytest.mark.parametrize("online", [True, False])
def test_nothing_is_found_in_fleets_that_learned_nothing(online):
    rng = np.random.default_rng(3)
    found = [
        evaluate_models(attack_tokens(*fleet(rng, gain=0.0), online=online)).auc.mean
        for _ in range(40)
    ]
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - 0.5) < 4 * error < 0.02


def test_weights_and_correlation_tell_more_than_the_mean(monkeypatch):
    tokens, member = fleet(np.random.default_rng(4), gain=0.15)
    whole = evaluate_models(attack_tokens(tokens, member)).auc.mean
    monkeypatch.setattr("canary.membership.token_lira.neighbours", lambda *_: 0.0)
    assert whole > evaluate_models(attack_tokens(tokens, member)).auc.mean + 0.02


def test_scores_have_no_threshold_and_losses_must_be_numbers():
    tokens, member = fleet(np.random.default_rng(6), gain=0.1, texts=12)
    scores = attack_tokens(tokens, member)
    assert scores.signal == "token-losses"
    assert not scores.calibrated
    with pytest.raises(InputError, match="no threshold at a level"):
        scores.guess(0.1)
    endless = tokens.losses.copy()
    endless[2, 3] = np.inf
    assert np.isfinite(attack_tokens(TokenLosses(endless, tokens.counts), member).scores).all()
    endless[2, 3] = np.nan
    with pytest.raises(InputError, match="losses of model 2 are NaN"):
        TokenLosses(endless, tokens.counts)


def test_flags_that_look_swapped_are_noted():
    tokens, member = fleet(np.random.default_rng(7), gain=0.5)
    assert not attack_tokens(tokens, member).notes
    assert any("swapped" in note for note in attack_tokens(tokens, ~member).notes)


def test_flags_of_other_models_or_texts_and_other_units_are_noted():
    tokens, member = fleet(np.random.default_rng(7), gain=1.0)
    for attack in (attack_tokens, attack_windows):
        for flags, words in (
            (member, None),
            (np.roll(member, 1, axis=0), "fit the flags member of model 1, not its own, and so on"),
            (
                member[[1, 0, *range(2, 12)]],
                "The losses of model 0 fit the flags member of model 1",
            ),
            # One model has its own flags, and the others are turned among themselves.
            (
                np.concatenate([member[:1], np.roll(member[1:], 1, axis=0)]),
                "The losses of model 1 fit the flags member of model 2, not its own, and so on for "
                "10 of 12 models",
            ),
            (np.roll(member, 2, axis=1), "if they are moved by 2 texts"),
        ):
            notes = attack(tokens, flags).notes
            assert len(notes) == (words is not None), notes
            assert words is None or words in notes[0]


def test_models_with_inverted_flags_are_not_said_to_have_the_flags_of_others():
    tokens, member = fleet(np.random.default_rng(7), gain=1.0)
    for flags in (~member, np.concatenate([member[:1], ~member[1:]])):
        table = tokens.table(flags)
        assert not fleet_doubts(table, [f"model {at}" for at in range(table.models)])


@pytest.mark.parametrize("by", [1, -1])
def test_the_model_that_is_named_has_the_flags_that_its_losses_fit(by):
    """Flags of all but the target are turned, and the last one's are the first one's."""
    tokens, member = fleet(np.random.default_rng(7), gain=1.0)
    table = tokens.table(np.concatenate([member[:1], np.roll(member[1:], by, axis=0)]))
    (note,) = fleet_doubts(table, [f"model {at}" for at in range(table.models)])
    one, other = ("1", "2") if by == 1 else ("2", "1")
    assert f"The losses of model {one} fit the flags member of model {other}, not its" in note


def test_losses_of_one_model_in_bits_are_noted():
    rng = np.random.default_rng(3)
    counts = rng.integers(10, 40, 150)
    member = np.array([rng.permutation(6) < 3 for _ in counts]).T
    hard = np.repeat(rng.gamma(9.0, 1 / 3, len(counts)), counts)
    losses = hard * rng.gamma(4.0, 0.25, (6, counts.sum()))
    for units, noted in ((1.0, 0), (1 / np.log(2), 1), (1 / np.log(10), 1), (1.25, 0)):
        changed = losses * np.where(np.arange(6) == 2, units, 1.0)[:, None]
        notes = attack_tokens(TokenLosses(changed, counts), member).notes
        assert len(notes) == noted, notes
        assert not noted or "The losses of the model 2 are" in notes[0]
        assert not noted or "in other units" in notes[0]


def test_sound_fleets_are_hardly_ever_noted_coverage():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tokens, member = fleet(rng, gain=(0.0, 0.1, 0.5)[seed % 3], models=(4, 12)[seed % 2])
        table = tokens.table(rng.permuted(member, axis=1) if seed % 5 == 0 else member)
        notes = fleet_doubts(table, [f"model {at}" for at in range(table.models)])
        assert not [note for note in notes if "flags" in note]


def test_one_model_of_each_kind_has_no_variance():
    tokens = TokenLosses(np.random.default_rng(5).gamma(2.0, size=(3, 8)), np.array([4, 4]))
    member = np.array([[True, False], [False, True], [True, False]])
    with pytest.raises(InputError, match="no variance"):
        attack_tokens(tokens, member, targets=[2])


def test_those_that_are_not_compared_count_nothing():
    losses = np.array([[1.0, 2.0], [3.0, 5.0], [9.0, 9.0]])
    one = Reference(losses, np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert one.mean.tolist() == [2.0, 0.0]
    assert one.apart.tolist() == [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
