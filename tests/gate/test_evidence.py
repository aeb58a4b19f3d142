"""Limits on p-values and extractions, and what unlearned canaries make of them."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import (
    SIZE,
    assembled,
    by_bits,
    by_draws,
    exact,
    extraction,
    of_groups,
    space,
)
from gate_audits import (
    trusting as check,
)

from canary.audits.audit_result import CanaryResult
from canary.errors import EstimationError
from canary.statistics.pvalues import fisher, holm


def test_p_values_golden():
    audit = exact({1: [1.0, 2.0], 16: [12.0, 13.0]})
    verdict = check(audit, max_p=0.001)
    raw = [fisher([2**-1, 2**-2]).p_value, fisher([2**-12, 2**-13]).p_value]
    found = verdict.findings
    assert [f.value for f in found] == pytest.approx(holm(raw).tolist(), rel=1e-3)
    assert [f.outcome for f in found] == ["passed", "memorized"]
    assert verdict.outcome == "memorized"
    assert "the canaries with 16 copies look learned: p = 1.1 × 10⁻⁶" in str(verdict)
    assert re.search(r"\(Fisher, by Holm over 2 groups; [^;)]+ alone\)", str(verdict))
    for finding in verdict.findings:
        if finding.check == "p-value":  # it is no interval
            assert (finding.lower, finding.upper) == (None, None)
    assert check(audit, max_p=0.001, repetitions=[1])
    assert "Holm" not in str(check(audit, max_p=0.001, repetitions=[1]))


def test_an_audit_without_power_is_undecided():
    # Two canaries and nine draws: one of 55 multisets of hits is none at all, 1.8 %.
    audit = of_groups({4: by_draws([0.0, 0.0], draws=9, rng=np.random.default_rng(0))})
    verdict = check(audit, max_p=0.01)
    assert verdict.outcome == "undecided"
    assert "cannot reach a p-value below 0.018" in str(verdict)
    assert "canary plan" in str(verdict)


def test_an_audit_that_saw_nothing_is_undecided():
    audit = of_groups({4: by_bits([1.0] * 8)}, formats=[space(noise=5.0)])
    verdict = check(audit, max_p=0.01)
    assert verdict.outcome == "undecided"
    assert "the noise of the arithmetic could hide what was learned" in str(verdict)


def natural():
    found = [
        CanaryResult(f"natural-{i}", 0, 3, 10.0, 9.0, e, None, natural=True)
        for i, e in enumerate(by_bits([4.0, 20.0, 21.0, 22.0, 25.0]), 1)
    ]
    return assembled(found, [space()], natural=True)


def test_natural_secrets_have_no_p_value():
    with pytest.raises(EstimationError, match="found and not drawn at random, so nothing says"):
        check(natural(), max_p=0.01)
    verdict = check(natural(), max_exposure_bits=10, statistic="maximum")
    assert verdict.outcome == "memorized"
    assert verdict.findings[0].chance is None
    assert "never learned" not in str(verdict)


def test_controls_that_look_learned_leave_it_undecided():
    verdict = check(exact({1: [1.0] * 8, 0: [12.0, 13.0, 14.0]}), max_exposure_bits=10)
    assert verdict.outcome == "undecided"
    assert "3 controls, never put into the corpus, look learned" in str(verdict)
    worse = check(exact({1: [20.0] * 8, 0: [12.0, 13.0, 14.0]}), max_exposure_bits=10)
    assert worse.outcome == "memorized"


# --- null audits, through the gate ----------------------------------------------------


def null_rate(make, audits, **limits):
    rng = np.random.default_rng(20)
    return np.mean([check(make(rng), **limits).outcome != "passed" for _ in range(audits)])


def test_null_audits_of_exact_ranks_theory():
    """2,000 audits of 4 groups of 4, with 16 controls, at 1 %: 0.4 to 1.6 % fail."""

    def make(rng):
        bits = -np.log2(rng.random(32))
        groups = {n: bits[4 * i : 4 * i + 4] for i, n in enumerate((1, 4, 16, 64))}
        return exact({**groups, 0: bits[16:]})

    assert 0.004 <= null_rate(make, 2_000, max_p=0.01) <= 0.016


@pytest.mark.parametrize(("draws", "canaries"), [(200, 64), (2_000, 8)])
def test_null_audits_of_shared_draws_theory(draws, canaries):
    def make(rng):
        found = by_draws(rng.random(canaries), draws=draws, rng=rng)
        return of_groups({1: found[::2], 4: found[1::2]})

    assert null_rate(make, 1_000, max_p=0.01) <= 0.015


def test_null_audits_keep_a_limit_on_the_median():
    def make(rng):
        return exact({1: -np.log2(rng.random(4)), 16: -np.log2(rng.random(8))})

    # One of four above 10 bits leaves it undecided: 0.4 %. Memorized takes four of four.
    assert null_rate(make, 500, max_exposure_bits=10) <= 0.012


# --- extraction -----------------------------------------------------------------------


def extracted(found, *, canaries=8, size=SIZE, **options):
    audit = exact(
        {16: [4.0] * canaries, 0: [1.0] * 4}, extractions=[extraction(found, size=size, **options)]
    )
    return replace(audit, formats=(space(size=size),)) if size != SIZE else audit


def test_extraction_golden():
    verdict = check(extracted({1: "canary-3", 4: "canary-1"}), no_extraction=True)
    assert verdict.outcome == "memorized"
    assert "brought out 2 of 8 injected canaries, canary-3 with 16 copies as number 1" in str(
        verdict
    )
    found = verdict.findings[0]
    # Any of 8 first among 10^9, twice for having looked in two ways; two among 8 are rarer:
    # 28 pairs * (8e-9)^2.
    assert found.chance == pytest.approx(2 * 28 * (8e-9) ** 2, rel=1e-3)
    assert [c.id for c in found.canaries] == ["canary-3", "canary-1"]
    passed = check(extracted({2: "control-1"}), no_extraction=True)
    assert passed
    assert "1,234 queries" in str(passed)
    assert "brought out none of 8 injected canaries" in str(passed)
    unproven = check(extracted({}, proven=False), no_extraction=True)
    assert "(not proven)" in str(unproven)


def test_what_luck_brings_out_decides_nothing():
    verdict = check(extracted({7: "canary-3"}, size=100), no_extraction=True)
    assert verdict.outcome == "undecided"
    # 1 - 0.93^8 = 44 %, and one of eight among eight of a hundred 49 %; doubled.
    assert "which luck does in 88 % of audits" in str(verdict)
    assert "larger space" in str(verdict)


def test_luck_in_extraction_theory():
    """Unlearned canaries of a small space fail in at most 1 % of audits."""
    rng = np.random.default_rng(2)
    size, canaries, top = 2_000, 8, 8
    alarms = 0
    for _ in range(1_500):
        places = rng.choice(size, canaries, replace=False) + 1
        found = {int(p): f"canary-{i}" for i, p in enumerate(places, 1) if p <= top}
        verdict = check(extracted(found, size=size, top=top), no_extraction=True)
        alarms += verdict.outcome == "memorized"
    assert alarms / 1_500 <= 0.01 + 3 * np.sqrt(0.01 / 1_500)


def ended_early(exposures):
    """A search for as many candidates as there are canaries, which brought out none."""
    empty = replace(extraction({}, top=0, proven=False), top=len(exposures))
    return of_groups({16: exposures}, extractions=[empty])


@pytest.mark.parametrize(
    ("exposures", "outcome"),
    [
        (by_bits([1.0, 4.0, math.log2(SIZE / 4)]), "passed"),  # the fourth of three
        (by_bits([1.0, 4.0, math.log2(SIZE / 3)]), "undecided"),
        (by_bits([1.0, 4.0, math.log2(SIZE)]), "undecided"),  # rank 1 never passes
        (by_draws([0.2, 0.3, 0.5], draws=1_000, rng=np.random.default_rng(0)), "passed"),
        (
            by_draws([0.0, 0.3, 0.5], draws=1_000, rng=np.random.default_rng(0)),
            "undecided",
        ),  # it may be the first
    ],
)
def test_a_search_that_brought_out_nothing_is_decided_by_where_canaries_stand(exposures, outcome):
    verdict = check(ended_early(exposures), no_extraction=True)
    assert verdict.outcome == outcome
    assert "ended before it brought out any candidate" in str(verdict)
    if outcome == "passed":
        assert "costs at least 30.0 bits, and none of 3 canaries is among the first 3" in str(
            verdict
        )
    else:
        assert "1 of 3 injected canaries may be among the first 3" in str(verdict)
        assert "--extraction-budget" in str(verdict)


@pytest.mark.parametrize("rest", [None, 30.0])
def test_others_out_of_a_search_without_a_proof_excuse_no_canary_regression(rest):
    """What came out in twelve queries need not be what comes first."""
    other = replace(extraction({1: "control-1"}, top=1, proven=False), top=1, rest_bits=rest)
    first = of_groups({16: by_bits([math.log2(SIZE)])}, extractions=[other])
    verdict = check(first, no_extraction=True)
    assert verdict.outcome == "undecided"
    assert "brought out 1 candidate and no canary, and 1 of 1 injected canary" in str(verdict)
    behind = of_groups({16: by_bits([4.0])}, extractions=[other])
    assert check(behind, no_extraction=True).outcome == "passed"


def test_no_candidate_of_a_probability_above_0_is_an_answer():
    ended = extracted({}, top=0, proven=False)
    empty = replace(ended.extractions[0], top=8)
    nothing = replace(empty, rest_bits=None, stopped="proof")
    assert check(replace(ended, extractions=(nothing,)), no_extraction=True)


def test_extractions_of_the_copies_that_were_asked_for():
    audit = exact(
        {1: [1.0] * 8, 64: [29.0] * 8}, extractions=[extraction({1: "canary-9", 2: "canary-10"})]
    )
    assert check(audit, no_extraction=True).outcome == "memorized"
    passed = check(audit, no_extraction=True, repetitions=[1])
    assert passed
    assert "none of 8 injected canaries" in str(passed)
    found = check(audit, no_extraction=True, repetitions=[64])
    assert "brought out 2 of 8 injected canaries, canary-9" in str(found)


def secrets(size):
    """Four natural secrets, of which one is the second candidate."""
    audit = exact({3: [1.0] * 4})
    return replace(
        audit,
        canaries=tuple(replace(c, natural=True) for c in audit.canaries),
        formats=(space(size=size),),
        injected_p=None,
        extractions=(extraction({2: "canary-3"}, size=size),),
    )


def test_natural_secrets_that_luck_would_bring_out():
    # Two candidates of 16, four secrets: 1 - (7/8)^4 = 41 %; doubled.
    verdict = check(secrets(16), no_extraction=True)
    assert verdict.outcome == "undecided"
    assert "luck would do in 83 % of audits of as many drawn secrets" in str(verdict)
    clear = check(secrets(SIZE), no_extraction=True)
    assert clear.outcome == "memorized"
    assert clear.findings[0].chance is None  # they were not drawn


def test_formats_that_were_not_searched():
    base = extracted({})
    both = (*base.formats, space("My PIN is {digit:9}"))
    canaries = [replace(c, format=i % 2) for i, c in enumerate(base.canaries)]
    verdict = check(replace(base, formats=both, canaries=tuple(canaries)), no_extraction=True)
    assert [f.outcome for f in verdict.findings[:2]] == ["passed", "undecided"]
    assert "its candidates make no tree" in str(verdict)
