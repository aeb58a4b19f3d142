"""`canary membership models`: many models attacked by each other, from files or a fleet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import fleets
import numpy as np
import pandas as pd
import pytest
from classifiers import save_models

import canary
from canary.fleet.splits import halves
from canary.membership.aggregate import evaluate_models, over_fleets, rates
from canary.membership.counterfactual import counterfactual
from canary.membership.diagnostics import growth
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


@pytest.fixture
def attack(command):
    """Attack the models of these words, into the folder `report`."""
    return lambda *words: command("membership", "models", *words, *OUT, "--json")


def test_all_attacks_are_those_of_the_functions(attack, place, table):
    words = ("--fpr", "0.05,0.2", "--alphas", "0.4,0.25", "--confidence", "0.9", "--seed", "3")
    outcome = attack(*FILES, *words)
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert json.loads(Path("report/models.json").read_text()) == found
    assert [one["name"] for one in found["attacks"]] == ATTACKS
    for one in found["attacks"]:
        scores = attack_models(table, one["name"])
        across = evaluate_models(scores, confidence=0.9)
        over = over_fleets(table, one["name"], fprs=[0.05, 0.2], confidence=0.9)
        wanted = {**vars(over.auc), "sd": across.auc.sd}
        assert {key: one["auc"][key] for key in wanted} == wanted
        assert one["models_trained"] == scores.models_trained
        for at, rate in enumerate((0.05, 0.2)):
            points = [each.tpr_at_fpr(rate) for each in across.evaluations]
            row = one["tpr_at_fpr"][at]
            assert row["tpr"]["upper"] == over.tpr[at].upper
            assert row["fpr"] == pytest.approx(np.mean([point.fpr for point in points]))
            assert row["largest_fpr"] == max(point.fpr for point in points) <= rate
            assert one["targets"][5]["tpr_at_fpr"][at]["tpr"]["value"] == points[5].tpr.value
        levels = one["levels"] and [level["tpr"] for level in one["levels"]]
        calibrated = scores.calibrated or None
        assert levels == (calibrated and rates(scores, alphas=[0.25, 0.4]).tpr.tolist())
        if one["name"] != "P":
            grown = growth(table, one["name"], [4, 6], targets=[0, 1], seed=3)
            assert [size["auc"] for size in one["growth"]["sizes"]] == [a.mean for a in grown.auc]
    # The answer pays for the number of attacks.
    best = found["strongest"]
    wide = over_fleets(table, best, confidence=1 - 0.1 / len(ATTACKS)).auc
    assert found["corrected_auc"] == pytest.approx(vars(wide))
    said = f"in {100 * wide.value:.1f} % of cases ({100 * wide.lower:.1f} % to"
    assert said in outcome.err
    page = Path("report/report.html").read_text()
    assert said in page.replace("\N{NO-BREAK SPACE}", " ")


def test_one_target_by_file_and_by_number(attack, place, table):
    words = (*FILES, "--attacks", "R,P", "--rule", "gaussian")
    one = attack(*words, "--target", "model3.npz").document
    assert one == attack(*words, "--target", "3").document
    scores = attack_models(table, "R", targets=[3], rule="gaussian")
    (evaluation,) = evaluate_models(scores).evaluations
    auc = one["attacks"][0]["auc"]
    assert (auc["value"], auc["lower"], auc["upper"]) == tuple(vars(evaluation.auc).values())
    assert (one["targets"], one["intervals_over"]) == ([3], "samples")
    page = Path("report/report.html").read_text()
    assert "Can training samples of the model “model3.npz” be recognized?" in page
    assert "7 other models" in page
    # Who is at risk in this release: its classes and its members, by the leading attack.
    lead = attack_models(table, one["surest"]["name"], targets=[3], rule="gaussian").scores[0]
    member, others = table.member[3], lead[~table.member[3]]
    listed = one["most_member_like"]
    assert [row["score"] for row in listed] == sorted(lead[member], reverse=True)[:20]
    assert all(member[row["sample"]] for row in listed)
    above = [int((others >= lead[row["sample"]]).sum()) for row in listed]
    assert [row["nonmembers_as_high"] for row in listed] == above
    for part in one["by_class"]:
        of_class = table.label == part["value"]
        found = canary.evaluate(lead[of_class], member[of_class])
        assert part["auc"]["value"] == found.auc.value
    assert "the members and classes most at risk" in page
    assert all(f"class {part['value']}</th>" in page for part in one["by_class"])
    assert "Members most at risk" in page
    several = attack(*words, "--target", "3", "--target", "model5.npz").document
    assert several["targets"] == [3, 5]
    assert (several["by_class"], several["most_member_like"]) == ([], [])


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """The folder of a fleet of which models 1 and 4 are missing, and its table."""
    monkeypatch.chdir(tmp_path)
    data = fleets.made(samples=240)
    of_all = canary.Fleet(fleets.partly, data, halves(), 10, 0, outputs="logits")
    with pytest.warns(UserWarning, match="2 of 10 models are missing"):
        return of_all.run(folder="fleet")


def test_a_fleet_is_attacked_in_its_folder(attack, fleet):
    words = ("fleet", "--attacks", "R,P", "--least", "4")
    outcome = attack(*words)
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert found["missing"] == {"1": "ValueError: no such luck", "4": "ValueError: no such luck"}
    assert "2 models are missing from fleet: model 1: ValueError: no such luck" in outcome.err
    kept = (~fleet.member).sum(axis=0) >= 4
    assert found["samples_judged"] == kept.sum() < found["samples"] == 240
    alone = evaluate_models(attack_models(fleet.select(samples=kept), "R")).auc
    assert found["attacks"][0]["auc"]["value"] == alone.mean
    rows = found["most_vulnerable_samples"]
    assert all(kept[row["sample"]] for row in rows)
    assert [row["label"] for row in rows] == [fleet.label[row["sample"]] for row in rows]
    assert [model["model"] for model in found["models"]] == [0, 2, 3, 5, 6, 7, 8, 9]
    one = attack(*words, "--target", "3").document
    assert one["targets"] == one["most_vulnerable_models"] == [3]
    gone = attack(*words, "--target", "4")
    assert gone.code == 2
    assert "--target: model 4 is missing: ValueError: no such luck" in gone.err


def test_a_target_that_exists_is_attacked_with_a_fleet(attack, fleet):
    rng = np.random.default_rng(7)
    member = rng.random(240) < 0.5
    logits = rng.normal(size=(240, 3))
    logits[np.arange(240), fleet.label] += 1.4 + 3.0 * member
    np.savez("target.npz", logits=logits, labels=fleet.label, member=member)
    words = ("--attacks", "P,R", "--least", "2")
    found = attack("target.npz", "fleet", "--target", "target.npz", *words).document
    # The fleet keeps its numbers, and what it lacks.
    assert [model["model"] for model in found["models"]] == [0, 2, 3, 5, 6, 7, 8, 9, 10]
    assert (found["targets"], [*found["missing"]]) == ([10], ["1", "4"])
    same = canary.survey_models("target.npz", shadow=fleet, attacks="P,R", least=2)
    assert (same.targets, same.table.numbers) == ((0,), (0, 1, 3, 4, 6, 7, 8, 9, 10))
    for one, own in zip(found["attacks"], same.attacked, strict=True):
        assert one["auc"]["value"] == own.auc.value > 0.6
    with pytest.raises(canary.CanaryError, match="has 240 samples, and"):
        canary.survey_models(fleet.select(samples=range(239)), shadow=fleet)
    shutil.copytree("fleet", "fleet2")
    assert "fleet2: has the results of a fleet, and those of" in attack("fleet", "fleet2").err


ALL = " ".join(FILES)
BAD = {
    FILES[0]: "1 file: one model, and attacks compare it",
    f"{ALL} model2.npz": "model2.npz: is given twice",
    " ".join(FILES[:2]): "attack R: 236 of 300 samples (0, 2, 3, 4, 7 and 231 more) are members",
    f". {ALL}": "model0.npz: is given twice",
    "empty": "empty: is a folder without outputs of models and without a fleet's results",
    f"{ALL} --scores a.csv --counterfactual a.csv": "a.csv",
    f"{ALL} model9.npz": "model9.npz: cannot be read",
    f"{ALL} link.npz": "link.npz: is model1.npz, too",
    f"{ALL} copy.npz": "copy.npz: says of every sample what model1.npz says",
    f"{ALL} --alphas 0.1,1": "alphas: alpha must be between 0 and 1",
    f"{ALL} --alphas some": "--alphas: expected rates",
    f"{ALL} --fpr 1e-5": "a false positive rate of 1e-05 cannot be seen",
    f"{ALL} --attacks loss": "attacks: the attack loss is by a shadow",
    f"{ALL} --attacks R,D": "the attack D needs models of each target's own",
    f"{ALL} --target 8": "--target: unknown model '8'; use one of",
    f"{ALL} --least 5": "no sample has 5 of 8 models",
    f"{ALL} --confidence 95": "confidence must be between 0 and 1",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_words_leave_nothing_behind(words, attack, place):
    Path("empty").mkdir()
    if " ." not in f" {words}":
        Path("link.npz").symlink_to(FILES[1])
        shutil.copy(FILES[1], "copy.npz")
    outcome = attack(*words.split())
    assert outcome.code == 2
    assert BAD[words] in outcome.err
    assert not Path("report").exists()


def test_other_samples_are_refused_and_losses_join_logits(attack, place, table):
    with np.load(FILES[3]) as held:
        whole = dict(held)
    other = whole["labels"].copy()
    other[[17, 20]] = (other[[17, 20]] + 1) % 5
    for arrays, told in (
        ({name: array[:-7] for name, array in whole.items()}, "293 samples, and model0.npz has"),
        ({"labels": other}, "labels than model0.npz: 2 of 300 samples, the first is sample 17"),
        ({"logits": np.pad(whole["logits"], ((0, 0), (0, 1)))}, "6 classes, and model0.npz of 5"),
    ):
        np.savez(FILES[3], **{**whole, **arrays})
        assert told in attack(*FILES).err
    kept = {name: whole[name] for name in ("labels", "member")}
    np.savez(FILES[3], losses=table.signal("loss")[3], **kept)
    found = attack(*FILES, "--attacks", "R").document
    expected = over_fleets(table, "R").auc
    assert found["attacks"][0]["auc"]["lower"] == pytest.approx(expected.lower, abs=1e-9)


def known_by(names, samples, flag):
    """Flag the samples as members, or as non-members, of the models in some files."""
    for name in names:
        with np.load(name) as held:
            member = held["member"].copy()
            member[samples] = flag
            np.savez(name, **{**held, "member": member})


def test_samples_that_all_models_know(attack, place):
    known_by(FILES, [5, 9, 11, 40], 1)
    outcome = attack(*FILES, "--attacks", "R,rmia")
    assert "attack R: 4 of 300 samples (5, 9, 11, 40) are members of every" in outcome.err
    assert "omit them by --least 2; the attacks" in outcome.err
    outcome = attack(*FILES, "--attacks", "R,rmia", "--least", "2")
    assert outcome.document["samples_judged"] == 296
    assert "Of 300 samples 4 are left out" in outcome.err
    assert "These numbers are of 296 samples of the 300 that were given." in outcome.err
    assert attack(*FILES, "--attacks", "S,P").code == 0


def test_samples_that_no_other_model_knows(attack, place):
    known_by(FILES[1:], range(30), 0)
    words = (*FILES, "--target", "0")
    found = attack(*words).document
    offline = ["S", "P", "R", "lira-offline-fixed", "rmia-offline"]
    assert [one["name"] for one in found["attacks"]] == offline
    assert any("are members of no other model" in note for note in found["notes"])
    outcome = attack(*words, "--attacks", "rmia")
    assert "rmia: 30 of 300 samples (0, 1, 2, 3, 4 and 25 more)" in outcome.err
    least = attack(*words, "--least", "2").document
    assert [one["name"] for one in least["attacks"]] == ATTACKS


def test_few_models_have_intervals_over_samples(attack, place):
    words = (*FILES[:5], "--attacks", "R")
    outcome = attack(*words, "--least", "2")
    assert outcome.document["intervals_over"] == "samples"
    assert "Intervals speak of these models and of other samples, not of other" in outcome.err
    assert "if models were left out; --least 3 leaves them away" in outcome.err
    found = outcome.document["attacks"][0]
    lower = [one["auc"]["lower"] for one in found["targets"]]
    assert found["auc"]["lower"] == pytest.approx(np.mean(lower))
    assert attack(*words, "--least", "3").document["intervals_over"] == "fleets"
    assert "for that give 4 models or more" in attack(*FILES[:3], "--attacks", "P").err


def test_a_folder_is_what_it_holds_and_scores_of_samples_are_written_with_ids(attack, place, table):
    """The target beside the folder of the others, whose model10 comes after its model2."""
    names = np.array([f"person-{number}" for number in range(table.samples)])
    for name in FILES:
        with np.load(name) as held:
            np.savez(name, **held, id=names)
    Path("others").mkdir()
    for name in FILES[1:]:
        Path(name).rename(Path("others") / name)
    Path("others/model7.npz").rename("others/model10.npz")
    Path("others/notes.txt").touch()
    words = (FILES[0], "others", "--attacks", "R,rmia")
    found = attack(*words, "--scores", "scores.parquet", "--counterfactual", "effects.csv")
    assert found.code == 0, found.err
    called = [model["name"] for model in found.document["models"]]
    assert called[-2:] == ["others/model6.npz", "others/model10.npz"]
    assert found.document["most_vulnerable_samples"][0]["id"].startswith("person-")
    assert "person-" in Path("report/report.html").read_text()
    assert Path("effects.csv").read_text().splitlines()[1].startswith('0,"person-0"')
    frame = pd.read_parquet("scores.parquet")
    assert list(frame) == ["model", "sample", "id", "label", "member", "R", "rmia"]
    wanted = attack_models(table, "rmia").scores
    assert frame["rmia"].to_numpy() == pytest.approx(wanted.ravel(), abs=1e-6)
    assert frame[frame["model"] == called[2]]["id"].tolist() == names.tolist()
    assert (frame["member"] == table.member.ravel()).all()
    assert attack(*words, "--target", "3", "--scores", "one.csv").code == 0
    assert pd.read_csv("one.csv")["model"].tolist() == [called[3]] * table.samples
    with np.load(FILES[0]) as held:
        np.savez(FILES[0], **{**held, "id": names[::-1]})
    assert "has other ids of samples than model0.npz" in attack(*words).err


def test_what_each_sample_does_to_its_own_loss_is_written(attack, place, table):
    words = (*FILES, "--attacks", "P", "--confidence", "0.9", "--counterfactual")
    outcome = attack(*words, "effects.csv")
    assert outcome.code == 0, outcome.err
    found = counterfactual(table, confidence=0.9)
    rows = np.genfromtxt("effects.csv", delimiter=",", names=True)
    np.testing.assert_allclose(rows["memorization"], found.value, atol=1e-6)
    np.testing.assert_allclose(rows["upper"], found.upper, atol=1e-6)
    assert "counterfactual memorization by loss: mean" in outcome.err
    refused = attack(*words, "effects.txt")
    assert refused.code == 2
    assert "ends with .parquet, .pq or .csv" in refused.err
