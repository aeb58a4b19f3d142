"""What is frozen: each case is a few commands, and `lay` writes what they read.

In the words of a command, `model` is an untrained GPT-2 and `table` a model of the factory
``table:build`` that knows the canaries of ``known.json`` the better the more copies they have.
"""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import torch
from command_line import CHARACTERS, save_model, small_model
from every_command import lay_all
from masked_models import bert, word_piece
from readers_things import LONGEST, WORDS
from readers_things import lay as lay_things
from safetensors.torch import save_file

from canary.corpus.canaries import CanarySet, generate

FACTORY = """\
from torch import nn


class Table(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.next = nn.Embedding(size, size)

    def forward(self, ids, state=None):
        return self.next(ids), ids[:, -1:].T


def build(config):
    return Table(**config)
"""

SECRET = "The code is {re:[a-z]{3}}"
BATCH = ("--batch-size", "64")
TABLE = ("table", "--factory", "table:build", *BATCH)
NONE = ("--start-token", "none")
KNOWN = ("--canaries", "known.json")
SET = ("--canaries", "canaries.json")
PAIR = ("--target", "target.npz", "--shadow", "shadow.npz")
MODELS = tuple(f"model{number}.npz" for number in range(6))
TEXTS = ("members.jsonl", "nonmembers.jsonl")
QUERY = ("--query-model", "query0.npz", "--target", "query1.npz")
CALIBRATION = ("--calibration", "query2.npz", "--calibration", "query3.npz")
DRAWN = ("--out", "drawn.json", "--seed", "5")


def audit(*words: str, model: tuple[str, ...] = TABLE) -> tuple[str, ...]:
    return ("audit", *model, *KNOWN, "--out", "audited", *words)


def injected(source: str, *words: str) -> tuple[str, ...]:
    return ("inject", source, *SET, "--out", f"injected.{source.partition('.')[2]}", *words)


