"""Limits on membership and forgetting tests: where intervals decide, doubts, and bad input."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from classifiers import measured_outputs, save_outputs

import canary
from canary.errors import InputError, RecordError
from canary.gate.check_audit import check
from canary.gate.check_result import check_attacks
from canary.membership import forgetting_result, models_result, shadow_survey
from canary.membership.attacks import ATTACKS as ALL
from canary.membership.forgetting import forgotten
from canary.membership.models_survey import survey_models
from canary.membership.samples_needed import plan_attacks
from canary.membership.shadow_survey import survey
from canary.membership.stronger import not_made
from canary.membership.unlike import PAIR, unlike_accuracy
from canary.records.versioned_json import kind_of
from canary.reports.builders import report_of
from canary.reports.document import Table, words_of
from canary.reports.tested_results import read_evidence
from canary.reports.verdicts import explained, junit, markdown, verdict_report
from canary.signals.signal_table import SignalTable

ATTACKS = ("correctness", "loss")


@pytest.fixture(scope="module")
def pair():
    return measured_outputs(1), measured_outputs(2)


@pytest.fixture(scope="module")
def attacked(pair):
    return survey(*pair, attacks=",".join(ATTACKS), fprs=[0.01, 0.1])


@pytest.fixture(scope="module")
def ends(pair):
    """The intervals by public functions: at the confidence that two attacks leave to each."""
    target, shadow = pair
    found = [
        canary.evaluate(
            canary.attack(target, name, shadow=shadow), target.member[0], confidence=1 - 0.05 / 2
        )
        for name in ATTACKS
    ]
    return {
        "max_auc": [one.auc for one in found],
        "max_tpr_at_fpr": [one.tpr_at_fpr(0.1).tpr for one in found],
    }


@pytest.fixture(scope="module")
def fleet():
    """Eight models of halves of the same samples, whose members have lower losses."""
    rng = np.random.default_rng(0)
    member = np.argsort(rng.random((8, 200)), axis=0) < 4
    losses = rng.exponential(1.0, (8, 200)) / (1.0 + 3.0 * member)
    return survey_models(
        SignalTable({"loss": losses}, member, np.zeros(200, np.int64), 1), attacks="R,P", fprs=[0.1]
    )


@pytest.mark.parametrize("by", ["correctness", "R"])
def test_an_attack_that_can_accuse_nobody_at_a_rate_does_not_pass_there(pair, fleet, by):
    """Its scores are yes or no, or shares of few models; others of the same test decide."""

    def found(attacks):
        if by == "R":
            return survey_models(fleet.table, attacks=attacks, fprs=[0.1])
        return survey(*pair, attacks=attacks, fprs=[0.1])

    verdict = check(found(by), max_tpr_at_fpr={0.1: 0.9})
    assert verdict.exit_code == 3
    assert f"too many scores are equal, and {by} can hardly accuse anybody" in str(verdict)
    finer = {"correctness": "correctness,loss", "R": "R,P"}[by]
    assert check(found(finer), max_tpr_at_fpr={0.1: 0.99}).exit_code == 0


@pytest.mark.parametrize("option", ["max_auc", "max_tpr_at_fpr"])
def test_the_whole_interval_decides(attacked, ends, option):
    """Just beyond an end it is decided, and within the ends it is not, whichever attack it is."""
    lower = max(one.lower for one in ends[option])
    upper = max(one.upper for one in ends[option])
    assert max(one.lower for one in ends["max_auc"]) > 0.5
    for limit, outcome, code in (
        (lower - 1e-6, "failed", 1),
        (lower + 1e-6, "undecided", 3),
        (upper - 1e-6, "undecided", 3),
        (upper + 1e-6, "passed", 0),
    ):
        asked = limit if option == "max_auc" else {0.1: limit}
        verdict = check(attacked, **{option: asked})
        assert (verdict.outcome, verdict.exit_code, bool(verdict)) == (outcome, code, code == 0)
        finding = verdict.reason
        assert (finding.cure == "") is (code == 0)
        assert finding.limit == pytest.approx(limit)
        end = finding.lower if code == 1 else finding.upper
        assert end == pytest.approx(lower if code == 1 else upper)
        ends = f"{100 * finding.lower:.4g} to {100 * finding.upper:.4g}"
        assert f"{ends} at 95 %" in str(verdict)
        allowed = check(attacked, **{option: asked}, undecided="pass")
        assert bool(allowed) is (code != 1)


def test_a_file_is_judged_as_the_result_that_wrote_it(attacked, fleet, tmp_path):
    for name, kind, result in (
        ("membership.json", shadow_survey.KIND, attacked),
        ("models.json", models_result.KIND, fleet),
        ("forgetting.json", forgetting_result.KIND, compared(losses(1.0, 2))),
    ):
        result.save(tmp_path / name)
        assert (kind_of(tmp_path / name), (tmp_path / name).stat().st_mode & 0o77) == (kind, 0)
        asked = {"max_auc": 0.6, "max_tpr_at_fpr": {0.1: 0.9}}
        if name == "forgetting.json":
            asked = {"forgotten": True}
        mine, theirs = check(result, **asked), check(tmp_path / name, **asked)
        assert mine == theirs
        assert (mine.about["Result"], theirs.about["Result"]) == (
            "not named",
            str(tmp_path / name),
        )


def test_a_failed_limit_names_the_highest_estimate_that_is_surely_above(attacked):
    """As reports do, also where another attack has a higher lower end."""
    document, limits = attacked.to_dict(), {"max_tpr_at_fpr": {0.1: 0.2}}
    reached = zip(
        document["attacks"], ("rmia", "lira"), ((0.5, 0.4, 0.6), (0.7, 0.3, 0.8)), strict=True
    )
    for one, name, ends in reached:
        rate = {"asked_fpr": 0.1, **dict(zip(("value", "lower", "upper"), ends, strict=True))}
        one |= {"name": name, "corrected": one["corrected"] | {"tpr_at_fpr": [rate]}}
    verdict = check(_Written(attacked, document), **limits)
    assert (verdict.outcome, verdict.reason.value) == ("failed", 0.7)
    assert "of the attack lira is 70.00 % (30.00 to 80.00" in str(verdict)
    rate["lower"] = 0.1
    unsure = check(_Written(attacked, document), **limits)
    assert (unsure.outcome, unsure.reason.value) == ("failed", 0.5)
    assert "the highest one whose whole interval is above the limit" in str(unsure)


def test_models_of_a_table_are_judged_by_the_mean_over_targets(fleet):
    """At the confidence that two attacks leave to each."""
    written = {one["name"]: one["corrected"] for one in fleet.to_dict()["attacks"]}
    for one in fleet.attacked:
        wanted, found = one.auc_at(1 - 0.05 / 2), written[one.name]["auc"]
        assert (found["lower"], found["upper"]) == (wanted.lower, wanted.upper)
        (rate,) = written[one.name]["tpr_at_fpr"]
        assert rate["lower"] <= one.tpr[0].lower <= one.tpr[0].upper < rate["upper"]
        assert rate["value"] == one.tpr[0].value
    assert check(fleet, max_auc=0.55).outcome == "failed"
    assert check(fleet, max_auc=0.99).outcome == "passed"


def test_nothing_follows_from_a_test_that_is_void_or_doubted(pair, attacked):
    """Neither a pass nor a failure, however far away the limit is."""
    target, shadow = pair
    swapped = replace(target, member=~target.member)
    for result, said in (
        (survey(swapped, shadow, attacks="loss", fprs=[0.1]), "decides nothing"),
        (replace(attacked, doubts=("The flags may be swapped",)), "The flags may be swapped"),
    ):
        for limit in (0.5, 0.999):
            verdict = check(result, max_auc=limit, max_tpr_at_fpr={0.1: 0.999})
            assert verdict.outcome == "undecided"
            assert said in str(verdict)
            assert [finding.check for finding in verdict.findings] == ["membership"]
    void = attacked.to_dict() | {"outcome": "void", "notes": ["The shadow shares samples"]}
    verdict = check(_Written(attacked, void), max_auc=0.999)
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
    assert "is void: The shadow shares samples; correct the input" in str(verdict)


def test_members_that_no_attack_finds_take_your_word(tmp_path):
    """A model that never saw them looks the same: a low number alone is no pass."""
    for seed, name in ((1, "target"), (2, "shadow")):
        save_outputs(tmp_path / f"{name}.npz", seed, gap=0.0)
    tables = (canary.measure(tmp_path / f"{name}.npz") for name in ("target", "shadow"))
    found = survey(*tables, attacks="loss", fprs=[0.1])
    assert found.outcome() == "not identified"
    verdict = check(found, max_auc=0.6)
    assert [finding.outcome for finding in verdict.findings] == ["passed", "undecided"]
    assert "nothing shows that the model was trained on them" in str(verdict)
    trusted = check(found, max_auc=0.6, trust_members=True)
    assert trusted.outcome == "passed"
    assert "is your word" in trusted.notes[-1]
    page = verdict_report(trusted)
    assert "This page judges only the limit" in words_of(page.unsaid[0])
    assert check(found, max_auc=0.5, trust_members=True).outcome == "undecided"


class _Written(shadow_survey.ShadowSurvey):
    """A survey that writes something else."""

    def __init__(self, found, document):
        self.__dict__.update(found.__dict__, _document=document)

    def to_dict(self):
        return self._document


def test_a_rate_that_was_not_measured_is_undecided(attacked):
    verdict = check(attacked, max_auc=0.999, max_tpr_at_fpr={0.001: 0.02})
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
    assert [finding.outcome for finding in verdict.findings] == ["passed", "undecided"]
    assert "repeat the attacks with --fpr 0.001" in str(verdict)
    takes = "it takes 4,380 non-members and as many members with 2 attacks, 3,688 with one"
    assert takes in str(verdict)


def test_too_few_non_members_for_a_limit_are_counted(attacked, ends):
    """With enough of them the cure is another one: then the rate is near the limit."""
    limits = {0.1: max(one.value for one in ends["max_tpr_at_fpr"])}
    needed = plan_attacks(limits, attacks=2).nonmembers[0.1]
    document = attacked.to_dict()
    document["target"]["nonmembers"] = needed - 1
    few, enough = (
        check(one, max_tpr_at_fpr=limits) for one in (_Written(attacked, document), attacked)
    )
    assert few.outcome == enough.outcome == "undecided"
    assert f"it takes {needed:,} non-members" in str(few)
    assert f"and this test has {needed - 1:,}" in str(few)
    assert "it takes" not in str(enough)


def test_a_line_names_all_that_did_not_pass_and_intervals_have_equal_decimals(attacked):
    verdict = check(attacked, max_auc=0.5, max_tpr_at_fpr={0.1: 0.1}, limit_by=" R. Roe ")
    assert str(verdict).endswith(
        "; also failed (true positive rate at a false positive rate of 10 %)"
        + " (1 note: see summary())"
    )
    assert re.search(r"is \d+\.\d\d % \(\d+\.\d\d to \d+\.\d\d at 95 % conf", verdict.in_short)
    assert verdict.limit_by == "R. Roe"


@pytest.mark.parametrize("kind", ["members", "nonmembers"])
def test_a_small_shadow_passes_nothing_and_clears_no_failure(attacked, kind):
    document = attacked.to_dict()
    for size, outcome in ((99, "undecided"), (100, "passed")):
        document["shadow"][kind] = size
        verdict = check(_Written(attacked, document), max_auc=0.999)
        assert verdict.outcome == outcome
        assert ("the shadow has only 99 samples of a kind" in str(verdict)) == (size == 99)
    document["shadow"][kind] = 99
    assert check(_Written(attacked, document), max_auc=0.5).outcome == "failed"


HARDNESS = np.random.default_rng(0).normal(size=400)


def losses(knows, seed):
    """Of 400 samples by a model that knows them as well as `knows` says, from 0 to 1."""
    return np.exp(HARDNESS + np.random.default_rng([1, seed]).normal(size=400) - 3.0 * knows)


OTHERS = np.stack([losses(0.0, 100 + at) for at in range(19)])


def compared(target, others=OTHERS, query=None, **options):
    query = losses(1.0, 1) if query is None else query
    return forgotten(query, target, others, **{"resamples": 200, **options})


FORGETTING = {
    "knows": (lambda: compared(losses(1.0, 2)), "failed", "the query set is not forgotten: rho"),
    # As far from the query model as one that never saw the set, so the interval of rho contains 1.
    "never saw": (
        lambda: compared(losses(0.0, 3), unseen=losses(0.0, 4)),
        *("passed", "no trace of the query set was found: rho is"),
    ),
    # A model that was only pushed away from the set looks the same without unseen samples.
    "untried": (
        lambda: compared(losses(0.0, 3)),
        *("undecided", "nobody tried to pick the query set out"),
    ),
    # With 10 unseen samples the attack could not find what was learned a little.
    "coarse": (
        lambda: compared(losses(0.0, 3), query=losses(0.2, 1), unseen=losses(0.0, 4)[:10]),
        *("undecided", "the attack could miss a query set that is known"),
    ),
    "coarse by the rule": (
        lambda: compared(
            losses(-0.6, 3), OTHERS[:1], query=losses(0.3, 1), unseen=losses(-0.6, 4)[:10]
        ),
        *("undecided", "unseen samples or more"),
    ),
    "few": (
        lambda: compared(losses(0.0, 3), OTHERS[:9]),
        "undecided",
        "interval of rho contains 1",
    ),
    "remembered": (
        lambda: compared(losses(0.0, 3), unseen=losses(-0.5, 4)),
        *("failed", "finds samples of the query set"),
    ),
    "unproven": (
        lambda: compared(losses(0.5, 2), unseen=losses(0.5, 3)),
        *("undecided", "on other data of this kind"),
    ),
    "unseen_known": (
        lambda: compared(losses(0.0, 3), unseen=losses(1.0, 4)),
        *("undecided", "check the file of --unseen"),
    ),
    # Farther away than models that never saw it: forgotten by the rule, and unlike them.
    "unlike": (lambda: compared(losses(-0.6, 3)), "undecided", "differs from models that never"),
    "knowing": (
        lambda: compared(
            losses(0.0, 3), [*OTHERS, losses(1.0, 7), losses(1.0, 8)], unseen=losses(0.0, 4)
        ),
        *(
            "undecided",
            "calibration models answer as if they knew the query set: calibration model 20, ",
        ),
    ),
    # As far from the query model as models that never saw it, and yet of another shape.
    "differs": (
        lambda: compared(np.exp(HARDNESS - 0.5), unseen=np.exp(1.01 * HARDNESS - 0.5)),
        *("undecided", "the target differs from models that never saw the query set, as 1 honest"),
    ),
    "forgotten": (
        lambda: compared(losses(-0.6, 3), OTHERS[:1], unseen=losses(-0.6, 4)),
        *("passed", "the query set is forgotten: rho is"),
    ),
    "void": (
        lambda: compared(losses(0.0, 3), query=losses(0.0, 9)),
        *("undecided", "models that know the query set answer on it as those do that never saw"),
    ),
}


ANSWERED = {
    **dict.fromkeys(("not forgotten", "something is left"), "no"),
    **dict.fromkeys(("forgotten", "no trace found"), "yes"),
    "undecided": "",
}


@pytest.mark.parametrize("name", FORGETTING)
def test_forgetting(name):
    made, outcome, said = FORGETTING[name]
    result = made()
    verdict = check(result, forgotten=True)
    assert verdict.outcome == outcome
    assert said in str(verdict)
    assert verdict.reason.limit is None
    if name != "untried" and "coarse" not in name:
        assert {"failed": "no", "passed": "yes"}.get(outcome, "") == ANSWERED[result.answer]
    assert (verdict.reason.value, verdict.reason.lower) == (result.rho, result.lower)


def test_calibration_models_are_asked_for_where_they_lack():
    """Too few cannot pass; of enough, the p that leaves it open is named."""
    cures = [
        check(compared(losses(0.04, 3), OTHERS[:number]), forgotten=True).reason.cure
        for number in (9, len(OTHERS))
    ]
    assert "give 19 calibration models or more" in cures[0]
    assert "p of any difference is" in cures[1]
    assert "give more calibration models" in cures[1]


def test_a_limit_below_one_can_be_passed():
    """A target that never saw the query set has a rho of about 1, and is only undecided there."""
    never = compared(losses(0.0, 3), unseen=losses(0.0, 4))
    assert check(never, min_rho=0.8).outcome == "passed"
    assert check(compared(losses(0.0, 3)), min_rho=0.8).outcome == "undecided"
    assert check(compared(losses(0.6, 3)), min_rho=0.8).outcome == "failed"
    assert check(compared(losses(1.0, 2)), min_rho=0.01).outcome == "undecided"
    # The test says that it is not forgotten, though the interval of rho contains the limit.
    small = [given[..., :40] for given in (losses(0.4, 3), OTHERS, losses(1.0, 1))]
    little = compared(*small)
    assert (little.answer, little.lower < 0.8 < little.upper) == ("not forgotten", True)
    assert check(little, min_rho=0.8).outcome == "failed"
    # What contradicts rho contradicts it at any limit.
    remembered = compared(losses(0.0, 3), unseen=losses(-0.5, 4))
    assert check(remembered, min_rho=0.8).outcome == "undecided"
    below = compared(losses(2.0, 2))
    assert below.surpasses
    assert check(below, min_rho=0.01).outcome == "failed"


def test_a_failed_verdict_in_every_form(attacked):
    verdict = check(attacked, max_auc=0.5)
    assert 'type="failed"' in junit(verdict)
    assert 'failures="1"' in junit(verdict)
    assert 'classname="canary.AUC"' in junit(verdict)
    assert markdown(verdict).startswith("## canary: failed")
    assert "What to do: train again so that less is memorized" in explained(verdict)
    page = report_of(verdict)
    assert (page.title, page.label) == (
        "Check of a membership test",
        "Not passed: outside the limit that was set",
    )
    assert page.about["Limit"].startswith("AUC of at most 50 %; given as an option of the check")
    assert page.actions
    assert json.loads(json.dumps(verdict.to_dict()))["outcome"] == "failed"


AUDIT_ALONE = "cannot be asked of a membership test; the limits of a membership test are max_auc"
BAD = [
    ({"max_exposure_bits": 10}, f"max_exposure_bits {AUDIT_ALONE}"),
    ({"max_auc": 0.6, "no_extraction": True}, f"no_extraction {AUDIT_ALONE}"),
    ({"max_auc": 0.6, "confidence": 0.9}, f"confidence=... {AUDIT_ALONE}"),
    ({"max_auc": 0.6, "repetitions": np.array([1, 4])}, f"repetitions=... {AUDIT_ALONE}"),
    ({"forgotten": True}, f"forgotten=... {AUDIT_ALONE}"),
    # No p-value of all members, which a test of a classifier does not have.
    ({}, "there is nothing to check; give a limit: max_auc=0.6 or max_tpr_at_fpr={0.001: 0.02}"),
    ({"max_auc": 0.4}, "a limit of 0.4 on the AUC makes no sense"),
    ({"max_auc": 1.0}, "a limit of 1.0 on the AUC makes no sense"),
    ({"max_auc": float("nan")}, "a limit of nan on the AUC makes no sense"),
    ({"max_p": 0.01}, "test of samples of a classifier, which has no such p-value; leave it out"),
    ({"max_auc": "0.6"}, "a limit of '0.6' on the AUC makes no sense"),
    ({"max_auc": 60}, "to below 1: 0.6?"),
    ({"max_tpr_at_fpr": 0.02}, "max_tpr_at_fpr must be a mapping, got 0.02"),
    ({"max_tpr_at_fpr": {}}, "there is nothing to check"),
    ({"max_tpr_at_fpr": {0.01: 0.001}}, "at a false positive rate of 0.01 makes no sense"),
    ({"max_tpr_at_fpr": {0.0: 0.1}}, "at a false positive rate of 0 makes no sense"),
    ({"max_tpr_at_fpr": {0.1: 1}}, "a limit of 1 on the true positive rate"),
    ({"max_tpr_at_fpr": {"a": 0.1}}, "at a false positive rate of nan makes no sense"),
    ({"max_auc": 0.6, "undecided": "maybe"}, "policy of undecided"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_bad_options(attacked, options, said):
    with pytest.raises(InputError) as refused:
        check(attacked, **options)
    assert said in str(refused.value)
    if not options:  # such a test has no p-value
        assert "max_p" not in str(refused.value)


def test_limits_of_other_results(attacked):
    for options, said in (
        ({"max_auc": 0.6}, "the limits of a forgetting test are forgotten=... and min_rho"),
        ({}, "there is nothing to check; give a limit: min_rho=0.8; the other is forgotten="),
        ({"min_rho": 1.1}, "a limit of 1.1 on rho makes no sense"),
        ({"min_rho": 0}, "a limit of 0 on rho makes no sense"),
        (
            {"forgotten": True, "min_rho": 0.8},
            "asks for the answer of the test, and min_rho for a limit",
        ),
    ):
        with pytest.raises(InputError, match=said):
            check(compared(losses(1.0, 2)), **options)


def unlike(ours, theirs):
    """The note on a target and others, of which so many of 1,000 of each kind are right."""
    counts = [np.array([[right, 1000] for right in rights]) for rights in (ours, theirs)]
    return unlike_accuracy(*counts, PAIR, sure=0.999)


def test_a_doubt_that_only_hides_members_does_not_hide_those_that_are_found(attacked):
    hides, may_make = unlike((900, 950), (600, 950)), unlike((600, 950), (900, 950))
    document = attacked.to_dict() | {"outcome": "undecided"}
    options = {"max_auc": 0.5, "max_p": None, "max_tpr_at_fpr": None, "trust_members": False,
               "undecided": "fail"}  # fmt: skip

    def outcome(*doubts, **more):
        class Written:
            def to_dict(self):
                return document | {"doubts": list(doubts)} | more

        return check_attacks(Written(), **options)

    found = outcome(hides)
    assert found.outcome == "failed"
    assert {finding.outcome for finding in found.findings} == {"failed"}
    assert str(found).startswith("failed: the input looks wrong")
    assert "decides nothing" not in found.summary()
    assert outcome(may_make).outcome == "undecided"
    assert outcome(hides, may_make).outcome == "undecided"
    assert outcome(hides, outcome="void").outcome == "undecided"
    options["max_auc"] = 0.999  # not above the limit: a pass is not shown
    assert outcome(hides).outcome == "undecided"


def changed(**fields):
    return lambda document: document | fields


def without(name):
    return lambda document: {key: value for key, value in document.items() if key != name}


def of_attacks(change):
    return lambda document: document | {"attacks": [change(o) for o in document["attacks"]]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("doubts"), "repeat the command with this version"),
        (of_attacks(without("corrected")), "repeat the command with this version"),
        (changed(outcome="fine"), "is none of identified, not identified, undecided, void"),
        (changed(attacks=[]), "holds no attacks"),
        (changed(attacks=[5]), "is not an object"),
        (changed(confidence=95), "no confidence between 0 and 1"),
        (of_attacks(changed(corrected={"auc": 1, "tpr_at_fpr": []})), "is not an object"),
        (
            of_attacks(
                changed(
                    corrected={"auc": {"value": 0.2, "lower": 0.3, "upper": 1}, "tpr_at_fpr": []}
                )
            ),
            "is no interval of a rate",
        ),
        (changed(schema=99), "reads up to 1"),
    ],
    ids=["doubts", "corrected", "outcome", "none", "attack", "confidence", "auc", "ends", "new"],
)
def test_damaged_files(attacked, tmp_path, change, said):
    place = tmp_path / "membership.json"
    written = {"kind": shadow_survey.KIND, "schema": 1, **attacked.to_dict()}
    place.write_text(json.dumps(change(written)))
    with pytest.raises(RecordError) as refused:
        check(place, max_auc=0.6)
    assert said in str(refused.value)
    assert str(place) in str(refused.value)


def test_a_pass_names_what_decides_each_limit(attacked):
    verdict = check(attacked, max_auc=0.999, max_tpr_at_fpr={0.1: 0.999, 0.01: 0.999})
    assert verdict.outcome == "passed"
    assert [finding.check for finding in (verdict.reason, *verdict.others)] == ["AUC", "TPR"]
    (table,) = (block for block in report_of(verdict).outcome if isinstance(block, Table))
    assert [row[-1] for row in table.rows] == ["passed"] * 3
    (own,) = (s for s in map(words_of, report_of(verdict).sentences) if "Without a limit" in s)
    assert "Training samples can be recognized" in own
    assert "only what it names (AUC of at most 99.9 %; true positive rate" in own
    undecided = check(attacked, max_auc=0.999, max_tpr_at_fpr={0.1: 0.999, 0.05: 0.5})
    assert undecided.outcome == "undecided"
    (table,) = (block for block in report_of(undecided).outcome if isinstance(block, Table))
    assert sorted(row[-1] for row in table.rows) == ["passed", "passed", "undecided"]
    failed = check(attacked, max_auc=0.501, max_tpr_at_fpr={0.1: 0.999})
    assert (failed.outcome, failed.others) == ("failed", [])


def test_a_pass_names_the_stronger_attacks_that_were_not_made(attacked):
    assert "LiRA" in attacked.not_made[0]
    verdict = check(attacked, max_auc=0.95)
    assert verdict.outcome == "passed"
    assert "against these attacks only (not made: attacks with many reference" in str(verdict)
    made = report_of(verdict)
    assert made.label.startswith("Passed against")
    assert any("stronger attacks" in words_of(one) for one in made.decide)
    assert "canary membership models" in words_of(made.actions[0])
    assert not_made("models", ["P", "S"])[0] == not_made("shadow", ALL)[0]
    assert not_made("models", ["P", "lira-online-fixed", "rmia"]) == ("", "")
    assert "online" in not_made("models", ["rmia-offline"])[0]
    assert not_made("texts", ["loss", "reference"]) == ("", "")


def test_the_membership_test_that_found_most_leads_an_annex(attacked, fleet):
    labels = [
        [test.report.label for test in read_evidence(tests)]
        for tests in ([attacked, fleet], [fleet, attacked])
    ]
    assert labels[0] == labels[1]
