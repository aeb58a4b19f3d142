"""The fleets of Location30 on made-up records: three tables, tied to their target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "enhanced_mia" / "fleets.py"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_tables_belong_together(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(1, 31, 4100)
    bits = np.packbits(rng.random((4100, 446)) < 0.1 + 0.3 * (labels[:, None] % 7 == 0), axis=1)
    np.savez(tmp_path / "location30.npz", bits=bits, labels=labels, n_features=446)
    command = [sys.executable, RECIPE, "--data", tmp_path, "--work", tmp_path / "work"]
    small = ["--models", "4", "--points", "2", "--each", "2", "--epochs", "1"]
    done = subprocess.run([*command, *small], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = ("reference", "distilled", "leave-one-out")
    of, apart, left = (np.load(tmp_path / "work" / f"{name}.npz") for name in names)
    judged = of["group"] == "judged"
    assert of["losses"].shape == (4, 4100)
    assert (of["member"][:, judged].sum(axis=0) == 2).all()
    assert not of["member"][:, ~judged].any()
    assert not apart["member"][:, judged].any()
    assert str(of["target"]) == ""
    assert {str(apart["target"]), str(left["target"])} == {str(of["models"][0])}
    gone = of["member"][0] & ~left["member"]
    assert gone.sum(axis=1).tolist() == [1] * 4
    assert len(set(gone.argmax(axis=1))) == 2