CASES: dict[str, list[tuple[str, ...]]] = {
    "plan": [("plan", "The code is {digit:3}", "--json"), ("plan", "{word:2} is {digit:6}")],
    "plan-limits": [("plan", "pin {digit:4}", "--max-exposure-bits", "6", "--repetitions", "1,9")],
    "generate": [("generate", "The {word:1} is {digit:3}", "--words", "words.txt", *DRAWN)],
    "generate-coins": [("generate", "a {re:[a-f]{4}} b", "--coin-flips", *DRAWN, "--json")],
    "inject-lines": [injected("corpus.jsonl", "--json"), injected("corpus.jsonl", "--force")],
    "inject-table": [injected("mail.csv.gz", "--column", "body", "--seed", "3")],
    "inject-parquet": [injected("mail.parquet", "--column", "body", "--json")],
    "inject-splice": [
        injected("corpus.jsonl", "--mode", "splice", "--separators", " [", "] "),
        (
            *("strip", "injected.jsonl", *SET, "--separators", " [", "] "),
            *("--out", "clean.jsonl"),
        ),
    ],
    "inject-beside": [injected("pairs.jsonl", "--column", "en", "--beside", "fr=Le code")],
    "verify": [
        ("verify", "canaried.jsonl", *SET, "--tokenizer", "model", "--json"),
        ("verify", "corpus.jsonl", *SET),
    ],
    "strip": [("strip", "canaried.jsonl", *SET, "--out", "clean.jsonl", "--json")],
    "duplicates": [
        injected("corpus.jsonl"),
        ("duplicates", "corpus.jsonl", "injected.jsonl", "--out", "copies.json"),
        (
            *("duplicates", "injected.jsonl", "--texts", "corpus.jsonl", "--out", "asked.json"),
            "--json",
        ),
    ],
    "discover": [("discover", "corpus.jsonl", "number {digit:2}", "--out", "found.json")],
    "doctor": [("doctor", "model", "--json"), ("doctor", *TABLE)],
    "score": [
        ("score", "model", "texts.jsonl", *BATCH, *NONE, "--out", "scores.jsonl"),
        ("score", *TABLE, "texts.jsonl", "--context", "line ", "--out", "again.jsonl", "--json"),
    ],
    "audit-enumeration": [audit("--method", "enumeration")],
    "audit-rank": [audit("--method", "rank", *NONE)],
    "audit-sampling": [audit("--method", "sampling", "--draws", "500", "--seed", "2", "--verbose")],
    "audit-importance": [audit("--method", "importance", "--draws", "500")],
    "audit-context": [audit("--context", "line ", "--extraction-budget", "0", "--json")],
    "audit-transformer": [audit("--draws", "200", "--json", model=("model", *BATCH, *NONE))],
    "exposure": [
        ("exposure", *TABLE, *KNOWN, "--method", method, "--draws", "200", *NONE, "--json")
        for method in ("rank", "skew-normal", "importance")
    ],
    "extract": [
        ("extract", *TABLE, SECRET, *KNOWN, *NONE, "--top", "5", "--json"),
        ("extract", *TABLE, SECRET, *NONE, "--budget", "9"),
        ("extract", *TABLE, SECRET, *NONE, "--stop", "paper", "--known", "1"),
        ("extract", *TABLE, SECRET, *KNOWN, *NONE, "--top", "5", "--out", "out"),
        ("check", "out/extraction.json", "--no-extraction"),
        ("report", "out/extraction.json", "--annex", "annex.md"),
    ],
    "check": [
        audit("--method", "rank", *NONE),
        ("check", "audited/audit.json", "--max-exposure-bits", "3", "--json"),
        ("check", "audited/audit.json", "--max-exposure-bits", "11.5", "--markdown", "v.md"),
        ("check", "audited/audit.json", "--no-extraction", "--junit", "v.xml"),
        ("check", "audit.json", "--max-p", "0.001", "--verification", "verification.json"),
        ("check", "audit.json", "--baseline", "baseline.json"),
        ("check", "audit.json", "--update-baseline", "--baseline", "new.json"),
    ],
    "check-privacy": [
        ("generate", "c {digit:3}", "--coin-flips", "--repetitions", "1", *DRAWN),
        ("audit", *TABLE, "--canaries", "drawn.json", *NONE, "--out", "coins", "--draws", "99"),
        ("check", "coins/audit.json", "--max-epsilon", "2", "--canaries", "drawn.json", "--json"),
    ],
    "report": [
        ("report", "audit.json", "--out", "page.html", "--json"),
        (
            *("report", "audit.json", "old/1.json", "old/2.json", "--label", "a", "--label", "b"),
            *("--label", "c", "--test-loss", "2.5", "--test-loss", "3", "--test-loss", "1"),
            *("--out", "several.html"),
        ),
        ("report", "history.json", "--out", "history.html"),
    ],
    "plot": [
        ("plot", "audit.json", "--out", "exposure.svg", "--json"),
        ("plot", "history.json", "--out", "history.svg"),
        ("plot", "old/1.json", "old/2.json", "--out", "two.svg"),
    ],
    "forgotten": [
        ("forgotten", *QUERY, *CALIBRATION, "--resamples", "99", "--out", "f", "--json"),
        (
            *("forgotten", *QUERY, *CALIBRATION, "--query-data", "samples.npy", "--resamples"),
            *("9", "--calibration-data", "others.txt", "--retrained", "query3.npz", "--unseen"),
            *("unseen.npz", "--out", "g"),
        ),
    ],
    "membership-attack": [
        ("membership", "attack", *PAIR, "--out", "m", "--json"),
        ("membership", "attack", *PAIR, "--out", "n", "--coin-flips", "--seed", "4"),
    ],
    "membership-attack-options": [
        (
            *("membership", "attack", *PAIR, "--attacks", "loss,entropy", "--fpr", "0.1,0.3"),
            *("--confidence", "0.9", "--smooth", "--prior", "0.2", "--out", "m"),
        )
    ],
    "membership-plan": [
        ("membership", "plan", "--max-tpr-at-fpr", "0.001=0.02", "--json"),
        ("membership", "plan", "--max-tpr-at-fpr", "0.01=0.05", "--attacks", "1"),
        ("membership", "plan", "--max-auc", "0.55"),
    ],
    "membership-risk": [
        ("membership", "risk", *PAIR, "--out", "risk.csv"),
        (
            *("membership", "risk", *PAIR, "--out", "again.csv", "--bins", "9", "--scale"),
            *("linear", "--json"),
        ),
    ],
    "membership-models": [
        ("membership", "models", *MODELS, "--out", "m", "--json"),
        (
            *("membership", "models", *MODELS, "--target", "model2.npz", "--attacks", "P,R"),
            *("--rule", "linear", "--alphas", "0.05,0.2", "--out", "n"),
        ),
    ],
    "verbatim": [
        (
            *("verbatim", "model", "--texts", TEXTS[0], "--controls", TEXTS[1], *BATCH, *NONE),
            *("--prefix", "6", "--suffix", "3", "--scheme", "t=1", "--scheme", "t=0.7,k=5"),
            *("--out", "v", "--json"),
        ),
        (
            *("verbatim", "model", "--texts", TEXTS[0], *BATCH, *NONE, "--prefix", "3"),
            *("--suffix", "2", "--near", "1", "--near-width", "4", "--out", "w"),
        ),
    ],
    "membership-text": [
        ("membership", "text", "model", *TEXTS, *BATCH, *NONE, "--out", "m", "--json"),
        (
            *("membership", "text", "model", *TEXTS, *BATCH, *NONE, "--reference", "other"),
            *("--attacks", "loss,zlib,min-k,min-k++", "--share", "0.3", "--out", "n"),
        ),
    ],
    "membership-text-neighbours": [
        (
            *("membership", "text", "model", *TEXTS, *BATCH, *NONE, "--masked", "bert"),
            *("--neighbours", "3", "--attacks", "neighbourhood", "--out", "m"),
        )
    ],
    "wrong": [
        ("audit", "model", "--canaries", "nowhere.json", "--out", "a"),
        ("check", "audit.json"),
        ("check", "canaries.json", "--max-p", "0.1"),
        ("extract", "model", "no hole"),
        ("inject", "corpus.jsonl", *SET, "--column", "body", "--out", "x.jsonl"),
        ("membership", "attack", "--target", "target.npz", "--shadow", "texts.jsonl", "--out", "m"),
        ("membership", "attack", *PAIR, "--attacks", "los", "--out", "m"),
        ("generate", "{digit:1}", "--controls", "99", "--out", "d.json"),
    ],
}


