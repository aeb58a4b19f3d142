"""The page of the four papers: each table and figure once, and links that lead somewhere."""

from __future__ import annotations

import json
import re

import pytest
from recipe_scripts import RECIPES

PAGE = RECIPES / "papers.md"
COUNTS = {
    "The Secret Sharer": {"table": 6, "figure": 11},
    "Systematic Evaluation of Privacy Risks": {"table": 7, "figure": 12},
    "Enhanced Membership Inference Attacks": {"table": 6, "figure": 5},
    "Have you forgotten?": {"table": 2, "figure": 2},
}
STATES = {"whole", "one run", "other data", "in part", "missing", "no result"}
BESIDE = ("agrees: ", "partly: ", "differs: ", "not compared in numbers")


def sections():
    """Under the name of each paper the cells of its rows."""
    _, *parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    for part in parts:
        heading, _, text = part.partition("\n")
        rows = [line[1:-1].split("|") for line in text.splitlines() if line[:1] == "|"][2:]
        yield heading.partition(" (")[0], [[cell.strip() for cell in row] for row in rows]


def anchors(path):
    """What links within a page lead to, as GitHub makes it of headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


def test_every_table_and_figure_is_there_once():
    found = dict(sections())
    assert found.keys() == COUNTS.keys()
    for paper, counts in COUNTS.items():
        for kind, count in counts.items():
            names = [row[0] for row in found[paper]]
            numbers = re.findall(r"\d+", " ".join(n for n in names if n.startswith(kind)))
            assert sorted(map(int, numbers)) == [*range(1, count + 1)], (paper, kind)


@pytest.mark.parametrize(("paper", "rows"), [*sections()], ids=[*COUNTS])
def test_every_row_has_a_state_and_says_why_or_where(paper, rows):
    for of, state, ours, hours, beside, differs in rows:
        assert state in STATES, of
        if state in ("missing", "in part"):
            assert differs, f"{paper}: {of} does not say what is missing"
        if state not in ("missing", "no result"):
            assert "](" in ours, f"{paper}: {of} leads nowhere"
            assert "`" in ours, f"{paper}: {of} has no command"
            assert beside.startswith(BESIDE), f"{paper}: {of} is not set beside the paper"
        if state == "no result":
            assert ours == hours == beside == "", of


def test_the_hours_of_studies_are_those_that_are_kept():
    _, rows = next(sections())
    seen = 0
    for of, _, ours, hours, *_ in rows:
        studies = re.findall(r"`studies\.py ([\w -]+)`", ours)
        assert len(studies) <= len(hours.split("; ")), of
        for commands, shown in zip(studies, hours.split("; "), strict=False):
            kept = [
                json.loads((RECIPES / "secret_sharer" / f"{name}.json").read_text())
                for name in commands.split()
            ]
            epochs = [e for one in kept for row in one["trainings"].values() for e in row["epochs"]]
            spent = sum(e["seconds"] + e["audit_seconds"] for e in epochs) / 3600
            assert shown == f"{spent:.1f}", of
            seen += 1
    assert seen > 10


def test_links_lead_to_headings_that_are_there():
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", PAGE.read_text(encoding="utf-8"))
    assert len(links) > 30
    for path, anchor in links:
        there = RECIPES / path
        assert there.is_file(), path
        assert not anchor or anchor in anchors(there), f"{path}#{anchor}"


def test_commands_are_scripts_that_are_there():
    text = PAGE.read_text(encoding="utf-8")
    for folder, script in re.findall(r"\((\w+)/README\.md[^)]*\): `(\w+\.py)", text):
        assert (RECIPES / folder / script).is_file(), f"{folder}/{script}"
