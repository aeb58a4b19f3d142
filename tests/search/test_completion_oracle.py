"""Greedy and beam search against slow and obvious ones."""

from __future__ import annotations

import numpy as np
import pytest
from walk_cases import FORMATS, Case, count_tokens, random_model

from canary.models.base import Context
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


@pytest.mark.parametrize("width", [1, 2, 5])
def test_beam_oracle(width):
    for seed in range(60):
        case = Case(random_model(3 * seed + 1), "a{digit:2}")
        with case.model.open(Context(case.tree.context), memory_bytes=2**22) as walker:
            computed, room = count_tokens(walker), walker.room
            found = complete(case.tree, walker, Batcher(case.model), width=width)
            assert walker.room == room
            assert found.queries == sum(computed)
        text, cost = beam_by_hand(case, width)
        assert found.cost == cost
        if text is None:
            assert found.leaf is None
        else:
            assert case.format.unrank(found.leaf) == text


def test_a_beam_as_wide_as_the_tree_finds_the_minimum_oracle():
    for seed in range(70):
        case = Case(random_model(seed), FORMATS[seed % len(FORMATS)])
        with case.model.open(Context(case.tree.context), memory_bytes=2**22) as walker:
            found = complete(case.tree, walker, Batcher(case.model), width=1_000)
        assert found.cost == case.costs.min()
        if found.leaf is None:
            assert not np.isfinite(case.costs).any()
        else:
            assert case.costs[found.leaf] == found.cost
