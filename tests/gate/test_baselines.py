"""More than a baseline: of two models, and of two ways of training."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from gate_audits import SIZE, TEXT, exact, of_groups, space
from gate_audits import trusting as check

from canary.errors import InputError, RecordError
from canary.gate.baselines import Baseline
from canary.gate.check_audit import new_baseline
from canary.gate.regression import MODEL_LEVEL, PROCEDURE_LEVEL, of_same_weights
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.limits import label_of, tone_of
from canary.statistics.exposures import exposure_by_draws

BASE = {1: [1.0, 2.0, 0.5, 1.5], 16: [8.0, 9.0, 10.0, 12.0]}
MORE = {1: [2.0, 3.0, 1.5, 2.5], 16: [9.0, 10.0, 11.0, 13.0]}


def baseline(*groups):
    return Baseline.of([exact(g, fingerprint=str(i) * 64) for i, g in enumerate(groups)])


def test_more_golden():
    # Eight of eight pairs up: 1 of 2^8 ways.
    verdict = check(exact(MORE), baseline=baseline(BASE))
    assert verdict.outcome == "memorized"
    (found,) = verdict.findings
    assert (found.value, found.limit) == (1 / 256, MODEL_LEVEL)
    assert (
        "exposed by 1.0 bits more than in the baseline on average (8 canaries, pair by pair, "
        "p = 0.0039 by permutation)" in str(verdict)
    )
    assert "speaks of these two models" in str(verdict)
    assert len(found.canaries) == 8


def of_another(audit):
    """The baseline of an audit of other weights."""
    return Baseline.of(replace(audit, model={**audit.model, "fingerprint": "b" * 64}))


def hit(draws, hits, number=8):
    """Canaries that so many of the draws are as likely as."""
    px = np.r_[np.zeros(hits), np.full(draws - hits, 9.0)]
    return of_groups({16: exposure_by_draws(np.ones(number), px, space_size=SIZE)})


@pytest.mark.parametrize(
    ("now", "before", "outcome", "said"),
    [
        (exact(BASE), exact(BASE), "passed", ""),
        (exact(BASE), exact(MORE), "passed", "1.0 bits less than in the baseline"),
        (
            *(exact({1: [9.0] * 4}), exact({1: [1.0] * 4}), "undecided"),
            "no p-value below 0.062 can come of so few; more canaries would do",
        ),
        # No hit of 200, then and now: it may have risen from 6 bits to 30.
        (hit(200, 0), hit(200, 0), "undecided", "use exact ranks (--method rank)"),
        # With hits, the same is the same.
        (hit(200, 20), hit(200, 20), "passed", ""),
        # Ten hits against twelve is no more than draws do, though all rise together.
        (hit(200, 10), hit(200, 12), "undecided", ""),
        # Ten, at least 3.5 bits, against twenty-four: 3.1, which may be 3.7.
        (hit(200, 10), hit(200, 24), "undecided", "their intervals leave open"),
        # Ten against a hundred is.
        (hit(200, 10), hit(200, 100), "memorized", ""),
    ],
)
def test_two_models(now, before, outcome, said):
    verdict = check(now, baseline=of_another(before))
    assert verdict.outcome == outcome
    assert said in str(verdict)


def test_a_pass_says_the_level_that_nothing_limits():
    """Two models that both learned are alike: the baseline passes, and no limit was given."""
    said = check(exact(MORE), baseline=of_another(exact(MORE))).summary()
    told = "the highest median is 10.5 bits (canaries that appeared 16 times), and no limit"
    assert said.startswith("passed: the canaries are exposed by 0.0 bits")
    assert told in said
    options = {"baseline": of_another(exact(MORE))}
    assert "no limit" not in check(exact(MORE), max_exposure_bits=20, **options).summary()
    assert "no limit" not in str(check(exact(MORE), baseline=baseline(BASE)))


def test_other_canaries_are_dealt_by_group():
    now = exact({1: [*MORE[1], 3.5], 16: [20.0, 21.0, 22.0, 23.0, 24.0]})
    verdict = check(now, baseline=baseline(BASE))
    assert "other canaries than the baseline's" in str(verdict)
    assert verdict.outcome == "memorized"
    (found,) = verdict.findings
    # 126 ways in each group.
    assert found.value * 126**2 == pytest.approx(round(found.value * 126**2))


@pytest.mark.parametrize("now", [MORE, {n: [b + 0.2 for b in found] for n, found in BASE.items()}])
def test_the_order_in_the_file_does_not_matter(now):
    """Canaries are paired by format, id and copies, wherever they stand."""
    paired = check(exact(now), baseline=baseline(BASE))
    audit = exact(now)
    turned = check(replace(audit, canaries=audit.canaries[::-1]), baseline=baseline(BASE))
    assert turned == paired
    assert "pair by pair" in str(paired)


def test_other_canaries_in_another_order():
    """Too many ways to try all: the same random ones are tried."""
    rng = np.random.default_rng(4)
    before = baseline({4: rng.normal(5, 1, 12)})
    audit = exact({4: rng.normal(5.4, 1, 13)})
    found = check(audit, baseline=before)
    assert check(replace(audit, canaries=audit.canaries[::-1]), baseline=before) == found


def test_only_the_copies_that_were_asked_for_are_compared():
    before = baseline({1: [1.0] * 8, 64: [6.0] * 8})
    audit = exact({1: [1.0] * 8, 64: [16.0] * 8})
    assert check(audit, baseline=before).outcome == "memorized"
    assert check(audit, baseline=before, repetitions=[1])
    verdict = check(audit, baseline=before, repetitions=[64])
    assert verdict.outcome == "memorized"
    assert "10.0 bits more than in the baseline on average (8 canaries" in str(verdict)
    assert verdict.findings[0].subject == "injected canaries with 64 copies"
    with pytest.raises(InputError, match="canaries of 64 copies is 8, not 0"):
        check(audit, baseline=baseline({1: [1.0] * 8}), repetitions=[64])
    # The copies that are not looked at need not be in the baseline.
    assert check(audit, baseline=baseline({1: [1.0] * 8}), repetitions=[1])


# --- ways of training -----------------------------------------------------------------


def runs(*levels):
    return [exact({4: [b, b + 1.0]}, fingerprint=f"{b:064.1f}") for b in levels]


def test_three_seeds_golden():
    before = Baseline.of(runs(3.0, 4.0, 5.0))
    verdict = check(runs(6.0, 7.0, 8.0), baseline=before)
    assert verdict.outcome == "memorized"
    found = verdict.findings[-1]
    assert (found.value, found.limit) == (1 / 20, PROCEDURE_LEVEL)
    assert "3 seeds against 3" in str(verdict)
    assert check(runs(4.5, 6.0, 8.0), baseline=before)
    more = check(runs(6.0, 7.0, 8.0, 9.0), baseline=before)
    assert more.findings[-1].value == pytest.approx(1 / 35)


@pytest.mark.parametrize(("now", "before"), [(2, 2), (1, 3), (3, 1), (2, 3)])
def test_fewer_than_three_seeds_are_refused(now, before):
    with pytest.raises(InputError, match="ways of training take three seeds or more of each"):
        check(runs(*range(2, 2 + now)), baseline=Baseline.of(runs(*range(12, 12 + before))))


def test_the_same_weights_twice_are_refused():
    same = "two audits are of the same weights"
    with pytest.raises(InputError, match=f"^check: {same}"):
        check(runs(2.0, 2.0, 3.0), baseline=Baseline.of(runs(4.0, 5.0, 6.0)))
    with pytest.raises(InputError, match=f"^baseline: {same}"):
        check(runs(2.0, 3.0, 4.0), baseline=Baseline.of(runs(5.0, 5.0, 6.0)))
    with pytest.raises(InputError, match=same):
        check(runs(2.0, 2.0), max_exposure_bits=10)
    with pytest.raises(InputError, match=same):
        new_baseline(runs(2.0, 2.0))
    unnamed = exact(BASE, fingerprint="")
    with pytest.raises(InputError, match=same):
        check([unnamed, unnamed], max_exposure_bits=20)
    assert check(unnamed, max_exposure_bits=20)
    assert check([unnamed, exact(BASE, fingerprint="")], max_exposure_bits=20)


def seed_of_training(rng, *, level=5.0, spread=2.0):
    """Eight canaries of one run: what the run does to all of them, and what to each."""
    bits = np.clip(level + rng.normal(0, spread) + rng.normal(0, 1.5, 8), 0.05, 29)
    return exact({16: bits}, fingerprint=str(rng.integers(10**9)))


def test_reseeded_identical_runs_theory():
    """5 % of 400 false alarms for ways of training; for two models, which differ, far more."""
    rng = np.random.default_rng(0)
    alarms = {"model": 0, "way": 0}
    for _ in range(400):
        six = [seed_of_training(rng) for _ in range(6)]
        way = check(six[:3], baseline=Baseline.of(six[3:]))
        alarms["way"] += way.outcome == "memorized"
        alarms["model"] += check(six[0], baseline=Baseline.of(six[3])).outcome == "memorized"
    assert alarms["way"] / 400 <= PROCEDURE_LEVEL + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert alarms["way"] > 0
    assert alarms["model"] / 400 > 0.15


def test_models_alike_theory():
    """Two models that differ only in luck with each canary: 1 % of 1,000."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(1_000):
        one, other = (seed_of_training(rng, spread=0.0) for _ in range(2))
        alarms += check(one, baseline=Baseline.of(other)).outcome == "memorized"
    assert alarms / 1_000 <= MODEL_LEVEL + 3 * math.sqrt(0.01 / 1_000)
    assert alarms


