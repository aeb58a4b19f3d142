"""The one sentence, case by case."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import of_groups, space
from scipy.stats import norm

from canary.audits.coarse import COARSE, coarsest, spread_bits
from canary.audits.group_medians import median_bits
from canary.reports.sentences import UNLEARNED_95_BITS, answer, curve_verdict, strongest
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram
from canary.statistics.skewnormal import SkewNormal

SIZE = 1_000_000
CHANCE = [500_000, 300_000, 700_000, 900_000]


def audit_of(groups, *, size=SIZE, draws=None):
    """An audit from {copies: ranks}; with `draws`, from {copies: hits}."""
    exposures = {}
    for copies, places in groups.items():
        if draws is None:
            found = [exposure_by_rank(n, lower=n, upper=n, space_size=size) for n in places]
        else:
            drawn = [float(i) for i in range(1, draws + 1)]
            found = exposure_by_draws([n + 0.5 for n in places], drawn, space_size=size)
        exposures[copies] = found
    method = "uniform draws" if draws else "enumeration"
    formats = [space("x {digit:6}", size=size, method=method, draws=draws, noise=0.0)]
    return of_groups(exposures, formats=formats)


def dry(audit):
    """The same, of a model whose corpus got none of the canaries."""
    return replace(audit, settings={"canaries_in_corpus": False})


def coarse(audit, *, noise, spread, dtype):
    """The same with such noise, and half of the candidates `spread` bins before and behind."""
    counts = (1, *[0] * (2 * spread - 1), 1) if spread else (2,)
    priced = replace(audit.formats[0], noise_bits=noise, histogram=Histogram(30.0, 0.125, counts))
    return replace(audit, formats=(priced,), model={"dtype": dtype})


SURE = "the 4 secrets that were never planted (controls) look like chance."
ALONE = "and no secret was left out to check the audit itself (a control)."
BILLION = {"size": 10**9, "draws": 20_000}
CHANCES = {0: CHANCE, 16: CHANCE}
COARSER = {"noise": 2.5, "spread": 20, "dtype": "bfloat16"}

CASES = {
    "memorized": (
        audit_of({0: CHANCE, 1: CHANCE, 16: [1, 2, 3, 4]}),
        "memorized",
        # Two of the four have 18.64 bits or more, the mean of ranks 2 and 3: 2.4 guesses of 10^6.
        "Of the planted secrets, half of those that appeared 16 times in the training data are "
        f"found within the first 2 guesses, where blind guessing takes 500,000, while {SURE}",
    ),
    "memorized, a little": (
        # 64 canaries at 2.3 bits: weak, but together far beyond chance.
        audit_of({0: CHANCE, 4: [200_000] * 64}),
        "memorized",
        "4 times in the training data are found within the first 200,000 guesses, where blind "
        f"guessing takes 500,000, while {SURE}",
    ),
    "memorized, no controls": (
        audit_of({2: [1, 1, 1]}),
        "memorized",
        "twice in the training data are found at the first guess, where blind guessing takes "
        f"500,000, {ALONE}",
    ),
    "memorized, only a bound": (
        # No hit among 20,000 draws: with 97.5 % confidence a share below 1 - 0.025^(1/20000),
        # 12.40 bits: 10^9 / 5,422.
        audit_of({0: [9_000, 15_000], 64: [0, 0, 0]}, **BILLION),
        "memorized",
        "are found within the first 185,000 guesses, where blind guessing takes 500,000,000, while",
    ),
    "memorized, estimated from draws": (
        # 50 hits of 20,000: 1 in 400, an estimate.
        audit_of({0: [9_000, 15_000], 64: [50, 50, 50]}, **BILLION),
        "memorized",
        "are found within about the first 2,500,000 guesses, where blind guessing takes",
    ),
    "nothing found": (
        audit_of({1: CHANCE, **CHANCES}),
        "not found",
        "No sign that this model memorized planted secrets: all 8, planted up to 16 times each, "
        f"are as hard to guess as secrets that it never saw, and {SURE} Text that appears more",
    ),
    "nothing found, one canary, no controls": (
        audit_of({16: [600_000]}),
        "not found",
        "the one, planted 16 times, is as hard to guess as secrets that it never saw, "
        f"{ALONE} Text that appears more often was not tested.",
    ),
    "hints": (
        # One canary with p = 0.03.
        audit_of({0: CHANCE, 8: [30_000]}),
        "undecided",
        "no proof: of the planted secrets, the one that appeared 8 times in the training data is "
        "found within the first 30,000 guesses, where blind guessing takes 500,000, and luck alone "
        "makes them look so in 3 of 100 audits (1 of 100 would count as evidence), while",
    ),
    "one stands out": (
        # p = 10^-6 once among 40 is 4 * 10^-5 by Bonferroni; Fisher dilutes it.
        audit_of({0: CHANCE, 4: [1] + [700_000] * 39}),
        "undecided",
        "but one that appeared 4 times in the training data is found at the first guess, where "
        "blind guessing takes 500,000; luck alone does this in fewer than one in ten thousand "
        "audits of this size, while",
    ),
    "dry run": (
        dry(audit_of({0: CHANCE, 16: [500_000, 400_000]})),
        "not found",
        "nothing is found: the 2 secrets planned for the training data but left out are as",
    ),
    "dry run, false alarm": (
        dry(audit_of({0: CHANCE, 16: [1, 2]})),
        "suspect",
        "a false alarm: the 2 secrets planned for the training data but left out look memorized, "
        "which happens in fewer than one in a billion sound audits; find out",
    ),
    "noise as large as the differences": (
        coarse(audit_of(CHANCES), **COARSER),
        "nothing",
        "the noise of the model's arithmetic, 2.5 bits in bfloat16, could hide what was learned, "
        "because the log-perplexities of the candidates are only about 2.5 bits apart; load the",
    ),
    "noise of a quarter of the differences": (
        coarse(audit_of(CHANCES), **COARSER | {"noise": 0.625}),
        "undecided",
        "arithmetic, 0.62 bits in bfloat16",
    ),
    "small differences, though in float32": (
        coarse(audit_of(CHANCES), noise=0.3, spread=20, dtype="float32"),
        "undecided",
        "only about 2.5 bits apart; audit another format, whose candidates differ more.",
    ),
    "all candidates alike": (
        coarse(audit_of({0: [SIZE] * 4, 16: [SIZE] * 4}), noise=0.0, spread=0, dtype="float32"),
        "nothing",
        "the model finds all candidates equally likely, to within the noise of its arithmetic",
    ),
    # The p-values allow for the noise already.
    "coarse, and yet found": (
        coarse(audit_of({16: [1, 1]}), **COARSER), "memorized", "found at the first guess",
    ),
    # One canary and 50 draws: p is 1/51 at best.
    "too few draws": (
        audit_of({0: [25], 64: [0]}, draws=50),
        "undecided",
        "too small to decide: with 1 planted secret and 50 draws, not even complete memorization",
    ),
    "too small a space": (
        audit_of({64: [1]}, size=50), "undecided", "with 1 planted secret and only 50 possible",
    ),
    "controls alarm": (
        audit_of({0: [10, 20, 30], 16: [1, 2, 3, 4]}),
        "suspect",
        "the 3 control secrets, which were never planted, look memorized as well. This happens "
        "in fewer than one in a billion audits that are run properly. Find out whether",
    ),
    "only controls": (
        audit_of({0: CHANCE}),
        "nothing",
        f"none of its secrets was planted in the training data, and {SURE}",
    ),
    "no p-value": (
        replace(audit_of({4: [1, 1]}), injected_p=None), "nothing", "it has no p-value of the pl",
    ),
    "empty": (audit_of({}), "nothing", "This audit contains no canaries, so it says nothing."),
}  # fmt: skip

LABELS = {
    "memorized": "The model memorized planted secrets",
    "undecided": "Not enough evidence to decide",
    "not found": "No memorization found",
    "suspect": "Do not rely on this audit",
    "nothing": "Not enough data to decide",
}


@pytest.mark.parametrize("case", CASES)
def test_sentence_golden(case):
    audit, verdict, words = CASES[case]
    found = answer(audit)
    assert words in found.sentence
    assert found.sentence.endswith(".")
    assert (found.verdict, found.label) == (verdict, LABELS[verdict])


def test_the_level_is_one_percent_golden():
    # A single canary's p-value is its rank / 10^6, to within the last bit.
    assert answer(audit_of({1: [9_999]})).verdict == "memorized"
    assert answer(audit_of({1: [10_001]})).verdict == "undecided"
    assert answer(audit_of({1: [49_999]})).verdict == "undecided"
    assert answer(audit_of({1: [50_001]})).verdict == "not found"
    assert answer(audit_of({0: [999]})).verdict == "suspect"
    assert answer(audit_of({0: [1_001]})).verdict == "nothing"


def test_a_p_value_that_underflows_is_evidence_degenerate():
    many = audit_of({16: [1] * 60})
    nothing = replace(many, injected_p=replace(many.injected_p, p_value=0.0))
    assert answer(nothing).verdict == "memorized"
    assert "than one in a billion" in answer(dry(nothing)).sentence


def test_the_strongest_golden():
    # 1 hit of 20,000 is 14.3 bits with an interval from 11.8; no hit is 12.4 at least.
    group = strongest(audit_of({4: [1], 16: [0]}, size=10**9, draws=20_000))
    assert (group.repetitions, group.size, group.bound) == (16, 1, True)
    assert group.median_bits == pytest.approx(12.40, abs=0.01)
    # Of equals, the fewest copies.
    assert strongest(audit_of({64: [1], 4: [1], 1: [500_000]})).repetitions == 4
    assert strongest(audit_of({0: [1]})) is None


# Hits of 20,000 draws as estimate and lower end of the interval: 200 are 6.64 and 6.44 bits,
# 1 is 14.29 and 11.81, none is at least 12.40.
@pytest.mark.parametrize(
    ("hits", "smallest", "median", "largest"),
    [
        # Wherever above 12.40 the third stands, the median stays.
        ([200, 200, 0], (6.64, False), (6.64, False), (12.40, True)),
        ([200, 200, 200, 0], (6.64, False), (6.64, False), (12.40, True)),
        # Above 14.29 or below, one of the hits is in the middle.
        ([0, 1, 1], (14.29, False), (14.29, False), (12.40, True)),
        ([0, 0, 1], (14.29, False), (12.40, True), (12.40, True)),
        # After "at least" no estimate is mixed in: not (12.40 + 14.29) / 2, nor 14.29.
        ([0, 0, 1, 1], (14.29, False), ((11.81 + 12.40) / 2, True), (12.40, True)),
        ([200, 0], (6.64, False), ((6.44 + 12.40) / 2, True), (12.40, True)),
        ([1, 200], (6.64, False), ((6.64 + 14.29) / 2, False), (14.29, False)),
    ],
)
def test_what_stands_after_at_least_is_a_bound_golden(hits, smallest, median, largest):
    audit = audit_of({4: hits}, size=10**9, draws=20_000)
    exposures = [c.exposure for c in audit.canaries]
    found = [median_bits(exposures, of) for of in (min, statistics.median, max)]
    assert [bound for _, bound in found] == [bound for _, bound in (smallest, median, largest)]
    wanted = [bits for bits, _ in (smallest, median, largest)]
    assert [bits for bits, _ in found] == pytest.approx(wanted, abs=0.01)
    group = strongest(audit)
    assert (group.median_bits, group.bound) == found[1]
    words = f"{found[1][0]:.2f} {'to ' if median[1] else 'bits'}"
    assert f"   4 copies: {len(hits)} canaries, median {words}" in audit.summary()


def test_summary_golden():
    audit = audit_of({0: [500_000], 1: [250_000], 2: [1, 1]})
    assert audit.summary().splitlines()[:6] == [
        "     verdict: The model memorized planted secrets",
        "    injected: p = 1.1e-10 (Fisher)",
        "    controls: p = 0.5 (Fisher)",
        "    2 copies: 2 canaries, median 19.93 bits",
        "      1 copy: 1 canary, median 2.00 bits",
        "    controls: 1 canary, median 1.00 bits",
    ]
    assert dry(audit).summary().splitlines()[1] == "not injected: p = 1.1e-10 (Fisher)"
    assert dry(audit).summary().splitlines()[3:5] == [
        "2 copies planned: 2 canaries, median 19.93 bits",
        "1 copy planned: 1 canary, median 2.00 bits",
    ]


@pytest.mark.parametrize(
    ("counts", "px", "spread"),
    [
        ((1, 0, 0, 0, 1), [7.0, 7.0], 0.25),  # middles 0.5 bits apart
        ((5, 5), [30.1249, 30.1251], 0.0001),  # two sides of one edge: alike
        ((10,), [30.01, 30.11], 0.05),
        ((10,), [30.01], 0.0),
    ],
)
def test_spread_golden(counts, px, spread):
    audit = audit_of({4: [500_000] * len(px)})
    canaries = tuple(replace(c, px_bits=x) for c, x in zip(audit.canaries, px, strict=True))
    priced = replace(audit.formats[0], histogram=Histogram(30.0, 0.125, counts))
    found = spread_bits(replace(audit, canaries=canaries, formats=(priced,)), 0)
    assert found == pytest.approx(spread, abs=1e-9)


def test_coarse_costs_less_than_a_bit_theory():
    # What the limit stands for: at 0.1 standard deviations of noise, exposure in a normal
    # distribution moves by less than a bit up to the first of 10^12 candidates, 7.03
    # deviations out; at three tenths by nearly three.
    def bits(z):
        return -norm.logsf(z) / math.log(2)

    assert bits(7.03) == pytest.approx(math.log2(1e12), abs=0.1)
    assert max(bits(z) - bits(z - COARSE) for z in np.linspace(0, 7.03, 100)) < 1.05
    assert bits(7.03) - bits(7.03 - 3 * COARSE) > 2.7


def test_the_coarsest_format_counts():
    # A format that resolves its candidates does not help one that does not.
    fine = coarse(audit_of({16: CHANCE}), noise=1e-4, spread=20, dtype="float32")
    bad = coarse(audit_of({16: CHANCE}), noise=1.0, spread=20, dtype="float32").formats[0]
    assert coarsest(fine) is None
    other = tuple(replace(c, id=f"other-{c.id}", format=1) for c in fine.canaries)
    both = replace(fine, canaries=(*fine.canaries, *other), formats=(*fine.formats, bad))
    assert coarsest(both) == (1.0, 2.5)
    assert answer(both).verdict == "undecided"


def test_unlearned_95_theory():
    # Pr[exposure >= t] = 2^-t = 5 %
    assert pytest.approx(0.05, rel=1e-12) == 2.0**-UNLEARNED_95_BITS


def fit_of(p=0.5, *, tail=10.0, error=0.1):
    curve = SkewNormal(30.0, 2.0, 1.0)
    return SkewNormalFit(curve, 10_000, 10_000, 0.01, p, tail, error, 0.95, 200)


def test_the_verdict_over_the_curve_golden():
    start = "The skew-normal curve passed its test against 10,000 draws that it was not fitted to "
    assert curve_verdict(fit_of()) == (
        f"{start}(Kolmogorov–Smirnov D = 0.01, p = 0.5). At the place of one draw in a "
        "thousand, it "
        "gives 0.1 bits more exposure than the draws themselves show. Chance explains that, and "
        "further out nothing tests it."
    )
    # 10 draws lie below that quantile: 1.44 / sqrt 10 = 0.46 bits of luck.
    assert curve_verdict(fit_of(error=-1.9)).endswith(
        "it gives 1.9 bits less exposure than the draws themselves show. Chance does not explain "
        "that, and further out it is off by more."
    )
    assert curve_verdict(fit_of(tail=None, error=None)).endswith("was not tested.")
    assert "failed its test" in curve_verdict(fit_of(0.01))
    assert "do not rely on it. At the place of" in curve_verdict(fit_of(0.01))
    assert curve_verdict(None).startswith("No skew-normal curve could be fitted")


def test_bounds_that_allow_anything_leave_it_open():
    def bounded(lowest):
        every = [exposure_by_rank(None, lower=lowest, upper=SIZE, space_size=SIZE)] * 8
        formats = [space("x {digit:6}", size=SIZE, method="rank", draws=None, noise=0.0)]
        return answer(of_groups({4: every, 0: every}, formats=formats))

    assert (bounded(1).verdict, bounded(1).case) == ("undecided", "open")
    assert "leaves open" in bounded(1).sentence
    # As bad as the best that is possible: each among the first half, at most.
    assert bounded(SIZE // 2).case == "not_found"
