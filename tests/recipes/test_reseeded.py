"""The count of false alarms between seeds, in little; and the figures that are kept of it."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from recipe_scripts import RECIPES, modules

RECIPE = RECIPES / "reseeded"


@pytest.mark.slow
def test_it_trains_compares_and_counts(tmp_path, monkeypatch, capsys):
    words = ["--seeds", "6", "--changed", "3", "--groupings", "4", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["reseeded.py", *words])
    with modules(RECIPE) as recipe:
        script = recipe["reseeded"]
        script.PLAIN = dataclasses.replace(script.PLAIN, sentences=20, epochs=1, units=8)
        script.main()
    found = json.loads((tmp_path / "out").read_text())
    assert len(set(found["mean_exposure_bits, plain"])) > 1
    counted = {name: value["of"] for name, value in found.items() if isinstance(value, dict)}
    assert list(counted.values()) == [1, 2, 4, 30, 2]
    assert json.loads(capsys.readouterr().out) == {name: found[name] for name in counted}


def test_the_page_tells_what_is_kept():
    kept = json.loads((RECIPE / "results.json").read_text())
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| ([\d,]+) of ([\d,]+) \| ([\d.]+) %", page)
    found = [tuple(float(part.replace(",", "")) for part in row) for row in rows]
    assert found == [
        (value["alarms"], value["of"], pytest.approx(100 * value["share"], abs=0.01))
        for value in kept.values()
        if isinstance(value, dict)
    ]
