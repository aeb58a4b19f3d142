"""The package as a whole: light to import, honest about its names and its needs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules

import pytest

import canary

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "canary"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
HEAVY = {"torch", "transformers", "datasets", "matplotlib", "scipy", "pandas", "tokenizers"}


def fresh(code: str) -> object:
    """Run `code` in a new interpreter that turns warnings into errors; it prints JSON last."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_the_standard_library_only():
    loaded = fresh(
        "import sys, json; before = set(sys.modules); import canary;"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    assert set(loaded) - sys.stdlib_module_names == {"canary"}


def test_the_citation_names_this_version():
    for path in ("CITATION.cff", "docs/guides/paper.md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"version(: | = {{){re.escape(canary.__version__)}\b", text), path


def test_a_wrong_name_gets_the_near_ones():
    with pytest.raises(AttributeError, match="no attribute 'adit'; did you mean Audit or audit"):
        canary.adit  # noqa: B018
    assert not hasattr(canary, "qqqq")


@pytest.mark.parametrize(
    ("name", "wrong", "near"),
    [
        ("audit", "start_tokn", "start_token or start_texts"),
        ("generate", "repetition", "repetitions or per_repetition"),
        ("plan", "max_exposure", "max_exposure_bits or exposure_bits"),
        ("check", "max_exposure", "max_exposure_bits or max_epsilon"),
        ("report", "model", "model_name"),
    ],
)
def test_a_wrong_keyword_gets_the_near_ones(name, wrong, near):
    with pytest.raises(TypeError, match=rf"keyword argument '{wrong}'; did you mean {near}\?"):
        getattr(canary, name)(**{wrong: 1})


def test_help_loads_nothing_heavy():
    loaded = fresh(
        "import sys, json\n"
        "sys.argv = ['canary', '--help']\n"
        "from canary.cli.main import run\n"
        "try:\n"
        "    run()\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code\n"
        "print()\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))\n"
    )
    assert "typer" in loaded
    assert not HEAVY & set(loaded)


def test_command_shows_its_help():
    command = Path(sys.executable).with_name("canary")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "generate" in done.stdout
    assert done.stderr == ""


def test_exports_are_sorted_and_resolve():
    assert canary.__all__ == sorted(set(canary.__all__))
    for name in canary.__all__:
        assert callable(getattr(canary, name)), name
    assert dir(canary) == sorted([*canary.__all__, "__version__"])


def test_exports_are_the_same_for_type_checkers():
    # The imports under TYPE_CHECKING, `from home import name as name`, are what mypy sees.
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    resolved = {
        name: (getattr(canary, name).__module__, getattr(canary, name).__name__)
        for name in canary.__all__
    }
    assert seen == resolved


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'expose'"):
        canary.expose  # noqa: B018 - the access is the test


def test_every_export_is_callable_after_every_submodule_was_imported():
    # A submodule that is imported becomes an attribute of its package and would hide an
    # export of the same name (which would then be called as a module).
    kinds = fresh(
        "import canary, json, pkgutil\n"
        "from importlib import import_module\n"
        "for module in pkgutil.walk_packages(canary.__path__, 'canary.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        import_module(module.name)\n"
        "print(json.dumps({n: callable(getattr(canary, n)) for n in canary.__all__}))\n"
    )
    assert kinds == dict.fromkeys(canary.__all__, True)


def test_no_module_under_the_package_bears_the_name_of_an_export():
    modules = {module.name for module in iter_modules(canary.__path__)}
    assert not modules & set(canary.__all__)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_room_opens_with_a_docstring_only(room):
    tree = ast.parse((room / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


def test_every_import_is_a_declared_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = chain(project["dependencies"], *project["optional-dependencies"].values())
    declared = {normal(re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0]) for line in lines}
    homes = packages_distributions()
    undeclared = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in imported(path) - sys.stdlib_module_names - {"canary"}
        if not {normal(home) for home in homes.get(name, [name])} & declared
    }
    assert not undeclared


def imported(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
