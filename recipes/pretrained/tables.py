"""The tables and the picture of README.md, from results.json.

Usage::

    python tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
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


def knows(results: dict[str, Any]) -> str:
    """The questions, the most likely answers, and how exposed the truths are."""
    rows = [
        (
            one["format"].replace("|", "\\|"),
            "drawn by us" if one["topic"] == "control" else one["truth"],
            "the truth" if one["first"] == one["truth"] else one["first"] or "none was found",
            f"after {one['queries']:,}" if one["proven"] else f"no, {one['queries']:,} spent",
            f"{exposed(one)} of {one['space_bits']:.1f}",
            f"{one['cpu_seconds']:.0f}",
        )
        for one in results["knows"]["rows"]
    ]
    head = "text | truth | most likely | proven, queries # | exposure of the truth, bits # | s #"
    real = [one for one in results["knows"]["rows"] if one["topic"] != "control"]
    first = [one for one in real if one["first"] == one["truth"] and one["proven"]]
    wrong = [one for one in real if one["first"] != one["truth"] and one["proven"]]
    return table(head, rows) + (
        f"\nFor {len(first)} of {len(real)} texts the truth is proven to be the most likely fill, "
        f"and for {len(wrong)} another fill is. The budget ended before the proof of the other "
        f"{len(real) - len(first) - len(wrong)}.\n"
    )


def exposed(one: dict[str, Any]) -> str:
    """The exposure of the truth; open where the search came to nothing that bounds it."""
    least, most = one["exposure_bits"]
    return "open" if most - least > one["space_bits"] - 0.05 else between(least, most)


def between(least: float, most: float) -> str:
    """An interval in bits, which is one number where both ends are as good as equal."""
    if most - least < 0.05:
        return f"{least:.1f}"
    return f"{least:.1f} to {most:.1f}" if least else f"at most {most:.1f}"


def finetune(results: dict[str, Any]) -> str:
    """The exposures of each number of copies."""
    found = results["finetune"]
    rows = [
        (
            copies if copies != "0" else "0 (controls)",
            between(*(median(each) for each in zip(*ends, strict=True))),
            ", ".join(between(*each) for each in ends)
            if copies != "0"
            else f"from {between(*ends[0])} up to {between(*ends[-1])}",
        )
        for copies, ends in sorted(found["exposures"].items(), key=lambda item: int(item[0]))
    ]
    head = f"copies | median exposure, bits of {found['space_bits']:.1f} # | each #"
    trained, check = found["training"], found["check"]
    return table(head, rows) + (
        f"\nTraining read {trained['rows']} chats of {trained['tokens']:,} tokens in each of "
        f"{trained['epochs']} epochs, and took {trained['cpu_seconds']} s of processor time. "
        f"A search of {found['extraction_queries']} queries found {found['extracted']} of the 16 "
        f"canaries. Fisher's p-value is {found['p_canaries']:.1g} for the canaries and "
        f"{found['p_controls']:.2g} for the controls. `canary check` ends with exit code "
        f"{check['code']}:\n\n> {check['reason']}\n"
    )


def repeats(results: dict[str, Any]) -> str:
    """What comes out of each kind of text, beside the controls; p of the difference to them."""
    rows = results["repeats"]["rows"]

    def said(one: dict[str, Any]) -> str:
        return f"{one['hits']} of {one['of']} (up to {100 * one['upper']:.0f} %)"

    def line(name: str, at: Callable[[dict[str, Any]], dict[str, Any]]) -> list[str]:
        each = [f"{said(at(row)['texts'])}, p = {at(row)['p']}" for row in rows]
        return [name, *each, said(at(rows[0])["controls"])]

    near = results["repeats"]["near"]
    measured = {"exactly": "t=1", f"within {near} edit": f"{near} edits"}
    lines = [line("greedy decoding", lambda row: row["greedy"])]
    for name, key in measured.items():
        for n in ("100", "10000"):
            each = line(f"{name}, {int(n):,} samples", lambda row, key=key, n=n: row[key][n])
            lines.append(each)
    lines.append(["longest run, tokens", *(str(row["longest_run"]) for row in rows), ""])
    names = [*(row["kind"] for row in rows), "controls"]
    return table(" | ".join(["what comes out", *(f"{name} #" for name in names)]), lines)


TABLES = {"runtime": runtime, "knows": knows, "repeats": repeats, "finetune": finetune}


def picture(rows: list[dict[str, Any]], out: Path) -> None:
    """A bar for each question: the bits of its space, and how exposed the truth is."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "pretrained", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.27 * len(rows) + 0.9), layout="constrained")
    for place, one in enumerate(rows):
        least, most = one["exposure_bits"]
        sure = one["first"] == one["truth"] and one["proven"]
        axes.barh(place, one["space_bits"], color="#e8e8e8")
        axes.barh(place, most - least, left=least, color="#c9b6a5")
        axes.barh(place, least, color="#b3261e" if sure else "#8a8a8a")
    names = [re.sub(r"\{[^}]*\}+", "…", one["format"])[:58] for one in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_xlabel("exposure of the truth, bits (red: proven to be the most likely; pale: open)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, metadata={"Date": None})


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
    picture(results["knows"]["rows"], HERE / "knows.svg")


if __name__ == "__main__":
    main()
