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

import argparse
import json
import random
import statistics
import string
import tempfile
import time
from pathlib import Path

import torch
from spread import spread
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel

from canary.models.loading import load
from canary.scoring.score_job import score_file
from canary.tokens.fast import FastTokenizer

CHARACTERS = string.ascii_lowercase + string.digits + " .,"
BATCH = 32


def texts(count: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices(CHARACTERS, k=rng.randrange(20, 240))) for _ in range(count)]


def bare(module, encodings: list[list[int]]) -> tuple[float, float]:
    """Tokens per second of process time, and the sum of all bits."""
    began, total, tokens = time.process_time(), 0.0, 0
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
            tokens += int(mask.sum())
    return tokens / (time.process_time() - began), total / float(torch.log(torch.tensor(2.0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=600)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    sizes = {"n_embd": options.width, "n_layer": options.layers, "n_head": 4, "n_positions": 256}
    special = {"bos_token_id": None, "eos_token_id": None}
    module = GPT2LMHeadModel(GPT2Config(vocab_size=8192, **sizes, **special)).eval()
    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
    model = load(module, tokenizer=backend)
    written = texts(options.texts)
    encodings = [list(e.ids) for e in FastTokenizer(backend).encode(written)]
    rates: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "texts.jsonl"), Path(folder, "scores.jsonl")
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in written))
        for _ in range(options.rounds):
            bare_rate, bits = bare(module, encodings)
            began = time.process_time()
            done = score_file(model, source, target, batch_size=BATCH)
            rates.append((bare_rate, done.tokens / (time.process_time() - began)))
            assert done.px_bits is not None
            assert abs(done.px_bits - bits) < 1e-3 * bits
    ratios = [bare_rate / scored_rate for bare_rate, scored_rate in rates]
    print(
        json.dumps(
            {
                "benchmark": "scoring",
                "texts": options.texts,
                "tokens": done.tokens,
                "threads": options.threads,
                "bare_per_cpu_second": round(statistics.median(rate for rate, _ in rates)),
                "scored_per_cpu_second": round(statistics.median(rate for _, rate in rates)),
                **spread("ratio", ratios),
            }
        )
    )


if __name__ == "__main__":
    main()
