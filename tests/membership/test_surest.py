"""What a survey by a shadow says of false positive rates that it cannot judge."""

from __future__ import annotations

from classifiers import measured_outputs

from canary.membership.shadow_survey import survey
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.statistics.shares import nonmembers_for_lower_end

PAIR = measured_outputs(1, samples=1200), measured_outputs(2, samples=1200)


def test_the_number_of_non_members_allows_for_the_number_of_attacks():
    attacks = "correctness,loss,entropy"
    found = survey(*PAIR, attacks=attacks, fprs=[0.002])
    needed = nonmembers_for_lower_end(0.002, confidence=1 - 0.05 / 3)
    (note,) = (note for note in found.notes if "It takes" in note)
    assert f"It takes {needed:,} non-members with 3 attacks" in note
    assert not found.surest().shows
    (alone,) = (n for n in survey(*PAIR, attacks="loss", fprs=[0.002]).notes if "It takes" in n)
    needed = nonmembers_for_lower_end(0.002, confidence=0.95)
    assert alone.endswith(f"It takes {needed:,} non-members")


def test_a_rate_that_cannot_be_judged_is_left_open_and_no_finding():
    page = report_of(survey(*PAIR, attacks="loss", fprs=[0.002]))
    text = " ".join(map(words_of, page.sentences))
    assert "too few other samples to decide it" in text
    assert "no single" not in f"{page.label} {text}"
    assert survey(*PAIR, attacks="loss", fprs=[0.1]).surest().shows
