"""Plans: against audits that go through the gate, and what they refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from gate_audits import SIZE, TEXT, exact, of_groups
from gate_audits import trusting as check
from scipy import stats
from small_models import build

import canary
from canary.errors import CanaryError
from canary.formats.format import Format
from canary.gate.planning import plan
from canary.statistics.exposures import exposure_by_draws


def learned(rng, median, number):
    """Shares of the space that learned canaries of a median exposure leave."""
    return stats.norm.cdf(rng.normal(-stats.norm.isf(2.0**-median), 1, number))


def outcomes(median, audits, *, per_repetition, draws=None, groups=1, **limits):
    """Shares of the verdicts, of audits with one learned group among unlearned ones."""
    rng = np.random.default_rng([audits, per_repetition])
    found, k = [], per_repetition
    for _ in range(audits):
        shares = [learned(rng, median if i == 0 else 1.0, k) for i in range(groups)]
        if draws is None:
            audit = exact({2**i: -np.log2(s) for i, s in enumerate(shares)})
        else:
            drawn = exposure_by_draws(np.concatenate(shares), rng.random(draws), space_size=SIZE)
            audit = of_groups({2**i: drawn[i * k : (i + 1) * k] for i in range(groups)})
        found.append(check(audit, **limits).outcome)
    return {name: found.count(name) / audits for name in ("memorized", "passed", "undecided")}


@pytest.mark.parametrize(("draws", "groups"), [(None, 1), (None, 4), (1_000, 2)])
def test_evidence_theory(draws, groups):
    repetitions = [2**i for i in range(groups)]
    made = plan(SIZE, repetitions=repetitions, per_repetition=6, draws=draws, max_p=0.01)
    seen = outcomes(made.seen_bits, 400, per_repetition=6, draws=draws, groups=groups, max_p=0.01)
    assert seen["memorized"] == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("draws", [None, 4_000])
def test_limit_theory(draws):
    options = {"repetitions": [1], "per_repetition": 8, "draws": draws, "max_exposure_bits": 6}
    made = plan(SIZE, **options)
    gate = {"per_repetition": 8, "draws": draws, "max_exposure_bits": 6}
    assert outcomes(made.memorized_bits, 300, **gate)["memorized"] == pytest.approx(0.9, abs=0.06)
    assert outcomes(made.passed_bits, 300, **gate)["passed"] == pytest.approx(0.9, abs=0.06)
    asked = plan(SIZE, exposure_bits=8.0, **options)
    found = outcomes(8.0, 300, **gate)
    assert asked.memorized == pytest.approx(found["memorized"], abs=0.08)
    assert asked.passed == pytest.approx(found["passed"], abs=0.05)


def test_how_often_nothing_learned_passes_theory():
    """All groups have to pass: eight in each of three groups do in three of four audits."""
    options = {"repetitions": [1, 4, 16], "draws": 4_000, "max_exposure_bits": 4}
    made = plan(SIZE, per_repetition=8, **options)
    gate = {"draws": 4_000, "groups": 3, "max_exposure_bits": 4}
    found = outcomes(1.0, 300, per_repetition=8, **gate)
    assert made.unlearned_passes == pytest.approx(0.72, abs=0.01)
    assert made.unlearned_passes == pytest.approx(found["passed"], abs=0.06)
    assert made.with_more[0].unlearned_passes > 0.98
    said = made.summary()
    assert "all 3 numbers of copies pass with a chance of 72 %; it is 99 % with 16, " in said
    alone = plan(SIZE, repetitions=[1], per_repetition=8, max_exposure_bits=4).summary()
    assert "If nothing is learned (1 bit), it passes with a chance of 91 %" in alone


def test_many_canaries_share_few_draws_theory():
    """64 canaries and 5,000 draws: as if they were independent, it would be 0.9 and not 0.76."""
    options = {"repetitions": [1], "per_repetition": 64, "draws": 5_000, "max_exposure_bits": 10}
    gate = {"per_repetition": 64, "draws": 5_000, "max_exposure_bits": 10}
    asked = plan(SIZE, exposure_bits=16.0, **options)
    assert asked.memorized == pytest.approx(outcomes(16.0, 300, **gate)["memorized"], abs=0.06)
    low = plan(SIZE, exposure_bits=8.2, **options)
    assert low.passed == pytest.approx(outcomes(8.2, 200, **gate)["passed"], abs=0.07)


def test_the_guide_says_what_a_strict_limit_takes():
    """README's draws and form; the figures of docs/guides/gate.md."""
    passed = [
        canary.plan(
            "The random number is {digit:9}",
            repetitions=[1, 4, 16], per_repetition=number, draws=20_000, max_exposure_bits=4,
        ).passed_bits
        for number in (8, 16, 32)
    ]  # fmt: skip
    eight, more, most = (f"{bits:.1f}" for bits in passed)
    page = (Path(__file__).parents[2] / "docs" / "guides" / "gate.md").read_text()
    assert f"passes with a chance of 90 % if its median is at most {eight} bits" in page
    assert f"With 16 it is {more} bits, with 32 it is {most}." in page


