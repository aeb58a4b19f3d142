"""Eight random words as a secret: twenty settings of a word model, and a character model.

Sections 6.2 and 6.3 and figure 5 of the paper. The words are of the corpus, in an order that
it does not have. The first study shows the utility beside the exposure of five copies for many
settings; the second one what a character model learns of the same secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from corpus import word_tokenizer
from study import Texts, best_of, injected_bits, sweep, table_by
from train import Settings

import canary


def eight_words(texts: Texts, seed: int, *, quick: bool, copies: int = 5) -> canary.CanarySet:
    """Two secrets of eight words of the texts, each with so many copies, and two controls.

    No word begins another one: the token tree of such words is small.
    """
    there = sorted({word for line in texts["train"] for word in line.split() if word.isalpha()})
    words = [
        one for one, after in zip(there, [*there[1:], ""], strict=True) if not after.startswith(one)
    ]
    text = "{word:2} ." if quick else "{word:8} ."
    return canary.generate(
        canary.Format(text, words=words),
        repetitions=[copies],
        per_repetition=2,
        controls=2,
        seed=seed,
    )


CHANGES: Mapping[str, Mapping[str, Any]] = {
    f"{units} units, dropout {dropout:.0%}, batch {batch}, rate {rate:g}": {
        "model": {"units": units, "dropout": dropout},
        "settings": {"batch": batch, "learning_rate": rate},
    }
    for units, dropout, batch, rate in [
        *product((100, 200), (0.0, 0.5), (8, 32), (1e-3, 4e-3)),
        *product((50, 400), (0.2,), (16,), (1e-3, 4e-3)),
    ]
}


def summary(results: Mapping[str, Any]) -> str:
    """The table of all settings, and how their perplexity and exposure go together (figure 5)."""
    rows = [row["epochs"] for row in results["trainings"].values() if "variants" in row]
    shown = table_by(results, "word-settings")
    if len(rows) < 3:
        return shown
    said = []
    for where, epochs in (
        ("at least validation loss", [best_of(row) for row in rows]),
        ("at the end", [row[-1] for row in rows]),
    ):
        perplexities = np.exp([epoch["test_nats"] for epoch in epochs])
        r = np.corrcoef(perplexities, [injected_bits(epoch) for epoch in epochs])[0, 1]
        said.append(f"r = {r:.2f} {where}")
    over = f"Perplexity on the test text and exposure over {len(rows)} settings"
    return f"{shown}\n{over}: {', '.join(said)}.\n"


WORDS = replace(
    sweep(
        "word-settings",
        CHANGES,
        share=0.05,
        base=Settings(epochs=10, window=35),
        seeds=1,
        drawn=eight_words,
        tokenizer=word_tokenizer,
    ),
    summary=summary,
)
CHARACTERS = sweep(
    "words-by-characters",
    {f"{copies} of each": {"canaries": {"copies": copies}} for copies in (1, 5, 16)},
    share=0.05,
    base=Settings(epochs=20, batch=16),
    drawn=eight_words,
)
