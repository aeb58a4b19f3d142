"""The bound on epsilon from audits whose canaries went in by the toss of a coin."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import assembled, by_bits, space
from gate_audits import trusting as check

from canary.audits.audit_result import CanaryResult
from canary.corpus.canaries import CanarySet, generate
from canary.errors import EstimationError, InputError
from canary.gate.coins import epsilon_bound

TEXT = "The random number is {digit:9}"


def tossed(number=64, *, copies=(1,), seed=0, controls=4):
    return generate(
        TEXT, repetitions=list(copies), per_repetition=number, controls=controls, seed=seed,
        coin_flips=True,
    )  # fmt: skip


def audited(canaries, bits):
    """An audit of a set with so many bits for each."""
    found = [
        CanaryResult(c.id, c.format, c.repetitions, 30.0 - b, 9.0, e, None)
        for c, b, e in zip(canaries, bits, by_bits(bits), strict=True)
    ]
    return assembled(found, [space()], canary_set=canaries.fingerprint)


def told(canaries, rng, epsilon):
    """Exposures that tell each coin as randomised response of this epsilon does."""
    keep = rng.random(len(canaries)) < 1 / (1 + math.exp(-epsilon))
    inside = np.array([bool(c.repetitions) for c in canaries])
    looks = np.where(keep, inside, ~inside)
    return np.where(looks, 20.0, 2.0) + rng.random(len(canaries))


def test_bound_golden():
    canaries = tossed()
    bits = [20.0 if c.repetitions else 1.0 for c in canaries]
    made = epsilon_bound(audited(canaries, bits), canaries)
    inside = sum(bool(c.repetitions) for c in canaries if c.tossed)
    # Half are guessed to be in; as many as were not are wrong.
    assert (made.coins, made.guesses, made.copies) == (64, 64, 1)
    assert made.correct == 64 - abs(inside - 32)
    # Of equal exposures the smaller log-perplexity looks more learned.
    alike = audited(canaries, bits)
    alike = replace(
        alike, canaries=[replace(c, exposure=alike.canaries[0].exposure) for c in alike.canaries]
    )
    assert epsilon_bound(alike, canaries).correct == made.correct
    few = epsilon_bound(audited(canaries, bits), canaries, guesses=40)
    assert (few.correct, few.guesses) == (40, 40)
    assert few.epsilon == few.largest_possible == pytest.approx(-math.log(0.05 ** (-1 / 40) - 1))


def test_randomised_response_coverage():
    """Never above the truth in more than 5 % of runs, through set, audit and bound."""
    rng = np.random.default_rng(3)
    epsilon, runs = 1.0, 160
    bounds = []
    for seed in range(runs):
        canaries = tossed(60, seed=seed, controls=1)
        audit = audited(canaries, told(canaries, rng, epsilon))
        bounds.append(epsilon_bound(audit, canaries).epsilon)
    assert np.mean(np.array(bounds) > epsilon) <= 0.05
    assert np.median(bounds) > 0.1


def test_copies_choose_the_coins(tmp_path):
    canaries = tossed(8, copies=(1, 16))
    audit = audited(canaries, [5.0] * len(canaries))
    assert epsilon_bound(audit, canaries).copies == 16
    ones = epsilon_bound(audit, canaries, copies=1)
    assert (ones.copies, ones.coins) == (1, 8)
    with pytest.raises(InputError, match="no coin was tossed for 4 copies; give one of 1, 16"):
        epsilon_bound(audit, canaries, copies=4)
    options = {"canaries": canaries, "max_epsilon": 1.0}
    limited = check(audit, repetitions=[1], **options), check(audit, **options)
    assert [v.findings[0].subject for v in limited] == ["8 coins", "16 coins"]
    with pytest.raises(InputError, match="a bound on epsilon cannot be of 2 numbers of copies"):
        check(audit, repetitions=[1, 16], **options)
    canaries.save(tmp_path / "set.json")  # which keeps the coins
    kept = CanarySet.load(tmp_path / "set.json")
    assert epsilon_bound(audit, kept) == epsilon_bound(audit, canaries)


def test_verdicts():
    canaries = tossed()
    clear = audited(canaries, [20.0 if c.repetitions else 1.0 for c in canaries])
    options = {"canaries": canaries, "guesses": 40}
    broken = check(clear, max_epsilon=1.0, **options)
    assert broken.outcome == "memorized"
    assert "epsilon is at least 2.55 for 1 copy of a record" in str(broken)
    assert "(40 of 40 coins guessed rightly, 95 %), above the limit of 1" in str(broken)
    rng = np.random.default_rng(0)
    nothing = audited(canaries, -np.log2(rng.random(len(canaries))))
    kept = check(nothing, max_epsilon=np.int64(1), **options)
    assert kept
    assert "does not contradict the limit of 1" in str(kept)
    untested = check(nothing, max_epsilon=8.0, **options)
    assert untested.outcome == "undecided"
    assert "no more than 2.55 could have been shown" in str(untested)
    most = epsilon_bound(clear, **options).largest_possible
    assert check(clear, max_epsilon=most, **options).outcome == "undecided"
    with_delta = check(clear, max_epsilon=1.0, delta=0.001, **options)
    assert with_delta.findings[0].lower < broken.findings[0].lower


def test_verdicts_for_a_gaussian_mechanism():
    canaries = tossed(200)
    rng = np.random.default_rng(1)
    learned = [bool(c.repetitions) and rng.random() < 0.6 for c in canaries]
    audit = audited(canaries, 8.0 * np.array(learned) - np.log2(rng.random(len(canaries))))
    options = {"canaries": canaries, "guesses": 100, "delta": 1e-5}
    anyone, gaussian = (epsilon_bound(audit, mechanism=m, **options) for m in ("any", "gaussian"))
    assert gaussian.epsilon_any == anyone.epsilon_any == anyone.epsilon < gaussian.epsilon
    assert gaussian.largest_possible > anyone.largest_possible
    said = "this presumes a Gaussian mechanism, without which epsilon is at least"
    said = f"{said} {anyone.epsilon:.2f}"
    assert said in gaussian.summary()
    assert "presumes" not in anyone.summary()
    limit = (anyone.epsilon + gaussian.epsilon) / 2
    assert check(audit, max_epsilon=limit, **options)
    broken = check(audit, max_epsilon=limit, mechanism="gaussian", **options)
    assert broken.outcome == "memorized"
    assert f"above the limit of {limit:g}; {said}" in str(broken)
    assert "or show that training is no Gaussian mechanism" in broken.reason.cure
    most = check(audit, max_epsilon=gaussian.largest_possible, mechanism="gaussian", **options)
    assert most.outcome == "undecided"
    with pytest.raises(InputError, match="mechanism given, and no limit on epsilon"):
        check(audit, max_p=0.1, mechanism="gaussian")


FIXED = generate(TEXT, repetitions=[1], per_repetition=8, controls=8, seed=0)


@pytest.mark.parametrize(
    ("audited_set", "given", "options", "message"),
    [
        (FIXED, FIXED, {}, "a fixed list of canaries gives no bound on epsilon"),
        (tossed(16), tossed(16, seed=9), {}, "the canary set is not the one that was audited"),
        (tossed(), tossed(), {"guesses": 0}, "guesses must be a positive integer"),
        (tossed(), tossed(), {"guesses": 65}, "65 guesses for 64 coins"),
        (tossed(), tossed(), {"delta": math.nan}, "delta must be"),
        (tossed(), tossed(), {"confidence": 1.0}, "confidence must be"),
        (tossed(), tossed(), {"mechanism": "gaussian"}, "no finite epsilon at delta 0; give"),
        (tossed(), tossed(), {"mechanism": "laplace"}, "no bound for the mechanism 'laplace'"),
        (tossed(), tossed(), {"mechanism": "gaussian", "guesses": 65}, "65 guesses for 64 coins"),
    ],
)
def test_input(audited_set, given, options, message):
    audit = audited(audited_set, [5.0] * len(audited_set))
    with pytest.raises((InputError, EstimationError), match=message):
        epsilon_bound(audit, given, **options)


@pytest.mark.parametrize("limit", [-1.0, math.nan, math.inf, "one", True])
def test_limit_input(limit):
    canaries = tossed()
    with pytest.raises(InputError, match="on epsilon makes no sense"):
        check(audited(canaries, [5.0] * len(canaries)), max_epsilon=limit, canaries=canaries)
