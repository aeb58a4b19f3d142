"""Uniform draws priced along the token tree against whole rows, with contexts of some lengths.

    python tests/benchmarks/draws.py [--draws 20000] [--rounds 3] [--threads 1] [--rows-up-to 110]

Ten canaries and draws of nine digits, under the LSTM of the walks, or with ``--transformer``
under a GPT-2 of four layers of 128. Rows are priced only below contexts that are not too long.
Processor time with encoding, without compiling the tree. One JSON line: seconds for each
length of the context, and their ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from character_lstm import CHARACTERS, PREFIX, character_lstm
from spread import spread
from tokenizers import Tokenizer, models

from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.pricing import Pricer
from canary.search.ranking import draw
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree, compile_tree

CONTEXTS = (0, 110, 1_000)


def transformer() -> LanguageModel:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(CHARACTERS), n_embd=128, n_layer=4, n_head=4, n_positions=1_200
    )
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
    return load(transformers.GPT2LMHeadModel(config).eval(), tokenizer=tokenizer)


def seconds(model: LanguageModel, context: str, tree: TokenTree | None, draws: int) -> float:
    format, encoder = a_format(), CandidateEncoder(model.tokenizer, None, context)
    fills, rng = format.sample(10, rng=np.random.default_rng(1)), np.random.default_rng(0)
    noise_bits = model.facts.noise_bits(1_100)
    began = time.process_time()
    with Pricer(model, format, encoder, tree, noise_bits) as pricer:
        draw(pricer, Batcher(model), fills, count=draws, rng=rng)
    return time.process_time() - began


def a_format() -> Format:
    return Format(f"{PREFIX} {{digit:9}}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows-up-to", type=int, default=110)
    parser.add_argument("--transformer", action="store_true")
    options = parser.parse_args()
    _, model = character_lstm(threads=options.threads)
    if options.transformer:
        model = transformer()
    text = "the random number is what the random number was " * 25
    text = "".join(c for c in text if c in CHARACTERS)
    walked: dict[int, list[float]] = {n: [] for n in CONTEXTS}
    rows: dict[int, list[float]] = {n: [] for n in CONTEXTS if n <= options.rows_up_to}
    trees = {
        n: compile_tree(a_format(), CandidateEncoder(model.tokenizer, None, text[:n]))
        for n in CONTEXTS
    }
    for _ in range(options.rounds):
        for n in CONTEXTS:
            walked[n].append(seconds(model, text[:n], trees[n], options.draws))
            if n in rows:
                rows[n].append(seconds(model, text[:n], None, options.draws))
    figures = {
        str(n): {
            "walked_s": round(statistics.median(walked[n]), 3),
            **spread(
                "of_no_context",
                [a / b for a, b in zip(walked[n], walked[0], strict=True)],
                digits=2,
            ),
            **(
                {
                    "rows_s": round(statistics.median(rows[n]), 3),
                    **spread(
                        "times_as_fast",
                        [a / b for a, b in zip(rows[n], walked[n], strict=True)],
                        digits=1,
                    ),
                }
                if n in rows
                else {}
            ),
        }
        for n in CONTEXTS
    }
    print(json.dumps({"benchmark": "draws", "draws": options.draws, "contexts": figures}))


if __name__ == "__main__":
    main()
