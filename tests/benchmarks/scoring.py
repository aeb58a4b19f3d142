"""How fast a file of texts is scored, against the bare model.

    .venv/bin/python tests/benchmarks/scoring.py

Prints one line of JSON. `bare` runs the module forward over the same texts, tokenized
beforehand, in the same batches sorted by length, with the log-softmax and the sums that
bits need and nothing else. `scored` is the whole of `score_file`: reading, checking,
tokenizing, batching, adding up, writing shards and the file. Both run in turn in one
process, `rounds` times; rates are tokens per second of process time, medians, and
`ratio` is the median of bare to scored within a round (1.15 is the goal).
"""

from __future__ import annotations

import json
import random
import string
import tempfile
from pathlib import Path

import torch
from character_lstm import gpt2, one_token_each
from figures import middle, options, over, show, spread, timed

from canary.models.loading import load
from canary.scoring.score_job import score_file
from canary.tokens.fast import FastTokenizer

CHARACTERS = string.ascii_lowercase + string.digits + " .,"
BATCH = 32


def texts(count: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices(CHARACTERS, k=rng.randrange(20, 240))) for _ in range(count)]


def bare(module, encodings: list[list[int]]) -> float:
    """The sum of all bits."""
    total = 0.0
    order = sorted(encodings, key=len, reverse=True)
    with torch.inference_mode():
        for at in range(0, len(order), BATCH):
            part = order[at : at + BATCH]
            ids = torch.zeros((len(part), len(part[0])), dtype=torch.int64)
            mask = torch.zeros((len(part), len(part[0]) - 1), dtype=torch.bool)
            for row, found in enumerate(part):
                ids[row, : len(found)] = torch.tensor(found)
                mask[row, : len(found) - 1] = True
            logits = module(input_ids=ids[:, :-1], use_cache=False).logits.float()
            picked = logits.gather(-1, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
            total -= float(picked[mask].double().sum())
    return total / float(torch.log(torch.tensor(2.0)))


def main() -> None:
    given = options(texts=600, width=256, layers=4, rounds=3, threads=1)
    torch.set_num_threads(given.threads)
    module = gpt2(8192, width=given.width, layers=given.layers, positions=256)
    backend = one_token_each(CHARACTERS)
    model = load(module, tokenizer=backend)
    written = texts(given.texts)
    encodings = [list(e.ids) for e in FastTokenizer(backend).encode(written)]
    alone, whole = [], []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "texts.jsonl"), Path(folder, "scores.jsonl")
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in written))
        for _ in range(given.rounds):
            bits, seconds = timed(lambda: bare(module, encodings))
            done, scoring = timed(lambda: score_file(model, source, target, batch_size=BATCH))
            alone.append(done.tokens / seconds)
            whole.append(done.tokens / scoring)
            assert done.px_bits is not None
            assert abs(done.px_bits - bits) < 1e-3 * bits
    show(
        "scoring",
        texts=given.texts,
        tokens=done.tokens,
        threads=given.threads,
        bare_per_cpu_second=middle(alone),
        scored_per_cpu_second=middle(whole),
        **spread("ratio", over(alone, whole)),
    )


if __name__ == "__main__":
    main()
