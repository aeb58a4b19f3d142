"""Completions spend what the search left, and never lose what it found."""

import numpy as np
import pytest
from small_models import CHARACTERS, character_tokenizer

from canary.audits.extracting import extract
from canary.corpus.canaries import CanarySet
from canary.models.table_model import TableModel
from canary.tokens.fast import as_tokenizer


def model():
    logs = np.random.default_rng(0).normal(0, 1, len(CHARACTERS))
    logs -= np.log(np.exp(logs).sum())
    tokenizer = as_tokenizer(character_tokenizer())
    return TableModel(np.zeros((1, len(CHARACTERS)), int), logs[None], tokenizer)


@pytest.mark.parametrize("budget", [20, 300, 200_000])
def test_completions_stay_within_the_budget(budget):
    canaries = CanarySet.from_fills("a{digit:6}", ["123456", "654321"])
    found = extract(model(), "a{digit:6}", known=1, budget=budget, beam=100, canaries=canaries)
    assert found.queries + sum(c.queries for c in found.completions) <= budget
    late = 2 - len(found.completions)
    assert any("not completed: 2" in note for note in found.notes) == (late == 2)
    assert (budget == 200_000) == (late == 0)


def test_a_fill_too_short_is_left_out_with_a_note():
    found = extract(model(), "a{re:(00000|[1-9])}.", known=2, budget=1_000)
    assert found.candidates
    assert found.completions == ()
    assert any("no more characters than are known" in note for note in found.notes)
