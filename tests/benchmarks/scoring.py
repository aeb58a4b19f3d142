"""How fast a file of texts is scored, against the bare model.

    .venv/bin/python tests/benchmarks/scoring.py
    elsewhere/bin/python tests/benchmarks/scoring.py --model FOLDER --lm-eval

`--model` scores parts of Python's documentation with a real model. `--lm-eval` has
`HFLM.loglikelihood` of lm-eval score the same texts with the same module; it is no dependency
of the project: pip install lm-eval into an environment of its own.

Prints one line of JSON. `bare` runs the module forward over the same texts, tokenized
beforehand, in the same batches sorted by length, with the log-softmax and the sums that
bits need and nothing else. `scored` is the whole of `score_file`: reading, checking,
tokenizing, batching, adding up, writing shards and the file. Both run in turn in one
process, `rounds` times; rates are tokens per second of process time, medians, and
`ratio` is the median of bare to scored within a round (1.15 is the goal).
"""

from __future__ import annotations

import json
import logging
import random
import string
import tempfile
from pathlib import Path
from pydoc_data.topics import topics

import torch
import transformers
from character_lstm import gpt2, one_token_each
from figures import middle, options, over, show, spread, timed

from canary.models.loading import load
from canary.scoring.score_job import score_file
from canary.statistics.number_checks import LN2
from canary.tokens.candidates import CandidateEncoder

CHARACTERS = string.ascii_lowercase + string.digits + " .,"


def texts(count: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices(CHARACTERS, k=rng.randrange(20, 240))) for _ in range(count)]


def passages(count: int) -> list[str]:
    """Of Python's documentation, each of some hundred characters."""
    rng, pages = random.Random(0), [topics[name] for name in sorted(topics)]
    long = [page for page in pages if len(page) > 800]
    return [long[at % len(long)][: rng.randrange(200, 800)].strip() for at in range(count)]


def lm_eval(module, hub, written: list[str], batch: int) -> float:
    """The sum of all bits by lm-eval."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    logging.disable(logging.WARNING)
    harness = HFLM(pretrained=module, tokenizer=hub, backend="causal", batch_size=batch)
    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=("", text), idx=0)
        for text in written
    ]
    return -sum(nats for nats, _ in harness.loglikelihood(requests, disable_tqdm=True)) / LN2


def bare(module, encodings: list[list[int]], batch: int) -> float:
    """The sum of all bits."""
    total = 0.0
    order = sorted(encodings, key=len, reverse=True)
    with torch.inference_mode():
        for at in range(0, len(order), batch):
            part = order[at : at + batch]
            ids = torch.zeros((len(part), len(part[0])), dtype=torch.int64)
            mask = torch.zeros((len(part), len(part[0]) - 1), dtype=torch.bool)
            for row, found in enumerate(part):
                ids[row, : len(found)] = torch.tensor(found)
                mask[row, : len(found) - 1] = True
            logits = module(input_ids=ids[:, :-1], use_cache=False).logits.float()
            picked = logits.gather(-1, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
            total -= float(picked[mask].double().sum())
    return total / LN2


def main() -> None:
    given = options(
        texts=600, width=256, layers=4, rounds=3, threads=1, batch=32, model="", lm_eval=False
    )
    torch.set_num_threads(given.threads)
    start, hub = None, None
    if given.model:
        hub = transformers.AutoTokenizer.from_pretrained(given.model)
        model, written, start = load(given.model), passages(given.texts), hub.bos_token
        module = model.module
    else:
        module = gpt2(8192, width=given.width, layers=given.layers, positions=256)
        model, written = load(module, tokenizer=one_token_each(CHARACTERS)), texts(given.texts)
    encodings = [list(e.ids) for e in CandidateEncoder(model.tokenizer, start).encode(written)]
    alone, whole, theirs = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "texts.jsonl"), Path(folder, "scores.jsonl")
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in written))
        for _ in range(given.rounds):
            bits, seconds = timed(lambda: bare(module, encodings, given.batch))
            done, scoring = timed(
                lambda: score_file(model, source, target, batch_size=given.batch, start_token=start)
            )
            if given.lm_eval:
                found, harness = timed(lambda: lm_eval(module, hub, written, given.batch))
                theirs.append(done.tokens / harness)
                assert abs(found - bits) < 1e-3 * bits
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
        **(spread("lm_eval_ratio", over(alone, theirs)) if theirs else {}),
    )


if __name__ == "__main__":
    main()
