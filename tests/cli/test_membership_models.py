"""`canary membership models`: many models attacked by each other, from files or a fleet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import fleets
import numpy as np
import pytest
from classifiers import save_models

import canary
from canary.fleet.splits import halves
from canary.membership.aggregate import evaluate_models, rates
from canary.membership.diagnostics import growth
from canary.membership.fleet_intervals import over_fleets
from canary.membership.many import attack_models

FILES = [f"model{number}.npz" for number in range(8)]
ATTACKS = ["S", "P", "R", "lira-online-fixed", "lira-offline-fixed", "rmia"]
OUT = ("--force", "--out", "report")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_models(folder, 8)
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A working folder with the files of eight models."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        shutil.copy(made / name, name)
    return tmp_path


@pytest.fixture
def table():
    held = [dict(np.load(name)) for name in FILES]
    return canary.measure(
        [one["logits"] for one in held],
        y=held[0]["labels"],
        member=np.stack([one["member"] for one in held]),
        outputs="logits",
    )


def resaved(name, **arrays):
    with np.load(name) as held:
        np.savez(name, **{**held, **arrays})


def test_all_attacks_are_those_of_the_functions(command, place, table):
    words = ("--fpr", "0.05,0.2", "--alphas", "0.4,0.25", "--confidence", "0.9", "--seed", "3")
    outcome = command("membership", "models", *FILES, *OUT, *words, "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert json.loads(Path("report/models.json").read_text()) == found
    assert [one["name"] for one in found["attacks"]] == ATTACKS
    for one in found["attacks"]:
        scores = attack_models(table, one["name"])
        across = evaluate_models(scores, confidence=0.9)
        over = over_fleets(table, one["name"], fprs=[0.05, 0.2], confidence=0.9)
        auc = one["auc"]
        assert (auc["value"], auc["lower"], auc["upper"]) == tuple(vars(over.auc).values())
        assert (auc["sd"], auc["least"], auc["most"]) == (
            across.auc.sd,
            across.auc.least,
            across.auc.most,
        )
        assert one["models_trained"] == scores.models_trained
        for at, rate in enumerate((0.05, 0.2)):
            points = [each.tpr_at_fpr(rate) for each in across.evaluations]
            row = one["tpr_at_fpr"][at]
            assert row["tpr"]["value"] == over.tpr[at].value
            assert row["tpr"]["upper"] == over.tpr[at].upper
            assert row["fpr"] == pytest.approx(np.mean([point.fpr for point in points]))
            assert row["largest_fpr"] == max(point.fpr for point in points) <= rate
            assert one["targets"][5]["tpr_at_fpr"][at]["tpr"]["value"] == points[5].tpr.value
        assert [target["auc"]["value"] for target in one["targets"]] == [
            each.auc.value for each in across.evaluations
        ]
        if scores.calibrated:
            seen = rates(scores, alphas=[0.25, 0.4])
            assert [level["fpr"] for level in one["levels"]] == seen.fpr.tolist()
            assert [level["tpr"] for level in one["levels"]] == seen.tpr.tolist()
        else:
            assert one["levels"] is None
        if one["name"] != "P":
            grown = growth(table, one["name"], [4, 6], targets=[0, 1], seed=3)
            assert [size["auc"] for size in one["growth"]["sizes"]] == [
                auc.mean for auc in grown.auc
            ]


def test_the_answer_pays_for_the_number_of_attacks(command, place, table):
    outcome = command("membership", "models", *FILES, *OUT, "--attacks", "S,R,rmia", "--json")
    best = outcome.document["strongest"]
    wide = over_fleets(table, best, confidence=1 - 0.05 / 3).auc
    assert outcome.document["corrected_auc"] == pytest.approx(vars(wide))
    assert wide.lower < over_fleets(table, best).auc.lower
    assert outcome.document["told_apart"] is True
    said = f"in {100 * wide.value:.1f} % of pairs ({100 * wide.lower:.1f} % to"
    page = Path("report/report.html").read_text()
    assert said in outcome.err
    assert said in page
    assert "Members can be told" in page


def test_one_target_by_file_and_by_number(command, place, table):
    words = ("membership", "models", *FILES, *OUT, "--attacks", "R,P", "--rule", "gaussian")
    one = command(*words, "--target", "model3.npz", "--json").document
    assert one == {**command(*words, "--target", "3", "--json").document}
    scores = attack_models(table, "R", targets=[3], rule="gaussian")
    (evaluation,) = evaluate_models(scores).evaluations
    auc = one["attacks"][0]["auc"]
    assert (auc["value"], auc["lower"], auc["upper"]) == tuple(vars(evaluation.auc).values())
    assert (one["targets"], one["intervals_over"]) == ([3], "samples")
    assert one["most_vulnerable_samples"] == []
    page = Path("report/report.html").read_text()
    assert "Membership attacks on model3.npz, by 7 other models" in page
    assert "this model and of other samples" in page
    several = command(*words, "--target", "3", "--target", "model5.npz", "--json").document
    assert several["targets"] == [3, 5]
    means = [row["auc"]["lower"] for row in several["attacks"][0]["targets"]]
    assert several["attacks"][0]["auc"]["lower"] == pytest.approx(np.mean(means))


def test_losses_and_logits_stand_side_by_side(command, place, table):
    for at in (0, 4):
        with np.load(FILES[at]) as held:
            kept = {name: held[name] for name in ("labels", "member")}
        np.savez(FILES[at], losses=table.signal("loss")[at], **kept)
    found = command("membership", "models", *FILES, *OUT, "--attacks", "R", "--json").document
    expected = over_fleets(table, "R").auc
    assert found["attacks"][0]["auc"]["lower"] == pytest.approx(expected.lower, abs=1e-9)
    assert found["models"][0]["accuracy_on_members"] is None


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """The folder of a fleet of which models 1 and 4 are missing, and its table."""
    monkeypatch.chdir(tmp_path)
    data = fleets.made(samples=240)
    of_all = canary.Fleet(fleets.partly, data, halves(), 10, 0, outputs="logits")
    with pytest.warns(UserWarning, match="2 of 10 models are missing"):
        return of_all.run(folder="fleet")


def test_a_fleet_is_attacked_in_its_folder(command, fleet):
    words = ("membership", "models", "fleet", *OUT, "--attacks", "R,P", "--least", "4", "--json")
    outcome = command(*words)
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert found["missing"] == {"1": "ValueError: no such luck", "4": "ValueError: no such luck"}
    assert [model["name"] for model in found["models"]][:3] == ["model 0", "model 2", "model 3"]
    assert "2 models are missing from fleet: model 1: ValueError: no such luck" in outcome.err
    kept = (~fleet.member).sum(axis=0) >= 4
    assert found["samples_judged"] == kept.sum() < found["samples"] == 240
    alone = evaluate_models(attack_models(fleet.select(samples=kept), "R")).auc
    assert found["attacks"][0]["auc"]["value"] == alone.mean
    rows = found["most_vulnerable_samples"]
    assert all(kept[row["sample"]] for row in rows)
    assert [row["label"] for row in rows] == [fleet.label[row["sample"]] for row in rows]
    assert [model["model"] for model in found["models"]] == [0, 2, 3, 5, 6, 7, 8, 9]
    assert sorted(found["most_vulnerable_models"]) == [0, 2, 3, 5, 6, 7, 8, 9]
    one = command(*words, "--target", "3").document
    assert one["targets"] == one["most_vulnerable_models"] == [3]
    of = one["attacks"][0]["targets"][0]
    assert (of["model"], of["name"]) == (3, "model 3")
    gone = command(*words, "--target", "4")
    assert gone.code == 2
    assert "--target: model 4 is missing: ValueError: no such luck" in gone.err


BAD = {
    "one file": (FILES[:1], "1 file: one model, and attacks compare it with others; give the"),
    "twice": ([*FILES, FILES[2]], "model2.npz: is given twice; give one file for each model"),
    "too few": (
        FILES[:2],
        "attack R: 236 of 300 samples (0, 2, 3, 4, 7 and 231 more) are members",
    ),
    "folder": ([".", *FILES], ".: is a folder, and stands beside others"),
    "no fleet": (["."], ".: is no folder in which a fleet keeps its results; give the folder"),
    "absent": ([*FILES, "model9.npz"], "model9.npz: cannot be read"),
    "level": ([*FILES, "--alphas", "0.1,1"], "alphas: alpha must lie between 0 and 1, got 1.0"),
    "levels": ([*FILES, "--alphas", "some"], "--alphas: expected rates with commas"),
    "rate": ([*FILES, "--fpr", "1e-5"], "a false positive rate of 1e-05 cannot be seen with"),
    "name": ([*FILES, "--attacks", "loss"], "attacks: the attack loss is by a shadow"),
    "D": (
        [*FILES, "--attacks", "R,D"],
        "the attack D needs models of each target's own; do it from",
    ),
    "target": ([*FILES, "--target", "8"], "--target: '8' is none of the 8 models; name a file"),
    "many": ([*FILES, "--least", "5"], "no sample has 5 of 8 models that were trained without it"),
    "confidence": ([*FILES, "--confidence", "95"], "confidence must lie between 0 and 1, got 95"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_words_leave_nothing_behind(case, command, place):
    words, told = BAD[case]
    outcome = command("membership", "models", *words, *OUT)
    assert outcome.code == 2
    assert told in outcome.err
    assert not Path("report").exists()


def test_other_samples_are_refused(command, place):
    words = ("membership", "models", *FILES, *OUT)
    with np.load(FILES[3]) as held:
        whole = dict(held)
    resaved(FILES[3], **{name: array[:-7] for name, array in whole.items()})
    outcome = command(*words)
    assert outcome.code == 2
    assert "model3.npz: has 293 samples, and model0.npz has 300; ask every" in outcome.err
    other = whole["labels"].copy()
    other[[17, 20]] = (other[[17, 20]] + 1) % 5
    np.savez(FILES[3], **{**whole, "labels": other})
    outcome = command(*words)
    assert "other labels than model0.npz: 2 of 300 samples, the first is sample 17" in outcome.err
    np.savez(FILES[3], **{**whole, "logits": np.pad(whole["logits"], ((0, 0), (0, 1)))})
    outcome = command(*words)
    assert "model3.npz: has outputs of 6 classes, and model0.npz of 5" in outcome.err


def test_copies_and_links_of_a_model_are_refused(command, place):
    Path("again.npz").symlink_to(FILES[1])
    outcome = command("membership", "models", *FILES, "again.npz", *OUT)
    assert "again.npz: is model1.npz, too; give one file for each model" in outcome.err
    shutil.copy(FILES[1], "copy.npz")
    outcome = command("membership", "models", *FILES, "copy.npz", *OUT)
    assert outcome.code == 2
    assert "copy.npz: says of every sample what model1.npz says" in outcome.err


def test_samples_that_no_model_is_without_can_be_left_away(command, place):
    for name in FILES:
        with np.load(name) as held:
            member = held["member"].copy()
        member[[5, 9, 11, 40]] = 1
        resaved(name, member=member)
    words = ("membership", "models", *FILES, *OUT, "--attacks", "R,rmia")
    outcome = command(*words)
    assert outcome.code == 2
    assert "attack R: 4 of 300 samples (5, 9, 11, 40) are members of every model" in outcome.err
    assert "or leave them away by --least 2 (least=2); the attacks S and P" in outcome.err
    outcome = command(*words, "--least", "2", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.document["samples_judged"] == 296
    assert "Of 300 samples 4 are left away: fewer than 2 models were trained without" in outcome.err
    assert command(*words[:-1], "S,P").code == 0


def test_samples_that_no_model_knows_have_the_attacks_that_need_none(command, place):
    for name in FILES[1:]:
        with np.load(name) as held:
            member = held["member"].copy()
        member[:30] = 0
        resaved(name, member=member)
    words = ("membership", "models", *FILES, *OUT, "--target", "0")
    found = command(*words, "--json").document
    offline = ["S", "P", "R", "lira-offline-fixed", "rmia-offline"]
    assert [one["name"] for one in found["attacks"]] == offline
    assert any("are members of no other model" in note for note in found["notes"])
    outcome = command(*words, "--attacks", "rmia")
    assert outcome.code == 2
    assert "rmia: 30 of 300 samples (0, 1, 2, 3, 4 and 25 more) are nonmembers of" in outcome.err
    least = command(*words, "--least", "2", "--json").document
    assert [one["name"] for one in least["attacks"]] == ATTACKS


def test_few_models_have_intervals_over_samples(command, place):
    words = ("membership", "models", *FILES[:5], *OUT, "--attacks", "R", "--json")
    outcome = command(*words, "--least", "2")
    assert outcome.document["intervals_over"] == "samples"
    assert "Intervals speak of these models and of other samples, not of other" in outcome.err
    assert "if models were left out; --least 3 leaves them away" in outcome.err
    lower = [one["auc"]["lower"] for one in outcome.document["attacks"][0]["targets"]]
    assert outcome.document["attacks"][0]["auc"]["lower"] == pytest.approx(np.mean(lower))
    assert "not of another training" in Path("report/report.html").read_text()
    assert command(*words, "--least", "3").document["intervals_over"] == "fleets"
    three = command(*words[:2], *FILES[:3], *OUT, "--attacks", "P")
    assert "not of other trainings: for that give 4 models or more" in three.err