def test_how_many_canaries_theory():
    made = plan(SIZE, repetitions=[1], exposure_bits=3.0, max_p=0.01)
    enough = outcomes(3.0, 400, per_repetition=made.canaries_for_evidence, max_p=0.01)
    assert enough["memorized"] >= 0.85
    fewer = made.canaries_for_evidence - 1
    short = plan(SIZE, repetitions=[1], exposure_bits=3.0, max_p=0.01, per_repetition=fewer)
    assert short.evidence < 0.9
    decided = plan(SIZE, repetitions=[1], exposure_bits=14.0, max_exposure_bits=10)
    found = outcomes(14.0, 300, per_repetition=decided.canaries_for_verdict, max_exposure_bits=10)
    assert found["memorized"] == pytest.approx(0.92, abs=0.06)


def test_how_high_medians_can_be_golden():
    said = plan(2**20, repetitions=[1, 4], per_repetition=1).summary()
    assert "The median of 1 canary is at most 20.0 bits, or 19.0 if the other groups are" in said
    said = plan(2**20, repetitions=[1], per_repetition=3).summary()
    assert said.endswith("The median of 3 canaries is at most 19.0 bits")
    assert "is at most" not in plan(2**20, repetitions=[1], per_repetition=1).summary()


def test_the_answer_about_a_limit_comes_first():
    lines = plan(SIZE, max_exposure_bits=4).summary().splitlines()
    start = "Limit of 4 bits, for each number of copies: with a chance of 90 %, "
    assert lines[1].startswith(start)
    assert lines[2].startswith("If nothing is learned (1 bit), all 4 numbers of copies pass ")
    assert lines[-1].startswith("The median of 8 canaries is at most ")


def test_what_cannot_be_seen():
    # Two canaries against ten draws: no p-value is that small.
    made = plan(SIZE, per_repetition=2, draws=10, max_exposure_bits=10, exposure_bits=20.0)
    assert (made.seen_bits, made.memorized_bits, made.passed_bits) == (None, None, None)
    assert made.canaries_for_evidence is not None
    assert made.canaries_for_verdict is None
    said = made.summary()
    assert "no exposure gives it" in said
    assert "no median is called memorized" in said
    assert "no number does" in said


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("a {digit:6}", 111_110),
        ('a "{digit:6}"', 1_111_110),
        ("a {choice:red|rose|blue}", 3 + 1 + 3),  # r, b, re, ro, ros, bl, blu
        ("a {choice:red|rose|blue}.", 3 + 1 + 3 + 3),
    ],
)
def test_what_exact_ranks_take_is_counted_with_the_text_after_the_secret_golden(text, queries):
    made = plan(text)
    assert made.queries == queries
    assert ("this assumes exact ranks" in made.summary()) == (queries > 1_000_000)
    assert plan(text, draws=10).queries is None


@pytest.mark.parametrize("text", ["a {digit:3}", "a {digit:3}."])
def test_an_audit_takes_the_queries_of_the_plan_oracle(text):
    canaries = canary.generate(text, repetitions=[1], per_repetition=2, controls=2, seed=0)
    audit = canary.audit(build("table"), canaries, start_token="\n")
    assert f"take {plan(text).queries:,} queries" in audit.formats[0].reason


