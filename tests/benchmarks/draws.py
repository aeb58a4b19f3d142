"""Uniform draws priced along the token tree against whole rows, with contexts of some lengths.

    python tests/benchmarks/draws.py [--draws 20000] [--rounds 3] [--threads 1] [--rows-up-to 110]
    python tests/benchmarks/draws.py --model FOLDER --draws 500 --contexts 0 110

Ten canaries and draws of nine digits, under the LSTM of the walks, with ``--transformer`` under a
GPT-2 of four layers of 128, or with ``--model`` under a real model. Rows are scored only below
contexts that are not too long, in characters: each as a whole row, and nothing of it shared.
Processor time with encoding, without compiling the tree. One JSON line: seconds for each length
of the context, and their ratios.
"""

from __future__ import annotations

import numpy as np
from character_lstm import (
    CHARACTERS,
    PREFIX,
    character_lstm,
    digits_tree,
    gpt2,
    one_token_each,
)
from figures import Clock, middle, options, over, show, spread

from canary.formats.format import Format
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.scoring.batcher import Batcher
from canary.search.pricing import FILLS_AT_ONCE, Pricer, price_rows
from canary.search.ranking import draw
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tree import TokenTree

DIGITS = 9


def seconds(model: LanguageModel, context: str, tree: TokenTree | None, draws: int) -> float:
    format = Format(f"{PREFIX} {{digit:{DIGITS}}}")
    encoder = CandidateEncoder(model.tokenizer, None, context)
    fills, rng = format.sample(10, rng=np.random.default_rng(1)), np.random.default_rng(0)
    noise_bits = model.facts.noise_bits(1_100)
    if tree is None:
        fills = [*dict.fromkeys([*fills, *format.sample(draws, rng=rng)])]
        with Clock() as clock:
            for first in range(0, len(fills), FILLS_AT_ONCE):
                price_rows(Batcher(model), format, encoder, fills[first : first + FILLS_AT_ONCE])
        return clock.cpu
    with Clock() as clock, Pricer(model, format, encoder, tree, noise_bits) as pricer:
        draw(pricer, Batcher(model), fills, count=draws, rng=rng)
    return clock.cpu


def main() -> None:
    given = options(
        draws=20_000,
        rounds=3,
        threads=1,
        rows_up_to=110,
        contexts=[0, 110, 1_000],
        transformer=False,
        model="",
    )
    _, model = character_lstm(threads=given.threads)
    if given.model:
        model = load(given.model)
    elif given.transformer:
        module = gpt2(len(CHARACTERS), width=128, layers=4, positions=1_200)
        model = load(module, tokenizer=one_token_each(CHARACTERS))
    text = "the random number is what the random number was " * 25
    text = "".join(c for c in text if c in CHARACTERS)
    walked: dict[int, list[float]] = {n: [] for n in given.contexts}
    rows: dict[int, list[float]] = {n: [] for n in given.contexts if n <= given.rows_up_to}
    trees = {n: digits_tree(model, DIGITS, text[:n]) for n in given.contexts}
    for _ in range(given.rounds):
        for n in given.contexts:
            walked[n].append(seconds(model, text[:n], trees[n], given.draws))
            if n in rows:
                rows[n].append(seconds(model, text[:n], None, given.draws))
    figures: dict[str, dict[str, float]] = {}
    for n in given.contexts:
        figures[str(n)] = {
            "walked_s": middle(walked[n], 3),
            **spread("of_no_context", over(walked[n], walked[0]), digits=2),
        }
        if n in rows:
            figures[str(n)] |= {
                "rows_s": middle(rows[n], 3),
                **spread("times_as_fast", over(rows[n], walked[n]), digits=1),
            }
    show("draws", draws=given.draws, contexts=figures)


if __name__ == "__main__":
    main()
