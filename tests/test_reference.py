"""The reference is whole and as the code is now."""

from __future__ import annotations

import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from docstrings import markdown
from pages import PAGES, fences, name
from references import (
    BEHIND,
    COMMANDS,
    PARTS,
    PYTHON,
    command_line,
    documented,
    parts,
    python,
)
from typer.main import get_command

import canary
from canary.cli.commands import app
from canary.cli.help_pages import commands_of

AGAIN = "behind the code; run tests/support/references.py"


def test_command_line_is_what_the_help_says():
    assert COMMANDS.read_text(encoding="utf-8") == command_line(), AGAIN


def test_every_command_is_there_with_all_its_options():
    written = COMMANDS.read_text(encoding="utf-8").partition(BEHIND)[2]
    shown = dict(
        re.findall(r"^## canary ([^\n]+)\n(.*?)(?=^## |\Z)", written, re.MULTILINE | re.DOTALL)
    )
    commands = commands_of(get_command(app))
    assert sorted(shown) == sorted(commands)
    for command, text in shown.items():
        options = {o for p in commands[command].params for o in p.opts if o.startswith("--")}
        assert options <= set(re.findall(r"--[a-z-]+", text)), command


def test_python_is_what_the_exports_are():
    assert PYTHON.read_text(encoding="utf-8") == python(), AGAIN


def test_packages_are_what_is_shown_of_them():
    assert PARTS.read_text(encoding="utf-8") == parts(), AGAIN


def test_types_are_not_code_word_by_word():
    """Only names are: of parameters, errors and classes."""
    returned = "Returns\n-------\nfloat64 array of shape (n,), in the order of ``texts``\n"
    assert "- float64 array of shape (n,), in" in markdown(returned)
    assert "- `a`, `*b` (int)" in markdown("Parameters\n----------\na, *b : int\n")


def test_every_export_is_there_once():
    headings = re.findall(r"^### (\S+)$", PYTHON.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(headings)) == len(headings)
    exports = [name for name in headings if name.count(".") == 1 and name.startswith("canary.")]
    assert sorted(exports) == sorted(f"canary.{name}" for name in canary.__all__)
    assert not documented(PYTHON) & documented(PARTS)


@pytest.mark.parametrize("name", canary.__all__)
def test_every_export_has_an_example(name):
    assert re.search(r"^Examples\n-+\n>>> ", inspect.getdoc(getattr(canary, name)), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_examples_import_is_there(page):
    everything = documented(PYTHON) | documented(PARTS)
    imported = re.compile(r"^from (canary\.[\w.]+) import (.+)$", re.MULTILINE)
    for block in fences(page, "python"):
        for module, names in imported.findall(block):
            assert {f"{module}.{n.strip()}" for n in names.split(",")} <= everything


NAMED = re.compile(r"\bcanary\.[a-z_]+\.\w[\w.]*\w")


def stands(named: str, everything: set[str]) -> bool:
    """Whether a name is in the reference, or a module or a part of something that is."""
    return any(
        one == named or one.startswith(f"{named}.") or named.startswith(f"{one}.")
        for one in everything
    )


def guides() -> list[Path]:
    return [page for page in PAGES if page.parent.name not in ("adr", "reference")]


@pytest.mark.parametrize("page", guides(), ids=name)
def test_what_pages_name_is_there(page):
    everything = documented(PYTHON) | documented(PARTS)
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    assert [one for one in sorted(named) if not stands(one, everything)] == []


def test_what_docstrings_in_the_reference_name_is_there():
    everything = documented(PYTHON) | documented(PARTS)
    behind = {}
    for one in everything:
        for named in re.findall(r"`(canary\.[a-z_]+\.[\w.]+)`", docstring(one)):
            if not stands(named, everything):
                behind[one] = named
    assert behind == {}


def docstring(named: str) -> str:
    """What a class, function or constant says of itself."""
    found = pkgutil.resolve_name(named)
    return (inspect.getdoc(found) or "") if callable(found) else ""
