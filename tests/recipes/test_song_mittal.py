"""The Location30 recipe on made-up records: from training to the table, by its command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "song_mittal" / "location30.py"

pytestmark = pytest.mark.timeout(600)  # mostly for imports on a busy machine


def test_table_has_the_paper_beside_every_attack(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(1, 31, 4100)
    bits = np.packbits(rng.random((4100, 446)) < 0.1 + 0.3 * (labels[:, None] % 7 == 0), axis=1)
    np.savez(tmp_path / "location30.npz", bits=bits, labels=labels, n_features=446)
    command = [sys.executable, RECIPE, "--data", tmp_path, "--work", tmp_path / "work"]
    done = subprocess.run(
        [*command, "--seeds", "1", "--epochs", "1"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^\| (\S+) \| (\S+) \| \d+\.\d \|$", done.stdout, re.MULTILINE))
    assert len(rows) == 11
    assert (rows["modified-entropy"], rows["loss"]) == ("78.1", "–")
    assert (tmp_path / "work" / "seed-0" / "report" / "report.html").is_file()