def test_a_worse_way_of_training_is_seen():
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(100):
        before = Baseline.of([seed_of_training(rng, spread=0.5) for _ in range(4)])
        now = [seed_of_training(rng, level=9.0, spread=0.5) for _ in range(4)]
        seen += check(now, baseline=before).outcome == "memorized"
    assert seen >= 95


# --- at rest --------------------------------------------------------------------------


def test_round_trip(tmp_path):
    made = Baseline.of([exact({0: [1.0, 2.0], **BASE}), exact({0: [2.0, 1.0], **MORE})])
    made.save(tmp_path / "base.json")
    assert Baseline.load(tmp_path / "base.json") == made
    again = tmp_path / "again.json"
    Baseline.load(tmp_path / "base.json").save(again)
    assert again.read_bytes() == (tmp_path / "base.json").read_bytes()
    draws = Baseline.of(hit(200, 0))
    draws.save(again)
    assert Baseline.load(again) == draws
    assert TEXT in again.read_text()
    assert not {"px", "fill"} & {*re.findall(r"[a-z]+", again.read_text())}  # no secret
    for audits, message in (([exact({0: [1.0]})], "without injected"), ([], "there is no audit")):
        with pytest.raises(InputError, match=message):
            Baseline.of(audits)


def test_missing_baseline(tmp_path):
    with pytest.raises(RecordError, match="base.json: there is no baseline yet.*--update-baseline"):
        check(exact(BASE), baseline=tmp_path / "base.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema=99), "has schema 99; this version of canary reads up to 2"),
        (lambda d: d.update(audits=[]), "holds no audit"),
        (lambda d: d["audits"][0].pop("canaries"), "'canaries' is missing"),
        (lambda d: d["audits"][0].update(canaries=[]), "no canary"),
        (lambda d: d["audits"][0].update(canaries=[3]), "canaries"),
        (lambda d: d["audits"][0].update(controls=[]), "one number for each format"),
        (lambda d: d["audits"][0]["canaries"][0].update(format=7), "names a format that is not"),
        (lambda d: d["audits"][0]["canaries"][0].update(bits=-5.0), "cannot be"),
        (lambda d: d["audits"][0]["canaries"][0].update(fill="1"), "unknown field"),
    ],
)
def test_damaged_baseline(tmp_path, change, message):
    path = tmp_path / "base.json"
    baseline(BASE).save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(RecordError, match=f"^{path}: .*{message}"):
        check(exact(BASE), baseline=path)


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        (exact(BASE, formats=[space("My PIN is {digit:9}")]), "the format is 'My PIN"),
        (exact(BASE, formats=[space(), space("My PIN")]), "2 formats, not 1"),
        (exact(BASE, formats=[space(method="rank")]), "the method was 'rank'"),
        (exact({1: BASE[1]}), "the number of canaries of 16 copies is 0, not 4"),
        (exact({**BASE, 4: [1.0]}), "the number of canaries of 4 copies is 1, not 0"),
        (exact(BASE, context="Dear"), "before each candidate was the text 'Dear'"),
    ],
)
def test_audits_that_cannot_be_compared(audit, message):
    with pytest.raises(InputError, match=f"cannot be compared with the baseline: .*{message}"):
        check(audit, baseline=baseline(BASE))


