"""The Location30 recipe: its defences in little, and the whole of it on made-up records."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

RECIPE = Path(__file__).parents[2] / "recipes" / "song_mittal"
MODULES = ("networks", "memguard", "data", "train", "table")

pytestmark = pytest.mark.timeout(600)  # mostly for imports on a busy machine


@pytest.fixture(scope="module")
def recipe():
    """The modules of the recipe by name, which nobody else sees."""
    sys.path.insert(0, str(RECIPE))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(RECIPE))
        for name in MODULES:
            sys.modules.pop(name, None)


def made_up(samples):
    """Records whose features say the class with much noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 30, samples)
    likely = rng.random((30, 446)) < 0.2
    return (rng.random((samples, 446)) < 0.1 + 0.2 * likely[labels]).astype(np.float32), labels


def test_target_and_shadow_share_no_record(recipe):
    parts = recipe["train"].split(5010, 3)
    for name, sizes in recipe["train"].SIZES.items():
        assert tuple(map(len, parts[name])) == sizes
        everything = np.concatenate(parts[name])
        assert len(np.unique(everything)) == sum(sizes)
        if name != "target":
            assert not np.isin(everything, np.concatenate(parts["target"])).any()


def test_guarded_outputs_keep_their_class_and_leave_a_coin(recipe, monkeypatch):
    guard = recipe["memguard"]
    monkeypatch.setattr(guard, "WEIGHTS", (0.1, 1.0))
    rng = np.random.default_rng(1)
    member = torch.from_numpy(rng.random(150) < 0.5)
    logits = torch.from_numpy(rng.normal(size=(150, 5)).astype(np.float32))
    logits[:, 0] += 3 * member
    defender = guard.train_defender(logits, member, seed=0)
    kept = guard.guard(logits, defender)
    before, after = (guard._certainty(z, defender) for z in (logits, kept))
    assert ((before > 0) == member).float().mean() > 0.7
    assert (kept.argmax(1) == logits.argmax(1)).all()
    moved = (kept != logits).any(1)
    assert moved.float().mean() > 0.9
    # Every success lies just across the boundary.
    assert (after[moved] * before[moved] <= 0).all()
    assert after[moved].abs().mean() < 0.3 * before[moved].abs().mean()


@pytest.mark.parametrize("defence", ["dropout", "weight-decay", "adversarial-regularization"])
def test_defences_train_seeded_and_tell_how_far_they_are(recipe, defence):
    x, y = made_up(130)
    told = []

    def trained():
        options = {**recipe["train"].DEFENCES[defence], "epochs": 2, "seed": 5}
        options["classes"] = 30
        train = recipe["networks"].train
        data = (x[:100], y[:100])
        if defence == "adversarial-regularization":
            train, data = recipe["networks"].train_against_attacker, (*data, x[100:], y[100:])
        return train(*data, each=lambda epochs, model: told.append(epochs), **options)

    one, other = trained(), trained()
    assert not one.training
    inputs = torch.from_numpy(x)
    assert torch.equal(one(inputs), other(inputs))
    assert told[:4] == [0.5, 1.0, 1.5, 2.0]  # two batches of an epoch


def test_means_and_intervals_golden(recipe):
    # Of 0.5 and 0.7: mean 0.6, standard error 0.1, and t of one degree of freedom is 12.706.
    assert recipe["table"].summed([0.5, 0.7]) == [0.6, 1.27062]
    assert recipe["table"].percent([0.6, 0.0125]) == "60.0 ± 1.2"
    assert recipe["table"].summed([0.5]) == [0.5]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_training_to_the_tables(tmp_path):
    x, labels = made_up(5010)
    bits = np.packbits(x.astype(bool), axis=1)
    np.savez(tmp_path / "location30.npz", bits=bits, labels=labels + 1, n_features=446)
    work = tmp_path / "work"
    common = ("--work", work)
    data = (*common, "--data", tmp_path, "--seeds", "1")
    few = "undefended,memguard,dropout"
    said = [
        subprocess.run([sys.executable, RECIPE / name, *options], capture_output=True, text=True)
        for name, options in (
            ("train.py", (*data, "--defences", few)),
            ("train.py", (*data, "--defences", few)),
            ("attacks.py", data),
            ("table.py", (*common, "--out", tmp_path)),
        )
    ]
    for done in said:
        assert done.returncode == 0, done.stderr
    assert said[0].stdout.count("seed 0: ") == 3 + 3 + 2
    assert said[1].stdout == ""  # all was there
    assert "| MemGuard, paper | 100 | 60.7 | 50.1 | 68.7 | 69.1 | 52.1 | 68.8 |" in said[3].stdout
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert rows["dropout"]["attacks"]["neural"]["accuracy"][0] > 0.5
    assert rows["undefended"]["train"] == [1.0]
    assert rows["memguard"]["test"] == rows["undefended"]["test"]
    assert (tmp_path / "defences.svg").is_file()
