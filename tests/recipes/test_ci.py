"""The template for CI: its test fails after a change of the training, and passes without it."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from pytest_projects import Project
from recipe_scripts import RECIPES

RECIPE = RECIPES / "ci"


def commands() -> list[str]:
    """What the workflow runs."""
    text = (RECIPE / "memorization.yml").read_text(encoding="utf-8")
    return re.findall(r"^ +- run: (.*)$", text, re.MULTILINE)


def test_the_workflow_runs_the_test_with_extras_that_exist():
    install, run = commands()
    extras = re.search(r'"\./canary-checkout\[(.*)\]"', install)[1].split(",")
    project = (RECIPE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    assert run.startswith("python -m pytest ")
    assert (RECIPE / run.split()[3]).is_file()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("deduplicate", [True, False])
def test_it_fails_when_repeated_lines_stay_in(tmp_path, deduplicate):
    project = Project(tmp_path)
    shutil.copytree(RECIPE, project.folder, dirs_exist_ok=True)
    config = project.folder / "training.json"
    settings = json.loads(config.read_text())
    assert settings["deduplicate"]
    config.write_text(json.dumps({**settings, "deduplicate": deduplicate}))
    # Not -W error: what transformers warns of is none of this test's.
    done = project.pytest(*commands()[1].split()[3:], "-W", "default")
    assert done.returncode == (0 if deduplicate else 1), done.stdout
    line = re.search(r"^(\w+) +test_memorization.py::\S+ (.*)$", done.stdout, re.MULTILINE)
    if deduplicate:
        assert line[1] == "passed"
    else:
        assert line[1] == "memorized"
        assert "canaries with 32 copies" in line[2]
