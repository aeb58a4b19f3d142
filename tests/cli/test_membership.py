"""`canary membership`: from files of outputs to numbers, a page and a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from classifiers import save_outputs
from pyarrow import csv

import canary
from canary.membership.attacking import applicable
from canary.membership.neural import NEURAL
from canary.membership.privacy import attack_epsilon

METRIC = "correctness,modified-entropy,entropy-one-threshold"
"""Attacks that train no network, which takes seconds."""


@pytest.fixture
def pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_outputs(Path("target.npz"), 1)
    save_outputs(Path("shadow.npz"), 2)
    return ("--target", "target.npz", "--shadow", "shadow.npz")


def test_attack_gives_the_numbers_of_the_functions(command, pair):
    outcome = command(
        "membership", "attack", *pair, "--attacks", "all", "--out", "report", "--json"
    )
    assert outcome.code == 0, outcome.err
    found = outcome.document
    assert found["kind"] == "canary membership"
    assert json.loads(Path("report/membership.json").read_text()) == found
    target, shadow = (
        canary.measure(f"{name}.npz", keep_outputs=True) for name in ("target", "shadow")
    )
    assert [one["name"] for one in found["attacks"]] == applicable(target)
    assert {one["name"] for one in found["attacks"]} >= {"correctness", *NEURAL}
    for one in found["attacks"]:
        scores = canary.attack(target, one["name"], shadow=shadow)
        expected = canary.evaluate(scores, target.member[0])
        for name, estimate in (("auc", expected.auc), ("balanced_accuracy", expected.accuracy)):
            assert one[name] == {
                "value": estimate.value,
                "lower": estimate.lower,
                "upper": estimate.upper,
            }
        for point in one["tpr_at_fpr"]:
            assert point["fpr"] <= point["asked_fpr"]
            assert point["tpr"]["lower"] <= point["tpr"]["value"] <= point["tpr"]["upper"]
    assert [p["asked_fpr"] for p in found["attacks"][0]["tpr_at_fpr"]] == [0.01, 0.1]
    assert "no false positive rate below 0.00" in outcome.err
    assert found["told_apart"] is True
    assert "tells members of the training data from others with" in outcome.err
    assert sum(part["members"] for part in found["classes"]) == found["target"]["members"]
    risks = [one["risk"] for one in found["risk"]["most_at_risk"]]
    assert risks == sorted(risks, reverse=True)
    assert len(risks) == 20


def test_coins_bound_epsilon_and_the_choice_among_attacks_is_paid_for(command, pair):
    words = ("membership", "attack", *pair, "--attacks", METRIC, "--out", "report", "--json")
    options = ("--coin-flips", "--delta", "1e-6", "--guesses", "400")
    outcome = command(*words, *options)
    assert outcome.code == 0, outcome.err
    target, shadow = (canary.measure(f"{name}.npz") for name in ("target", "shadow"))
    bounds = {
        name: attack_epsilon(
            canary.attack(target, name, shadow=shadow),
            target.member[0],
            coins=True,
            guesses=400,
            delta=1e-6,
            attacks=3,
        )
        for name in METRIC.split(",")
    }
    best = max(bounds, key=lambda name: bounds[name].epsilon)
    found = outcome.document["epsilon"]
    assert (found["attack"], found["epsilon"]) == (best, bounds[best].epsilon)
    assert (found["confidence"], found["attacks"]) == (0.95, 3)
    assert found["confidence_of_each"] == pytest.approx(1 - 0.05 / 3)
    assert found == {"attack": best, **bounds[best].to_dict()}
    assert (found["coins"], found["guesses"]) == (2000, 400)
    said = (
        f"it went in, the epsilon of the training is {found['epsilon']:.2f} at least (delta 1e-06)"
    )
    assert found["epsilon"] > 1
    assert said in outcome.err
    assert said in Path("report/report.html").read_text()


def test_no_coins_no_epsilon(command, pair):
    words = (
        "membership",
        "attack",
        *pair,
        "--attacks",
        METRIC,
        "--force",
        "--out",
        "report",
        "--json",
    )
    outcome = command(*words)
    assert outcome.document["epsilon"] is None
    assert "epsilon" not in outcome.err
    assert "Privacy of the training" not in Path("report/report.html").read_text()
    for option in (("--guesses", "5"), ("--delta", "0.1")):
        refused = command(*words, *option)
        assert refused.code == 2
        assert "guesses or delta without coins" in refused.err
    save_outputs(Path("target.npz"), 1, gap=0.0)
    outcome = command(*words, "--coin-flips")
    assert outcome.document["epsilon"]["epsilon"] == 0.0
    assert "No lower bound on epsilon follows" in outcome.err


def test_coins_of_samples_that_the_shadow_knows_are_refused(command, pair):
    with np.load("target.npz") as ours, np.load("shadow.npz") as theirs:
        joined = {key: np.concatenate([theirs[key], ours[key][:50]]) for key in ours}
    np.savez("joined.npz", **joined)
    words = ("--target", "target.npz", "--shadow", "joined.npz", "--attacks", "loss")
    outcome = command("membership", "attack", *words, "--out", "report", "--coin-flips")
    assert outcome.code == 2
    assert "the attacks know coins that they are to guess" in outcome.err
    assert not Path("report").exists()
    outcome = command("membership", "attack", *words, "--out", "report")
    assert outcome.code == 0
    assert "50 samples of the shadow have the outputs and the label" in outcome.err
    outcome = command("membership", "risk", *words[:4], "--out", "risk.parquet", "--json")
    assert outcome.document["notes"][0].startswith("50 samples of the shadow")


def test_groups_are_evaluated(command, pair):
    with np.load("target.npz") as held:
        np.savez("grouped.npz", group=np.where(held["labels"] < 2, "<a>", "b"), **held)
    words = ("--target", "grouped.npz", *pair[2:], "--attacks", METRIC, "--out", "report", "--json")
    found = command("membership", "attack", *words).document
    assert [part["value"] for part in found["groups"]] == ["<a>", "b"]
    assert "&lt;a&gt;" in Path("report/report.html").read_text()


def test_risk_writes_a_row_for_each_sample(command, pair):
    outcome = command("membership", "risk", *pair, "--out", "risk.parquet", "--json")
    assert outcome.code == 0, outcome.err
    rows = pq.read_table("risk.parquet")
    assert rows.column_names == ["sample", "label", "member", "modified_entropy", "risk"]
    target = canary.measure("target.npz")
    np.testing.assert_array_equal(rows["label"], target.label)
    np.testing.assert_array_equal(rows["modified_entropy"], target.signal("modified-entropy")[0])
    risks, member = np.array(rows["risk"]), np.array(rows["member"]) == 1
    assert ((risks >= 0) & (risks <= 1)).all()
    assert risks[member].mean() == pytest.approx(outcome.document["mean_risk_of_members"])
    assert risks[member].mean() > risks[~member].mean() + 0.1


def test_risk_writes_what_the_ending_says(command, pair):
    for name in ("risk.pq", "risk.csv"):
        assert command("membership", "risk", *pair, "--out", name).code == 0
    rows, same = pq.read_table("risk.pq"), csv.read_csv("risk.csv")
    assert same.column_names == rows.column_names
    for name in rows.column_names:
        np.testing.assert_allclose(same[name], rows[name])
    for name in ("risk.json", "risk"):
        outcome = command("membership", "risk", *pair, "--out", name)
        assert (outcome.code, Path(name).exists()) == (2, False)
        assert "let the name end with .parquet, .pq or .csv" in outcome.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--attacks", "lira"), "--attacks: there is no attack 'lira'; "),
        (("--fpr", "much"), "--fpr: expected rates with commas between them, got 'much'"),
        (("--fpr", "0.00001"), "--fpr: a false positive rate of 1e-05 cannot be seen"),
        (("--prior", "2"), "--prior: prior must lie between 0 and 1, got 2.0"),
        (("--confidence", "95"), "--confidence: confidence must lie between 0 and 1, got 95.0"),
        (("--guesses", "5"), "--coin-flips: guesses or delta without coins"),
        (
            ("--attacks", "loss", "--coin-flips", "--guesses", "9999"),
            "--guesses: 9999 guesses for 2000 coins",
        ),
        (
            ("--attacks", "loss", "--coin-flips", "--delta", "2"),
            "--delta: delta must lie from 0 to below 1, got 2.0",
        ),
    ],
)
def test_bad_options_leave_nothing_behind(command, pair, options, words):
    outcome = command("membership", "attack", *pair, "--out", "report", *options)
    assert outcome.code == 2
    assert words in outcome.err
    assert not Path("report").exists()
