"""What a run on passages is said to take before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_models import character_tokenizer, recurrent_module

from canary import verbatim
from canary.errors import InputError
from canary.models.loading import load
from canary.passages.extractable import none_needed
from canary.passages.passages_forecast import passages_forecast
from canary.scoring import time_expected
from canary.statistics.clustered import ClusteredShare

TEXTS = {f"text {n}": f"{n} apples and {n + 1} pears in a bowl " * 9 for n in range(9)}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    return load(recurrent_module("LSTM"), tokenizer=character_tokenizer())


def test_windows_and_tokens_are_those_that_are_scored_afterwards(model):
    tokens = []

    def stage(name, total, unit):
        return tokens.append if name == "texts" else lambda done: None

    found = verbatim(model, TEXTS, start_token=None, progress=stage)
    said = passages_forecast(model, TEXTS, start_token=None)
    assert (said.texts, said.windows) == (9, len(found.texts))
    assert said.tokens == sum(tokens)
    assert said.seconds > 0
    assert said.bytes > 10_000_000  # Python itself takes more
    assert f"{said.windows} windows of 9 texts" in said.summary()
    assert said.from_dict(said.to_dict()) == said


def test_only_the_first_batches_are_done_and_their_pace_is_that_of_the_rest(model, monkeypatch):
    clock = iter(range(1_000))  # a second for each batch
    monkeypatch.setattr(time_expected, "perf_counter", lambda: float(next(clock)))
    said = passages_forecast(model, TEXTS, start_token=None, batch_size=1)
    assert next(clock) == 4  # the first batch does not count, and three seconds are enough
    assert said.seconds == pytest.approx(said.windows, rel=0.1)


def test_texts_that_are_too_short_are_refused_as_by_the_run(model):
    for run in (verbatim, passages_forecast):
        with pytest.raises(InputError, match="none of 1 text has the 100 tokens"):
            run(model, ["short"], start_token=None)


def test_of_a_single_text_nothing_is_known_but_how_many_are_needed():
    share = ClusteredShare(0.0, 0.0, 1.0, 0, 9, 1, 0.95)
    needed = none_needed(share, 0.05)
    assert 0.95**needed <= 0.025 < 0.95 ** (needed - 1)
    assert none_needed(replace(share, upper=0.5, documents=10), 0.05) == 136  # 0.5^10 = 0.95^136
