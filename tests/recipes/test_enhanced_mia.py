"""Fleets and every attack of the recipe in little; and that the page tells what is kept."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from canary.models.torch_training import TorchTraining

RECIPE = Path(__file__).parents[2] / "recipes" / "enhanced_mia"
MODULES = ("networks", "training", "run")


@pytest.fixture
def recipe(monkeypatch):
    """The modules of the recipe, as beside each other."""
    monkeypatch.syspath_prepend(str(RECIPE))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name, None)


def small(recipe, **changed):
    train = TorchTraining(
        build=recipe["networks"].for_location30,
        epochs=15,
        batch_size=16,
        learning_rate=0.1,
        device="cpu",
    )
    counts = {"members": 120, "population": 160, "models": 6, "targets": 2, "distilled": 4}
    counts |= {"points": 4, "repeats": 4, "at_once": 16}
    return recipe["training"].Configuration(name="small", train=train, **counts | changed)


def made_up(samples):
    """Records whose labels are half chance, so that members have to be memorized."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, samples)
    x = rng.random((samples, 446)) < 0.3
    x[:, :3] = y[:, None] == np.arange(3)
    return x.astype(np.float32), np.where(rng.random(samples) < 0.5, rng.integers(0, 3, samples), y)


def test_attacks_find_what_was_memorized(recipe, tmp_path):
    configuration = small(recipe)
    data = recipe["training"].drawn(made_up(400), configuration)
    told = []
    found = recipe["training"].tables(data, configuration, tmp_path / "work", told.append)
    assert found.without.origin.target == found.main.origin.models[0]
    assert [one.origin.target for one in found.distilled] == list(found.main.origin.models[:2])
    assert not any(one.member.any() for one in found.distilled)  # of the population alone
    gone = found.main.member[0] & ~found.without.member
    assert gone.sum(axis=0).tolist() == (4 * gone.any(axis=0)).tolist()
    assert gone.any(axis=0).sum() == 4

    result = recipe["run"].studied(found, configuration, tmp_path)
    assert result["accuracy_on_members"]["mean"] > 0.95
    for one in (*result["attacks"], *result["first_target"]):
        assert one["auc"]["mean"] > 0.65, one
    assert result["agreement"]["names"] == ["truth", "L", "S", "P", "R", "D"]
    assert result["agreement"]["samples"] == [4, 120]
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        *(f"small-{kind}.svg" for kind in ("roc", "growth", "scatter-sp", "scatter-rd")),
        *(f"small-null-{target}-{number}.svg" for target in (0, 1) for number in (0, 1)),
    }
    recipe["training"].tables(data, configuration, tmp_path / "work", told.append)
    assert told[-1] == "small-without, seed 99: 16 of 16"
    assert len([line for line in told if "without" in line]) == 18  # the second time at once


def test_the_page_tells_what_is_kept(recipe):
    kept = json.loads((RECIPE / "results.json").read_text())
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    assert kept
    for result in kept.values():
        assert "\n".join(recipe["run"].lines(result)) in page


@pytest.mark.data
def test_both_data_sets_are_read(recipe, data_dir):
    x, y = recipe["training"].read_mnist(data_dir / "mnist")
    assert x.shape == (60000, 28, 28)
    assert (float(x.min()), float(x.max()), np.bincount(y)[1]) == (0.0, 1.0, 6742)
    x, y = recipe["training"].read_location30(data_dir / "location30")
    assert (x.shape, int(x.sum()), int(y.max())) == ((5010, 446), 269047, 29)


def test_digits_are_read_behind_their_headers(recipe, tmp_path):
    for name, header, body in (("images-idx3", 16, bytes(784) + b"\xff" * 784),
                               ("labels-idx1", 8, b"\x03\x09")):  # fmt: skip
        with gzip.open(tmp_path / f"train-{name}-ubyte.gz", "wb") as file:
            file.write(b"\x01" * header + body)
    x, y = recipe["training"].read_mnist(tmp_path)
    assert x.mean(axis=(1, 2)).tolist() == [0.0, 1.0]
    assert y.tolist() == [3, 9]
