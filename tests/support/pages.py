"""The pages for readers, and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

MARK = "<!-- not run by the tests -->"
"""Stands on a line of its own before a block that is not run."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what it holds, whether it is marked as not run."""

    language: str
    text: str
    marked: bool


def name(page: Path) -> str:
    """How a page is called in tests."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"^({re.escape(MARK)}\n)?```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [Block(b, c, bool(a)) for a, b, c in pattern.findall(text)]


def fences(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return [block.text for block in blocks(page) if block.language == language]
