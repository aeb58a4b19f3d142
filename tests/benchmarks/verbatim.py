"""Passages: against `generate`, against the bare forward passes, killed, and of a long document.

    python tests/benchmarks/verbatim.py [--windows 10000] [--samples 1000000] [--texts 40]
        [--rounds 7] [--model FOLDER] [--kills 20] [--tokens 10000 100000]

What a 0 is given for is left out. `bare` runs the module forward over the same windows in the same
batches, logits of the suffixes only, and nothing else; times are processor time on one thread.
With ``--model`` it is that of a folder, and reads Python's documentation instead of random text.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import string
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch
import transformers
from character_lstm import gpt2, one_token_each
from figures import child, fresh, options, over, peak_mib, show, spread, timed
from scipy.stats import beta, binom

from canary.models.decoding import Scheme
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.passages.verbatim import verbatim
from canary.scoring.batcher import Batcher

sys.path.append(str(Path(__file__).parents[1] / "support"))

from small_models import CHARACTERS, causal_module, character_tokenizer, known

SHAPE = (12, 10)
"""Tokens of the prefixes and suffixes that `generate` is compared on."""
SPEED = string.ascii_lowercase + string.digits + " .,"
BATCH = 32


def continued(name: str, prefixes: np.ndarray, **drawn) -> np.ndarray:
    """The prefixes and what `generate` writes after them; an end of text does not stop it."""
    config = transformers.GenerationConfig(eos_token_id=None, pad_token_id=0, **drawn)
    given = torch.from_numpy(prefixes)
    with torch.no_grad():
        mask = torch.ones_like(given)
        return known(name).module.generate(given, generation_config=config, attention_mask=mask)


def windows(name: str, count: int) -> dict[str, int]:
    """Windows of which teacher forcing and `generate` differ, or in the tokens that come out.

    A quarter is text of chance; of the others the suffix is what `generate` wrote, of two thirds
    with another token at some place.
    """
    rng, (prefix, suffix) = np.random.default_rng(1), SHAPE
    differ, out = [0, 0], 0
    for begin in range(0, count, 500):
        size = min(500, count - begin)
        prefixes = rng.integers(0, len(CHARACTERS), (size, prefix))
        options = {"do_sample": False, "max_new_tokens": suffix}
        given = continued(name, prefixes, **options).numpy()
        rows = given.copy()
        for row, kind in enumerate(rng.integers(0, 4, size)):
            if kind == 0:
                rows[row, prefix:] = rng.integers(0, len(CHARACTERS), suffix)
            elif kind != 1:
                place = prefix + rng.integers(0, suffix)
                rows[row, place] = (rows[row, place] + 1) % len(CHARACTERS)
        asked = Rows.of(rows.tolist(), prefix)
        greedy = Batcher(known(name)).decoded(asked, [Scheme()]).greedy.reshape(size, -1)
        leading = np.cumprod(greedy, axis=1).sum(axis=1)
        agreeing = np.cumprod(rows[:, prefix:] == given[:, prefix:], axis=1).sum(axis=1)
        differ[0] += int(((leading == suffix) != (agreeing == suffix)).sum())
        differ[1] += int((leading != agreeing).sum())
        out += int((agreeing == suffix).sum())
    return {"windows": count, "come_out": out, "differ": differ[0], "differ_in_tokens": differ[1]}


def samples(name: str, scheme: Scheme, count: int) -> dict[str, float]:
    """How often `generate` drew each suffix, beside the intervals of that for its probability."""
    torch.manual_seed(0)
    drawn = {"temperature": scheme.temperature, "top_k": scheme.top_k or 0}
    drawn |= {"top_p": scheme.top_p or 1.0, "min_p": scheme.min_p}
    counts: dict[tuple[int, ...], int] = {}
    prefix = np.array([[4, 17, 30, 2]])
    for begin in range(0, count, 20_000):
        rows = continued(
            name, prefix, do_sample=True, max_new_tokens=3,
            num_return_sequences=min(20_000, count - begin), **drawn,
        )  # fmt: skip
        for row, times in zip(*np.unique(rows.numpy(), axis=0, return_counts=True), strict=True):
            counts[tuple(row)] = counts.get(tuple(row), 0) + int(times)
    kinds, hits = list(counts), np.array(list(counts.values()))
    found = Batcher(known(name)).decoded(Rows.of(kinds, 4), [scheme])
    chance = np.exp(found.log_probs.reshape(-1, 3).sum(axis=1, dtype=np.float64))
    often = chance * count >= 10
    low, high = beta.ppf(0.025, hits, count - hits + 1), beta.ppf(0.975, hits + 1, count - hits)
    inside = (low <= chance) & (chance <= high)
    p = 2 * np.minimum(binom.sf(hits - 1, count, chance), binom.cdf(hits, count, chance))
    return {
        "suffixes": len(kinds),
        "expected_10_times": int(often.sum()),
        "of_these_within_95_percent_intervals": int(inside[often].sum()),
        "least_p_times_suffixes": float(min(p.min() * len(kinds), 1.0)),
        "probability_of_unseen": float(1.0 - chance.sum()),
    }


def written(count: int, length: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(SPEED, k=length)) for _ in range(count)]


def speed(texts: int, rounds: int, width: int, folder: str) -> dict[str, object]:
    """Processor seconds of `verbatim` to those of the bare forward passes."""
    torch.set_num_threads(1)
    if folder:
        model = load(folder, device="cpu")
        documents = [text[:2_000] for text in topics.values() if len(text) > 2_000][:texts]
    else:
        shaped = gpt2(8192, width=width, layers=4, positions=128)
        model, documents = load(shaped, tokenizer=one_token_each(SPEED)), written(texts, 550)
    module = model.module
    ids = [model.tokenizer.encode([text])[0].ids for text in documents]
    rows = torch.tensor([row[at : at + 100] for row in ids for at in range(0, len(row) - 99, 50)])

    def bare() -> None:
        with torch.inference_mode():
            for part in rows.split(BATCH):
                module(input_ids=part[:, :-1], use_cache=False, logits_to_keep=50)

    schemes = {"one": [Scheme()], "three": [Scheme(), Scheme(top_k=40), Scheme(top_p=0.9)]}
    options = {"batch_size": BATCH, "start_token": None}
    taken: dict[str, list[float]] = {"bare": [], "one": [], "three": []}
    bare()
    for _ in range(rounds):
        taken["bare"].append(timed(bare)[1])
        for name, asked in schemes.items():
            work = lambda asked=asked: verbatim(model, documents, schemes=asked, **options)  # noqa: E731
            found, seconds = timed(work)
            assert len(found.texts) == len(rows)
            taken[name].append(seconds)
    return {
        "windows": len(rows),
        "bare_seconds": spread("median", taken["bare"]),
        "one_scheme": spread("ratio", over(taken["one"], taken["bare"])),
        "three_schemes": spread("ratio", over(taken["three"], taken["bare"])),
    }


def kills(count: int) -> dict[str, object]:
    """Runs of the command that are killed at any moment: bytes of the result, shards kept."""
    rng, lost, differ, finished, kept = random.Random(0), 0, 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=character_tokenizer())
        causal_module("gpt2").save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        texts = ["".join(random.Random(at).choices(CHARACTERS, k=60)) for at in range(4_000)]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / "train.jsonl").write_text(lines)
        sizes = ("--prefix", "6", "--suffix", "6", "--start-token", "none", "--out", "v")
        command = [sys.executable, "-m", "canary", "verbatim", "model", "--texts", "train.jsonl"]
        result, parts = folder / "v" / "verbatim.json", folder / "v" / "parts"

        def run(limit: float | None) -> bool:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": (folder / "stderr").open("w")}
            root = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
            process = subprocess.Popen([*command, *sizes], cwd=folder, env=root, **quiet)
            try:
                assert process.wait(limit) == 0, (folder / "stderr").read_text()
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return False
            return True

        began = time.monotonic()
        run(None)
        whole, took = result.read_bytes(), time.monotonic() - began
        shutil.rmtree(folder / "v")
        done = before = 0
        while done < count or before:
            ended = run(rng.uniform(0.3, 1.0) * took if done < count else None)
            done += not ended
            # Killed behind the last piece that was to be removed, it has ended too.
            if ended or (result.exists() and not list(parts.glob("*.shard"))):
                assert (folder / "v" / "report.html").exists()
                finished, differ = finished + 1, differ + (result.read_bytes() != whole)
                shutil.rmtree(folder / "v")
                before = 0
                continue
            held = len(list(parts.glob("texts.*.shard")))
            lost, before = lost + (held < before), held
            kept.append(held)
    return {
        "kills": done,
        "seconds_of_a_whole_run": round(took, 1),
        "pieces_after_each": kept,
        "times_a_piece_was_lost": lost,
        "finished": finished,
        "results_with_other_bytes": differ,
    }


def one_document(tokens: int) -> None:
    """The peak of memory with which one long document is measured."""
    module = gpt2(8192, width=64, layers=2, positions=128)
    model = load(module, tokenizer=one_token_each(SPEED))
    verbatim(model, written(1, 2_000), batch_size=BATCH)
    before = peak_mib()
    found = verbatim(model, written(1, tokens), batch_size=BATCH)
    print(json.dumps({"windows": len(found.texts), "peak": peak_mib(), "of_2000": before}))


def main() -> None:
    if (given := child()) is not None:
        one_document(int(given[0]))
        return
    asked = options(
        windows=10_000,
        samples=1_000_000,
        texts=40,
        rounds=7,
        width=256,
        model="",
        kills=20,
        tokens=[10_000, 100_000],
    )
    figures: dict[str, object] = {}
    if asked.windows:
        figures["greedy"] = {n: windows(n, asked.windows) for n in ("gpt2", "llama", "mamba")}
    if asked.samples:
        schemes = Scheme(), Scheme(temperature=1.2, top_k=6, top_p=0.9)
        figures["samples"] = {str(s): samples("gpt2", s, asked.samples) for s in schemes}
    if asked.rounds:
        figures["speed"] = speed(asked.texts, asked.rounds, asked.width, asked.model)
    if asked.kills:
        figures["killed"] = kills(asked.kills)
    if any(asked.tokens):
        figures["mib"] = {count: fresh(__file__, count) for count in asked.tokens}
    show("verbatim", **figures)


if __name__ == "__main__":
    main()
