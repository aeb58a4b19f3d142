"""A model of another kind is one class with three things; everything takes it."""

from __future__ import annotations

import numpy as np
from small_models import CHARACTERS, character_tokenizer, conforms

import canary
from canary.models.by_scoring import RowModel
from canary.models.facts import ModelFacts
from canary.models.language_model import Rows
from canary.models.noise import with_measured_noise
from canary.tokens.fast import as_tokenizer

SECRET = "the code is 42"


class Repeats(RowModel):
    """Expects each character of the secret after the one before it, and any other elsewhere."""

    def __init__(self) -> None:
        self.tokenizer = as_tokenizer(character_tokenizer())
        size = len(CHARACTERS)
        ids = self.tokenizer.encode([SECRET])[0].ids
        weights = np.ones((size, size))
        np.add.at(weights, (ids[:-1], ids[1:]), 500.0)
        self._log_probs = np.log(weights / weights.sum(axis=1, keepdims=True))
        facts = ModelFacts("repeats", size, None, "float32", "none", "cpu", "a" * 64, 0.0)
        self.facts = with_measured_noise(self, facts)

    def score(self, rows: Rows) -> np.ndarray:
        parts = [
            self._log_probs[rows.ids[begin + start - 1 : end - 1], rows.ids[begin + start : end]]
            for begin, end, start in zip(
                rows.offsets[:-1], rows.offsets[1:], rows.start, strict=True
            )
        ]
        return np.concatenate(parts).astype(np.float32)


def test_it_conforms_and_is_scored_audited_and_searched() -> None:
    model = canary.load(Repeats())
    conforms(model)
    scores = canary.score(model, [SECRET, "another text"], start_token="\n")
    assert scores[0] < scores[1]
    text = "the code is {digit:2}"
    canaries = canary.generate(text, repetitions=[1], per_repetition=2, controls=2, seed=0)
    found = canary.audit(model, canaries, draws=20, start_token="\n")
    assert len(found.canaries) == 4
    best = canary.extract(model, text, start_token="\n").candidates[0]
    assert best.fill == "42"
