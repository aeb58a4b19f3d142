"""What a report says of extraction, and that it says no secret."""

from __future__ import annotations

from dataclasses import replace

import gate_audits
import pytest
from html_pages import render

from canary.audits.extraction import Candidate
from canary.reports.sentences import extraction_sentence

SECRET = "734921"


def extraction(audit, names, *, proven=True, **changes):
    """The likeliest candidates are these canaries; None is a candidate of nobody's."""
    candidates = tuple(
        Candidate(
            fill=SECRET,
            px_bits=10.0 + place,
            proven=proven or not place,
            found_after=20 * (place + 1),
            exposure_lower_bits=12.25 if place else 19.9316,
            exposure_upper_bits=19.9316,
            canary=name,
        )
        for place, name in enumerate(names)
    )
    changes = {"top": len(names) or 4, "candidates": candidates, "rest_bits": 12.75, **changes}
    masked = audit.formats[0].masked
    made = gate_audits.extraction({}, size=10**6, proven=proven, text=audit.formats[0].format)
    return replace(made, masked=masked, certificate="certified: by hand", **changes)


@pytest.fixture
def audit(audits):
    return audits["enumerated"]


def test_sentence_golden(audit):
    said = extraction_sentence(audit, extraction(audit, ["canary-3", None, "control-1"]))
    assert said == (
        "The search brought 3 candidates out of the model (it is proven that no other is likelier)"
        "; 1 of the 32 injected canaries is among them, and the very first is one. The model "
        "computed 1,234 tokens for it (queries). Guessing at random, one given secret takes "
        "500,000 guesses on average, and a guess is one query or more."
    )
    said = extraction_sentence(audit, extraction(audit, [None, "canary-1"], proven=False))
    assert (
        "(the likeliest that it met; it is proven of the first only that no other is likelier, "
        "for the budget of queries was spent); 1 of" in said
    )
    assert "the very first" not in said
    said = extraction_sentence(audit, extraction(audit, [], proven=False))
    assert said.startswith(
        "Nothing was extracted: no candidate costs less than 12.75 bits, and the budget of "
        "queries was spent before the search came to one. The model computed"
    )
    left_out = replace(audit, settings={**audit.settings, "canaries_in_corpus": False})
    assert "1 of the 32 canaries, which were left out, is" in extraction_sentence(
        left_out, extraction(audit, ["canary-1"])
    )


def test_page_shows_rows_and_no_secret(audit, plain):
    names = ["canary-3", "canary-4", None, "canary-1"]
    page = render(replace(audit, extractions=(extraction(audit, names),)))
    assert "What could be extracted" in page
    assert '<th scope="row">2</th><td>canary-4</td><td>11.00</td>' in page
    assert "<td>12.2 to 19.9</td>" in page
    assert "none of the set" in page
    assert SECRET not in page
    assert "What could be extracted" not in render(audit)


def test_long_lists_are_cut_and_say_so(audit, plain):
    page = render(replace(audit, extractions=(extraction(audit, [None] * 40),)))
    assert "15 more are in the audit" in page
    assert page.count("none of the set") == 25
