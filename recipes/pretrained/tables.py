"""The tables of README.md, from results.json.

Usage::

    python tables.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def keep(path: Path, section: str, found: dict[str, Any]) -> None:
    """Put a section into the results, beside those that are there."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    text = json.dumps({**kept, section: found}, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def shown(text: str) -> str:
    """The beginning of a text, on one line."""
    return text.replace("\n", "\\n").replace("\t", "\\t")[:36] + "…"


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """Markdown; columns whose name ends with ``#`` are numbers, to the right."""
    names = head.split(" | ")
    rule = ["---:" if name.endswith("#") else "---" for name in names]
    lines = [[name.rstrip("# ") for name in names], rule, *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def runtime(results: dict[str, Any]) -> str:
    """The texts whose bits are known from llama.cpp."""
    rows = [
        (
            f"`{shown(one['text'])}`".replace("|", "\\|"),
            len(one["tokens"]),
            f"{here:.3f}",
            f"{one['bits']:.3f}",
            f"{one['bits_as_shipped']:.1f}",
        )
        for one, here in zip(results["runtime"]["texts"], results["converted"]["bits"], strict=True)
    ]
    head = "text | tokens # | bits here # | bits, llama.cpp in float32 # | bits, as shipped #"
    return table(head, rows)


TABLES = {"runtime": runtime}


def written(page: str, results: dict[str, Any]) -> str:
    """A page with each table of `TABLES` between its two marks."""
    for name, made in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise SystemExit(f"tables: the page has no place for the table {name!r}")
        page = before + begin + made(results) + end + after
    return page


def main() -> None:
    page = HERE / "README.md"
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    page.write_text(written(page.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
