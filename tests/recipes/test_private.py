"""A language model trained by DP-SGD beside the gate's bound, in little; and the kept figures."""

from __future__ import annotations

import json
import math
import re

import pytest
from recipe_scripts import RECIPES, modules

RECIPE = RECIPES / "private"


@pytest.mark.slow
def test_noise_hides_what_is_seen_without_it(tmp_path, monkeypatch):
    words = ["--epsilons", "inf", "0.1", "--runs", "1", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["private.py", *words])
    with modules(RECIPE) as recipe:
        script = recipe["private"]
        noise = lambda epsilon: 0.0 if math.isinf(epsilon) else 50.0  # noqa: E731
        monkeypatch.setattr(script, "noise_for", noise)
        script.main()
    without, hidden = json.loads((tmp_path / "out").read_text())
    assert without["median"] > 2
    assert hidden["median"] < 0.5


def test_the_page_tells_what_is_kept():
    kept = json.loads((RECIPE / "results.json").read_text())
    for one in kept:
        if one["epsilon"] != "infinite":  # the accountant's is an upper bound
            assert max(*one["bounds"], *one["gaussian_bounds"]) <= one["epsilon"]
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    number, bound = r"([\d.]+)", r"([\d.]+) \(([\d.]+)\)"
    row = rf"^\| ([\d.]+|infinite) \| {number} \| (\d+) to (\d+) \| {bound} \| {bound} \|$"
    rows = re.findall(row, page, re.M)
    assert rows == [
        (
            str(one["epsilon"]).removesuffix(".0"),
            f"{one['noise']:.2f}",
            *(str(of(one["right"])) for of in (min, max)),
            *(f"{x:.2f}" for x in (one["median"], max(one["bounds"]))),
            *(f"{x:.2f}" for x in (one["gaussian_median"], max(one["gaussian_bounds"]))),
        )
        for one in kept
    ]
