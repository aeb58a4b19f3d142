"""A language model trained by DP-SGD beside the gate's bound, in little; and the kept figures."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "private"


def script():
    spec = importlib.util.spec_from_file_location("private", RECIPE / "private.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_noise_hides_what_is_seen_without_it(tmp_path, monkeypatch):
    module = script()
    monkeypatch.setattr(module, "noise_for", lambda epsilon: 0.0 if math.isinf(epsilon) else 50.0)
    words = ["--epsilons", "inf", "0.1", "--runs", "1", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["private.py", *words])
    module.main()
    without, hidden = json.loads((tmp_path / "out").read_text())
    assert without["median"] > 2
    assert hidden["median"] < 0.5


def test_the_page_tells_what_is_kept():
    kept = json.loads((RECIPE / "results.json").read_text())
    for one in kept:
        if one["epsilon"] != "infinite":  # the accountant's is an upper bound
            assert max(one["bounds"]) <= one["epsilon"]
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+|infinite) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", page, re.M)
    expected = [
        (
            str(one["epsilon"]).removesuffix(".0"),
            f"{one['noise']:.2f}",
            f"{one['median']:.2f}",
            f"{max(one['bounds']):.2f}",
        )
        for one in kept
    ]
    assert rows == expected
