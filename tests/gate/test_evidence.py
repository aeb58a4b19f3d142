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
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.limits import label_of, tone_of
from canary.statistics.exposures import exposure_by_bounds
from canary.statistics.pvalues import fisher, holm


def test_controls_of_which_nothing_was_measured_are_not_passed():
    nothing = exposure_by_bounds(lower=1, upper=SIZE, rank=None, space_size=SIZE)
    bounded = exposure_by_bounds(lower=SIZE // 4, upper=SIZE, rank=None, space_size=SIZE)
    low = by_bits([1.0] * 4)
    for controls, outcome in (([nothing] * 4, "undecided"), ([nothing, bounded], "passed")):
        verdict = check(of_groups({0: controls, 4: low}), max_exposure_bits=10)
        (finding,) = [one for one in verdict.findings if one.check == "controls"]
        assert (finding.outcome, verdict.outcome) == (outcome, outcome)
        assert ("nothing was measured" in finding.sentence) == (outcome == "undecided")


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


NINE_DRAWS = by_draws([0.0, 0.0], draws=9, rng=np.random.default_rng(0))
SUSPECT = [12.0, 13.0, 14.0]
FIRST = by_bits([math.log2(150)], size=150)


def one_control(rank, size=1_100):
    """Eight canaries that were not learned, and a control of this rank."""
    groups = {1: by_bits([1.0] * 8, size=size), 0: by_bits([math.log2(size / rank)], size=size)}
    return of_groups(groups, formats=[space(size=size)])


@pytest.mark.parametrize(
    ("audit", "limit", "outcome", "said"),
    [
        # Two canaries and nine draws: one of 55 multisets of hits is none at all, 1.8 %.
        (
            *(of_groups({4: NINE_DRAWS}), {"max_p": 0.01}, "undecided"),
            "cannot reach a p-value below 0.018.*canary plan",
        ),
        # The first of 150 is 0.67 %, and one of two groups.
        (
            of_groups({1: FIRST, 4: FIRST}, formats=[space(size=150)]),
            *({"max_p": 0.01}, "undecided", "cannot reach a p-value below 0.013"),
        ),
        (
            of_groups({4: by_bits([1.0] * 8)}, formats=[space(noise=5.0)]),
            *({"max_p": 0.01}, "undecided", "the noise of the arithmetic could hide what was"),
        ),
        (
            *(exact({1: [1.0] * 8, 0: SUSPECT}), {"max_exposure_bits": 10}, "undecided"),
            "3 controls, never put into the corpus, look learned",
        ),
        (exact({1: [20.0] * 8, 0: SUSPECT}), {"max_exposure_bits": 10}, "memorized", ""),
        # Of 1,100 candidates the first is 0.09 %, and the second 0.18.
        (one_control(1), {"max_exposure_bits": 7}, "undecided", "1 control, never put into"),
        (one_control(2), {"max_exposure_bits": 7}, "passed", ""),
    ],
    ids=[
        *("without power", "without power in two groups", "blurred", "suspect controls"),
        *("suspect controls, memorized", "a control at the level", "a control above it"),
    ],
)
def test_audits_that_cannot_be_relied_on(audit, limit, outcome, said):
    verdict = check(audit, **limit)
    assert verdict.outcome == outcome
    assert re.search(said, str(verdict))


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


# --- null audits, through the gate ----------------------------------------------------


def null_rate(make, audits, **limits):
    rng = np.random.default_rng(20)
    return np.mean([check(make(rng), **limits).outcome != "passed" for _ in range(audits)])


def test_null_audits_of_exact_ranks_theory():
    """2,000 audits of 4 groups of 4, with 16 controls, at 1 %: 0.4 to 1.6 % fail."""

    def make(rng):
        bits = -np.log2(rng.random(32))
        groups = {n: bits[4 * i : 4 * i + 4] for i, n in enumerate((1, 4, 16, 32))}
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


def secrets(size):
    """Four natural secrets, of which one is the second candidate."""
    audit = exact({3: [1.0] * 4}, extractions=[extraction({2: "canary-3"}, size=size)])
    found = tuple(replace(c, natural=True) for c in audit.canaries)
    return replace(audit, canaries=found, formats=(space(size=size),), injected_p=None)


def ended_early(exposures):
    """A search for as many candidates as there are canaries, which brought out none."""
    empty = replace(extraction({}, top=0, proven=False), top=len(exposures))
    return of_groups({16: exposures}, extractions=[empty])


def nothing_possible():
    """No other candidate has a probability above 0, which is an answer."""
    ended = extracted({}, top=0, proven=False)
    nothing = replace(ended.extractions[0], top=8, rest_bits=None, stopped="proof")
    return replace(ended, extractions=(nothing,))


def other_came_out(bits, rest):
    """What came out in twelve queries need not be what comes first."""
    other = replace(extraction({1: "control-1"}, top=1, proven=False), top=1, rest_bits=rest)
    return of_groups({16: by_bits([bits])}, extractions=[other])


def of_copies():
    found = [extraction({1: "canary-9", 2: "canary-10"})]
    return exact({1: [1.0] * 8, 64: [29.0] * 8}, extractions=found)


EARLY = "ended before it extracted any candidate"
AMONG = f"{EARLY}, and 1 of 3 injected canaries may be among the first 3.*--extraction-budget"
BEHIND = f"{EARLY}; what it left costs at least 30.0 bits, and none of 3 canaries is among"
DRAWN = [
    by_draws([least, 0.3, 0.5], draws=1_000, rng=np.random.default_rng(0)) for least in (0.2, 0.0)
]


@pytest.mark.parametrize(
    ("audit", "copies", "outcome", "said"),
    [
        (
            *(extracted({1: "canary-3", 4: "canary-1"}), None, "memorized"),
            "brought out 2 of 8 injected canaries, canary-3 with 16 copies as number 1",
        ),
        (
            *(extracted({2: "control-1"}), None, "passed"),
            "1,234 queries .*extracted none of 8 injected canaries",
        ),
        (extracted({}, proven=False), None, "passed", "not proven"),
        # 1 - 0.93^8 = 44 %, and one of eight among eight of a hundred 49 %; doubled.
        (
            *(extracted({7: "canary-3"}, size=100), None, "undecided"),
            "luck alone does this in 88 % of audits.*larger space",
        ),
        # One of eight as the second of 2,000 is 0.8 % and among the first eight 3.1; doubled.
        (extracted({2: "canary-3"}, size=2_000), None, "undecided", "does this in 1.6 % of audits"),
        (extracted({2: "canary-3"}, size=4_000), None, "memorized", "does this in 0.8 % of audits"),
        (ended_early(by_bits([1.0, 4.0, math.log2(SIZE / 4)])), None, "passed", BEHIND),
        (ended_early(by_bits([1.0, 4.0, math.log2(SIZE / 3)])), None, "undecided", AMONG),
        (ended_early(by_bits([1.0, 4.0, math.log2(SIZE)])), None, "undecided", AMONG),
        (ended_early(DRAWN[0]), None, "passed", BEHIND),
        (ended_early(DRAWN[1]), None, "undecided", AMONG),  # it may be the first
        *(
            case
            for rest in (None, 30.0)
            for case in (
                (
                    *(other_came_out(math.log2(SIZE), rest), None, "undecided"),
                    "brought out 1 candidate and no canary, and 1 of 1 injected canary",
                ),
                (other_came_out(4.0, rest), None, "passed", "the injected canary is not among"),
            )
        ),
        (nothing_possible(), None, "passed", ""),
        (of_copies(), None, "memorized", ""),
        (of_copies(), [1], "passed", "none of 8 injected canaries"),
        (of_copies(), [64], "memorized", "brought out 2 of 8 injected canaries, canary-9"),
        (
            *(secrets(SIZE), None, "undecided"),
            "1 of 4 secrets, canary-3 .*an unknown chance; a set made from the model's own",
        ),
    ],
)
def test_extraction(audit, copies, outcome, said):
    verdict = check(audit, no_extraction=True, repetitions=copies)
    assert verdict.outcome == outcome
    assert re.search(said, str(verdict))


def test_a_pass_of_few_guesses_is_not_green_where_secrets_were_learned():
    known = extracted({})
    calm = exact({4: [1.0] * 8, 64: [20.0] * 8}, extractions=[extraction({})])
    for audit, control, label, tone in (
        (known, None, "Passed, but only the first 8 guesses were tried", "undecided"),
        (calm, 64, "Passed: within the limit that was set", "not-found"),
    ):
        verdict = check(audit, no_extraction=True, require_learned=control)
        assert (verdict.outcome, tone_of(verdict)) == ("passed", tone)
        assert label_of(verdict).startswith(label)
    told = " ".join(map(words_of, report_of(check(known, no_extraction=True)).decide))
    assert "an attacker can try more than the first 8 guesses" in told


def test_the_chance_of_luck_golden():
    found = check(extracted({1: "canary-3", 4: "canary-1"}), no_extraction=True).findings[0]
    # Any of 8 first among 10^9, twice for having looked in two ways; two among 8 are rarer:
    # 28 pairs * (8e-9)^2.
    assert found.chance == pytest.approx(2 * 28 * (8e-9) ** 2, rel=1e-3)
    assert [c.id for c in found.canaries] == ["canary-3", "canary-1"]
    # Natural secrets were not drawn.
    assert check(secrets(SIZE), no_extraction=True).findings[0].chance is None


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


def test_formats_that_were_not_searched():
    base = extracted({})
    both = (*base.formats, space("My PIN is {digit:9}"))
    canaries = [replace(c, format=i % 2) for i, c in enumerate(base.canaries)]
    verdict = check(replace(base, formats=both, canaries=tuple(canaries)), no_extraction=True)
    assert [f.outcome for f in verdict.findings[:2]] == ["passed", "undecided"]
    assert "its candidates make no tree" in str(verdict)