def after(start):
    return exact(BASE, start_token=start)


def test_another_start_token_than_the_baselines_is_refused():
    kept = of_another(after(None))
    assert check(after(None), baseline=kept)
    with pytest.raises(InputError, match="with the baseline: the start token is '</s>', not 'none"):
        check(after("</s>"), baseline=kept)
    with pytest.raises(InputError, match="the start token is 'none', not '</s>'"):
        check(after(None), baseline=Baseline.of(after("</s>")))


def test_a_baseline_of_an_earlier_version_has_no_start_token(tmp_path):
    path = tmp_path / "base.json"
    of_another(after(None)).save(path)
    told = "an earlier version wrote the baseline, without the start token"
    assert not any(told in note for note in check(after(None), baseline=path).notes)
    document = json.loads(path.read_text())
    for measured in document["audits"]:
        assert measured.pop("start_token") == "none"
    path.write_text(json.dumps({**document, "schema": 1}))
    for start in (None, "</s>"):
        verdict = check(after(start), baseline=path)
        assert verdict
        assert any(told in note for note in verdict.notes)


def test_an_audit_of_the_baselines_own_weights_decides_nothing():
    """As a kept audit is that a build checks again and again."""
    one, served = exact({4: [3.0] * 8}), {"name": "m", "fingerprint": "c" * 64, "device": "served"}
    verdict = check(one, baseline=Baseline.of(one))
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
    assert "are of the same weights, so a model is compared with itself" in str(verdict)
    assert "name the model with --model" in verdict.reason.cure
    assert label_of(verdict) == "Undecided: the baseline is of the same model"
    here = replace(one, model=served)  # whose weights nothing can name
    assert "of the same weights" in str(check(here, baseline=Baseline.of(here)))
    for named in (True, False):  # `check_weights` compared them, where a model was named
        found = of_same_weights(
            check(one, baseline=of_another(one)).reason, [one], Baseline.of(one), named=named
        )
        assert found.outcome == ("passed" if named else "undecided")
    assert check(exact(MORE), baseline=Baseline.of(exact(BASE))).outcome == "memorized"


