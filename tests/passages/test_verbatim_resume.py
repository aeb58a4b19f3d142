"""A verbatim test that is killed at any moment and started again gives the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from long_runs import Nursery, survive
from small_models import CHARACTERS


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_moments_gives_the_same_bytes(tmp_path, kills):
    rng, found, folder = np.random.default_rng(0), [], tmp_path / "verbatim"
    texts = ["".join(rng.choice(list(CHARACTERS), 40)) for _ in range(9)]

    def check():
        found.append((folder / "verbatim.json").read_bytes())
        assert found[-1] == found[0]
        assert [path.name for path in folder.iterdir()] == ["verbatim.json"]

    with Nursery() as nursery:
        survive(
            nursery,
            kills=kills,
            rng=random.Random(kills),
            check=check,
            clean=Path(folder / "verbatim.json").unlink,
            task="verbatim",
            given=texts,
            out=str(folder),
            prefix=[4, 6],
            suffix=3,
            near=1,
            near_width=2,
            stride=12,
        )
    assert len(found) >= 2
