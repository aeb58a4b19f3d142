"""Greedy and beam search against slow and obvious ones."""

from __future__ import annotations

import numpy as np
import pytest
from walk_cases import Case, cases, count_tokens, random_model, tied_tokenizer

from canary.audits.completing import completions
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.search.completion import complete


def beam_by_hand(case, width):
    """The same search over strings: every beginning goes on by each digit, the likeliest stay."""
    model, beam = case.model, {"": 0.0}
    for _ in range(2):
        longer = {}
        for begin, cost in beam.items():
            state = 0
            for token in model.tokenizer.encode(["a" + begin])[0].ids:
                state = int(model._transitions[state, token])
            for digit in range(10):
                longer[f"{begin}{digit}"] = cost - float(model._log_probs[state, digit])
        kept = sorted(longer, key=longer.__getitem__)[:width]
        beam = {text: longer[text] for text in kept if np.isfinite(longer[text])}
    return min(beam.items(), key=lambda pair: pair[1], default=(None, np.inf))


def test_beam_oracle():
    for seed in range(30):
        case = Case(random_model(3 * seed + 1), "a{digit:2}")
        for width in (1, 2, 5):
            with case.open() as walker:
                computed, room = count_tokens(walker), walker.room
                found = complete(case.tree, walker, Batcher(case.model), width=width)
                assert walker.room == room
                assert found.queries == sum(computed)
            text, cost = beam_by_hand(case, width)
            assert found.cost == cost
            assert text == (None if found.leaf is None else case.format.unrank(found.leaf))


def test_a_beam_as_wide_as_the_tree_finds_the_minimum_oracle():
    for _, case in cases(35):
        with case.open() as walker:
            found = complete(case.tree, walker, Batcher(case.model), width=1_000)
        assert found.cost == case.costs.min()
        if found.leaf is None:
            assert not np.isfinite(case.costs).any()
        else:
            assert case.costs[found.leaf] == found.cost


def test_a_text_is_completed_in_tokens_that_the_tokenizer_would_not_give_golden():
    """Two ways to cut "ab" score as much; greedy search takes the one that is no canonical leaf.

    It writes "ab" all the same: after "!" most likely "a" (0.6), after "a" most likely "b" (0.8).
    """
    after_a, after_mark = [0.01, 0.17, 0.8, 0.01, 0.01], [0.01, 0.6, 0.1, 0.28, 0.01]
    tables = {(): np.full(5, 0.2), (1,): after_a, (4,): after_mark}
    model = TableModel.ngram({k: np.log(p) for k, p in tables.items()}, tied_tokenizer())
    case = Case(model, "!{re:[ab]{2}}!")
    tree, format = case.tree, case.format
    assert (format.size, tree.size) == (4, 5)
    with case.open() as walker:
        greedy = complete(tree, walker, Batcher(model), width=1)
    assert tree.row(greedy.leaf) == (4, 1, 2, 4)
    assert (tree.fills([greedy.leaf]), tree.texts([greedy.leaf])) == ([None], [("ab",)])
    assert greedy.cost == pytest.approx(-np.log(0.6 * 0.8 * 0.2))
    for width in (1, 2, 3):
        made = completions(model, format, {fill: fill for fill in format}, known=0, beam=width)
        assert [c.greedy for c in made] == [c.beam for c in made] == [f == "ab" for f in format]
