"""What many rows begin with is read once, and every token has the value of its whole row."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import known

from canary.models.language_model import Rows
from canary.scoring import shared_rows
from canary.scoring.batcher import Batcher
from canary.scoring.shared_rows import shared_beginning


def rows_of(begin: int, tails: list[int], starts=1) -> Rows:
    rng = np.random.default_rng(0)
    head = rng.integers(0, 40, begin).tolist()
    return Rows.of([head + rng.integers(0, 40, n).tolist() for n in tails], starts)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("starts", [1, [1, 5, 21, 22, 23, 1, 1, 30]])
def test_values_are_those_of_whole_rows(name, starts, monkeypatch):
    model = known(name)
    assert "share" in model.facts.capabilities
    rows = rows_of(20, [1, 2, 3, 4, 5, 6, 7, 12], starts)
    rows.ids[rows.offsets[:-1] + 20] = np.arange(8)  # else they may share one token more
    assert shared_beginning(rows) == 20
    whole = Batcher(model).score(rows)
    monkeypatch.setattr(shared_rows, "_LEAST_SAVED", 1)
    read = []
    scored = type(model).score
    monkeypatch.setattr(
        type(model), "score", lambda self, r: read.append(r.lengths.sum()) or scored(self, r)
    )
    for size in (None, 3):
        shared = Batcher(model, batch_size=size).score(rows, alike=True)
        np.testing.assert_allclose(shared, whole, atol=1e-4)
    assert read == [21, 21]  # one row as a whole, each time: the check


def test_a_model_that_differs_below_a_beginning_is_scored_as_whole_rows(monkeypatch):
    model = known("llama")
    rows = rows_of(20, [3, 4, 5])
    whole = Batcher(model).score(rows)
    begun = model.begun

    class Wrong:
        def __init__(self, ids):
            self.inner = begun(ids)
            self.log_probs = self.inner.log_probs - 0.01

        def score(self, rows):
            return self.inner.score(rows)

    monkeypatch.setattr(shared_rows, "_LEAST_SAVED", 1)
    monkeypatch.setattr(type(model), "begun", lambda self, ids: Wrong(ids))
    np.testing.assert_array_equal(Batcher(model).score(rows, alike=True), whole)


def test_beginnings_are_those_of_all_rows():
    assert shared_beginning(Rows.of([[1, 2, 3]])) == 0  # of one row nothing is shared
    assert shared_beginning(Rows.of([[1, 2, 3], [1, 2]])) == 2
    assert shared_beginning(Rows.of([[1, 2, 3], [2, 2]])) == 0
    long = list(range(30)) * 40
    assert shared_beginning(Rows.of([[*long, 1, 2], [*long, 2, 2]])) == len(long)
