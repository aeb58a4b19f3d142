"""What a survey by a shadow says of false positive rates that it cannot judge."""

from __future__ import annotations

from dataclasses import is_dataclass

import numpy as np
from classifiers import measured_outputs

import canary
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


def test_members_that_are_singled_out_are_counted_listed_and_on_the_page():
    found = survey(*PAIR, attacks="loss,entropy", fprs=[0.01, 0.1])
    for fpr in (0.01, 0.1):
        out = found.singled_out(fpr)
        best = max(found.attacked, key=lambda one: one.evaluation.tpr_at_fpr(fpr).tpr.value)
        assert (out.name, len(out.samples)) == (best.name, out.point.true_positives)
        assert found.target.member[0, out.samples].all()
        assert (best.attack.scores[out.samples] >= out.point.threshold).all()
        assert (out.to_frame()["score"].diff().dropna() <= 0).all()
        picked = f"the attack “{out.name}” picks {len(out.samples)} of"
        line = f"wrong about {100 * fpr:g} % of the others, {picked}"
        assert any(line in words_of(b) for b in report_of(found).outcome if not is_dataclass(b))


def test_a_list_that_guessing_may_give_says_so():
    rng = np.random.default_rng(0)
    noise = [
        canary.measure(
            rng.normal(size=(600, 4)),
            y=np.tile(np.arange(4), 150),
            member=np.arange(600) < 300,
            outputs="logits",
        )
        for _ in range(2)
    ]
    for pair, chance in ((noise, 1), (PAIR, 0)):
        out = survey(*pair, attacks="loss", fprs=[0.1]).singled_out()
        assert set(out.to_frame()["may_be_chance"]) == {chance}
        assert ("may be mistakes" in out.summary()) is bool(chance)
        assert (out.nonmembers_as_high <= out.point.false_positives).all()


def test_estimates_and_points_print_in_a_few_lines():
    one = survey(*PAIR, attacks="loss", fprs=[0.1]).attacked[0]
    for result in (one, one.points[0], one.points[0].tpr, one.evaluation.roc):
        assert len(repr(result)) < 150
        assert len(str(result).splitlines()) <= 5
        assert not result.to_frame().empty
        assert result._repr_html_()


def test_a_rate_that_equal_scores_keep_from_being_judged_is_not_measurable():
    found = survey(*PAIR, attacks="correctness", fprs=[0.01])
    page = report_of(found)
    assert not found.surest().measured
    assert "is not measurable" in found.summary()
    assert "no single one" not in found.summary()
    assert page.tiles[0].value == "Not measurable"
    assert survey(*PAIR, attacks="correctness,loss", fprs=[0.01]).surest().measured
