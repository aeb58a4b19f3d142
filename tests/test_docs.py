"""What README and docs show exists: files, exports, commands and their options."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import canary

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def fences(path: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(path: Path) -> set[tuple[str, frozenset[str]]]:
    """Each `canary` command of a page, as its name and its options."""
    found = set()
    for block in fences(path, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if len(words) > 1 and words[0] == "canary" and not words[1].startswith("-"):
                found.add((words[1], frozenset(w for w in words if w.startswith("--"))))
    return found


@cache
def help_of(command: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("canary"), command, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@page
def test_local_links_and_pictures_exist(page):
    # The strict build of the docs checks links between pages, not pictures, and no README.
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


@page
def test_python_examples_compile_and_use_exports_only(page):
    imported = re.compile(r"^from (canary\.[\w.]+) import (.+)$", re.MULTILINE)
    for block in fences(page, "python"):
        compile(block, page.name, "exec")
        for module, names in imported.findall(block):
            found = importlib.import_module(module)
            assert {name.strip() for name in names.split(",")} <= {*found.__all__}
        used = re.findall(r"\bcanary\.(\w+)", imported.sub("", block))
        assert set(used) <= {*canary.__all__}


@page
def test_commands_and_their_options_are_in_the_help(page):
    for command, options in commands(page):
        assert {o for o in options if not re.search(rf"{o}\b", help_of(command))} == set(), command
