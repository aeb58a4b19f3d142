"""`canary forgotten`: from files of outputs to numbers and a page."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import canary
from canary.membership.forgetting import forgotten
from canary.membership.forgetting_result import ANSWERS
from canary.reports.builders import report_of
from canary.reports.saved_tests import saved_test
from canary.statistics.roc import Estimate


@pytest.fixture
def words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 300)
    for name, gap in (
        ("query", 5),
        ("target", 3),
        ("one", 1),
        ("two", 1),
        ("retrained", 1),
        ("blank", 1),
    ):
        logits = rng.normal(size=(300, 4))
        logits[np.arange(300), labels] += gap
        np.savez(f"{name}.npz", logits=logits, labels=labels)
    return (
        *("forgotten", "--query-model", "query.npz", "--target", "target.npz"),
        *("--calibration", "one.npz", "--calibration", "two.npz", "--force", "--out", "found"),
    )


def test_numbers_are_those_of_the_function(command, words):
    outcome = command(*words, "--retrained", "retrained.npz", "--unseen", "blank.npz", "--json")
    assert outcome.code == 0, outcome.err
    expected = forgotten(
        "query.npz",
        "target.npz",
        ["one.npz", "two.npz"],
        retrained="retrained.npz",
        unseen="blank.npz",
    )
    found = outcome.document
    assert found == {
        "kind": "canary forgetting",
        "schema": 1,
        **expected.named(model_name="target.npz").to_dict(),
    }
    assert json.loads(Path("found/forgetting.json").read_text()) == found
    Path("others").mkdir()
    for name in ("one.npz", "two.npz"):
        Path(name).rename(f"others/{name}")
    at = words.index("--calibration")
    asked = (*words[: at + 1], "others", *words[at + 4 :], "--retrained", "retrained.npz")
    again = command(*asked, "--unseen", "blank.npz", "--json")
    assert (again.document["rho"], again.code) == (found["rho"], 0), again.err
    assert "repeat it for each, or give a folder" in command(*asked, "others/one.npz").err
    assert expected.summary() in outcome.err
    assert "p is 0.33 at the least" in outcome.err


def test_sets_that_share_samples_are_refused(command, words):
    Path("query.txt").write_text("a\nb\n")
    np.save("other.npy", np.zeros((3, 2)))
    Path("other.txt").write_text("c\nb\n")
    sets = ("--query-data", "query.txt", "--calibration-data")
    assert command(*words, *sets, "other.npy").code == 0
    refused = command(*words, *sets, "other.txt")
    assert refused.code == 2
    assert "1 sample of the query set, the first at 1, is in the calibration set" in refused.err
    refused = command(*words, *sets, "nowhere.npy")
    assert refused.code == 2
    assert "nowhere.npy: cannot be read" in refused.err


def test_no_answer_is_told_from_an_answer_by_exit_code(command, words):
    """A query model that knows nothing decides nothing, and a build must see it."""
    names = {"query.npz": "retrained.npz", "target.npz": "blank.npz"}
    outcome = command(*(names.get(word, word) for word in words), "--json")
    assert outcome.document["answer"] == "undecided"
    assert outcome.code == 3
    assert Path("found/report.html").exists()


TONES = {  # all others are open: nobody checked what they rest on
    "something is left": "memorized",
    "not forgotten": "memorized",
}
SAID = {
    "forgotten": "the data is forgotten",
    "no trace found": "No trace of the data was found",
    "something is left": "Something may be left",
    "not forgotten": "data is not forgotten",
}


def test_all_places_give_one_answer_whatever_was_found(command, words, monkeypatch):
    """JSON, headline, check, annex and exit code, for each combination of what there is to find."""
    monkeypatch.setattr("canary.records.validation.version", lambda _: "1")  # read 600 times
    found = forgotten("query.npz", "target.npz", ["one.npz", "two.npz"], resamples=20)
    low, middle, high = (np.full((1, 40), loss) for loss in (0.1, 0.5, 1.0))
    ends_of_auc = ((0.5, 0.4, 0.6), (0.45, 0.41, 0.49), (0.8, 0.7, 0.9))
    attacks = (None, *(Estimate(*end) for end in ends_of_auc))
    ends = ((0.5, 0.6, 0.7), (0.8, 0.9, 1.1), (0.8, 1.05, 1.1), (1.1, 1.2, 1.3))
    reached = {}
    for void, surer, models, rho, p, auc in product(
        (True, False), (True, False), (2, 19, 20), ends, (0.01, 0.5), attacks
    ):
        result = replace(
            *(found,),
            **dict(zip(("lower", "rho", "upper"), rho, strict=True)),
            target=0.9,
            losses={
                "query": high if void else middle,
                "target": low if surer else high,
                "calibration": np.repeat(middle if void else high, models, axis=0),
            },
            calibration=np.where(np.arange(models) < models - 19, 0.05, 0.8),
            p=0.5,
            p_unlike=p,
            auc=auc,
        )
        written, page = result.to_dict(), report_of(result)
        answer, annex = written["answer"], saved_test(result).report.label
        verdict = canary.check(result, forgotten=True).outcome
        case = (void, surer, models, rho, p, auc, answer, page.label, annex, verdict)
        assert (written["void"], page.label == "The test is void") == (void, void), case
        if void:
            assert answer == "undecided", case
            assert page.tone == "suspect", case
            assert result.summary().startswith("Nothing is decided"), case
            assert "do not record" not in result.summary().lower(), case
            assert annex.startswith("The test is void"), case
        else:
            assert page.tone == TONES.get(answer, "undecided"), case
            assert SAID.get(answer, "decide") in annex, case
        if surer and not void:
            assert answer == ("undecided" if auc in attacks[1:3] else "not forgotten"), case
        assert (verdict == "failed") is (answer in ("not forgotten", "something is left")), case
        assert verdict != "passed" or answer in ("forgotten", "no trace found"), case
        assert verdict == "passed" or answer != "forgotten" or auc is None, case
        assert verdict != "passed" or auc is not None, case
        reached[result.outcome] = result
    assert set(reached) == set(ANSWERS)
    for result in {one.answer: one for one in reached.values()}.values():
        monkeypatch.setattr("canary.membership.forgetting.forgotten", lambda *_, r=result, **__: r)
        outcome = command(*words, "--json")
        assert outcome.code == (3 if result.answer == "undecided" else 0)
        assert outcome.document["answer"] == result.answer
        assert report_of(result).label in outcome.err
