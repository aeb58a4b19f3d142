"""What README and docs say exists: files, exports, guides, benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import PAGES, ROOT, fences, name

import canary

page = pytest.mark.parametrize("page", PAGES, ids=name)


@page
def test_local_links_and_pictures_exist(page):
    # The strict build of the docs checks links between pages, not pictures, and no README.
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


@page
def test_python_examples_use_exports_and_say_so(page):
    # That they run is seen in test_examples; they should also show the short names.
    for block in fences(page, "python"):
        below = re.compile(r"^from (canary\.[\w.]+) import .+$", re.MULTILINE)
        used = re.findall(r"\bcanary\.(\w+)", below.sub("", block))
        assert set(used) <= {*canary.__all__}


def test_every_page_is_in_the_navigation():
    shown = (ROOT / ".zensical.toml").read_text(encoding="utf-8")
    pages = {str(p.relative_to(ROOT / "docs")) for p in PAGES if p.is_relative_to(ROOT / "docs")}
    decisions = {p for p in pages if p.startswith("adr/")} - {"adr/index.md"}
    assert set(re.findall(r'"([\w/-]+\.md)"', shown)) == pages - decisions


PRINTED = {"canary verify", "canary verdict", "canary dry run"}
"""Kinds of documents that are printed and not kept."""


def test_every_kind_of_file_has_a_row():
    table = (ROOT / "docs/guides/records.md").read_text(encoding="utf-8").partition("## ")[0]
    modules = Path(canary.__file__).parent.rglob("*.py")
    said = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    kinds = set(
        re.findall(r'(?:^KIND(?:, SCHEMA)? = |\bkind=)"(canary [\w ]+)"', said, re.MULTILINE)
    )
    assert kinds >= PRINTED
    assert set(re.findall(r"`(canary [\w ]+)`", table)) == kinds - PRINTED


def test_every_folder_of_a_run_that_goes_on_is_told_of():
    """Commands that keep pieces are those that tell of them when they are stopped."""
    table = (ROOT / "docs/guides/records.md").read_text(encoding="utf-8").partition("## ")[0]
    told = "".join(line for line in table.splitlines() if "canary unfinished run" in line)
    pages = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    keep = [
        text.partition("\n")[0]
        for text in pages.split("\n## canary ")
        if "keeps what is finished until then" in " ".join(text.split())
    ]
    assert keep == ["audit", "verbatim", "score", "membership text"]
    assert all(f"`{command}`" in told for command in [*keep, "membership models"])


def test_the_picture_of_rooms_has_each_once():
    picture = fences(ROOT / "CONTRIBUTING.md", "text")[0]
    shown = re.findall(r"^([\w.]+)/? {2,}", picture, re.MULTILINE)
    package = Path(canary.__file__).parent
    rooms = [path.parent.name for path in package.glob("*/__init__.py")]
    assert sorted(shown) == sorted([*rooms, "demo.py", "errors.py", "registry.py"])
