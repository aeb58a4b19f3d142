"""Certain bounds rest on probabilities that sum to 1: how far they may not, and who refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_models import CHARACTERS, build, character_tokenizer

from canary.audits.auditing import exposure
from canary.audits.extracting import extract
from canary.corpus.canaries import CanarySet
from canary.errors import ModelError
from canary.formats.format import Format
from canary.models.conformance import distributions_are_normalised
from canary.models.facts import ROUNDING_NATS, ModelFacts
from canary.models.language_model import Children, Expansion, Nodes
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.tokens.fast import as_tokenizer

SIZE = len(CHARACTERS)


def digits_model(total: float) -> TableModel:
    """Ten digits of `total` / 10 each, after whatever; unchecked as another's adapter may be."""
    logs = np.full((1, SIZE), -math.log(SIZE))
    model = TableModel(np.zeros((1, SIZE), int), logs, as_tokenizer(character_tokenizer()))
    model._log_probs[:] = -60.0
    model._log_probs[:, :10] = math.log(total / 10)
    return model


@pytest.mark.parametrize("digits", [3, 60])
def test_bounds_hold_at_the_edge_of_what_is_accepted_theory(digits):
    """Every candidate is as likely as the canary: its rank is the size of the space.

    The sums of all tokens multiply to more than 1, and the bound has to grow with them.
    """
    model = digits_model(math.exp(0.99 * ROUNDING_NATS))
    format = Format(f"a{{digit:{digits}}}")
    canaries = CanarySet.from_fills(format, ["1" * digits])
    (found,) = exposure(model, canaries, method="rank", budget=1, draws=10)
    assert found.exposure.rank_upper == 10**digits
    assert found.exposure.lower_bits == 0.0
    result = extract(model, format, budget=30 * digits)
    for candidate in result.candidates:
        assert candidate.exposure_lower_bits == 0.0


@pytest.mark.parametrize("total", [1.0009, 2.0, 1e30])
def test_more_than_probability_1_is_refused_wherever_it_is_walked_input(total):
    model = digits_model(total)
    canaries = CanarySet.from_fills("a{digit:2}", ["11"])
    if total > 10:  # a single one is above 1
        match = "nats for a log-probability, which is above 0"
    else:
        match = r"next tokens that have a probability of [\d.]+ together.*normalise"
    for method in ("rank", "enumeration", "importance", "auto"):
        with pytest.raises(ModelError, match=match):
            exposure(model, canaries, method=method, draws=20)
    with pytest.raises(ModelError, match=match):
        extract(model, "a{digit:2}")
    with pytest.raises(AssertionError, match="probabilities sum to"):
        distributions_are_normalised(model)


class Fixed:
    """A walker that gives what it was made with, whatever it is asked."""

    def __init__(self, log_probs, exact):
        self._log_probs, self._exact = np.asarray(log_probs, np.float32), exact

    def expand(self, nodes, tokens, *, keep=True):
        n = len(nodes)
        return Expansion(np.zeros(n), self._log_probs, np.full(n, -1), n, self._exact)


OWN = Children(np.array([1, 2, 1, 2], np.int32), np.array([0, 2, 2, 4]))  # none of the second
NONE = Children(np.zeros(0, np.int32), np.zeros(4, np.int64))
TWO, THREE = (Children(np.arange(1, 1 + count, dtype=np.int32)) for count in (2, 3))
BOUNDED = [0.4, 0.6, 0.6]  # the last two may have all that is left, each of them
FIRST, LAST = [True, False, False], [False, True, True]


@pytest.mark.parametrize(
    ("shares", "children", "exact", "together"),
    [
        ([0.9, 0.1, 0.1, 0.9], OWN, None, None),
        ([0.9, 0.2, 0.1, 0.9], OWN, None, 1.1),
        ([0.9, 0.1, 0.2, 0.9], OWN, None, 1.1),
        ([], NONE, None, None),
        ([[0.9, 0.1]] * 3, TWO, None, None),
        ([[0.9, 0.1]] * 2 + [[0.9, 0.2]], TWO, None, 1.1),
        ([BOUNDED] * 3, THREE, [FIRST] * 3, None),
        ([BOUNDED] * 3, THREE, [FIRST] * 2 + [LAST], 1.2),
    ],
)
def test_each_node_is_judged_by_its_own_children_input(shares, children, exact, together):
    """Bounds of single tokens may sum to more: what a server does not tell is bounded."""
    zero = np.zeros(3, np.int64)
    nodes = Nodes(np.zeros((3, 0), np.int32), zero, zero, np.full(3, -1, np.int64))
    walker = Fixed(np.log(shares), None if exact is None else np.array(exact))
    batcher = Batcher(build("table"))
    if together is None:
        batcher.expand(walker, nodes, children)
        return
    with pytest.raises(ModelError, match=f"a probability of {together} together"):
        batcher.expand(walker, nodes, children)


def test_what_sums_may_exceed_golden():
    """1e-4 nats a token; where each child is a row of its own, the noise of rows besides."""
    facts = ModelFacts("m", 10, None, "float32", "none", "cpu", "0", 0.01, ("score", "expand"))
    assert facts.excess_nats == pytest.approx(1e-4 + 24 * 0.01 * math.log(2))
    assert facts.excess_bits(30) == pytest.approx(30 * 1e-4 / math.log(2) + 0.3)
    held = ModelFacts("m", 10, None, "float32", "none", "cpu", "0", 0.01, ("expand", "reuse"))
    assert held.excess_nats == pytest.approx(1e-4)
    assert held.excess_bits(30) == pytest.approx(30 * 1e-4 / math.log(2))


@pytest.mark.parametrize("middle", [2000.0, -2000.0])
def test_large_logits_are_normalised_closely_enough_theory(middle):
    """A normaliser near 2,000 is rounded to float32's 1.2e-4 there, by half of it at most."""
    import torch

    from canary.models.torch_model import Distributions

    logits = torch.randn(64, 1000, generator=torch.Generator().manual_seed(0)) * 3 + middle
    every = Children(np.arange(1000, dtype=np.int32))
    sums = np.exp(Distributions.of(logits).children(None, every)).sum(axis=1, dtype=np.float64)
    assert 0 < np.abs(np.log(sums)).max() <= ROUNDING_NATS
