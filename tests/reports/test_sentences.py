"""The one sentence, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canary.audits.result import Audit, CanaryResult, FormatResult
from canary.reports.sentences import UNLEARNED_95_BITS, answer, curve_verdict, strongest
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram
from canary.statistics.pvalues import fisher
from canary.statistics.skewnormal import SkewNormal

SIZE = 1_000_000
CHANCE = [500_000, 300_000, 700_000, 900_000]


def audit_of(groups, *, size=SIZE, draws=None):
    """An audit from {copies: ranks}; with `draws`, from {copies: hits}."""
    canaries = []
    for repetitions, places in groups.items():
        for place in places:
            if draws is None:
                found = exposure_by_rank(place, lower=place, upper=place, space_size=size)
            else:
                drawn = [float(i) for i in range(1, draws + 1)]
                (found,) = exposure_by_draws([place + 0.5], drawn, space_size=size)
            ordinal = f"canary-{len(canaries) + 1}"
            canaries.append(CanaryResult(ordinal, 0, repetitions, 30.0, 9.0, found, None))
    method = "uniform draws" if draws else "enumeration"
    formats = (
        FormatResult(
            "x {digit:6}", "x ••••••", size, method, "", Histogram(0.0, 0.125, ()), None,
            draws or size, 1, 9, 0.0, None, 1.0,
        ),
    )  # fmt: skip
    parts = ([c for c in canaries if not c.control], [c for c in canaries if c.control])
    injected, controls = (
        fisher([c.exposure.p_value for c in part], shared_draws=draws) if part else None
        for part in parts
    )
    return Audit(tuple(canaries), formats, injected, controls, {}, {})


CASES = {
    "memorized": (
        audit_of({0: CHANCE, 1: CHANCE, 16: [1, 2, 3, 4]}),
        "memorized",
        "This model memorized training data: a canary that stood 16 times in the corpus can be "
        "guessed about 400,000 times faster than chance, while the 4 controls, never put into "
        "the corpus, show nothing unusual.",
    ),
    "memorized, once": (
        audit_of({0: [400_000], 1: [3, 3, 3], 2: [400_000] * 3}),
        "memorized",
        "This model memorized training data: a canary that stood once in the corpus can be "
        "guessed about 300,000 times faster than chance, while the control, never put into the "
        "corpus, shows nothing unusual.",
    ),
    "memorized, a little": (
        # 64 canaries at 2.3 bits: weak, but together far beyond chance.
        audit_of({0: CHANCE, 4: [200_000] * 64}),
        "memorized",
        "This model memorized training data: a canary that stood 4 times in the corpus can be "
        "guessed about 5 times faster than chance (2 times is usual for text that was not "
        "learned), while the 4 controls, never put into the corpus, show nothing unusual.",
    ),
    "memorized, no controls": (
        audit_of({2: [1, 1, 1]}),
        "memorized",
        "This model memorized training data: a canary that stood twice in the corpus can be "
        "guessed about 1 million times faster than chance, and there were no controls to check "
        "the audit itself.",
    ),
    "memorized, only a bound": (
        # No hit among 20,000 draws: 12.70 bits, 6,677 times.
        audit_of({0: [9_000, 15_000], 64: [0, 0, 0]}, size=10**9, draws=20_000),
        "memorized",
        "This model memorized training data: a canary that stood 64 times in the corpus can be "
        "guessed at least 6,000 times faster than chance, while the 2 controls, never put into "
        "the corpus, show nothing unusual.",
    ),
    "nothing found": (
        audit_of({0: CHANCE, 1: CHANCE, 16: CHANCE}),
        "not found",
        "No sign that this model memorized training data: the 8 injected canaries are about as "
        "hard to guess as text that the model never saw, while the 4 controls, never put into "
        "the corpus, show nothing unusual.",
    ),
    "nothing found, one canary, no controls": (
        audit_of({16: [600_000]}),
        "not found",
        "No sign that this model memorized training data: the injected canary is about as hard "
        "to guess as text that the model never saw, and there were no controls to check the "
        "audit itself.",
    ),
    "hints": (
        # One canary with p = 0.03.
        audit_of({0: CHANCE, 8: [30_000]}),
        "undecided",
        "There are hints of memorization but no proof: a canary that stood 8 times in the "
        "corpus can be guessed about 30 times faster than chance, and luck alone makes the "
        "1 canary look so in 3 of 100 audits, while the 4 controls, never put into the corpus, "
        "show nothing unusual.",
    ),
    "one stands out": (
        # p = 10^-6 once among 40 is 4 * 10^-5 by Bonferroni; Fisher dilutes it.
        audit_of({0: CHANCE, 4: [1] + [700_000] * 39}),
        "undecided",
        "Taken together the canaries look as if they had not been learned, but one that stood "
        "4 times in the corpus can be guessed about 1 million times faster than chance, which "
        "luck does in fewer than one in ten thousand audits of this size, while the 4 controls, "
        "never put into the corpus, show nothing unusual.",
    ),
    "too few draws": (
        # One canary and 50 draws: p is 1/51 at best.
        audit_of({0: [25], 64: [0]}, draws=50),
        "undecided",
        "This audit is too small to tell: with 1 canary and 50 draws, not even complete "
        "memorization would have stood out from luck.",
    ),
    "too small a space": (
        audit_of({64: [1]}, size=50),
        "undecided",
        "This audit is too small to tell: with 1 canary and only 50 possible secrets, not even "
        "complete memorization would have stood out from luck.",
    ),
    "controls alarm": (
        audit_of({0: [10, 20, 30], 16: [1, 2, 3, 4]}),
        "suspect",
        "Do not rely on this audit yet: the 3 controls, never put into the corpus, look "
        "memorized as well, which happens in fewer than one in a billion sound audits; find out "
        "whether copies of them reached the training data, or the model is not the one that was "
        "meant.",
    ),
    "only controls": (
        audit_of({0: CHANCE}),
        "nothing",
        "This audit cannot tell whether the model memorizes: none of its canaries was put into "
        "the corpus, and the 4 controls, never put into the corpus, show nothing unusual.",
    ),
    "only controls, alarm": (
        audit_of({0: [10]}),
        "suspect",
        "Do not rely on this audit yet: the control, never put into the corpus, looks memorized "
        "as well, which happens in fewer than one in a hundred thousand sound audits; find out "
        "whether copies of them reached the training data, or the model is not the one that was "
        "meant.",
    ),
    "empty": (audit_of({}), "nothing", "This audit holds no canaries and so says nothing."),
}


@pytest.mark.parametrize("case", CASES)
def test_sentence_golden(case):
    audit, verdict, sentence = CASES[case]
    found = answer(audit)
    assert found.sentence == sentence
    assert found.verdict == verdict


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_sentence_property(case):
    sentence = answer(CASES[case][0]).sentence
    assert sentence.endswith(".")
    assert ". " not in sentence
    assert sentence[0].isupper()


def test_labels_golden():
    labels = {answer(audit).verdict: answer(audit).label for audit, _, _ in CASES.values()}
    assert labels == {
        "memorized": "Memorization found",
        "undecided": "Undecided",
        "not found": "No memorization found",
        "suspect": "Audit suspect",
        "nothing": "Nothing to judge by",
    }


def test_the_level_is_one_percent_golden():
    # A single canary's p-value is its rank / 10^6, to within the last bit.
    assert answer(audit_of({1: [9_999]})).verdict == "memorized"
    assert answer(audit_of({1: [10_001]})).verdict == "undecided"
    assert answer(audit_of({1: [49_999]})).verdict == "undecided"
    assert answer(audit_of({1: [50_001]})).verdict == "not found"
    assert answer(audit_of({0: [9_999]})).verdict == "suspect"
    assert answer(audit_of({0: [10_001]})).verdict == "nothing"


def test_one_lucky_hit_is_not_the_strongest_golden():
    # 1 hit of 20,000 is 14.3 bits with an interval from 11.8; no hit is 12.7 at least.
    group = strongest(audit_of({4: [1], 16: [0]}, size=10**9, draws=20_000))
    assert group is not None
    assert (group.repetitions, group.size, group.bound) == (16, 1, True)
    assert group.median_bits == pytest.approx(12.7, abs=0.01)


@pytest.mark.parametrize(
    ("hits", "median", "bound"),
    [
        # 200 hits of 20,000 are 6.64 bits, 1 hit 14.29, none at least 12.70.
        ([200, 200, 0], 6.64, False),  # wherever above 12.70 the third stands
        ([0, 1, 1], 14.29, False),  # above 14.29 or below, one of the hits is in the middle
        ([0, 0, 1], 12.70, True),
        ([0, 0, 1, 1], (12.70 + 14.29) / 2, True),
        ([200, 0], (6.64 + 12.70) / 2, True),
        ([200, 200, 200, 0], 6.64, False),
    ],
)
def test_when_a_median_is_a_bound_golden(hits, median, bound):
    group = strongest(audit_of({4: hits}, size=10**9, draws=20_000))
    assert group is not None
    assert group.median_bits == pytest.approx(median, abs=0.01)
    assert group.bound is bound


def test_of_equals_the_fewest_copies_are_the_strongest_golden():
    group = strongest(audit_of({64: [1], 4: [1], 1: [500_000]}))
    assert group is not None
    assert group.repetitions == 4
    assert strongest(audit_of({0: [1]})) is None


def test_without_a_p_value_nothing_is_claimed_degenerate():
    audit = replace(audit_of({4: [1, 1]}), injected_p=None)
    assert answer(audit).verdict == "nothing"
    assert "no p-value" in answer(audit).sentence


def test_unlearned_95_theory():
    # Pr[exposure >= t] = 2^-t = 5 %
    share = 2.0**-UNLEARNED_95_BITS
    assert share == pytest.approx(0.05, rel=1e-12)


def fit_of(p=0.5, *, tail=10.0, error=0.1):
    curve = SkewNormal(30.0, 2.0, 1.0)
    return SkewNormalFit(curve, 10_000, 10_000, 0.01, p, tail, error, 0.95, 200)


def test_the_verdict_over_the_curve_golden():
    start = "The skew-normal curve passed its test against 10,000 draws that it was not fitted to "
    assert curve_verdict(fit_of()) == (
        f"{start}(Kolmogorov–Smirnov D = 0.01, p = 0.5). Where one draw in a thousand lies, it "
        "overstates exposure by 0.1 bits, which luck can do, and further out nothing tests it."
    )
    # 10 draws lie below that quantile: 1.44 / sqrt 10 = 0.46 bits of luck.
    assert curve_verdict(fit_of(error=-1.9)).endswith(
        "it understates exposure by 1.9 bits, more than luck explains, and further out by more."
    )
    assert curve_verdict(fit_of(tail=None, error=None)).endswith("was not tested.")
    assert "failed its test" in curve_verdict(fit_of(0.01))
    assert "do not rely on it. Where one" in curve_verdict(fit_of(0.01))
    assert curve_verdict(None).startswith("No skew-normal curve could be fitted")
