# ruff: noqa: T201
"""What `make check` asks of the English: words to avoid, and the length of sentences.

``python tests/support/prose.py [PATH...]`` reads the pages, the docstrings that the reference
shows, and the longer strings of the package. It fails where one has a word of `AVOID`, or where
a sentence of the README, a tutorial or a guide has more than 30 words. ``[tool.prose] later`` of
`pyproject.toml` lists what is still to be rewritten, ``data`` what is not prose.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 30
READ_FIRST = ("README.md", "docs/index.md", "docs/tutorials/*", "docs/guides/*")
PAGES = ("*.md", "docs/**/*.md", "recipes/**/*.md", "canary/**/*.md")

AVOID = {
    r"(?:stands?|stood)(?! for)": "appear, be",
    r"tells?|told": "say, report, show, distinguish",
    r"leav(?:e|es|ing) \w* ?away|left away": "omit",
    r"in earnest": "in real use",
    r"rooms?": "package, section",
    r"(?:lies?|lay|lain)(?! out)": "be",
    r"as it were": "",
    r"so many": "the number itself",
    r"such as (?:are|is)": "those that",
    r"(?<!there )(?:is|are) none": "is not a ...",
    r"whoever": "anyone who, an attacker who",
    r"likeliest": "most likely",
    r"likelier": "more likely",
    r"of (?:its|their) own accord": "automatically",
    r"by (?:itself|themselves)": "alone, individually",
    r"(?:holds?|held) against": "compare with",
    r"(?:brings?|brought) \w* ?out": "extract, show",
    r"(?:comes?|came) by": "get",
    r"nothing to judge by": "not enough data to decide",
    r"members? can be told": "training samples can be identified",
}
"""What is not written in prose, as patterns of whole words, and what is written instead."""

AVOIDED = re.compile(
    "|".join(rf"(?P<w{n}>\b(?:{p})\b)" for n, p in enumerate(AVOID)), re.IGNORECASE
)


def of_page(text: str) -> Iterator[tuple[int, str]]:
    """(line, paragraph) of Markdown without code, comments, targets of links and tables' rules."""
    text = re.sub(
        r"^(```+|~~~+).*?^\1\s*$|<!--.*?-->", _blank, text, flags=re.DOTALL | re.MULTILINE
    )
    text = bare(text)
    text = re.sub(r"(\]\()[^)\s]*", r"\1", text)
    line = 1
    for block in re.split(r"(\n(?:\s*\n)+|\n(?=\s*(?:[-*>#|]|\d+\.) ))", text):
        if block.strip():
            yield line, block
        line += block.count("\n")


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def of_module(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of docstrings in the reference, and of other strings from four words on."""
    tree = ast.parse(text)
    for node, shown in docstrings(tree):
        if shown:
            yield node.lineno, bare(node.value)
    those = {node for node, _ in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in those:
            said = bare(node.value)
            if len(re.findall(r"\b[a-z]+\b", said)) >= 4:
                yield node.lineno, said


def bare(text: str) -> str:
    """A docstring or message with its code left out."""
    return re.sub(r"``.+?``|`[^`]+`|\bNone\b", "code", text)


def docstrings(tree: ast.AST, shown: bool = True) -> Iterator[tuple[ast.Constant, bool]]:
    """Docstrings, and whether the reference shows them."""
    for node in ast.iter_child_nodes(tree):
        inner = shown
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            public = not node.name.startswith("_") or node.name == "__init__"
            inner = public and (not isinstance(tree, ast.Module) or node.name in referred())
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.value, shown and not isinstance(tree, ast.Module)
        else:
            yield from docstrings(node, inner)


@cache
def referred() -> frozenset[str]:
    """Every word of the reference."""
    pages = ROOT.glob("docs/reference/*.md")
    return frozenset(word for p in pages for word in re.findall(r"\w+", p.read_text("utf-8")))


def sentences(paragraph: str) -> list[str]:
    """A paragraph's sentences; a table has none."""
    if paragraph.lstrip().startswith("|"):
        return []
    return re.split(r"(?<=[.!?])[)*\"']*\s+(?=[A-Z0-9(\[*\"']|code)", " ".join(paragraph.split()))


def found_in(path: Path) -> Iterator[str]:
    """What is wrong in a file, a line each."""
    where = path.relative_to(ROOT).as_posix()
    read = of_page if path.suffix == ".md" else of_module
    for line, text in read(path.read_text(encoding="utf-8")):
        for word in AVOIDED.finditer(text):
            at = line + text[: word.start()].count("\n")
            instead = [*AVOID.values()][int((word.lastgroup or "w0")[1:])]
            if word[0].lower().startswith("room") and where.startswith(("CONTRIB", "canary/")):
                continue
            yield f"{where}:{at}: {word[0]!r}" + (f" (rather: {instead})" if instead else "")
        if any(fnmatch(where, pattern) for pattern in READ_FIRST):
            for sentence in sentences(text):
                if (words := len(re.findall(r"[\w'’.,%-]*\w", sentence))) > MOST_WORDS:
                    yield f"{where}:{line}: {words} words: {sentence[:70]}..."


def files() -> list[Path]:
    """All that has prose."""
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(pages | {*(ROOT / "canary").rglob("*.py")})


def main(paths: list[str]) -> int:
    """Print what is wrong in these files, or in all but those for later."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)["tool"]["prose"]
    left = [*settings["data"], *settings.get("later", [])]
    if paths:
        read = [p for path in paths for p in files() if p.is_relative_to(Path(path).resolve())]
    else:
        read = [
            path
            for path in files()
            if not any(fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in left)
        ]
    wrong = [line for path in read for line in found_in(path)]
    print(*wrong, f"{len(wrong)} places in {len(read)} files", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
