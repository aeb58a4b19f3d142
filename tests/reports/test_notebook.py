"""Results in a session: a short line, a table, a view for notebooks, and no secret in any."""

from __future__ import annotations

import re

import numpy as np
import pytest
from classifiers import measured_outputs
from gate_audits import exact, extraction
from histories import make_history

from canary import attack
from canary.corpus.canaries import generate
from canary.corpus.verification import Count, Verification
from canary.gate.check_audit import check
from canary.gate.planning import plan
from canary.membership.evaluation import evaluate
from canary.membership.forgetting import forgotten
from canary.membership.shadow_survey import survey
from canary.models.doctor import Examination
from canary.models.experiments import Finding

EVIL = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture(scope="module")
def results(audits):
    """Results, and how many rows the table of each has, where that is known."""
    audit = exact({16: [20.0] * 8}, extractions=[extraction({1: EVIL})])
    tables = [measured_outputs(seed, samples=400) for seed in (1, 2)]
    scores = attack(tables[0], "loss", shadow=tables[1])
    losses = np.random.default_rng(0).random((4, 50))
    return {
        "audit": (audits["enumerated"], 48),
        "history": (make_history(), 60),
        "extraction": (audit.extractions[0], 8),
        "verdict": (check(audit, no_extraction=True), None),
        "plan": (plan("The code is {digit:3}"), 1),
        "set": (generate("The code is {digit:4}", repetitions=(2,), controls=3), None),
        "verification": (Verification((Count(EVIL, 2, 1, 0),), "text", 7), 1),
        "table": (tables[0], 400),
        "survey": (survey(*tables, attacks="correctness,entropy", fprs=[0.1]), 2),
        "scores": (scores, 400),
        "evaluation": (evaluate(scores, tables[0].member[0]), None),
        "forgetting": (forgotten([losses[0]], losses[1], list(losses[2:]), resamples=9), 3),
        "doctor": (Examination("model", (Finding("it loads", EVIL, "fine", "", ""),)), 1),
    }


def test_every_result_is_short_and_a_table(results):
    for result, rows in results.values():
        assert len(repr(result)) < 200
        assert not {"\n", "\x1b"} & {*repr(result)}
        frame, html = result.to_frame(), result._repr_html_()
        assert len(frame) == (rows or len(frame)) > 0
        assert html.count("<tr") <= 25
        assert "<table" in html
        assert "<script" not in html
        assert result.summary()


def test_no_secret_is_shown(results):
    made, _ = results["set"]
    shown = made._repr_html_() + repr(made) + made.summary() + made.to_frame().to_csv()
    assert not any(one.fill in re.findall(r"\d{4}", shown) for one in made)


def test_the_numbers_are_those_of_the_result_golden(results):
    audit, _ = results["audit"]
    frame = audit.to_frame()
    assert list(frame["id"]) == [c.id for c in audit.canaries]
    assert list(frame["bits"]) == [c.exposure.bits for c in audit.canaries]
    found, _ = results["survey"]
    shown = list(found.to_frame()["tpr_at_fpr_0.1"])
    assert shown == [one.points[0].tpr.value for one in found.attacked]
