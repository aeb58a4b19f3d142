"""The Penn Treebank recipe as its tests run it."""

from __future__ import annotations

import json

from recipe_scripts import RECIPES, run_script

from canary import CanarySet

RECIPE = RECIPES / "secret_sharer"


def strings(data):
    """Every string in parsed JSON."""
    if isinstance(data, str):
        return {data}
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return {text for part in parts for text in strings(part)}


def check_no_secret(folder, results):
    canaries = CanarySet.load(folder / "canaries.json")
    secrets = {part for c in canaries for part in (c.fill, canaries.text(c))}
    assert not secrets & strings(results)


def run_study(name, work):
    return run_script(RECIPE / "studies.py", name, "--quick", "--work", work)


def study_results(work, name):
    return json.loads((work / name / "results.json").read_text())
