"""Limits on exposure: what is memorized, passed and undecided, and what would decide."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import SIZE, assembled, by_bits, by_draws, exact, of_groups, space
from gate_audits import trusting as check
from html_pages import render
from hypothesis import given
from hypothesis import strategies as st

from canary.audits.audit_result import CanaryResult
from canary.errors import EstimationError, InputError
from canary.reports.advice import cures
from canary.reports.pages import report
from canary.reports.verdicts import junit, markdown
from canary.statistics.exposures import (
    IMPORTANCE,
    UNIFORM_DRAWS,
    exposure_by_bounds,
    exposure_by_draws,
)

HIGH = [14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 29.0]
LOW = [0.1, 0.5, 0.8, 1.0, 1.3, 2.0, 3.0, 6.0]
SPREAD = [4.0, 5.0, 6.0, 11.0, 12.0, 13.0, 14.0, 15.0]


def one(verdict):
    """Its only finding on exposure."""
    (found,) = [f for f in verdict.findings if f.check == "exposure"]
    return found


def censored(draws, number=8):
    """Canaries that no draw was as likely as."""
    return exposure_by_draws(np.zeros(number), np.ones(draws), space_size=SIZE)


def bounded(**ends):
    return [exposure_by_bounds(space_size=SIZE, **ends)] * 8


def ranked(exposures, formats):
    """Sixteen copies of each canary, one format after another."""
    canaries = [
        CanaryResult(f"canary-{i}", i % len(formats), 16, 10.0, 9.0, e, None)
        for i, e in enumerate(exposures)
    ]
    return assembled(canaries, formats)


# --- the median -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "outcome", "code", "ends", "said"),
    [
        # Seven of eight must agree: the second smallest and the second largest.
        (HIGH, "memorized", 1, (15.0, 20.0), "is 15.0 bits or more, above the limit of 10; "),
        (LOW, "passed", 0, (0.5, 3.0), "is at most 3.0 bits, within the limit of 10"),
        (SPREAD, "undecided", 3, (5.0, 14.0), "is between 5.0 and 14.0 bits, on both sides"),
    ],
)
def test_the_median_golden(bits, outcome, code, ends, said):
    verdict = check(exact({16: bits}), max_exposure_bits=10)
    assert (verdict.outcome, bool(verdict), verdict.exit_code) == (outcome, code == 0, code)
    found = one(verdict)
    assert (found.lower, found.upper) == pytest.approx(ends, abs=1e-3)
    assert found.value == pytest.approx(np.median(bits), abs=1e-3)
    told = "the median exposure of canaries with 16 copies (8 canaries, each end 90 % sure)"
    assert str(verdict).startswith(f"{outcome}: {told} {said}")
    if outcome == "memorized":
        assert [c.id for c in found.canaries] == [f"canary-{n}" for n in range(8, 0, -1)]


def test_undecided_may_pass():
    allowed = check(exact({16: SPREAD}), max_exposure_bits=10, undecided="pass")
    assert (allowed.outcome, bool(allowed), allowed.exit_code) == ("undecided", True, 0)
    assert str(allowed).startswith("undecided, which passes here: ")


def test_the_worst_group_counts():
    verdict = check(exact({1: LOW, 4: [8.0, 12.0] * 4, 16: HIGH}), max_exposure_bits=10)
    assert [f.outcome for f in verdict.findings] == ["passed", "undecided", "memorized"]
    assert verdict.outcome == "memorized"
    assert "with 16 copies" in str(verdict)
    lines = verdict.summary().splitlines()
    assert [line.split(":")[0] for line in lines] == ["memorized", "undecided", "holds"]
    assert lines[0] == verdict.in_short
    assert [str(f).split(":")[0] for f in verdict.findings] == ["passed", "undecided", "memorized"]
    assert check(exact({1: LOW, 16: HIGH}), max_exposure_bits=10, repetitions=[1])
    frame = check(exact({1: LOW, 16: HIGH, 0: [1.0] * 12}), max_p=0.001).to_frame()
    rows = frame.set_index("subject")
    assert rows.median_bits["canaries with 16 copies"] == pytest.approx(np.median(HIGH), abs=0.01)
    assert rows.median_bits["controls"] == pytest.approx(1.0)
    assert not frame.bound.any()
    # The line names the group that is nearest to the limit, or highest above it.
    passed = check(exact({1: LOW, 4: [5.0] * 4, 16: [4.0] * 4}), max_exposure_bits=10)
    assert "with 4 copies" in str(passed)
    worse = check(exact({4: HIGH, 16: [25.0] * 4}), max_exposure_bits=10)
    assert "with 16 copies" in str(worse)


def test_advice_never_asks_for_more_draws_than_candidates_and_names_exact_ranks_first():
    near = exposure_by_draws([7.5], np.arange(2_000.0), space_size=10_000)  # 8 hits
    found = one(
        check(
            of_groups(
                {4: near * 8}, formats=[space(size=10_000, method=UNIFORM_DRAWS, draws=2_000)]
            ),
            max_exposure_bits=7.9,
        )
    )
    assert found.cure.startswith("exact ranks (--method rank --budget ")
    assert "all 10,000 candidates (--method enumeration)" in found.cure
    mixed = by_draws([2**-12, 2**-9], draws=10**6, rng=np.random.default_rng(0)) * 4
    found = one(check(of_groups({4: [*mixed, mixed[0]]}), max_exposure_bits=10))
    # Five of nine are above, each for certain: exact ranks of the same canaries decide nothing.
    assert re.search("^about .* canaries in place of 9 .*; fewer, if their ranks are", found.cure)


def test_draws_come_first_where_ranks_take_hours():
    exposures = exposure_by_draws([0.5] * 8, np.arange(1.0, 201.0), space_size=10**9)
    groups = of_groups({4: exposures}, formats=[space(size=10**9, method=UNIFORM_DRAWS, draws=200)])
    cure = one(check(groups, max_exposure_bits=7)).cure
    assert re.match(r"about \d+ draws .*, or exact ranks \(--method rank .* decide", cure), cure


SERVED = (
    r"^exact ranks of the model files \(--method rank.*\), or .*\(--draws 3800, one request each\)"
)
SOME = by_draws([0.5, 2**-10.1], draws=2_000, rng=np.random.default_rng(1))


@pytest.mark.parametrize(
    ("exposures", "options", "outcome", "cure"),
    [
        (by_bits([8.0, 12.0] * 4), {}, "undecided", "no number of canaries would decide"),
        # Five of eight lie above. 5/8 of 37 are 23 whole ones, and 23 or more of 37 coins are
        # heads in 9.4 % of cases; of fewer than 37, always in more than 10 %.
        (by_bits(SPREAD), {}, "undecided", "^about 37 canaries in place of 8 .* above the limit$"),
        (bounded(lower=100, upper=SIZE // 8), {}, "undecided", "larger budget"),
        (bounded(lower=10, rank=1000, upper=SIZE // 4), {}, "undecided", "float32"),
        (
            SOME,
            {"statistic": "maximum"},
            "undecided",
            r"^exact ranks .* draws \(--draws \d+\)",
        ),
        # Four decide, and three do not.
        (by_bits([20.0] * 4), {}, "memorized", "de-duplication"),
        (by_bits([20.0] * 3), {}, "undecided", "^4 that agree would do"),
        (by_bits([20.0] * 4), {"confidence": 0.95}, "undecided", "^5 that agree would do"),
        # No hit among 200 draws is more than 5.8 bits; 3,776 draws without a hit are more than 10.
        (
            *(censored(200), {}, "undecided"),
            r"^exact ranks \(--method rank --budget .*, or about 3,800 draws \(--draws 3800\)",
        ),
        (censored(3_700), {}, "undecided", "draws"),
        (censored(3_800), {}, "memorized", ""),
        # 0.025 + 0.975/16 is within 10 %, but not within 5 %, where five exact ranks would do.
        (censored(20_000, 4), {}, "memorized", ""),
        (censored(20_000, 5), {"confidence": 0.95}, "undecided", "6 that agree"),
        (censored(20_000, 6), {"confidence": 0.95}, "memorized", ""),
    ],
)
def test_what_decides_and_what_would(exposures, options, outcome, cure):
    found = one(check(of_groups({16: exposures}), max_exposure_bits=10, **options))
    assert found.outcome == outcome
    assert re.search(cure, found.cure)


@pytest.mark.parametrize("statistic", ["median", "maximum"])
def test_fewer_copies_are_no_cure_where_single_copies_exceed_the_limit(statistic):
    asked = {"max_exposure_bits": 10, "statistic": statistic}
    for bits, removing in ((20.0, False), (1.0, True)):
        verdict = check(exact({1: [bits] * 8, 16: [20.0] * 8}), **asked)
        cures = {f.cure for f in verdict.findings if f.check == "exposure" and f.cure}
        assert all(("fewer copies" in cure) == removing for cure in cures)
        for shown in (verdict.summary(), junit(verdict), markdown(verdict)):
            assert ("removing duplicates is not enough" in shown) != removing
        assert ("removing duplicates is not enough" in render(verdict)) != removing
    if statistic == "median":  # one single copy above the limit by luck is not the group
        lucky = check(exact({1: [20.0] + [1.0] * 7, 16: [20.0] * 8}), **asked)
        assert any("fewer copies" in found.cure for found in lucky.findings)
    only = render(check(exact({16: [20.0] * 8}), **asked))
    assert "removing duplicates is not enough" not in only


@pytest.mark.parametrize(
    ("model", "cure"),
    [
        ({"device": "served", "capabilities": ["score", "expand"]}, SERVED),
        ({"device": "cpu", "capabilities": ["score", "expand"]}, r"\(--draws 3800\) may decide$"),
        ({"device": "cpu", "capabilities": ["score", "expand", "reuse"]}, r"ranks \(--method rank"),
    ],
)
def test_a_cure_can_be_followed_with_the_model_that_was_audited(model, cure):
    audit = replace(of_groups({16: censored(200)}), model=model)
    assert re.search(cure, one(check(audit, max_exposure_bits=10)).cure)
    largest = one(check(audit, max_exposure_bits=10, statistic="maximum"))
    assert ("--method rank" in largest.cure) == ("ranks" in cure)


@pytest.mark.parametrize("unseen", [8, 5])
def test_what_may_bound_canaries_without_a_lower_bound_is_said_of_all_in_a_group(unseen):
    exposures = bounded(lower=100, upper=SIZE // 8)[unseen:] + bounded(lower=1, upper=SIZE)[:unseen]
    model = {"device": "served", "capabilities": ["expand"]}
    audit = replace(of_groups({16: exposures}), model=model)
    cure = one(check(audit, max_exposure_bits=10)).cure
    assert cure.startswith(f"no lower bound is known of {unseen} of these 8 canaries: where the")
    assert "a larger --top-k may; else a larger budget does" in cure
    assert ("Of the others, a larger budget" in cure) == (unseen < 8)


def test_the_cheapest_cure_of_a_server_comes_first_and_millions_of_requests_are_no_cure():
    near = [replace(e, bits=10.01) for e in censored(200)]
    model = {"device": "served", "capabilities": ["score", "expand"]}
    audit = replace(of_groups({4: near, 16: censored(200)}), model=model)
    verdict = check(audit, max_exposure_bits=10)
    first, second = cures(verdict)
    assert "16 copies" in first
    assert "--draws 3800" in first
    assert "4 copies" in second
    assert "--draws" not in second
    assert "requests" in second
    found = check(of_groups({4: censored(200), 16: censored(5_000)}), max_exposure_bits=10)
    assert found.outcome == "memorized"
    assert not [cure for cure in cures(found) if "undecided" in cure]


def test_what_cannot_be_told_has_no_numbers():
    found = one(check(exact({16: [20.0] * 3}), max_exposure_bits=10))
    assert (found.lower, found.upper) == (None, None)
    found = one(check(of_groups({16: censored(200)}), max_exposure_bits=10))
    assert (found.value, found.upper) == (None, pytest.approx(math.log2(SIZE)))
    assert len(found.canaries) == 8  # that may exceed it


def test_a_limit_that_is_just_kept():
    bits = by_bits([8.0])[0].bits
    assert check(exact({1: [8.0] * 4}), max_exposure_bits=bits)
    assert check(exact({1: [8.0] * 4}), max_exposure_bits=bits - 1e-6).outcome == "memorized"


def test_several_formats_are_one_group():
    formats = [space(), space("My PIN is {digit:9}")]
    audit = ranked(by_bits(HIGH), formats)
    assert one(check(audit, max_exposure_bits=10)).lower == pytest.approx(15.0, abs=1e-3)
    # With draws in either, each may miss on its own: 4.9 % for seven of eight, not 3.5.
    drawn = [space(f.format, method=IMPORTANCE, draws=200) for f in formats]
    exposures = [replace(e, confidence=0.95) for e in by_bits(HIGH)]
    verdict = check(ranked(exposures, drawn), max_exposure_bits=10, confidence=0.955)
    assert one(verdict).lower == pytest.approx(14.0, abs=1e-3)


@pytest.mark.parametrize("method", ["enumeration", "rank", "rank and draws", "of another package"])
@pytest.mark.parametrize("statistic", ["median", "maximum"])
def test_an_interval_misses_as_often_as_it_says(method, statistic):
    """Whatever the method is called; what says nothing of its interval decides nothing."""

    def judged(**change):
        exposures = [replace(e, **change, method=method) for e in by_bits([15.0] * 8)]
        limit = {"max_exposure_bits": 10, "statistic": statistic}
        return one(check(ranked(exposures, [space(method=method)]), confidence=0.94, **limit))

    assert judged().outcome == "memorized"
    assert judged(confidence=0.95).outcome == "memorized"
    assert judged(confidence=0.8).outcome == "undecided"
    nothing = judged(rank=None, rank_lower=None, rank_upper=None)
    assert nothing.outcome == "undecided"


# --- the maximum ----------------------------------------------------------------------


def test_maximum_golden():
    verdict = check(exact({1: LOW, 16: HIGH}), max_exposure_bits=12, statistic="maximum")
    found = one(verdict)
    assert found.outcome == "memorized"
    assert found.chance == pytest.approx(1 - (1 - 2**-12) ** 16)
    assert "canary-16 with 16 copies has an exposure of 28.9 bits or more" in str(verdict)
    assert "of 16 canaries never learned, one or more exceed it in 0.39 % of audits" in str(verdict)
    passed = check(exact({1: LOW}), max_exposure_bits=12, statistic="maximum")
    assert passed
    assert "is at most 6.0 bits" in str(passed)


def test_the_null_rate_of_the_maximum_theory():
    """64 canaries at 10 bits: 6.06 % of audits, as the message says."""
    rng = np.random.default_rng(0)
    exceeded = (-np.log2(rng.random((40_000, 64)))).max(axis=1) > 10
    found = one(check(exact({1: [1.0] * 64}), max_exposure_bits=10, statistic="maximum"))
    assert found.chance == pytest.approx(0.0606, abs=1e-4)
    assert exceeded.mean() == pytest.approx(found.chance, abs=0.004)
    assert "6.1 % of audits" in found.sentence


def test_the_maximum_over_many_formats_with_draws():
    """Draws of five formats may miss, 12 % in all; the exact rank of one canary does not."""
    formats = [space(f"Code {i} is {{digit:9}}", method=UNIFORM_DRAWS, draws=9) for i in range(5)]

    def judged(exposures, limit):
        audit = ranked(exposures, formats)
        return one(check(audit, max_exposure_bits=limit, statistic="maximum"))

    drawn = censored(9, 5)
    found = judged(drawn, 1.2)  # which each of them surely exceeds, alone
    assert found.outcome == "undecided"
    assert "lower the confidence to 0.88" in found.cure
    sure = [by_bits([29.0])[0], *drawn[1:]]
    found = judged(sure, 10)
    assert (found.outcome, found.confidence) == ("memorized", 1.0)
    assert found.sentence.startswith("canary-0 with 16 copies has an exposure of 28.9 bits")
    # Four formats whose canaries rest on draws are 9.6 %, and the fifth adds nothing.
    assert judged(sure, 29.5).confidence == pytest.approx(0.975**4)


# --- spaces that are smaller than the limit -------------------------------------------


def mixed(small, large, *, memorized=True):
    """Canaries in 1,000 and in 10^9 candidates, all of them the likeliest or none."""
    formats = [space("The code is {digit:3}", size=1_000), space()]
    bits = 99.0 if memorized else 1.0
    canaries = [
        CanaryResult(f"canary-{at}-{i}", at, 32, 5.0, 2.0, exposure, None)
        for at, number in enumerate((small, large))
        for i, exposure in enumerate(by_bits([bits] * number, size=formats[at].space_size))
    ]
    return assembled(canaries, formats)


@pytest.mark.parametrize("statistic", ["median", "maximum"])
def test_canaries_that_cannot_exceed_the_limit_have_no_vote(statistic):
    """24 canaries of rank 1 in 1,000 candidates have 9.97 bits each, and never more."""
    verdict = check(mixed(24, 8), max_exposure_bits=10, statistic=statistic)
    assert verdict.outcome == "memorized"
    assert "24 canaries left out: their spaces are too small for the limit" in str(verdict)
    lower = check(mixed(24, 8), max_exposure_bits=6, statistic=statistic)
    assert lower.outcome == "memorized"
    assert "left out" not in str(lower)
    unlearned = check(mixed(1, 8, memorized=False), max_exposure_bits=10, statistic=statistic)
    assert unlearned
    assert "1 canary left out: its space is too small" in str(unlearned)


def test_too_few_are_left_to_say_anything():
    verdict = check(mixed(24, 3), max_exposure_bits=10)
    assert verdict.outcome == "undecided"
    assert "24 canaries left out" in str(verdict)
    with pytest.raises(InputError, match="the largest space holds 9.966"):
        check(mixed(24, 0), max_exposure_bits=10)


# --- properties -----------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 29), min_size=1, max_size=12),
    st.floats(1, 28),
    st.sampled_from(["median", "maximum"]),
)
def test_more_exposure_is_never_better_property(bits, limit, statistic):
    order = ["passed", "undecided", "memorized"]
    found = check(exact({1: bits}), max_exposure_bits=limit, statistic=statistic)
    worse = check(exact({1: [b + 0.9 for b in bits]}), max_exposure_bits=limit, statistic=statistic)
    assert order.index(worse.outcome) >= order.index(found.outcome)
    assert bool(found) == (found.outcome == "passed")
    stricter = check(exact({1: bits}), max_exposure_bits=limit / 2 + 0.5, statistic=statistic)
    assert order.index(stricter.outcome) >= order.index(found.outcome)


def test_the_confidence_is_that_of_each_group_theory():
    """Four groups of four right at the limit: 1 - (15/16)^4 = 22.8 % are called memorized."""
    rng = np.random.default_rng(0)
    alarms = {1: 0, 4: 0}
    for _ in range(300):
        groups = {n: rng.uniform(2, 18, 4) for n in (1, 4, 16, 64)}
        verdict = check(exact(groups), max_exposure_bits=10)
        alarms[4] += verdict.outcome == "memorized"
        alarms[1] += verdict.findings[0].outcome == "memorized"
    assert alarms[1] / 300 == pytest.approx(1 / 16, abs=0.045)
    assert alarms[4] / 300 == pytest.approx(1 - (15 / 16) ** 4, abs=0.06)


# --- input ----------------------------------------------------------------------------

BOTH = exact({1: LOW, 16: HIGH})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is nothing to check; give a limit: max_exposure_bits"),
        *(
            ({"max_exposure_bits": limit}, f"a limit of {shown} bits makes no sense")
            for limit, shown in (
                (math.nan, "nan"), (math.inf, "inf"), ("ten", "'ten'"), (np.True_, ".*True.*"),
            )
        ),
        ({"max_exposure_bits": 0.5}, "from 1 on, which is what chance gives; 4 is usual"),
        ({"max_exposure_bits": 30}, "no exposure could exceed the limit of 30 bits: .* 29.9"),
        ({"max_exposure_bits": 30, "statistic": "maximum"}, "no exposure could exceed"),
        ({"max_exposure_bits": 10, "statistic": "mean"}, "unknown statistic 'mean'"),
        ({"max_p": 0.01, "undecided": "maybe"}, "unknown policy of undecided 'maybe'; use one of"),
        ({"max_exposure_bits": 10, "confidence": math.nan}, "confidence must be between"),
        ({"max_exposure_bits": 10, "repetitions": [4]}, "no canary has 4 copies; .* 1, 16"),
        ({"max_exposure_bits": 10, "repetitions": [0]}, "no canary has 0 copies"),
        ({"max_exposure_bits": 10, "repetitions": []}, "repetitions: no number"),
        ({"max_p": math.nan}, "a limit of nan on p-values makes no sense"),
        ({"max_p": 0}, "0.000001 to 0.5"),
        ({"max_p": 1e-12}, "0.000001 to 0.5"),
        ({"max_p": 0.999}, "0.000001 to 0.5"),
        ({"max_p": "0.01"}, "a limit of '0.01' on p-values makes no sense"),
        ({"max_epsilon": 1.0}, "a limit on epsilon needs the canary set"),
        ({"max_p": 0.01, "delta": 0.1}, "delta given, and no limit.*give max_epsilon as well"),
        ({"max_p": 0.01, "delta": "3", "guesses": 2}, "guesses and delta given, and no limit"),
        ({"baseline": 0}, "baseline must be a path"),
        ({"baseline": b"3"}, "baseline must be a path"),
        ({"no_extraction": True}, "the audit extracted nothing.*--extraction-budget 10000"),
    ],
)  # fmt: skip
def test_input(options, message):
    with pytest.raises((InputError, EstimationError), match=message):
        check(BOTH, **options)


@pytest.mark.parametrize("limit", [{"max_exposure_bits": 10}, {"max_p": 0.01}])
def test_canaries_that_no_training_read_are_not_judged(limit):
    with pytest.raises(InputError, match="left out of the corpus on purpose.*--no-inject"):
        check(exact({16: LOW}, canaries_in_corpus=False), **limit)
    with pytest.raises(InputError, match="none of the audit's canaries was put into the corpus"):
        check(exact({0: LOW}), **limit)


@pytest.mark.parametrize("given", [[], [3], None, b"3", np.array([3])])
def test_no_audit(given, tmp_path):
    with pytest.raises(InputError, match="expected an audit, the path"):
        check(given, max_exposure_bits=10)
    with pytest.raises(InputError, match="expected a result|no report of"):
        report(given, tmp_path / "report.html")
    with pytest.raises(InputError, match="path must be a path"):
        report(BOTH, given)


def test_a_terminal_reads_each_cure_once():
    audits = [exact({4: [20.0] * 6, 16: [20.0] * 6}, fingerprint=name * 64) for name in "abc"]
    verdict = check(audits, max_p=0.001)
    cure = verdict.reason.cure
    assert [f.cure for f in verdict.findings].count(cure) == 6
    assert verdict.summary().count(cure) == 1
    rest = [f for f in verdict.ordered if f is not verdict.reason]
    assert cure not in "".join(verdict.lines(rest, said=[cure]))
    assert sum(f["cure"] == cure for f in verdict.to_dict()["findings"]) == 6
    assert junit(verdict).count(cure) == 6


def test_a_limit_that_canaries_cannot_exceed_together_is_no_limit():
    """Canaries of one format take each other's ranks: eight learned ones never pass."""
    size, behind = 10**6, space(size=10**6)
    full = {16: np.log2(size / np.arange(1, 9)), 4: np.log2(size / np.arange(9, 17))}
    learned = of_groups({n: by_bits(b, size=size) for n, b in full.items()}, formats=[behind])
    with pytest.raises(InputError, match=r"no median of these 8 .* so it is 17\.77 bits at most"):
        check(learned, max_exposure_bits=18, repetitions=[16])
    for limit, copies in ((17, 4), (16.1, 4), (17.5, 16)):
        found = one(check(learned, max_exposure_bits=limit, repetitions=[copies]))
        assert (found.outcome, found.lower) == ("undecided", None)
        assert "take each other's ranks" in found.sentence
        assert "in place of" not in found.cure  # more canaries would lower it further
        assert "another format for each number of copies" in found.cure
    assert one(check(learned, max_exposure_bits=10, repetitions=[16])).outcome == "memorized"
    rest = {1: by_bits([1.0, 2.0, 5.0, 0.5, 3.0, 1.5, 9.0, 4.0], size=size)}
    for limit in (10, 17):  # behind learned ones, and far from what these leave
        kept = of_groups({16: by_bits(full[16], size=size), **rest}, formats=[behind])
        assert one(check(kept, max_exposure_bits=limit, repetitions=[1])).outcome == "passed"
