"""`canary membership attack` and `risk`: from files of outputs to numbers, a page and a table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from classifiers import save_outputs
from pyarrow import csv

import canary
from canary.membership.samples_needed import rates_of
from canary.membership.shadow_survey import survey

METRIC = "correctness,modified-entropy,entropy-one-threshold"
"""Attacks that train no network, which takes seconds."""


@pytest.fixture
def pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_outputs(Path("target.npz"), 1)
    save_outputs(Path("shadow.npz"), 2)
    return ("--target", "target.npz", "--shadow", "shadow.npz")


@pytest.fixture
def attack(command):
    """Attack with the options, into the folder `report`."""
    return lambda *words: command(
        "membership", "attack", *words, "--force", "--out", "report", "--json"
    )


def surveyed(**options):
    return survey("target.npz", Path("shadow.npz"), attacks=METRIC, **options)


def test_the_singled_out_are_written(command, pair):
    words = (*pair, "--attacks", METRIC, "--singled-out", "who.csv", "--force", "--out", "report")
    outcome = command("membership", "attack", *words)
    found = surveyed().singled_out()
    assert csv.read_csv("who.csv")["sample"].to_pylist() == found.samples.tolist()
    assert f"{found.summary()}. They are in who.csv" in outcome.out


def test_attack_gives_the_numbers_of_the_functions(attack, pair):
    outcome = attack(*pair, "--attacks", METRIC, "--fpr", "0.01,0.1", "--prior", "0.4")
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert json.loads(Path("report/membership.json").read_text()) == found
    target, shadow = (canary.measure(f"{name}.npz") for name in ("target", "shadow"))
    for one in found["attacks"]:
        scores = canary.attack(target, one["name"], shadow=shadow)
        expected = canary.evaluate(scores, target.member[0])
        for name, estimate in (("auc", expected.auc), ("balanced_accuracy", expected.accuracy)):
            wanted = [estimate.value, estimate.lower, estimate.upper]
            assert [one[name][key] for key in ("value", "lower", "upper")] == wanted
        for point in one["tpr_at_fpr"]:
            assert point["fpr"] <= point["asked_fpr"]
            assert point["tpr"]["lower"] <= point["tpr"]["value"] <= point["tpr"]["upper"]
    expected = json.loads(json.dumps(surveyed(fprs=[0.01, 0.1], prior=0.4).to_dict()))
    assert found == {"kind": found["kind"], "schema": found["schema"], **expected}
    assert found["told_apart"] is True
    assert (found["epsilon"], "epsilon" in outcome.err) == (None, False)
    assert "Privacy of the training" not in Path("report/report.html").read_text()
    assert sum(part["members"] for part in found["classes"]) == found["target"]["members"]
    risks = [one["risk"] for one in found["risk"]["most_at_risk"]]
    assert risks == sorted(risks, reverse=True)


def test_coins_bound_epsilon(attack, pair):
    options = ("--coin-flips", "--delta", "1e-6", "--guesses", "400")
    outcome = attack(*pair, "--attacks", METRIC, *options)
    assert outcome.code == 0, outcome.err
    found = outcome.document["epsilon"]
    assert found == surveyed(coins=True, guesses=400, delta=1e-6).to_dict()["epsilon"]
    assert found["confidence_of_each"] == pytest.approx(1 - 0.05 / 3)
    assert found["epsilon"] > 1
    said = f"the epsilon of the training is {found['epsilon']:.2f} at least (delta 1e-06)"
    assert said in outcome.err
    assert said in Path("report/report.html").read_text()
    save_outputs(Path("target.npz"), 1, gap=0.0)
    outcome = attack(*pair, "--attacks", METRIC, "--coin-flips")
    assert outcome.document["epsilon"]["epsilon"] == 0.0
    assert "No lower bound on epsilon follows" in outcome.err


def test_coins_of_samples_that_the_shadow_knows_are_refused(attack, command, pair):
    with np.load("target.npz") as ours, np.load("shadow.npz") as theirs:
        joined = {key: np.concatenate([theirs[key], ours[key][:50]]) for key in ours}
    np.savez("joined.npz", **joined)
    words = ("--target", "target.npz", "--shadow", "joined.npz")
    outcome = attack(*words, "--attacks", "loss", "--coin-flips")
    assert outcome.code == 2
    assert "the attacks know coins that they are to guess" in outcome.err
    assert not Path("report").exists()
    outcome = command("membership", "risk", *words, "--out", "risk.parquet", "--json")
    assert outcome.code == 2
    said = "risk scores: the risk scores would learn answers from the shadow. 50 samples of the"
    assert said in outcome.err


def test_groups_are_evaluated(attack, pair):
    with np.load("target.npz") as held:
        np.savez("grouped.npz", group=np.where(held["labels"] < 2, "<a>", "b"), **held)
    found = attack("--target", "grouped.npz", *pair[2:], "--attacks", METRIC).document
    assert [part["value"] for part in found["groups"]] == ["<a>", "b"]
    assert "&lt;a&gt;" in Path("report/report.html").read_text()


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
def test_ids_are_carried_to_the_scores_and_the_list(attack, command, pair, ending):
    with np.load("target.npz") as held:
        ids = np.array([f"row-{at}" for at in range(len(held["labels"]))])[::-1]
        np.savez("named.npz", id=ids, **held)
        if ending != "npz":
            columns = {"labels": held["labels"], "member": held["member"], "id": ids}
            columns |= {f"logits_{at}": logits for at, logits in enumerate(held["logits"].T)}
            write = {"parquet": pq.write_table, "csv": csv.write_csv}[ending]
            write(pa.table(columns), f"named.{ending}")
    words = ("--target", f"named.{ending}", *pair[2:])
    assert command("membership", "risk", *words, "--out", "risk.csv").code == 0
    rows = csv.read_csv("risk.csv")
    assert rows.column_names[:3] == ["sample", "id", "label"]
    assert rows["id"].to_pylist() == ids.tolist()
    if ending == "npz":
        listed = attack(*words, "--attacks", METRIC).document["risk"]["most_at_risk"]
        assert [one["id"] for one in listed] == [ids[one["sample"]] for one in listed]
        assert {one["support"] > 0 for one in listed} == {True}
        assert listed[0]["id"] in Path("report/report.html").read_text()
        table = canary.measure("named.npz").select(samples=[3, 1])
        assert table.ids.tolist() == [ids[3], ids[1]]


def test_risk_writes_a_row_for_each_sample_and_what_the_ending_says(command, pair):
    outcome = command("membership", "risk", *pair, "--out", "risk.pq", "--json")
    rows = pq.read_table("risk.pq")
    known = ["sample", "label", "member", "modified_entropy", "risk", "support", "thin", "rank"]
    assert rows.column_names == known
    ranks = np.array(rows["rank"])
    support, thin = np.array(rows["support"]), np.array(rows["thin"])
    np.testing.assert_array_equal(thin, support < 10)
    target = canary.measure("target.npz")
    np.testing.assert_array_equal(rows["label"], target.label)
    np.testing.assert_array_equal(rows["modified_entropy"], target.signal("modified-entropy")[0])
    risks, member = np.array(rows["risk"]), np.array(rows["member"]) == 1
    assert ((risks >= 0) & (risks <= 1)).all()
    assert risks[member].mean() == pytest.approx(outcome.document["mean_risk_of_members"])
    assert risks[member].mean() > risks[~member].mean() + 0.1
    assert sorted(ranks[member]) == list(range(1, member.sum() + 1))
    assert not ranks[~member].any()
    sound = np.flatnonzero(member & (thin == 0))
    assert (np.diff(risks[sound[np.argsort(ranks[sound])]]) <= 0).all()
    assert command("membership", "risk", *pair, "--out", "risk.csv").code == 0
    same = csv.read_csv("risk.csv")
    assert same.column_names == rows.column_names
    for name in rows.column_names:
        np.testing.assert_allclose(same[name], rows[name])
    assert command("membership", "risk", *pair, "--smooth", "--out", "smooth.csv").code == 0
    assert csv.read_csv("smooth.csv").column_names == [*known[:5], "rank"]
    refused = command("membership", "risk", *pair, "--out", "risk.json")
    assert (refused.code, Path("risk.json").exists()) == (2, False)
    assert ".parquet, .pq or .csv" in refused.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "--attacks lira",
            "--attacks: unknown attack 'lira'; did you mean lira-online",
        ),
        (
            "--attacks lira",
            "lira-online compares many models: ask for it by canary membership models",
        ),
        ("--fpr much", "--fpr: expected rates"),
        ("--fpr 0.00001", "--fpr: a false positive rate of 1e-05 cannot be seen"),
        ("--prior 2", "--prior must be between 0 and 1"),
        ("--confidence 95", "--confidence must be between 0 and 1"),
        ("--guesses 5", "guesses, delta or mechanism without coins"),
        ("--delta 0.1", "guesses, delta or mechanism without coins"),
        ("--attacks loss --coin-flips --guesses 9999", "--guesses: 9999 guesses for 2000 coins"),
        ("--attacks loss --coin-flips --delta 2", "--delta must be at least 0 and below 1"),
    ],
)
def test_bad_options_leave_nothing_behind(attack, pair, options, words):
    outcome = attack(*pair, *options.split())
    assert outcome.code == 2
    assert words in outcome.err
    assert not Path("report").exists()


def test_a_test_that_decides_nothing_ends_as_undecided_ones_do(attack, pair, command):
    done = attack(*pair, "--attacks", METRIC)
    assert done.code == 0
    ends = (
        r"([0-9.]+ % \([0-9.]+ to [0-9.]+)\), of the attack [^,]+, the best of \d+ \(the interval"
    )
    (auc,) = re.findall(f"Highest AUC: {ends}", done.err)
    found = canary.check("report/membership.json", max_auc=0.5).reason
    assert auc == f"{100 * found.value:.1f} % ({100 * found.lower:.1f} to {100 * found.upper:.1f}"
    flags = dict(np.load("target.npz"))
    np.savez("target.npz", **{**flags, "member": 1 - flags["member"]})
    swapped = attack(*pair, "--attacks", METRIC)
    assert swapped.document["outcome"] in ("undecided", "void")
    assert swapped.code == 3


@pytest.mark.parametrize("nonmembers", [200, 500])
def test_too_few_others_are_one_sentence(nonmembers):
    assert not [one for one in rates_of(None, 5)[1] if "begin at" in one]
    (many,) = rates_of(None, 20, confidence=0.95, attacks=9)[1]
    assert "10 % of them, or less" in many
    (few,) = rates_of(None, nonmembers)[1]
    assert f"less than 1 in {nonmembers}" in few
    assert "the rates that are shown begin at 1 %" in few
