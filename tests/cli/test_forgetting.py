"""`canary forgotten`: from files of outputs to numbers and a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from canary.membership.forgetting import forgotten


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
    outcome = command(*words, "--retrained", "retrained.npz", "--unseen", "one.npz", "--json")
    assert outcome.code == 0, outcome.err
    expected = forgotten(
        "query.npz",
        "target.npz",
        ["one.npz", "two.npz"],
        retrained="retrained.npz",
        unseen="one.npz",
    )
    found = outcome.document
    assert found == {
        "kind": "canary forgetting",
        "schema": 1,
        **expected.named(model_name="target.npz").to_dict(),
    }
    assert json.loads(Path("found/forgetting.json").read_text()) == found
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