def test_a_pass_against_a_baseline_is_no_limit_that_was_set():
    calm, known = exact({4: [1.0] * 8, 64: [20.0] * 8}), exact({4: [8.0] * 8, 64: [20.0] * 8})
    for audit, label, tone in (
        (calm, "Passed: no more exposed than the baseline", "not-found"),
        (
            known,
            "Passed against the baseline, but the model memorized planted secrets",
            "undecided",
        ),
    ):
        verdict = check(audit, baseline=of_another(audit), require_learned=64)
        assert (verdict.outcome, label_of(verdict), tone_of(verdict)) == ("passed", label, tone)
    said = " ".join(words_of(text) for text in report_of(verdict).decide)
    assert "Do not release on this page alone" in said
    assert "If any appears 4 times or more often, do not release: such text was learned." in said
    assert "does not speak against a release" not in said


def test_what_a_limit_allows_is_not_forbidden_below_it():
    audit = exact({4: [3.0] * 16, 64: [20.0] * 8, 0: [1.0] * 8})
    verdict = check(audit, max_exposure_bits=5, require_learned=64)
    assert verdict.outcome == "passed"
    said = " ".join(words_of(text) for text in report_of(verdict).decide)
    assert "If any appears 64 times or more often, do not release: such text was learned." in said
    assert "4 times or more often" not in said.replace("64 times or more often", "")
