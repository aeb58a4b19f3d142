"""What small models repeat of texts that were in their training data 1 to 256 times.

Five models are trained on equally many pieces of Wikipedia and e-mails: a small, a middle and a
large one, the large one after de-duplication, and the middle one by DP-SGD. Each is asked for the
last 32 tokens of each piece after prefixes of 8 to 64 tokens: which of them come out by greedy
decoding, which in n samples, and which nearly. Pieces that no model saw are the controls.

A model that was trained is not trained again, and a measurement resumes, so a run that was killed
goes on when it is started again.

Usage::

    python study.py --data DIR --work WORK [--out results.json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import torch
import training
from figures import RESULTS, keep
from numpy.typing import NDArray

import canary
from canary.models.decoding import Scheme
from canary.passages.result import Passages, Verbatim
from canary.passages.tries import tries_for
from canary.statistics.clustered import clustered_share

PREFIXES = (64, 8, 16, 32)
SUFFIX, NEAR = 32, 3
TRIES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
SCHEMES = (Scheme(), Scheme(top_k=40))
MODELS = {
    "small": ("small", False, False),
    "middle": ("middle", False, False),
    "large": ("large", False, False),
    "large, de-duplicated": ("large", True, False),
    "middle, DP-SGD": ("middle", False, True),
}
"""Name -> size, whether the texts are de-duplicated, whether it is trained by DP-SGD."""

Hits = Callable[[Passages], NDArray[np.bool_]]

PRIVATE = {"rate": 2e-3, "noise": 0.5, "share": 0.05, "steps": 100}
RATE = 4e-3


def trained(name: str, rows: torch.Tensor, vocabulary: int, folder: Path, seed: int) -> None:
    """Train a model and save it, with its processor time in seconds."""
    size, _, with_noise = MODELS[name]
    began = time.process_time()

    def told(step: int, steps: int, loss: float) -> None:
        if step % 50 == 0 or step == steps:
            spent = time.process_time() - began
            left = spent * (steps - step) / step
            print(f"  step {step} of {steps}, loss {loss:.2f}, {left:.0f} s left", flush=True)

    shape = training.SIZES[size]
    if with_noise:
        model = training.private(shape, rows, vocabulary, seed=seed, told=told, **PRIVATE)
    else:
        model = training.plain(shape, rows, vocabulary, seed=seed, rate=RATE, told=told)
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    spent = round(time.process_time() - began, 1)
    (unfinished / "seconds.json").write_text(json.dumps(spent), encoding="utf-8")
    unfinished.rename(folder)


def measured(model: Any, texts: corpus.Corpus, parts: Path | None = None) -> dict[str, Any]:
    """The shares of one model: by copies and prefix, by tries and scheme, and near."""
    pieces = [piece for group in texts.groups.values() for piece in group]
    copies = np.array([k for k, group in texts.groups.items() for _ in group])
    result = canary.verbatim(
        model,
        pieces,
        texts.controls,
        prefix=PREFIXES,
        suffix=SUFFIX,
        stride=corpus.PIECE,  # one suffix for each piece
        schemes=SCHEMES,
        copies=copies.tolist(),
        near=NEAR,
        start_token=None,
        parts=parts,
    )

    def row(copies_of: int, hits: NDArray[np.bool_], **about: Any) -> dict[str, Any]:
        share = clustered_share(hits, np.ones(len(hits)))
        ends = {name: round(getattr(share, name), 5) for name in ("value", "lower", "upper")}
        return {**about, "copies": copies_of, **ends, "of": len(hits)}

    def rows(hits_of: Hits, at: Verbatim = result, **about: Any) -> list[dict[str, Any]]:
        assert at.controls is not None
        of_texts, of_controls = hits_of(at.texts), hits_of(at.controls)
        groups = [row(k, of_texts[copies == k], **about) for k in texts.groups]
        return [row(0, of_controls, **about), *groups]

    greedy = [
        rows(attrgetter("greedy"), result.after(prefix), prefix=prefix) for prefix in PREFIXES
    ]

    def within(n: int, log_prob: Callable[[Passages], Any]) -> Hits:
        return lambda kind: tries_for(log_prob(kind), 0.5) <= n

    tries = [
        rows(within(n, partial(Passages.log_prob, scheme=at)), scheme=str(scheme), tries=n)
        for at, scheme in enumerate(SCHEMES)
        for n in TRIES
    ]
    near = [rows(within(n, attrgetter("near_log_prob")), tries=n) for n in TRIES]
    found = {"greedy": greedy, "tries": tries, "near": near}
    return {name: [one for each in several for one in each] for name, several in found.items()}


def bits_of_a_token(model: Any, texts: corpus.Corpus) -> float:
    """Log-perplexity of the controls, in bits of a token."""
    tokens = sum(map(len, texts.tokenizer(texts.controls)["input_ids"]))
    return round(float(canary.score(model, texts.controls, start_token=None).sum() / tokens), 3)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="holds wikitext2/, enron_aeslc/")
    parser.add_argument("--work", type=Path, required=True, help="models and finished pieces")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the pieces, for a trial")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    texts = corpus.prepare(args.data, seed=args.seed, scale=args.scale)
    for name in args.models:
        folder = args.work / name.replace(", ", "-")
        folder.parent.mkdir(parents=True, exist_ok=True)
        given = texts.texts(deduplicated=MODELS[name][1], seed=args.seed)
        rows = training.blocks(given, texts.tokenizer)
        if not folder.exists():
            print(f"{name}: training on {len(rows):,} rows of {training.BLOCK} tokens", flush=True)
            trained(name, rows, len(texts.tokenizer), folder, args.seed)
        model = canary.load(str(folder), tokenizer=texts.tokenizer)
        found = measured(model, texts, args.work / f"{folder.name}-parts")
        found |= {
            "parameters": sum(p.numel() for p in model.module.parameters()),
            "rows": len(rows),
            "bits_of_a_token": bits_of_a_token(model, texts),
            "training_cpu_seconds": json.loads((folder / "seconds.json").read_text()),
        }
        keep(args.out, name, found)
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
