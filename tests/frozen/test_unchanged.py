"""What every command gives is what it gave before: its words, its documents, its pages.

``python tests/frozen/test_unchanged.py`` writes the expected texts anew; read their diff.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from cases import CASES, lay  # noqa: E402
from html_pages import Page  # noqa: E402

from canary.cli.main import run  # noqa: E402

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
CHANGING = (
    (
        re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?([+-]\d\d:\d\d|Z)?)?( UTC)?"),
        "DATE",
    ),
    (re.compile(r"(?<![.\w])(?=\d*[a-f])[0-9a-f]{12,}\b"), "DIGEST"),
    (re.compile(r"(?<=Report number\n)[0-9a-f]{8}"), "DIGEST"),
    (re.compile(r"(?<=Report number )[0-9a-f]{8}"), "DIGEST"),
    (re.compile(r"(?<=has the number )[0-9a-f]{8}"), "DIGEST"),
    (re.compile(r"(?<=Report number \| )[0-9a-f]{8}"), "DIGEST"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|seconds|minutes|h)\b"), "TIME"),
    (re.compile(r"\b\d+\.\d+\.\d+(\+\w+|\.dev\d+)?\b"), "VERSION"),
)
PROGRESS = re.compile(
    r".*: (\d+ % \(.* of .*\)|done after .*)|.*measurement takes at most .*|[^:;]+: TIME$"
)
"""Lines that come where a machine is slow: progress, and the warning before a long measurement."""
CHANGING_KEYS = {"seconds", "versions", "created", "environment", "hardware", "device_name"}


def steady(text: str, folder: Path) -> str:
    """A text without what changes from run to run."""
    for path in (folder.resolve(), folder):
        text = text.replace(str(path), "FOLDER")
    for pattern, name in CHANGING:
        text = pattern.sub(name, text)
    kept = (
        re.sub(r"(?<=\S)[ ─]{2,}", "  ", line).rstrip(" ─")
        for line in text.splitlines()
        if not PROGRESS.match(line)
    )
    return "\n".join(kept)


def plain(value: object) -> object:
    """A document without what changes, and in few lines."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in sorted(value.items()) if k not in CHANGING_KEYS}
    if isinstance(value, list):
        if len(value) > 30 and all(isinstance(one, int | float) for one in value):
            return ["numbers", len(value), *value[:: len(value) // 10], float(sum(value))]
        return [plain(one) for one in value[:40]] + [f"of {len(value)}"] * (len(value) > 40)
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value


def document(text: str) -> str:
    return "\n".join(lines(plain(json.loads(text)), 0))


def lines(value: object, depth: int, name: str = "") -> list[str]:
    """JSON with one line for whatever fits into one."""
    head = " " * depth + (f"{name}: " if name else "")
    short = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(short) < 160 or _flat(value):
        return [head + short]
    inner = value.items() if isinstance(value, dict) else (("-", one) for one in value)
    return [head.rstrip(), *(line for k, v in inner for line in lines(v, depth + 1, str(k)))]


def _flat(value: dict | list) -> bool:
    """Whether neither it nor what it holds holds more, as one canary of an audit."""
    inner = value.values() if isinstance(value, dict) else value
    within = [one for one in inner if isinstance(one, dict | list)]
    return not within or (
        isinstance(value, dict)
        and not any(isinstance(x, dict | list) for one in within for x in _inside(one))
    )


def _inside(value: dict | list) -> list:
    return list(value.values()) if isinstance(value, dict) else value


def drawing(text: str) -> str:
    """The elements of an SVG, the words in it, and the middle of what its paths go through."""
    tags = sorted(Counter(re.findall(r"<(\w+)", text)).items())
    numbers = [
        float(n) for d in re.findall(r'\bd="([^"]*)"', text) for n in re.findall(r"-?\d+\.?\d*", d)
    ]
    words = re.findall(r"<!-- (.*?) -->", text)
    return "\n".join([*(f"{t} {n}" for t, n in tags), f"{sum(numbers) / len(numbers):.4g}", *words])


def shown(path: Path) -> str:
    """What a file holds, as text that a person can compare."""
    kind = path.suffix
    if kind in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        return document(json.dumps(pq.read_table(path).to_pylist()))
    if kind == ".gz":
        import gzip

        return gzip.decompress(path.read_bytes()).decode()
    if kind == ".json":
        return document(path.read_text())
    if kind == ".html":
        words = Page(path.read_text()).text("style")
        return re.sub(r"(?<=[.:]) (?=[A-Z])", "\n", words)
    if kind == ".svg":
        return drawing(path.read_text())
    rows = path.read_text().splitlines()
    if kind == ".csv" and len(rows) > 60:
        return "\n".join([*rows[:60], f"of {len(rows)} rows"])
    return "\n".join(rows)


def stdout_of(text: str) -> str:
    try:
        return document(text)
    except ValueError:
        return text


def given(case: str, laid: Path, folder: Path) -> str:
    """What the commands of a case say and write, in a copy of the laid folder."""
    shutil.copytree(laid, folder)
    before = {path: _stamp(path) for path in folder.rglob("*")}
    old = Path.cwd()
    os.chdir(folder)
    parts = []
    try:
        for words in CASES[case]:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(list(words))
            parts += [f"$ canary {' '.join(words)}", f"exit {code}"]
            parts += [stdout_of(out.getvalue()), "--- stderr", err.getvalue()]
            for path in sorted(folder.rglob("*")):
                ours = path.is_file() and path.parent.name != "__pycache__"
                if ours and before.get(path) != _stamp(path):
                    parts += [f"--- {path.relative_to(folder)}", shown(path)]
                    before[path] = _stamp(path)
    finally:
        os.chdir(old)
    return steady("\n".join(parts), folder) + "\n"


def _stamp(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"


def alike(one: str, other: str) -> bool:
    """Whether two numbers are the same but for the model's noise."""
    if "." not in one + other and "e" not in one + other:
        return abs(int(one) - int(other)) <= 0.01 * abs(int(other))
    a, b = float(one), float(other)
    last = max(10.0 ** -len(text.partition(".")[2].partition("e")[0]) for text in (one, other))
    if "e" in one + other:
        last = 0.0
    return abs(a - b) <= 1e-2 * max(abs(a), abs(b)) + min(last, 0.1) + 1e-4


def without_narrow_ranges(text: str) -> str:
    """Ranks without the range of each that is the model's noise, which processors differ in."""

    def kept(match: re.Match[str]) -> str:
        low, high = (end.replace(",", "") for end in match.groups())
        return "" if alike(low, high) else match[0]

    return re.sub(r" \(([\d,]+) to ([\d,]+)\)", kept, text)


def differences(got: str, wanted: str) -> list[str]:
    """The lines that differ by more than noise, or what the numbers of lines are."""
    mine, theirs = (without_narrow_ranges(text).splitlines() for text in (got, wanted))
    found = []
    for number, (one, other) in enumerate(zip(mine, theirs, strict=False), 1):
        if one == other:
            continue
        words = NUMBER.split(one) == NUMBER.split(other)
        pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
        if not (words and all(alike(a, b) for a, b in pairs)):
            found.append(f"line {number}: expected {other[:300]!r}, got {one[:300]!r}")
    if len(mine) != len(theirs):
        found.append(f"{len(mine)} lines where {len(theirs)} were expected")
    return found


@pytest.fixture(scope="session")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen") / "laid"
    folder.mkdir()
    lay(folder)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_nothing_changed(case: str, laid: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    got = given(case, laid, tmp_path / "work")
    wanted = (EXPECTED / f"{case}.txt").read_text()
    different = differences(got, wanted)
    assert not different, "\n".join(different[:8])


def kept(got: str, old: str) -> str:
    """A text with the old one's lines where they differ by noise only."""
    mine, theirs = got.splitlines(), old.splitlines()
    forms = [[NUMBER.sub("#", line) for line in lines] for lines in (theirs, mine)]
    for start, first, size in SequenceMatcher(None, *forms, autojunk=False).get_matching_blocks():
        for line in range(size):
            if not differences(mine[first + line], theirs[start + line]):
                mine[first + line] = theirs[start + line]
    return "\n".join(mine) + "\n"


def test_expected_texts_written_anew_show_what_changed() -> None:
    old = "a 1.00 bits\nb 2.00 bits\nc 30\n"
    assert kept("a 1.001 bits\nnew 7\nb 2.5 bits\nc 30\n", old) == (
        "a 1.00 bits\nnew 7\nb 2.5 bits\nc 30\n"
    )


def main() -> None:
    """Write the expected texts of all cases, or of those that are named."""
    import tempfile

    os.environ["COLUMNS"] = "300"
    with tempfile.TemporaryDirectory() as scratch:
        laid = Path(scratch, "laid")
        laid.mkdir()
        lay(laid)
        for case in sys.argv[1:] or CASES:
            path = EXPECTED / f"{case}.txt"
            text = given(case, laid, Path(scratch, case))
            path.write_text(kept(text, path.read_text() if path.exists() else ""))
            sys.stdout.write(f"{case}: {len(text.splitlines())} lines\n")


if __name__ == "__main__":
    main()
