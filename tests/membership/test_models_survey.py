"""All attacks on all models of a table: what is said of the result, and of models."""

from __future__ import annotations

import numpy as np
import pytest
from classifiers import save_models
from many_models import halves, random_table, table_of

import canary
from canary.errors import InputError
from canary.membership.models_survey import survey_models
from canary.signals.measuring import table_of_files
from canary.statistics.roc import roc


@pytest.fixture
def seldom():
    """Losses of samples, all but two of them 0: R's evidence ends at a bit."""
    rng = np.random.default_rng(0)
    loss = np.zeros((8, 60))
    for sample, rows in enumerate(rng.permuted(np.tile(np.arange(8), (60, 1)), axis=1)[:, :2]):
        loss[rows, sample] = rng.random(2) + 0.1
    return table_of(loss, halves(rng, 8, 60))


def test_every_attack_is_told_of_theory():
    """Once for itself, for its curve, and for each model that is left out."""
    table, counted = random_table(np.random.default_rng(0), models=8, samples=60), []

    def stage(name, total, _unit):
        counted.append((name, total))
        return counted.append

    for targets, rounds in ((None, 2 * (1 + 1 + 8)), ([1], 2 * (1 + 1))):
        survey_models(table, attacks="S,P", fprs=[0.3], targets=targets, progress=stage)
        assert counted[0] == ("attacks", sum(counted[1:])) == ("attacks", rounds)
        counted.clear()


def test_groups_in_files_are_reported_of_one_target(tmp_path):
    save_models(tmp_path, 6)
    groups = np.where(np.arange(300) % 3 == 0, "north", "south")
    files = [tmp_path / f"model{number}.npz" for number in range(6)]
    for file in files[1:]:
        np.savez(file, **np.load(file), group=groups)
    table = table_of_files(files)
    found = survey_models(table, attacks="P,R", targets=[2])
    score = found.lead.scores.scores[0]
    for part in found.by_group:
        rows = groups == part.value
        assert part.auc.value == roc(score[rows], table.member[2, rows]).auc().value
    assert [part["value"] for part in found.to_dict()["by_group"]] == ["north", "south"]
    assert any("groups" in note for note in survey_models(table, attacks="P").notes)
    np.savez(files[0], **np.load(files[0]), group=groups[::-1])
    with pytest.raises(InputError, match="other groups of samples"):
        table_of_files(files)


@pytest.mark.parametrize(("alpha", "noted"), [(0.25, False), (0.24, True)])
def test_levels_of_r_end_where_its_references_do_theory(seldom, alpha, noted):
    """Three references: the least level is 1 / (3 + 1), whatever the scores reach."""
    found = survey_models(seldom, attacks="R", fprs=[0.3], alphas=[alpha])
    assert found.attacked[0].scores.scores.max() <= 1.0
    said = "Attack R finds nobody at a level below 0.25, the share of others that it may mistake"
    assert any(said in note for note in found.notes) is noted


@pytest.mark.slow
@pytest.mark.parametrize(("models", "split"), [(8, "halves"), (16, "halves"), (16, "coins")])
def test_nothing_is_told_apart_in_noise_coverage(models, split):
    """A table may be called told apart at 2.5 %; then more than 5 of 60 has a chance of 0.4 %."""
    told = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, models])
        member = halves(rng, models, 150) if split == "halves" else rng.random((models, 150)) < 0.5
        table = table_of(rng.exponential(1.0, (models, 150)), member)
        least = None if split == "halves" else 2
        told += survey_models(table, attacks="all", fprs=[0.1], least=least).told_apart()
    assert told <= 5


def test_swapped_flags_of_all_models_are_noted_and_sound_files_are_not():
    models, samples, classes = 8, 400, 5
    rng = np.random.default_rng(0)
    member, labels = halves(rng, models, samples), rng.integers(0, classes, samples)
    logits = rng.normal(size=(models, samples, classes))
    logits[:, np.arange(samples), labels] += 2.0 + member
    sound, notes = (
        survey_models(
            canary.measure(list(logits), y=labels, member=flags, outputs="logits"),
            attacks="P,R",
            fprs=[0.3],
            alphas=[0.3],
        ).notes
        for flags in (member, ~member)
    )
    assert sound == ()
    assert any("may be swapped. They" in note for note in notes)
    assert any("That holds for 8 of 8 models" in note for note in notes)
    assert any("the flags of members and non-members may be swapped" in note for note in notes)


def test_noise_is_hardly_ever_upside_down_coverage():
    models, noted = 8, 0
    for seed in range(12):
        rng = np.random.default_rng([seed, models])
        table = table_of(rng.exponential(1.0, (models, 60)), halves(rng, models, 60))
        notes = survey_models(table, attacks="S,P,R", fprs=[0.1]).notes
        noted += any("may be swapped" in note for note in notes)
    assert noted == 0
