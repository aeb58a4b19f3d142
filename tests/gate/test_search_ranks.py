"""A search that proves places decides where few draws leave a limit open."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import SIZE, by_draws, extraction, of_groups, space, trusting

from canary.audits.search_ranks import with_search
from canary.reports.sentences import answer
from canary.statistics.exposures import UNIFORM_DRAWS


def audited(places):
    """Eight canaries as likely as none of 1,000 draws, and what a search brought out of them."""
    draws = by_draws([0.0] * 8, draws=1000, rng=np.random.default_rng(0))
    controls = by_draws(np.linspace(0.1, 0.9, 4), draws=1000, rng=np.random.default_rng(1))
    formats = [space(method=UNIFORM_DRAWS, draws=1000)]
    plain = of_groups({16: draws, 0: controls}, formats=formats)
    names = [canary.id for canary in plain.injected]
    found = extraction({place: names[i] for i, place in enumerate(places)}, top=20)
    bits = {place: math.log2(SIZE / place) for place in range(1, 21)}
    candidates = tuple(
        replace(c, exposure_lower_bits=bits[place], exposure_upper_bits=bits[place])
        for place, c in enumerate(found.candidates, 1)
    )
    return plain, replace(plain, extractions=(replace(found, candidates=candidates),))


@pytest.mark.parametrize(("places", "outcome"), [((), "undecided"), (range(2, 9), "memorized")])
def test_places_that_were_proven_decide_the_limit(places, outcome):
    plain, searched = audited(list(places))
    limit = {"max_exposure_bits": 12}
    assert trusting(plain, **limit).outcome == "undecided"
    verdict = trusting(searched, **limit)
    assert verdict.outcome == outcome
    if places:
        (finding,) = (f for f in verdict.findings if f.check == "exposure")
        assert finding.lower > math.log2(SIZE / 8) - 1e-9
        # The headline says the guesses that the search needed, and not what the draws bound.
        assert "the first 5 guesses" in answer(searched).sentence
    assert trusting(searched, max_p=0.01).in_short == trusting(plain, max_p=0.01).in_short


def test_a_place_never_makes_a_canary_less_exposed():
    plain, searched = audited([1, 5, 20])
    known = with_search(searched)
    assert [c.exposure.rank for c in known.injected[:4]] == [1, 5, 20, None]
    for before, after in zip(plain.canaries, known.canaries, strict=True):
        assert after.exposure.lower_bits >= before.exposure.lower_bits
        assert after.exposure.p_value == before.exposure.p_value
