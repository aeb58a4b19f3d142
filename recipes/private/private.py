"""The gate's bound on epsilon beside an accountant's, for language models trained by DP-SGD.

Each canary goes in by the toss of a coin. A tiny GPT-2 is trained on them and on some prose:
batches are drawn by coins, the gradient of each record is clipped to norm 1, and normal noise is
added to their sum. The accountant of opacus says how private that is at the least; what the audit
tells of the coins, how private it is at the most.

Usage::

    python private.py --epsilons 1 4 16 --runs 5 --out results.json
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from statistics import median

import torch
from tokenizers import Tokenizer
from torch.func import functional_call, grad, vmap
from transformers import GPT2Config, GPT2LMHeadModel

import canary
from canary.demo import START, characters, prose
from canary.gate.coins import EpsilonBound, epsilon_bound

FORMAT = "{letter:12}"
COINS, GUESSES = 200, 120
SENTENCES, WIDTH = 20, 40
STEPS, SHARE, RATE = 100, 0.5, 0.003
DELTA = 1e-5
NOTHING = -100  # a target that costs nothing


def noise_for(epsilon: float) -> float:
    """The noise, per norm of a gradient, at which the accountant says epsilon; 0 for infinity."""
    if math.isinf(epsilon):
        return 0.0
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=DELTA,
            sample_rate=SHARE,
            steps=STEPS,
            accountant="prv",
        )
    )


def rows_of(texts: list[str], tokenizer: Tokenizer) -> torch.Tensor:
    """Token ids of shape (n, WIDTH): a newline, the text, and nothing behind."""
    rows = torch.full((len(texts), WIDTH), NOTHING)
    for row, text in zip(rows, texts, strict=True):
        ids = tokenizer.encode(START + text).ids[:WIDTH]
        row[: len(ids)] = torch.tensor(ids)
    return rows


def trained(rows: torch.Tensor, vocabulary: int, *, noise: float, seed: int) -> GPT2LMHeadModel:
    """A model trained by DP-SGD; one row is one record."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=WIDTH, n_embd=64, n_layer=1, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        attn_implementation="eager", use_cache=False,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    weights = dict(model.named_parameters())
    optimizer = torch.optim.Adam(weights.values(), RATE)

    def loss(weights: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        given = {"input_ids": row.clamp(min=0)[None]}
        logits = functional_call(model, weights, (), given).logits[0]
        return torch.nn.functional.cross_entropy(logits[:-1], row[1:], reduction="sum")

    gradients = vmap(grad(loss), (None, 0))
    for _ in range(STEPS):
        batch = rows[torch.rand(len(rows)) < SHARE]
        found = gradients({name: value.detach() for name, value in weights.items()}, batch)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
        kept = (1.0 / norms).clamp(max=1.0)
        for name, g in found.items():
            total = torch.einsum("n,n...->...", kept, g)
            weights[name].grad = total + noise * torch.randn(total.shape)
        optimizer.step()
    return model.eval()


def bound(seed: int, *, noise: float) -> EpsilonBound:
    """The bounds on epsilon of one run, and how many coins were guessed right."""
    canaries = canary.generate(
        FORMAT, repetitions=[1], per_repetition=COINS, controls=2, seed=seed, coin_flips=True
    )
    texts = [canaries.text(c) for c in canaries.injected] + list(prose(SENTENCES)["text"])
    tokenizer = characters([*texts, *(format.alphabet for format in canaries.formats)])
    rows = rows_of(texts, tokenizer)
    model = trained(rows, tokenizer.get_vocab_size(), noise=noise, seed=seed)
    loaded = canary.load(model, tokenizer=tokenizer)
    audit = canary.audit(loaded, canaries, method="sampling", draws=1_000, start_token=START)
    return epsilon_bound(audit, canaries, guesses=GUESSES, delta=DELTA, mechanism="gaussian")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0, 16.0, math.inf])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for epsilon in args.epsilons:
        noise, began = noise_for(epsilon), time.process_time()
        found = [bound(seed, noise=noise) for seed in range(args.runs)]
        results.append(
            {
                "epsilon": "infinite" if math.isinf(epsilon) else epsilon,
                "noise": round(noise, 3),
                "bounds": [round(one.epsilon_any, 3) for one in found],
                "median": round(median(one.epsilon_any for one in found), 3),
                "gaussian_bounds": [round(one.epsilon, 3) for one in found],
                "gaussian_median": round(median(one.epsilon for one in found), 3),
                "right": [one.correct for one in found],
                "seconds_per_run": round((time.process_time() - began) / args.runs, 1),
            }
        )
        print(json.dumps(results[-1]), flush=True)
    lines = ",\n ".join(json.dumps(one) for one in results)
    args.out.write_text(f"[\n {lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
