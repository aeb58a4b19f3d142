"""Every command with every path that it takes, and a workplace where each of them runs.

In the words of a command, ``<name`` is a file or folder that it reads and ``>name`` one that
it writes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from classifiers import save_models, save_outputs
from gate_audits import exact, extraction
from histories import make_history

from canary.corpus.canaries import generate
from canary.corpus.verification import verify
from canary.gate.check_audit import new_baseline

SET = ("--canaries", "<canaries.json")
PAIR = ("--target", "<target.npz", "--shadow", "<shadow.npz")
FORMAT = "The code is {digit:3}"
AUDITED = ("--draws", "9", "--extraction-budget", "0")

COMMANDS = {
    "plan": ("plan", FORMAT),
    "generate": (
        "generate",
        "The {word:1} is {digit:3}",
        "--words",
        "<words.txt",
        "--out",
        ">drawn.json",
    ),
    "pool": (
        *("pool", "<model", "--size", "8", "--tokens", "3", "--repetitions", "1"),
        *("--per-repetition", "2", "--prompt", "line number", "--out", ">pool.json"),
    ),
    "extend": ("extend", "<model", "--canaries", "<tokens.json", "--out", ">extended/"),
    "inject": ("inject", "<corpus.jsonl", *SET, "--out", ">injected.jsonl"),
    "verify": ("verify", "<canaried.jsonl", *SET, "--tokenizer", "<model"),
    "strip": ("strip", "<canaried.jsonl", *SET, "--out", ">new.jsonl"),
    "discover": ("discover", "<corpus.jsonl", "number {digit:2}", "--out", ">found.json"),
    "duplicates": (
        *("duplicates", "<texts.jsonl", "<others.jsonl", "--texts", "<texts.jsonl"),
        *("--out", ">copies.json"),
    ),
    "score": ("score", "<model", "<texts.jsonl", "--out", ">scores.jsonl"),
    "verbatim": (
        *("verbatim", "<model", "--texts", "<texts.jsonl", "--controls", "<others.jsonl"),
        *("--prefix", "2", "--suffix", "2", "--out", ">verbatim/"),
    ),
    "audit": ("audit", "<model", *SET, "--out", ">audit/", *AUDITED),
    "exposure": ("exposure", "<model", *SET, "--draws", "9"),
    "extract": ("extract", "<model", FORMAT, *SET, "--budget", "9"),
    "check": (
        *("check", "<audit.json", "--max-p", "0.001", "--baseline", "<baseline.json"),
        *("--verification", "<verification.json", "--junit", ">c.xml", "--markdown", ">c.md"),
    ),
    "update": ("check", "<audit.json", "--update-baseline", "--baseline", ">new_baseline.json"),
    "epsilon": ("check", "<audit.json", "--max-epsilon", "1", *SET),
    "report": ("report", "<audit.json", "--out", ">page.html"),
    "compare": (
        *("report", "<audit.json", "<audit2.json", "--test-scores", "<scored.jsonl"),
        *("--test-scores", "<scored.jsonl", "--out", ">page.html"),
    ),
    "history": ("report", "<history.json", "--out", ">page.html"),
    "plot": ("plot", "<audit.json", "--out", ">figure.svg"),
    "forgotten": (
        *("forgotten", "--query-model", "<query0.npz", "--target", "<query1.npz"),
        *("--calibration", "<query2.npz", "--calibration", "<query3.npz", "--resamples", "9"),
        *("--query-data", "<samples.npy", "--calibration-data", "<others.txt"),
        *("--retrained", "<query3.npz", "--unseen", "<unseen.npz", "--out", ">forgetting/"),
    ),
    "demo": ("demo", "--out", ">demo/"),
    "membership attack": (
        *("membership", "attack", *PAIR, "--attacks", "correctness", "--out", ">attacks/"),
    ),
    "membership risk": ("membership", "risk", *PAIR, "--out", ">risk.parquet"),
    "membership models": (
        *("membership", "models", *(f"<model{number}.npz" for number in range(4))),
        *("--attacks", "S", "--out", ">models/"),
    ),
    "membership text": (
        *("membership", "text", "<model", "<texts.jsonl", "<others.jsonl", "--attacks", "loss"),
        *("--reference", "<model", "--out", ">attacks/"),
    ),
    "membership order": (
        *("membership", "order", "<model", "<texts.jsonl", "--before", "4", "--after", "2"),
        *("--out", ">order/"),
    ),
}

IN_FOLDER = {
    "injected.jsonl": ("", ".placements.json"),
    "audit/": ("audit.json", "report.html"),
    "extended/": ("config.json", "model.safetensors"),
    "forgetting/": ("forgetting.json", "report.html"),
    "demo/": (
        *("canaries.json", "corpus.jsonl", "audit.json", "report.html"),
        *("model/config.json", "model/model.safetensors"),
    ),
    "attacks/": ("membership.json", "report.html"),
    "models/": ("models.json", "report.html"),
    "order/": ("order.json", "report.html"),
    "verbatim/": ("verbatim.json", "report.html"),
}
"""The files that a command writes into a folder, or beside one."""


def places(words, mark):
    """Which words are paths of one kind, and the paths."""
    return [(at, word[1:]) for at, word in enumerate(words) if word.startswith(mark)]


def written(words):
    """The files that a command writes."""
    return [
        name + inside for _, name in places(words, ">") for inside in IN_FOLDER.get(name, ("",))
    ]


def plain(words, model):
    """The words as they are given to the command."""
    bare = [word[1:] if word[0] in "<>" else word for word in words]
    return [
        str(model) if word == "model" and mark[0] == "<" else word
        for word, mark in zip(bare, words, strict=True)
    ]


def lay_all(folder: Path) -> None:
    """Write what the commands read, but for the model."""
    drawn = generate(FORMAT, repetitions=[1, 2], per_repetition=2, controls=2, seed=3)
    drawn.save(folder / "canaries.json")
    generate("{new:20}", repetitions=[1], per_repetition=1, controls=9).save(folder / "tokens.json")
    rows = [json.dumps({"text": f"line number {i}"}) + "\n" for i in range(10, 50)]
    (folder / "corpus.jsonl").write_text("".join(rows))
    copies = [drawn.text(c) for c in drawn.injected for _ in range(c.repetitions)]
    put = [json.dumps({"text": text}) + "\n" for text in copies]
    (folder / "canaried.jsonl").write_text("".join([*rows, *put]))
    for name, first in (("texts", 0), ("others", 100)):
        made = [json.dumps({"text": f"text number {first + i}"}) + "\n" for i in range(30)]
        (folder / f"{name}.jsonl").write_text("".join(made))
    (folder / "others.txt").write_text("one\ntwo\n")
    (folder / "words.txt").write_text("one\ntwo\nthree\n")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 40)
    for number in range(4):
        asked = {"logits": rng.normal(size=(40, 4)), "labels": labels}
        np.savez(folder / f"query{number}.npz", **asked)
    others = np.random.default_rng(9).normal(size=(40, 4))
    np.savez(folder / "unseen.npz", logits=others, labels=labels)
    np.save(folder / "samples.npy", np.arange(6.0).reshape(3, 2))
    scored = [json.dumps({"line": i + 1, "px_bits": 9.0, "tokens": 9}) + "\n" for i in range(9)]
    (folder / "scored.jsonl").write_text("".join(scored))
    found = exact({1: [1.0] * 8, 0: [1.0] * 4}, extractions=[extraction({})])
    found.save(folder / "audit.json")
    exact({1: [2.0] * 8, 0: [1.0] * 4}, fingerprint="b" * 64).save(folder / "audit2.json")
    before = exact({1: [1.0] * 8, 0: [1.0] * 4}, fingerprint="c" * 64)
    new_baseline(before).save(folder / "baseline.json")
    checked = {"kind": "canary verify", "schema": 1}
    checked |= verify(folder / "canaried.jsonl", drawn).to_dict()
    (folder / "verification.json").write_text(json.dumps(checked))
    make_history().save(folder / "history.json")
    save_models(folder, 4, samples=40)
    for seed, name in enumerate(("target", "shadow")):
        save_outputs(folder / f"{name}.npz", seed, samples=120)
