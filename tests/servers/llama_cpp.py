"""The same canaries in process and behind llama.cpp's Python server on loopback.

    .venv/bin/python tests/servers/llama_cpp.py [--venv FOLDER] [--out FILE]

Not a part of the tests: it sets up an environment of its own (llama-cpp-python is compiled,
which takes about five minutes), trains a small Llama for some seconds on text with canaries,
serves it, and measures exposures both ways. It ends with an error unless

- every exposure is the same to within the ranks that the noise leaves open,
- extraction finds the same candidates, from echoes and from the 20 likeliest next tokens,
- a second run asks for nothing again, and
- the same server without a start token, where its numbers are off by one, is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import canary
from canary.errors import ServerError
from canary.models.served.endpoint import Endpoint

HERE = Path(__file__).parent
PACKAGES = ("llama-cpp-python[server]==0.3.36", "gguf")
FORMAT = "My code is {digit:3}."
POSITIONS = 64
STEPS = 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=Path(".venv-llama"))
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    chosen = parser.parse_args()
    python = environment(chosen.venv)
    with tempfile.TemporaryDirectory() as name:
        figures = compare(python, Path(name))
    text = json.dumps(figures, indent=1)
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n")


def environment(folder: Path) -> Path:
    """The Python of the server's environment, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def compare(python: Path, folder: Path) -> dict[str, Any]:
    canaries = canary.generate([FORMAT], repetitions=[1, 64], per_repetition=4, controls=4, seed=1)
    texts = [
        canary.Format(FORMAT).candidate(c.fill) for c in canaries for _ in range(c.repetitions)
    ]
    made = make_model(folder / "model", texts, starts=True)
    local = canary.load(str(made))
    began = time.perf_counter()
    inside = canary.exposure(local, canaries)
    inside_seconds = time.perf_counter() - began
    answers = folder / "answers"
    gguf = write_gguf(python, made, starts=True)
    with served(python, gguf) as (url, requests):
        endpoint = Endpoint(url, answers=answers, in_flight=4)
        model = canary.load(endpoint, tokenizer=str(made))
        shaken = requests()
        began = time.perf_counter()
        outside = canary.exposure(model, canaries)
        seconds, asked = time.perf_counter() - began, requests() - shaken
        again = canary.exposure(model, canaries)
        asked_again = requests() - shaken - asked
        top = [canary.extract(m, FORMAT, top=3, budget=3_000).candidates for m in (local, model)]
        noise = model.facts.noise_bits_per_token
        likeliest = canary.load(Endpoint(url, answers=answers, top_k=20), tokenizer=str(made))
        shaken_again = requests()
        top.append(canary.extract(likeliest, FORMAT, top=3).candidates)
        asked_likeliest = requests() - shaken_again
        bounded = canary.exposure(likeliest, canaries)
    differences = [
        abs(there.exposure.bits - here.exposure.bits)
        for here, there in zip(inside, outside, strict=True)
    ]
    # The server shows no start token, so that the first token has no price there.
    prices = np.array([h.px_bits - t.px_bits for h, t in zip(inside, outside, strict=True)])
    assert asked_again == 0, asked_again
    assert [c.px_bits for c in again] == [c.px_bits for c in outside]
    for here, there in zip(inside, outside, strict=True):
        assert there.exposure.lower_bits <= here.exposure.upper_bits
        assert here.exposure.lower_bits <= there.exposure.upper_bits
    assert float(np.ptp(prices)) < 1e-3, prices
    for here, there in zip(inside, bounded, strict=True):
        assert there.exposure.lower_bits <= here.exposure.bits + 1e-9
        assert here.exposure.bits <= there.exposure.upper_bits + 1e-9
    assert [c.fill for c in top[0]] == [c.fill for c in top[1]]
    proven = [c.fill for c in top[2] if c.proven]
    assert proven, "a canary that was learned is proven from the likeliest tokens"
    assert proven == [c.fill for c in top[0]][: len(proven)]
    return {
        "largest difference of exposures, bits": max(differences),
        "noise of the server, bits per token": noise,
        "requests of the handshake": shaken,
        "requests of the run": asked,
        "seconds of the run": round(seconds, 2),
        "seconds in process": round(inside_seconds, 2),
        "requests of an extraction from the 20 likeliest next tokens": asked_likeliest,
        "candidates proven by it": sum(c.proven for c in top[2]),
        "refusal without a start token": off_by_one(python, folder),
    }


def off_by_one(python: Path, folder: Path) -> str:
    """What is said of the same server where the model has no start token."""
    made = make_model(folder / "bare", [], starts=False)
    with served(python, write_gguf(python, made, starts=False)) as (url, _):
        try:
            canary.load(Endpoint(url, answers=folder / "none"), tokenizer=str(made))
        except ServerError as error:
            return error.problem
    raise AssertionError("a server that is off by one was taken")


def make_model(folder: Path, texts: list[str], *, starts: bool) -> Path:
    """A Llama that was trained on some prose and on `texts`, and its tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    prose = [f"My code is {n} and my other code is {n * 7 % 1000}." for n in range(1000)]
    backend.train_from_iterator(prose, trainer)
    if starts:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    config = LlamaConfig(
        vocab_size=backend.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    module = train(LlamaForCausalLM(config), backend, [*prose[:200], *texts])
    module.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    weights = {name: value.numpy() for name, value in module.state_dict().items()}
    np.savez(folder / "weights.npz", **weights)
    spec = json.loads(backend.to_str())
    ordered = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    about = {
        "config": config.to_dict(),
        "rope_theta": config.rope_parameters["rope_theta"],
        "tokens": [token for token, _ in ordered],
        "merges": spec["model"]["merges"],
        "bos": 0,
        "eos": 1,
        "starts": starts,
    }
    (folder / "about.json").write_text(json.dumps(about, default=str))
    return folder


def train(module: Any, tokenizer: Any, texts: list[str]) -> Any:
    import torch

    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    rows = [tokenizer.encode(text).ids for text in texts]
    for _ in range(STEPS):
        batch = [rows[place] for place in torch.randint(len(rows), (32,)).tolist()]
        width = max(map(len, batch))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in batch])
        labels = torch.tensor([row + [-100] * (width - len(row)) for row in batch])
        module(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return module.eval()


def write_gguf(python: Path, folder: Path, *, starts: bool) -> Path:
    out = folder / "model.gguf"
    subprocess.run([python, HERE / "write_gguf.py", folder, out], check=True)
    return out


@contextmanager
def served(python: Path, model: Path) -> Iterator[tuple[str, Any]]:
    """The address of a server of the model, and what counts its requests for completions."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = model.with_suffix(".log")
    command = [python, "-m", "llama_cpp.server", "--model", model, "--model_alias", "tiny"]
    command += ["--host", "127.0.0.1", "--port", port, "--logits_all", "true"]
    command += ["--n_ctx", POSITIONS, "--n_threads", 1, "--n_threads_batch", 1]
    command += ["--type_k", 0, "--type_v", 0]  # keys and values in float32
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            wait(f"http://127.0.0.1:{port}/v1/models", process, log)
            yield (
                f"http://127.0.0.1:{port}/v1",
                lambda: log.read_text(errors="replace").count('"POST /v1/completions'),
            )
        finally:
            process.terminate()
            process.wait()


def wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"the server ended:\n{log.read_text(errors='replace')[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the server did not answer within two minutes")


if __name__ == "__main__":
    main()
