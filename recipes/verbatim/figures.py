"""The tables and the figure of README.md, from results.json.

Usage::

    python figures.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SIZES = ("small", "middle", "large")
COLOURS = {
    "small": "#9ecae1",
    "middle": "#4292c6",
    "large": "#08306b",
    "large, de-duplicated": "#238b45",
    "middle, DP-SGD": "#b36b00",
}


def keep(path: Path, section: str, found: dict[str, Any]) -> None:
    """Put a model into the results, beside those that are there; a line for each number."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    lines = []
    for name, model in {**kept, section: found}.items():
        parts = []
        for key, value in model.items():
            text = json.dumps(value)
            if isinstance(value, list):
                text = "[\n   " + ",\n   ".join(map(json.dumps, value)) + "]"
            parts.append(f"  {json.dumps(key)}: {text}")
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(parts) + "}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def chosen(rows: Iterable[dict[str, Any]], **about: Any) -> list[dict[str, Any]]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in about.items())]


def said(row: dict[str, Any]) -> str:
    """A share in per cent, with its interval; how many where there are few."""
    hits = round(row["value"] * row["of"])
    return f"{hits} of {row['of']} ({100 * row['lower']:.2g} to {100 * row['upper']:.3g} %)"


def table(head: list[str], rows: Iterable[Iterable[object]]) -> str:
    """Markdown; all columns but the first are numbers, to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def by_copies(results: dict[str, Any]) -> str:
    """Suffixes that greedy decoding gives after 64 tokens."""
    counts = [row["copies"] for row in chosen(results["small"]["greedy"], prefix=64)]
    return table(
        ["copies", *results],
        [
            (
                copies or "0 (controls)",
                *(said(*chosen(m["greedy"], prefix=64, copies=copies)) for m in results.values()),
            )
            for copies in counts
        ],
    )


def by_prefix(results: dict[str, Any], copies: int = 32) -> str:
    """Suffixes of one group that greedy decoding gives, by the tokens before them."""
    lengths = sorted({row["prefix"] for row in results["small"]["greedy"]})
    found = {
        name: [said(*chosen(results[name]["greedy"], prefix=n, copies=copies)) for n in lengths]
        for name in SIZES
    }
    return table(
        [f"tokens given, {copies} copies", *SIZES],
        [(n, *(found[name][at] for name in SIZES)) for at, n in enumerate(lengths)],
    )


def by_tries(results: dict[str, Any], name: str = "large", copies: int = 16) -> str:
    """Suffixes that come out of n samples: exactly under each scheme, and nearly."""
    model = results[name]
    schemes = list(dict.fromkeys(row["scheme"] for row in model["tries"]))
    tries = sorted({row["tries"] for row in model["near"]})
    rows = [
        (
            f"{n:,}",
            *(said(*chosen(model["tries"], tries=n, copies=copies, scheme=s)) for s in schemes),
            said(*chosen(model["near"], tries=n, copies=copies)),
            said(*chosen(model["near"], tries=n, copies=0)),
        )
        for n in tries
    ]
    heads = [f"exactly, {scheme}" for scheme in schemes]
    return table(["samples", *heads, "within 3 edits", "within 3 edits, controls"], rows)


def models(results: dict[str, Any]) -> str:
    """What each model is, and what it cost."""
    rows = [
        (
            name,
            f"{m['parameters'] / 1e6:.2f} million",
            f"{m['rows']:,}",
            f"{m['bits_of_a_token']:.2f}",
            f"{m['training_cpu_seconds']:,.0f}",
        )
        for name, m in results.items()
    ]
    head = "model, parameters, rows of 128 tokens, bits of a new token, s to train"
    return table(head.split(", "), rows)


TABLES = {"models": models, "copies": by_copies, "prefix": by_prefix, "tries": by_tries}


def figure(results: dict[str, Any], out: Path) -> None:
    """By copies, by prefix, and by samples; bars are 95 % intervals over the pieces."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "verbatim", "font.size": 9})
    from matplotlib import pyplot as plt

    drawn, (copies, prefix, tries) = plt.subplots(
        1, 3, figsize=(11, 3.6), layout="constrained", sharey=True
    )

    def line(axis: Any, rows: list[dict[str, Any]], x: str, **style: Any) -> None:
        value = [100 * row["value"] for row in rows]
        ends = [
            [100 * (row["value"] - row["lower"]) for row in rows],
            [100 * (row["upper"] - row["value"]) for row in rows],
        ]
        axis.errorbar([row[x] for row in rows], value, ends, lw=1.2, ms=3, marker="o", **style)

    for name, model in results.items():
        rows = [row for row in chosen(model["greedy"], prefix=64) if row["copies"]]
        line(copies, rows, "copies", color=COLOURS[name], label=name)
    for name in SIZES:
        rows = sorted(chosen(results[name]["greedy"], copies=32), key=lambda row: row["prefix"])
        line(prefix, rows, "prefix", color=COLOURS[name], label=f"{name}, 32 copies")
    large = results["large"]
    scheme = large["tries"][0]["scheme"]
    for number, colour in ((16, "#08306b"), (1, "#6a51a3"), (0, "0.5")):
        name = f"{number} copies" if number > 1 else "1 copy" if number else "controls"
        rows = chosen(large["tries"], scheme=scheme, copies=number)
        line(tries, rows, "tries", color=colour, label=name)
        rows = chosen(large["near"], copies=number)
        line(tries, rows, "tries", color=colour, ls=":", mfc="white", label=f"{name}, 3 edits")
    for axis, label in (
        (copies, "copies in the training data"),
        (prefix, "tokens given"),
        (tries, "samples of the large model"),
    ):
        axis.set_xscale("log", base=10 if axis is tries else 2)
        axis.set_xlabel(label)
        axis.legend(fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not tries:
            axis.xaxis.set_major_formatter("{x:.0f}")
    copies.set_ylabel("suffixes that come out, %")
    drawn.savefig(out, metadata={"Date": None})
    plt.close(drawn)


def written(page: str, results: dict[str, Any]) -> str:
    """A page with each table of `TABLES` between its two marks."""
    for name, made in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise SystemExit(f"figures: the page has no place for the table {name!r}")
        page = before + begin + made(results) + end + after
    return page


def main() -> None:
    page = HERE / "README.md"
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    page.write_text(written(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    figure(results, HERE / "verbatim.svg")


if __name__ == "__main__":
    main()
