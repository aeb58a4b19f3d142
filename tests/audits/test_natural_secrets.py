"""Secrets that were found and not drawn: exposures and controls, but no p-value."""

from __future__ import annotations

from functools import partial

import pytest
from small_models import build

from canary.audits import auditing
from canary.audits.audit_result import Audit
from canary.audits.extracting import with_extractions
from canary.corpus.canaries import CanarySet
from canary.errors import InputError, RecordError
from canary.reports.pages import report
from canary.reports.sentences import answer

audit, exposure = (partial(call, draws=200) for call in (auditing.audit, auditing.exposure))
SECRETS = CanarySet.from_fills("The code {digit:3}.", {"123": 4, "999": 1})


def test_an_audit_draws_controls_and_refuses_p_values(tmp_path):
    model = build("table")
    found = audit(model, SECRETS)
    assert [c.id for c in found.canaries[:3]] == ["natural-1", "natural-2", "control-1"]
    assert [c.natural for c in found.canaries] == [True] * 2 + [False] * 16
    assert (len(found.injected), len(found.controls)) == (2, 16)
    assert found.natural
    assert found.injected_p is None
    assert found.controls_p is not None
    assert any(
        line.endswith("found: no p-value, since they were not drawn at random")
        for line in found.summary().splitlines()
    )
    said = answer(found)
    assert said.verdict == "nothing"
    assert "not drawn at random" in said.sentence
    assert "16 secrets that were never planted (controls)" in said.sentence
    found.save(tmp_path / "audit.json")
    assert Audit.load(tmp_path / "audit.json") == found
    page = report(found, tmp_path / "report.html").read_text()
    assert page.count("<td>–</td>") + page.count(">–<") >= 2
    first = exposure(model, SECRETS)
    assert [c.id for c in first] == ["natural-1", "natural-2"]
    assert [c.exposure for c in first] == [c.exposure for c in found.canaries[:2]]


def test_controls_are_others_and_follow_the_seed():
    few = CanarySet.from_fills("The code {digit:1}.", [str(n) for n in range(7)])
    found = audit(build("table"), few)
    assert len(found.controls) == 3  # all that is left of the space
    one, same, other = (audit(build("table"), SECRETS, seed=s) for s in (1, 1, 2))
    assert [c.px_bits for c in one.controls] == [c.px_bits for c in same.controls]
    assert [c.px_bits for c in one.controls] != [c.px_bits for c in other.controls]


@pytest.mark.parametrize(
    "fills",
    [{"123": 4}, {"123": 4, "999": 2}, {"123": 1, "999": 4}, {"123": 4, "999": 1, "000": 1}],
    ids=["fewer", "other counts", "in another order", "more"],
)
def test_other_secrets_are_not_those_of_the_audit(fills):
    """They have no fingerprint: their number and copies decide."""
    found = audit(build("table"), SECRETS)
    assert found.is_of(SECRETS)
    other = CanarySet.from_fills("The code {digit:3}.", fills)
    assert not found.is_of(other)
    with pytest.raises(InputError, match="the canaries are not those of the audit"):
        with_extractions(found, build("table"), other)


def test_what_has_no_p_value():
    every = CanarySet.from_fills("The code {digit:1}.", [str(n) for n in range(10)])
    found = audit(build("table"), every)  # a whole space leaves no controls
    assert found.controls_p is None
    assert "no secret was left out" in answer(found).sentence
    data = audit(build("table"), SECRETS).to_dict()
    with pytest.raises(RecordError, match="natural"):
        Audit.from_dict({**data, "injected_p": data["controls_p"]})
