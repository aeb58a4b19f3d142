"""What the gate, the reports and a comparison make of the same controls and the same ceiling."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import SIZE, exact, of_groups, trusting

import canary
from canary.audits.group_medians import ceilings
from canary.errors import InputError
from canary.reports.builders import report_of
from canary.reports.comparison import compare
from canary.reports.comparison_report import comparison_report
from canary.reports.document import words_of
from canary.reports.pages import plot, report
from canary.reports.sentences import answer
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank


def ranked(*ranks):
    return [exposure_by_rank(r, lower=r, upper=r, space_size=SIZE) for r in ranks]


def with_controls(p, bits=2.0, name="a", **more):
    audit = exact({16: [bits] * 8, 0: [1.0] * 4}, fingerprint=name * 64, **more)
    return replace(audit, controls_p=replace(audit.controls_p, p_value=p))


@pytest.mark.parametrize(
    ("p", "suspect", "noted"),
    [(0.5, False, False), (0.0039, False, True), (0.0011, False, True), (0.0009, True, False)],
)
def test_gate_and_report_agree_on_controls(p, suspect, noted):
    audit = with_controls(p)
    (found,) = [f for f in trusting(audit, max_exposure_bits=10).findings if f.check == "controls"]
    assert (found.outcome == "undecided", answer(audit).verdict == "suspect") == (suspect, suspect)
    assert any("only p = 0.001 or less" in note for note in audit.notes) == noted
    assert ("at level 0.001" in found.sentence) == noted
    assert ("look like chance at level 0.001 (p = " in answer(audit).sentence) == noted
    page = report_of(audit)
    assert (page.tone == "suspect") == suspect
    assert (
        any("the controls look learned a little" in words_of(n).lower() for n in page.notes)
        == noted
    )


def test_a_comparison_corrects_for_the_number_of_audits():
    sound = [with_controls(0.5, 2.0 + i, "bcdef"[i]) for i in range(5)]
    for p, vetoed, named in ((0.0039, False, False), (0.0005, False, True), (1e-4, True, True)):
        page = comparison_report(compare([with_controls(p), *sound]))
        assert (page.tone == "suspect") == vetoed
        notes = [words_of(note) for note in page.notes]
        assert any("its own report calls the audit suspect" in note for note in notes) == named
        assert any("Among 6 audits" in note for note in notes) == (named and not vetoed)


def test_the_ceiling_of_a_group_golden():
    most = math.log2(SIZE)
    half = (math.log2(4) + math.log2(5)) / 2
    found = of_groups({4: ranked(*range(1000, 1008)), 16: ranked(*range(1, 9))})
    assert found.at_ceiling() == {16: pytest.approx(most - half)}
    assert any(
        f"(16 copies: {most - half:.2f} of {most - half:.2f} bits)" in note for note in found.notes
    )
    near = of_groups({16: ranked(1, 2, 3, 4, 6, 7, 8, 9)})  # two of the middle are one place off
    low = most - (math.log2(4) + math.log2(6)) / 2
    assert any(
        "near the highest that" in n and f"{low:.2f} of {most - half:.2f}" in n for n in near.notes
    )
    # Those behind others are at what these leave to them.
    behind = of_groups({16: ranked(*range(9, 17)), 64: ranked(*range(1, 9))})
    left = most - (math.log2(12) + math.log2(13)) / 2
    assert behind.at_ceiling() == {16: pytest.approx(left), 64: pytest.approx(most - half)}
    assert not of_groups({16: ranked(*range(101, 109))}).notes
    drawn = exposure_by_draws([0.0], [0.5] * 100, space_size=SIZE)
    assert ceilings([(16, 0, drawn[0])]) == {}


def test_utility_takes_the_copies_that_can_rank():
    def one(name, four):
        groups = {4: ranked(*range(four, four + 8)), 16: ranked(*range(1, 9))}
        return of_groups(groups, fingerprint=name * 64)

    pair, losses = [one("a", 1000), one("b", 5000)], [1.0, 2.0]
    notes = [words_of(note) for note in comparison_report(compare(pair)).notes]
    assert any(
        note.startswith("A and B: The median exposure is near the highest") for note in notes
    )
    axes = plot(pair, kind="utility", test_losses=losses)
    assert axes.get_xlabel().endswith("4 copies")
    axes = plot(pair, kind="utility", test_losses=losses, repetitions=16)
    assert axes.get_xlabel().endswith("16 copies")
    upright = [line.get_xdata() for line in axes.lines if len({*line.get_xdata()}) == 1]
    (dashed,) = [x for x in upright if len(x) == 2]
    assert dashed[0] == pytest.approx(math.log2(SIZE) - (math.log2(4) + math.log2(5)) / 2)


def test_a_summary_with_a_bound_has_intervals_of_all():
    rng = np.random.default_rng(0)
    draws = exposure_by_draws([0.0] * 4, rng.random(1000), space_size=SIZE)
    known = exposure_by_draws([0.01] * 8, rng.random(1000), space_size=SIZE)
    mixed = of_groups({4: known, 16: draws})
    lines = [line for line in mixed.summary().splitlines() if "median" in line]
    assert all(" to " in line and "at least" not in line for line in lines)
    metrics = mixed.metrics()
    assert metrics["canary/exposure_4_copies_lower"] < metrics["canary/exposure_4_copies"]
    assert metrics["canary/exposure_4_copies"] < metrics["canary/exposure_4_copies_upper"]
    assert " to " not in of_groups({4: known}).summary().split("median")[1].split("bits")[0]


def test_several_audits_in_python_words(tmp_path):
    """Names that are guessed, dicts with labels, audits as a baseline, one unit in all figures."""
    a, b = (
        exact({16: [bits] * 8}, fingerprint=name * 64) for bits, name in ((3.0, "a"), (9.0, "b"))
    )
    with pytest.raises(InputError, match=r"report\(\[a, b\], path\).*baseline=b"):
        canary.compare([a, b])
    with pytest.raises(AttributeError, match="its table is to_frame"):
        a.to_dataframe()
    a.save(tmp_path / "a.json", force=True)
    assert trusting(b, baseline=[a]).outcome == trusting(b, baseline=a).outcome == "memorized"
    with pytest.raises(InputError, match="give audits, the file"):
        trusting(b, baseline=3)
    axes = plot({"first": a, "second": b}, axis="bits")
    assert [t.get_text() for t in axes.get_legend().get_texts()] == [
        "A: first",
        "B: second",
        "thin lines: smallest to largest exposure",
    ]
    assert axes.get_ylabel() == "median exposure (bits)"
    assert plot([a], axis="guesses").get_ylabel().startswith("guesses")
    page = report({"first": a, "second": b}, tmp_path / "page.md").read_text()
    assert "A (first)" in page or "second" in page
    with pytest.raises(InputError, match="unknown axis"):
        plot(a, axis="nats")


def drawn(*hits, size=SIZE, draws=20_000, **options):
    """Exposures of canaries that this many draws are as likely as."""
    found = exposure_by_draws(np.array(hits) + 0.5, np.arange(1.0, draws + 1), space_size=size)
    return of_groups({16: found}, **options)


def test_a_median_on_few_draws_is_a_bound_and_ranks_nothing():
    """One draw may be as likely as all canaries of all seeds, whose spread does not show it."""
    few = {label: [drawn(*[h] * 8, fingerprint=f"{label}{i}") for i in range(3)]
           for label, h in (("a", 1), ("b", 4))}  # fmt: skip
    (row,) = few["a"][0].groups().to_dict("records")  # of one audit, its interval says it
    assert row["lower_bits"] < 13 < row["median_bits"] < row["upper_bits"]
    found = canary.compare(few)
    assert "cannot be ranked" in found.answer
    assert [*found.means_frame().counted] == [False, False]
    assert found.means_frame().difference_bits.isna().all()
    assert any("exact ranks (method rank) or more draws" in note for note in found.notes)
    many = {label: [drawn(*[h + i] * 8, fingerprint=f"{label}{i}") for i in range(3)]
            for label, h in (("a", 20), ("b", 2000))}  # fmt: skip
    found = canary.compare(many)
    assert found.answer.startswith("'b' memorizes less")
    assert found.means_frame().counted.all()
    assert not any("draws" in note for note in found.notes)
    small = drawn(1, 1, 1, size=20_001)  # the space itself leaves no more open
    assert not small.groups().bound.any()


def test_a_control_that_draws_leave_below_a_limit_asks_for_more_draws():
    def judged(hits):
        px, draws = np.array([hits + 0.5] * 8 + [25_000.5] * 8), np.arange(1.0, 100_001)
        found = exposure_by_draws(px, draws, space_size=SIZE)
        audit = of_groups({16: found[:8], 4: found[8:]}, canaries_in_corpus=True)
        return trusting(audit, max_exposure_bits=16.5, require_learned=16)

    (short,) = [f for f in judged(3).findings if f.check == "positive control"]
    assert "15.0 bits, below the limit of 16.5" in short.sentence
    assert short.cure.startswith("use exact ranks (--method rank) or more draws")
    assert judged(1).outcome == "passed"  # draws cannot show more
    (short,) = [f for f in judged(50).findings if f.check == "positive control"]
    assert "draws" not in short.cure


def test_a_range_of_a_median_ends_at_the_highest_that_there_is():
    """Eight canaries of one format take each other's ranks, also where draws leave them open."""
    most = math.log2(SIZE) - (math.log2(4) + math.log2(5)) / 2
    audit = drawn(*[0] * 8)
    (line,) = [line for line in audit.summary().splitlines() if "16 copies: 8 canaries" in line]
    assert f" to {most:.2f} bits" in line.partition("(")[0]


def test_a_summary_is_as_careful_as_its_page():
    """Nothing found in a model that may not have read the secrets."""
    audit = of_groups({16: ranked(*range(SIZE // 2, SIZE // 2 + 8))})
    assert report_of(audit).label.startswith("Nothing was found, but nobody has shown")
    assert f"verdict: {report_of(audit).label}" in " ".join(audit.summary().split())
    known = replace(audit, settings={**audit.settings, "canaries_in_corpus": True})
    assert report_of(known).label == answer(known).label
    assert "nobody has shown" not in known.summary()