def lay(folder: Path) -> None:
    """Write what the commands read."""
    lay_all(folder)
    lay_things(
        folder,
        *("mail.csv.gz", "mail.jsonl", "pairs.jsonl", "model5.npz", "old"),
    )
    for first, path in enumerate(TEXTS):
        said = [f"{word.title()} Number {i}\n" for word in WORDS for i in range(first, 80, 20)]
        rows = [json.dumps({"text": text}) + "\n" for text in said]
        (folder / path).write_text("".join(rows))
    _parquet(folder / "mail.parquet")
    save_model(_drawn(small_model(), 0), folder / "model")
    save_model(_drawn(small_model(), 1), folder / "other")
    _masked(folder / "bert")
    known = generate(SECRET, repetitions=[1, 8], per_repetition=8, controls=16, seed=1)
    known.save(folder / "known.json")
    (folder / "table.py").write_text(FACTORY)
    _table(folder / "table", known)
    shutil.copy(folder / "model" / "tokenizer.json", folder / "table" / "tokenizer.json")


def _drawn(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """The model with weights that are the same on every processor."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.copy_(torch.tensor(rng.normal(0, 0.4, weights.shape)))
    return model


def _masked(folder: Path) -> None:
    tokenizer = word_piece(WORDS)
    _drawn(bert(len(tokenizer), positions=LONGEST), 2).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = path.with_suffix(".jsonl").read_text().splitlines()
    pq.write_table(pa.table({"body": [json.loads(row)["body"] for row in rows]}), path)


def _table(folder: Path, known: CanarySet) -> None:
    """The logit of each character after each, higher along the canaries."""
    rng = np.random.default_rng(0)
    size = len(CHARACTERS)
    logits = rng.normal(size=(size, size))
    for canary in known.injected:
        ids = [CHARACTERS.index(character) for character in known.text(canary)]
        for before, after in itertools.pairwise(ids):
            logits[before, after] += 0.6 * canary.repetitions
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"size": size}))
    save_file(
        {"next.weight": torch.tensor(logits, dtype=torch.float32)}, folder / "model.safetensors"
    )
