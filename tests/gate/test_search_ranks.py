"""A search that proves places decides where few draws leave a limit open."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import SIZE, by_draws, extraction, of_groups, space, trusting

from canary.audits.search_ranks import with_search
from canary.reports.builders import report_of
from canary.reports.document import Table, words_of
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


def test_every_table_has_the_ranks_that_a_search_proved():
    _, searched = audited([1, 5, 20])
    expected = [math.log2(SIZE / place) for place in (1, 5, 20)]
    assert searched.to_frame()["bits"][:3].tolist() == pytest.approx(expected)
    report = report_of(searched)
    (rows,) = (s for s in report.sections if s.heading == "Every canary")
    (table,) = (block for block in rows.blocks if isinstance(block, Table))
    place = next(at for at, name in enumerate(table.columns) if name.startswith("Rank"))
    assert [row[place] for row in table.rows[:3]] == ["1", "5", "20"]
    # Two kinds of interval are in it, and each says which it is.
    interval = table.columns.index("Interval\n(bits)")
    kinds = [row[interval].rpartition(", ")[2] for row in table.rows[:4]]
    assert kinds == ["certain"] * 3 + ["95\N{NO-BREAK SPACE}%"]
    best = max(expected)
    (figure,) = (s for s in report.sections if s.heading == "Exposure by number of copies")
    assert f"{best:.2f}" in str(figure.blocks)


@pytest.mark.parametrize(
    ("stopped", "words", "noted"),
    [
        (
            "requests",
            "cut after 500 requests (--budget, --max-requests): with more, more may be found",
            True,
        ),
        ("budget", "budget of 10,000 queries (--extraction-budget): with more, more may be", False),
        ("proof", "", False),
    ],
)
def test_a_search_that_was_cut_says_so_at_first(stopped, words, noted):
    plain, searched = audited([])
    (found,) = searched.extractions
    settings = {"requests_in_this_run": 500, "budget": 10_000}
    for candidates in (tuple(replace(c, proven=False) for c in found.candidates), ()):
        cut = replace(found, stopped=stopped, settings=settings, candidates=candidates)
        report = report_of(replace(plain, extractions=(cut,)))
        came_out = " ".join(words_of(block) for block in report.outcome if isinstance(block, tuple))
        assert words in came_out
        assert ("may be found" in came_out) == bool(words)
        assert any(words in words_of(note) for note in report.notes if noted) == noted
        # Neither the headline nor what came out reads as if a longer search could find no more.
        none = words_of(report.sentences[0]) + came_out
        assert ("(the search was cut short)" in none) == noted
        verdict = trusting(replace(plain, extractions=(cut,)), max_exposure_bits=12)
        assert any(words in words_of(note) for note in report_of(verdict).notes if noted) == noted
        extracted = trusting(replace(plain, extractions=(cut,)), no_extraction=True)
        cures = [f.cure for f in extracted.findings if f.check == "extraction"]
        assert ("--max-requests" in str(cures)) == noted