def test_more_canaries_close_the_gap_between_the_verdicts_oracle():
    """What the plan says of more canaries is what a plan of as many says of itself."""
    made = plan(SIZE, repetitions=[1], per_repetition=4, max_exposure_bits=10)
    assert [each.canaries for each in made.with_more] == [8, 16]
    for each in made.with_more:
        alone = plan(SIZE, repetitions=[1], per_repetition=each.canaries, max_exposure_bits=10)
        assert (each.passed_bits, each.memorized_bits) == (alone.passed_bits, alone.memorized_bits)
        assert f"with --per-repetition {each.canaries}, a median up to" in made.summary()
    assert made.with_more[0].memorized_bits > made.with_more[1].memorized_bits
    assert made.with_more[0].passed_bits < made.with_more[1].passed_bits
    assert plan(SIZE, per_repetition=64, max_exposure_bits=10).with_more == ()
    sure = plan(SIZE, repetitions=[1, 4], per_repetition=4, max_exposure_bits=4).summary()
    assert sure.count("more than 99 %") == 1


def test_round_trip_to_json():
    assert plan(TEXT, draws=2**62) == plan(Format(TEXT), draws=2**62) == plan(SIZE, draws=2**62)
    for options in ({}, {"max_exposure_bits": 10, "exposure_bits": 4.0}):
        made = plan(SIZE, **options)
        assert json.loads(json.dumps(made.to_dict(), allow_nan=False)) == made.to_dict()
        assert len(made.summary().splitlines()) == (9 if options else 3)


def test_a_format_for_each_number_of_copies_raises_the_highest_median():
    several = plan({"a {digit:6}": [1], "b {digit:6}": [64]})
    assert (several.formats, several.per_format, several.repetitions) == (2, 8, (1, 64))
    alone = plan("a {digit:6}", repetitions=[1, 64])
    assert (alone.formats, alone.per_format) == (1, 16)
    assert several.seen_bits == alone.seen_bits  # the level is of both numbers of copies
    assert several.summary().endswith("is at most 17.8 bits")
    assert "2 formats of at least 1,000,000 candidates" in several.summary()
    sized = plan("a {digit:6}", repetitions={1: 16, 64: 4})
    assert (sized.per_repetition, sized.per_format, sized.smallest) == (4, 20, 64)
    assert "the smallest, 64 copies" in sized.summary()
    judged = plan("a {digit:6}", repetitions={1: 16, 64: 4}, require_learned=64)
    assert (judged.per_repetition, judged.per_format, judged.smallest) == (16, 20, 0)
    assert judged.seen_bits == plan("a {digit:6}", repetitions={1: 16}).seen_bits
    assert "with 64 copies are left out, as a positive control" in judged.summary()


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (0, {}, "space_size must be a positive integer"),
        (2, {}, "a space of 2 candidates tells nothing"),
        (SIZE, {"draws": 0}, "plan: draws must be .* at least 1, got 0"),
        (SIZE, {"draws": 10**30}, "plan: draws must be a whole number.*less than 2"),
        (SIZE, {"per_repetition": 0}, "per_repetition"),
        (SIZE, {"repetitions": []}, "repetitions: no number of copies"),
        (SIZE, {"power": 1.0}, "plan: power"),
        (SIZE, {"max_exposure_bits": 30}, "no exposure could exceed the limit"),
        (SIZE, {"exposure_bits": 0.5}, "cannot be in this space"),
        (SIZE, {"exposure_bits": math.nan}, "exposure_bits must be a number"),
        ("no hole", {}, "the format has no hole"),
        ([], {}, "no format"),
        ({TEXT: [1]}, {"repetitions": [4]}, "given twice"),
        (SIZE, {"repetitions": [1], "require_learned": 1}, "no group with 1 copy beside others"),
        (SIZE, {"repetitions": [1, 4], "require_learned": 2}, "no group with 2 copies"),
    ],
)
def test_input(space, options, message):
    with pytest.raises(CanaryError, match=message):
        plan(space, **options)
