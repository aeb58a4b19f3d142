"""Membership tests of several models side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import canary
from canary.errors import InputError
from canary.reports.attacks_compared import compare_attacks
from canary.reports.builders import report_of

SIZE = 400


def leaking(gap, seed, attacks="loss"):
    """The test of a model whose members' own logit is higher by `gap`."""
    tables = []
    for part in (0, 1):
        rng = np.random.default_rng([seed, part])
        labels, member = rng.integers(0, 4, SIZE), rng.permutation(SIZE) < SIZE // 2
        logits = rng.normal(size=(SIZE, 4))
        logits[np.arange(SIZE), labels] += 1.0 + gap * member
        tables.append(canary.measure(logits, y=labels, member=member, outputs="logits"))
    return canary.survey(*tables, attacks=attacks, fprs=[0.1])


@pytest.fixture(scope="module")
def found():
    return {
        name: leaking(gap, at) for at, (name, gap) in enumerate({"plain": 2, "reg": 0.5}.items())
    }


def test_the_model_that_leaks_less_is_named(found, tmp_path):
    compared = compare_attacks([*found.values()], [*found])
    assert (compared.labels[compared.least], compared.decided) == ("reg", True)
    plain, reg = compared.reached
    gap = compared.more(0)
    assert gap.value == plain.value - reg.value
    # MOVER: the squares of the two half widths that matter, added.
    assert (gap.value - gap.lower) ** 2 == pytest.approx(
        (plain.value - plain.lower) ** 2 + (reg.upper - reg.value) ** 2
    )
    assert report_of(compared).label == "“reg” leaks less"
    assert compared.summary().startswith("“reg” leaks less\nplain: AUC ")
    assert {*compared.to_frame()["model"]} == {"plain", "reg"}
    page = canary.report(found, tmp_path / "page.html").read_text()
    assert "“reg” leaks less" in page
    assert "<svg" in page


def test_equal_models_are_hardly_ever_ranked_coverage():
    """A pair in twenty would be expected if both were asked about one half; they are not."""
    ranked = sum(
        compare_attacks([leaking(0.7, seed), leaking(0.7, seed + 50)]).decided for seed in range(30)
    )
    assert ranked <= 5  # of 30 at one in twenty, more has a chance of 0.003


def test_of_three_models_only_what_intervals_separate_is_ranked(found):
    third = leaking(0.5, 11)
    made = report_of(compare_attacks([*found.values(), third], ["plain", "reg", "other"]))
    assert made.tone == "undecided"
    assert made.label == (
        "plain leaks more; reg and other cannot be ranked: the difference may be chance"
    )
    third = leaking(2, 12)
    made = report_of(compare_attacks([*found.values(), third], ["plain", "reg", "other"]))
    assert (made.label, made.tone) == ("“reg” leaks least", "")
    assert "plain and other cannot be ranked among each other." in made.sentences[0]


def test_nothing_is_ranked_where_the_surest_guesses_contradict_the_average():
    """Of one model 8 % of the members are known by heart, of the other all a little."""
    found = []
    for gap, known in ((0.35, 0.0), (0.05, 0.08)):
        tables = []
        for seed in (0, 1):
            rng = np.random.default_rng([seed, int(100 * known)])
            labels, member = rng.integers(0, 4, 4000), rng.permutation(4000) < 2000
            logits = rng.normal(size=(4000, 4))
            heart = member & (rng.random(4000) < known)
            logits[np.arange(4000), labels] += 1.0 + gap * member + 9.0 * heart
            tables.append(canary.measure(logits, y=labels, member=member, outputs="logits"))
        found.append(canary.survey(*tables, attacks="loss-one-threshold", fprs=[0.01, 0.1]))
    compared = compare_attacks(found, ["even", "few"])
    assert (compared.labels[compared.least], compared.against, compared.decided) == (
        "few",
        [0.01],
        False,
    )
    made = report_of(compared)
    assert made.tone == "undecided"
    assert made.label.startswith("Cannot be ranked: on average")
    assert "(FPR 1 %) recognizes more of the training data of few" in made.sentences[0]


def test_nothing_follows_from_tests_that_are_doubted(found):
    doubted = replace(found["plain"], doubts=("The flags may be swapped", "It is odd"))
    warnings = report_of(doubted).warnings
    assert str(warnings).count("For the engineers") == 1 < len(warnings)
    made = report_of(compare_attacks([doubted, found["reg"]], ["plain", "reg"]))
    assert (made.label, made.tone) == ("Not comparable: correct the input first", "suspect")
    assert not made.outcome
    assert "%" not in str(made.sentences)
    assert "%" not in compare_attacks([doubted, found["reg"]]).summary()


def test_nothing_is_ranked_by_the_average_alone(found):
    tables = found["plain"].target, found["plain"].shadow
    other = canary.survey(*tables, attacks="loss", fprs=[0.05])
    compared = compare_attacks([other, found["reg"]], ["plain", "reg"])
    assert (compared.rates(), compared.decided) == ({}, False)
    assert compared.more(0).lower > 0  # on average it would be
    made = report_of(compared)
    assert made.label == "Cannot be ranked: the tests share no false positive rate"
    assert "--fpr" in str(made.actions)


def test_only_what_all_made_is_compared(found):
    more = leaking(2, 7, attacks="loss,entropy")
    compared = compare_attacks([more, found["reg"]])
    assert (compared.names, compared.labels) == (("loss",), ("A", "B"))
    assert "left out: entropy" in str(report_of(compared).notes)
    with pytest.raises(InputError, match="no attack in common"):
        compare_attacks([leaking(2, 8, attacks="entropy"), found["reg"]])
    with pytest.raises(InputError, match="2 tests and 1 label"):
        compare_attacks([*found.values()], ["a"])
    with pytest.raises(InputError, match="only membership tests, are compared"):
        canary.report([found["reg"], object()], "never.html")
