"""The annex to a data protection file and the section of a model card."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from hashlib import sha256

import numpy as np
import pytest
import yaml
from classifiers import measured_outputs
from gate_audits import SET, exact, extraction, trusting
from histories import make_history
from huggingface_hub import ModelCard

import canary
from canary.corpus.verification import Count, Verification
from canary.errors import CanaryError, InputError, OutputError, RecordError
from canary.gate.check_audit import check
from canary.membership import forgetting_result, shadow_survey
from canary.membership.forgetting import forgotten
from canary.membership.shadow_survey import survey
from canary.records.versioned_json import dump_document
from canary.reports.annex import THREATS, annex_of, write_annex
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.markdown import markdown_of
from canary.reports.model_card import write_model_card
from canary.reports.tested_results import read_evidence
from canary.scoring.start_notes import StartChoice
from canary.statistics.roc import Estimate

GROUPS = {16: [20.0] * 8, 1: [1.0] * 8, 0: [1.0] * 8}
CARD = """---
license: mit
language: [en, de]
model-index:
- name: mine
  results:
  - task: {type: text-generation}
    dataset: {type: books, name: Books}
    metrics: [{type: perplexity, value: 3.2}]
- name: other
  results: []
---
# My model

It writes.
"""


def an_audit(**options):
    return exact(GROUPS, extractions=[extraction({1: "canary-3"})], **options)


@pytest.fixture(scope="module")
def attacked():
    return survey(measured_outputs(1), measured_outputs(2), attacks="loss,correctness", fprs=[0.1])


@pytest.fixture(scope="module")
def compared():
    losses = np.random.default_rng(0).exponential(1.0, (4, 50))
    return canary.forgotten([losses[0] / 9], losses[1], list(losses[2:]), resamples=9)


@pytest.fixture
def files(tmp_path, attacked, compared):
    """The files that commands write, all of one model."""
    an_audit().named(model_name="net").save(tmp_path / "audit.json")
    for kind, name, result in (
        (shadow_survey.KIND, "membership.json", attacked),
        (forgetting_result.KIND, "forgetting.json", compared),
    ):
        dump_document(tmp_path / name, kind, 1, result.named(model_name="net").to_dict())
    return [tmp_path / name for name in ("audit.json", "membership.json", "forgetting.json")]


def coverage(results):
    """Of each attack that the Opinion names, whether it was tested, and what came out."""
    made = annex_of(read_evidence(results))
    (section,) = (one for one in made.sections if one.name == "attacks")
    rows = next(block for block in section.blocks if hasattr(block, "rows")).rows
    return dict(zip(THREATS, [(row[3], row[4]) for row in rows], strict=True))


def test_what_the_opinion_names_was_tested_or_is_said_not_to_be(attacked, compared):
    of_audit = coverage([an_audit()])
    assert {name for name, (tested, _) in of_audit.items() if tested != "No"} == {
        "extraction",
        "regurgitation",
    }
    assert all(words_of(words).startswith("Not tested.") == (tested == "No")
               for tested, words in of_audit.values())  # fmt: skip
    assert coverage([attacked])["membership"][0] == "In part: test 1"
    assert {tested for tested, _ in coverage([compared]).values()} == {"No"}
    assert words_of(read_evidence([an_audit()])[0].trials[0].results[0]).startswith("8 of 16")
    served = an_audit()
    served = replace(served, model={**served.model, "device": "served"})
    assert coverage([served])["queries"][0] == "In part: tests 1 and 2"
    # Who has no files of a model is told first what an operator can do.
    first, *rest = map(words_of, report_of(served).actions)
    assert first.startswith("If another company runs the model")
    assert rest[1:] == [*map(words_of, report_of(an_audit()).actions)]


@pytest.mark.parametrize(
    ("known", "label"),
    [
        (
            0.0,
            "Training samples can be recognized on average, but no single one for sure by "
            "these attacks (stronger attacks were not part of it)",
        ),
        (0.2, "Training samples can be recognized"),
    ],
)
def test_the_label_of_a_membership_test_is_that_of_its_report_theory(known, label):
    """Losses of members are lower on average; of a share of them far below all of others."""
    rng, tables = np.random.default_rng(0), []
    for _ in range(2):
        member = rng.permutation(2000) < 1000
        loss = np.where(member, rng.uniform(1.0, 2.0, 2000), rng.uniform(1.0, 3.0, 2000))
        loss[np.flatnonzero(member)[: round(1000 * known)]] = rng.random()
        given = {"y": np.zeros(2000, int), "member": member, "outputs": "losses"}
        tables.append(canary.measure(loss, **given))
    found = survey(*tables, attacks="loss", fprs=[0.01])
    assert read_evidence([found])[0].report.label == label
    assert report_of(found).label.startswith("Guesses are right") is (known == 0.0)


def test_files_and_results_give_the_same_annex(tmp_path, files, attacked, compared):
    results = [one.named(model_name="net") for one in (an_audit(), attacked, compared)]
    in_memory, from_files = (
        re.sub(
            r"given in memory, not read from a file|\S+ \(SHA-256 \w+\)|(?<=number \| )\w+",
            "FILE",
            path.read_text(),
        )
        for path in (
            write_annex(results, tmp_path / "a.md"),
            write_annex(files, tmp_path / "b.md"),
        )
    )
    assert in_memory == from_files
    page = write_annex(files, tmp_path / "c.html").read_text()
    assert "Tests 1 and 2 come from one result" in page
    assert page.startswith("<!doctype html>")
    assert oct((tmp_path / "a.md").stat().st_mode)[-3:] == "600"


def test_what_is_missing_is_said_and_no_option_is_named(tmp_path, files):
    text = write_annex(files, tmp_path / "a.md").read_text()
    assert "not named" in text
    own = re.sub(r"### Notes for the engineers\n\n(- .*\n)+", "", text)
    assert not re.search(r"(?<!<!)(?<![-| ])--[a-z]|`canary ", own)
    assert re.search(r"Report number \| [0-9a-f]{8} ", text)
    assert f"Made on | {date.today().isoformat()} " in text
    assert "Signature | " in text
    assert date.today().isoformat() in text
    named = {"corpus_name": "letters", "auditor": "R. Roe"}
    text = write_annex(files[:2], tmp_path / "a.md", **named).read_text()
    assert "not named" not in text
    assert "R. Roe" in text
    old = json.loads(files[1].read_text()) | {"about": {}}
    files[1].write_text(json.dumps(old))
    assert "not recorded in the result" in write_annex(files, tmp_path / "a.md").read_text()


def test_limits_come_from_verdicts_on_the_results_that_are_given(tmp_path, files, attacked):
    verdicts = [
        trusting(canary.audits.audit_result.Audit.load(files[0]), max_exposure_bits=9),
        check(files[1], max_auc=0.51),
    ]
    places = [tmp_path / "v.json", tmp_path / "w.json"]
    for place, verdict in zip(places, verdicts, strict=True):
        dump_document(place, "canary verdict", 1, verdict.to_dict())
    text = write_annex([*places, *files], tmp_path / "a.md").read_text()
    assert "exposure of at most 9 bits" in text
    given = f"given as an option of the check on {date.today().isoformat()}; it is not recorded who"
    assert f"AUC of at most 51 %; {given} set it. Outcome: not" in text
    card = write_model_card([places[1], files[1]], tmp_path / "C.md", model_name="net").read_text()
    (limit,) = [line for line in card.splitlines() if "AUC of at most 51 %" in line]
    (finding,) = verdicts[1].findings
    assert card.count(finding.sentence) == 1
    assert limit.startswith("Limit: ")
    passed = check(files[1], max_auc=0.99)
    assert "only (stronger ones were not made)" in report_of(passed).label
    labelled = read_evidence([passed, files[1]])[0].report.label
    assert "only, stronger ones were not made, if the model was trained on" in labelled
    assert "(limit not passed: easier to find than the limit allows)" in text
    named = replace(verdicts[0], limit_by="R. Roe, 2026-11-01")
    dump_document(places[0], "canary verdict", 1, named.to_dict())
    text_named = write_annex([*places, *files], tmp_path / "named.md").read_text()
    assert "set by R. Roe, 2026-11-01, as the person who ran the check says" in text_named
    assert "set by R. Roe, 2026-11-01" in markdown_of(report_of(named))
    for finding in (one for one in verdicts[0].findings if one.outcome != "passed"):
        assert finding.sentence[-20:].split("(")[0] in text
    # An earlier version did not write when it was given.
    old = {k: v for k, v in verdicts[1].to_dict().items() if k not in ("date", "undecided")}
    dump_document(places[1], "canary verdict", 1, old)
    text = write_annex([places[1], files[1]], tmp_path / "a.md").read_text()
    assert "AUC of at most 51 %; it is not recorded who set it, and when" in text
    dump_document(places[1], "canary verdict", 1, verdicts[1].to_dict())
    # What a limit was not asked of is said, and never passed without it.
    first = canary.audits.audit_result.Audit.load(files[0])
    part = trusting(first, max_exposure_bits=27, repetitions=[first.injected[0].repetitions])
    assert part.left_out
    dump_document(places[0], "canary verdict", 1, part.to_dict())
    text = write_annex([places[0], files[0]], tmp_path / "a.md").read_text()
    assert "not for secrets that appeared" in text
    assert "for some secrets only" in text
    # A verdict in memory holds its audits.
    assert len(read_evidence([verdicts[0]])) == 1
    for other in ([places[0], files[1]], [places[1], files[0]]):
        with pytest.raises(InputError, match="on another result"):
            write_annex(other, tmp_path / "a.md")


def written(results, tmp_path):
    """An annex and a card, the card without its metadata."""
    tmp_path.mkdir(exist_ok=True)
    annex = write_annex(results, tmp_path / "annex.md").read_text()
    card = write_model_card(results, tmp_path / "CARD.md", model_name="net").read_text()
    return annex, card.partition("<!-- canary: begin")[2]


CHANCE = [1.0, 0.5, 2.0, 1.0]
TAKEN = "The test takes this from the files that it was given"
CLAIM = "Not checked: that the planted secrets were in the training data. The person who ran"


def test_a_pass_on_a_claim_is_a_claim_wherever_it_is_shown(tmp_path):
    audit = exact({16: CHANCE * 2, 1: CHANCE, 0: CHANCE * 4}).named(model_name="net")
    verdict = trusting(audit, max_exposure_bits=4)
    dump_document(tmp_path / "v.json", "canary verdict", 1, verdict.to_dict())
    audit.save(tmp_path / "audit.json")
    for text in written([tmp_path / "v.json", tmp_path / "audit.json"], tmp_path):
        assert CLAIM in text
        assert "According to the person who ran the test, 12 made-up secrets were planted" in text
        assert text.count("passed, if the planted secrets were in the training data") >= 3
        assert "Limit passed" not in text
        assert "given as an option of the check on" in text
        assert "controls cannot be distinguished" not in text
        assert "None of the 12 planted secrets was easier to find than the limit" in text
    (tmp_path / "CARD.md").unlink()
    for text in written([audit], tmp_path):
        assert "Nobody has shown that the planted secrets were in the training data" in text
        assert "secrets were to be planted in the training data" in text


def counted(audit, *, lost=0):
    """What `canary verify` found of the set of an audit."""
    found = [Count(c.id, c.repetitions, c.repetitions, 0) for c in audit.canaries]
    found[:lost] = [replace(one, found=0) for one in found[:lost]]
    return Verification(tuple(found), "text", 1000, fingerprint=SET)


def test_an_annex_shows_what_proves_that_the_secrets_were_planted(tmp_path):
    audit = exact({16: CHANCE * 2, 1: CHANCE, 0: CHANCE * 4}).named(model_name="net")
    verdict = trusting(audit, max_exposure_bits=4)
    place = tmp_path / "verified.json"
    counted(audit).save(place)
    page = {}
    for name, results in {
        "nothing": [audit],
        "a claim": [verdict],
        "a count": [audit, counted(audit)],
        "both": [verdict, place],
    }.items():
        text = write_annex(results, tmp_path / "annex.md").read_text()
        page[name] = " ".join(text.split())
        assert "Who may read this" in text.partition("## What came out")[0]
        assert "do not publish it" in text
        assert "*Control*" in text or "Control: " in text
        # Each median with its interval, as on the page.
        assert "| 90 % interval of the median |" in text
    assert "Count in the training data | None was given." in page["nothing"]
    assert "claimed by an option of the check only, and no file shows it" in page["a claim"]
    for name in ("a count", "both"):
        assert "All 12 planted secrets were found, in 132 copies, in 1,000 records." in page[name]
        assert "None of the 16 controls was found there." in page[name]
        assert "nobody has shown" not in page[name]
        assert "Not checked: that the planted" not in page[name]
        assert "if the model was trained on the data that was checked" in page[name]
    assert sha256(place.read_bytes()).hexdigest() in page["both"]
    shown = write_annex([an_audit()], tmp_path / "annex.md").read_text()
    assert "Evidence | It is sure that the secrets that appeared 16 times were in the" in shown
    with pytest.raises(CanaryError, match="did not survive"):
        write_annex([audit, counted(audit, lost=1)], tmp_path / "annex.md")
    with pytest.raises(InputError, match="no canary set that an audit was given of"):
        write_annex([audit, replace(counted(audit), fingerprint="0")], tmp_path / "annex.md")


def test_nothing_is_a_pass_below_an_undecided_verdict(tmp_path):
    verdict = check(exact({16: CHANCE * 2, 0: CHANCE * 4}), max_exposure_bits=4)
    assert verdict.outcome == "undecided"
    for text in written([verdict], tmp_path):
        assert "imit undecided: nothing shows that the model read the secrets" in text
        assert "Limit passed" not in text
        assert "Not decided: nothing shows" in text


def test_an_undecided_verdict_that_passes_says_so(tmp_path):
    audit = exact({16: CHANCE * 2, 0: CHANCE * 4})
    for policy in ("fail", "pass"):
        verdict = check(audit, max_exposure_bits=4, undecided=policy)
        page = markdown_of(report_of(verdict))
        for text in (*written([verdict], tmp_path / policy), page):
            assert ("counted as passed, by an option of the check" in text) is (policy == "pass")


def test_secrets_are_counted_as_the_report_of_the_verdict_counts(tmp_path):
    audit = exact({16: [29.0] * 8, 4: [8.0] * 4, 0: CHANCE})
    verdict = check(audit, max_exposure_bits=6)
    said = "the hardest of these took 3,906,250 guesses"
    assert said in markdown_of(report_of(verdict))
    for text in written([verdict], tmp_path):
        assert said in text
        assert "8 of 12" not in text


def test_both_limits_of_an_audit_are_listed_the_failing_one_first(tmp_path):
    audit = an_audit(canaries_in_corpus=True)
    verdicts = [trusting(audit, max_exposure_bits=25), check(audit, max_exposure_bits=6)]
    for text in written(verdicts, tmp_path):
        failing, passing = text.index("Limit 1: at least"), text.index("Limit 2: at least")
        assert failing < text.index("exposure of at most 6 bits", failing) < passing
        weak = "weak: exposure of at most 25 bits; a strict limit of 4 bits"
        assert passing < text.index(weak, passing)
        first = "6 bits), not passed: easier to find than the limit allows; limit 2, at least"
        assert first in text
        assert "16 controls" not in text
    (test,) = read_evidence(verdicts)
    guesses, search = test.trials
    assert guesses.limit
    assert not search.limit
    assert "no verdict of canary check" in test.facts(search)["Limit"]
    asked = read_evidence([trusting(audit, no_extraction=True)])[0].trials[1]
    assert asked.limit.startswith("no planted secret is found by the search")


def test_a_deletion_is_told_as_its_report_tells_it(tmp_path):
    losses = np.random.default_rng(0).exponential(1.0, (21, 400))
    unseen = np.random.default_rng(1).exponential(1.0, 400)
    found = canary.forgotten(
        [losses[0] / 9], losses[1], list(losses[2:]), unseen=unseen, resamples=9
    )
    found = found.named(model_name="net")
    page = markdown_of(report_of(found))
    verdict = check(found, forgotten=True)
    assert verdict.outcome == "passed"
    judged = markdown_of(report_of(verdict))
    assert "If the model still knew 2" in judged.split("| --- |")[0]  # in the box
    for text in (*written([found, verdict], tmp_path), page):
        assert text.count("If the model still knew 2") == 1
        assert "Not checked: that the models for comparison never saw the data" in text
        assert TAKEN in text
        assert "The person who ran" not in text
        assert "too coarse if that is a few samples" in text
        assert "counts as forgotten" not in text
        assert "could not decide" not in text
    annex = (tmp_path / "annex.md").read_text()
    assert "efore the removal" not in annex
    assert found.fingerprint in annex
    # The page beside a file is cited by its number, and says that no version of weights is known.
    dump_document(tmp_path / "forgetting.json", "canary forgetting", 1, found.to_dict())
    beside = canary.report(found, tmp_path / "report.html").read_text()
    assert "not stated (outputs were tested" in beside
    number = re.search("Report number</dt><dd>(.{8})<", beside)[1]
    cited = write_annex([tmp_path / "forgetting.json"], tmp_path / "cited.md").read_text()
    assert f"the report beside it has the number {number}" in cited
    assert "the query set is forgotten: no trace is found; given as an option of" in annex
    assert "Limit passed" not in annex  # it rests on a claim
    own, knows, reference = re.findall(r"^\| (?:Tested model|Refer).*\|.*\|$", annex, re.MULTILINE)
    assert f"| {found.rho:.2f} | {found.lower:.2f} to " in own
    assert "| 0 by definition |" in knows
    assert "| 1.00 |" in reference
    assert "(19 models)" in reference


def test_of_membership_it_is_said_that_nobody_checked_the_training_data(tmp_path, attacked):
    claim = f"Not checked: that the model was trained on these samples. {TAKEN}"
    assert claim in markdown_of(report_of(attacked))
    attacked = attacked.named(model_name="net")
    verdict = check(attacked, max_auc=0.9)
    assert verdict.outcome == "passed"
    assert claim in markdown_of(report_of(verdict))
    for text in written([attacked, verdict], tmp_path):
        assert claim in text
        assert "The person who ran" not in text
        assert "Limit passed" not in text
    assert "A pass speaks only of the attacks that were made" in (tmp_path / "annex.md").read_text()
    # Where somebody said so by an option, the pass rests on that.
    said = claim.replace(TAKEN, "The person who ran this test says so")
    verdict = check(attacked, max_auc=0.9, trust_members=True)
    assert said in markdown_of(report_of(verdict))
    dump_document(tmp_path / "verdict.json", "canary verdict", 1, verdict.to_dict())
    dump_document(tmp_path / "membership.json", "canary membership", 1, attacked.to_dict())
    read = [tmp_path / "membership.json", tmp_path / "verdict.json"]
    assert said in write_annex(read, tmp_path / "annex.md").read_text()


def test_each_of_several_results_in_a_row_says_of_what_it_is(tmp_path, attacked):
    named = attacked.named(model_name="net")
    results = [named, *(check(named, max_auc=limit) for limit in (0.9, 0.6))]
    mild = survey(measured_outputs(3), measured_outputs(4), attacks="correctness", fprs=[0.1])
    text = write_annex([*results, mild.named(model_name="net")], tmp_path / "a.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| Membership inference"))
    assert "In part: tests 1 and 2" in row
    assert "Test 1: Training samples can be recognized (limit 1, AUC of at most 60 %, not" in row
    assert "; limit 2, AUC of at most 90 %, passed against 2 attacks only" in row
    assert "Test 2: Training samples can be recognized on average" in row


def test_an_annex_begins_with_what_shows_memorization_and_what_leaves_it_open(tmp_path):
    out = extraction({1: "canary-1", 2: "canary-2"})
    of_many = exact(GROUPS, extractions=[out]).named(model_name="net")
    few = exact({1: [4.0] * 2, 0: [1.0] * 2}).named(model_name="net")
    both = write_annex([of_many, few], tmp_path / "a.md").read_text()
    assert "1 of 2 results shows that the model memorized (test 1). " in both
    assert "1 result leaves open whether it did (test" in both
    alone = write_annex([few], tmp_path / "a.md").read_text()
    assert "The result does not prove that the model memorized, or that it did not. 1 " in alone
    top = both.index("**The model memorized planted secrets")
    assert top < both.index("## What to do") < both.index("This follows from test 1, the worst")


def test_a_card_has_the_warning_and_the_weights_of_the_report(tmp_path):
    audit = exact({4: [20.0] * 8, 0: [1.0] * 4}, fingerprint="c" * 64)
    audit = replace(audit, start=StartChoice("\n", "asked"))
    write_model_card([audit], tmp_path / "README.md", model_name="net")
    text = (tmp_path / "README.md").read_text()
    assert "The true risk may be higher: the test assumed that each secret starts on a" in text
    assert "c" * 12 in text
    assert "(membership) was not tested" in text


def test_no_number_of_a_test_that_decides_nothing(tmp_path, compared):
    doubted = survey(measured_outputs(1), measured_outputs(2), attacks="loss", fprs=[0.1])
    doubted = replace(doubted, doubts=("Something is off",), notes=("Something is off",))
    (test,) = read_evidence([doubted])
    assert not test.trials[0].metrics
    assert "something is off" in str(test.trials[0].results)
    card = tmp_path / "README.md"
    write_model_card([doubted], card, model_name="net")
    assert "model-index" not in ModelCard.load(card).data.to_dict()
    write_model_card([an_audit()], card, model_name="net", replace=True)
    assert ModelCard.load(card).data.eval_results
    write_model_card([doubted], card, model_name="net", replace=True)
    assert "model-index" not in ModelCard.load(card).data.to_dict()
    undecided = replace(compared, auc=Estimate(0.5, 0.4, 0.6))
    assert read_evidence([undecided])[0].report.label


def test_a_card_is_one_that_model_hubs_read(tmp_path, files):
    card = write_model_card(files, tmp_path / "README.md")
    data = ModelCard.load(card).data
    assert data.model_name == "net"
    metrics = {one.metric_type: one for one in data.eval_results}
    assert metrics["exposure_16_copies"].metric_value == pytest.approx(20, abs=0.01)
    assert metrics["search_found"].metric_value == 1
    document = json.loads(files[1].read_text())
    best = max(document["attacks"], key=lambda one: one["corrected"]["auc"]["value"])
    auc = best["corrected"]["auc"]
    assert metrics["membership_auc"].metric_value == round(auc["value"], 4)
    assert metrics["membership_auc"].metric_args["lower"] == round(auc["lower"], 4)
    assert "forgetting_rho" in metrics
    # The Hub's own rule for the identifier of a data set.
    assert all(re.fullmatch(r"[\w.-]+", one.dataset_type) for one in data.eval_results)
    assert "## Memorization tests" in card.read_text()
    assert "were not tested" in card.read_text()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_card_keeps_what_is_in_it_and_a_second_run_replaces_its_own(tmp_path, files, newline):
    card = tmp_path / "README.md"
    card.write_bytes(CARD.replace("\n", newline).encode())
    card.chmod(0o640)
    write_model_card(files, card)
    once = card.read_bytes()
    assert oct(card.stat().st_mode)[-3:] == "640"
    assert once.count(b"\n") == once.count(newline.encode())
    text = once.decode()
    before, after = (yaml.safe_load(one.split("---")[1]) for one in (CARD, text))
    assert {**after, "model-index": 0} == {**before, "model-index": 0}
    assert after["model-index"][0]["results"][0] == before["model-index"][0]["results"][0]
    assert after["model-index"][1] == before["model-index"][1]
    assert "It writes." in text
    with pytest.raises(OutputError, match="has a section .* already.*--force"):
        write_model_card(files, card)
    assert card.read_bytes() == once
    write_model_card(files, card, replace=True)
    assert card.read_bytes() == once
    card.write_bytes(once + f"More.{newline}".encode())
    write_model_card(files[:1], card, replace=True)
    assert card.read_text().count("## Memorization tests") == 1
    assert "membership_auc" not in card.read_text()
    assert card.read_text().endswith("More.\n")


def test_a_text_without_metadata_gets_some(tmp_path, files):
    card = tmp_path / "README.md"
    card.write_text("# Mine\n\n---\nA line above is a rule.\n")
    write_model_card(files, card)
    assert ModelCard.load(card).data.eval_results
    assert card.read_text().index("# Mine") < card.read_text().index("A line above is a rule.")


def test_names_of_others_are_text(tmp_path):
    evil = "<script>x</script>\n# <!-- canary: end --> {y} | `z` \x1b[31m"
    audit = an_audit().named(model_name=evil, corpus_name=evil, auditor=evil)
    for text in (
        write_annex([audit], tmp_path / "a.md").read_text(),
        write_annex([audit], tmp_path / "a.html").read_text(),
        write_model_card([audit], tmp_path / "README.md").read_text(),
    ):
        assert "\x1b" not in text
        assert "\n# <" not in text
        body = text.rpartition("\n---\n")[2]
        assert body.count("<!-- canary: end -->") == text.startswith("---")
        assert "<script>x" not in body
    write_model_card([audit], tmp_path / "README.md", replace=True)
    assert (tmp_path / "README.md").read_text() == text


def natural():
    audit = an_audit()
    found = tuple(replace(c, natural=True) for c in audit.canaries)
    return replace(audit, canaries=found, injected_p=None)


WRONG = {
    "no result": list,
    "history of a training": lambda: [make_history()],
    "int is no test": lambda: [3],
    "no canary that was in the training data": lambda: [exact({0: [1.0] * 8})],
    "so it tests no model": lambda: [an_audit(canaries_in_corpus=False)],
}


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.parametrize("write", [write_annex, write_model_card])
def test_what_is_no_test_of_a_model_is_refused(tmp_path, write, message):
    with pytest.raises(InputError, match=message):
        write(WRONG[message](), tmp_path / "out.md")
    assert not (tmp_path / "out.md").exists()


def test_a_history_and_damaged_files_are_refused(tmp_path, files):
    make_history().save(tmp_path / "h.json")
    with pytest.raises(InputError, match="history of a training.*audit the trained model"):
        write_annex([tmp_path / "h.json"], tmp_path / "a.md")
    damaged = json.loads(files[1].read_text())
    del damaged["doubts"]
    files[1].write_text(json.dumps(damaged))
    with pytest.raises(RecordError, match="'doubts' is missing"):
        write_annex(files, tmp_path / "a.md")
    with pytest.raises(InputError, match="not written as '.txt'"):
        write_annex(files[:1], tmp_path / "a.txt")


CARDS = ["license: [", "- a list", "model-index: words", "model-index:\n- results: [{}]"]


@pytest.mark.parametrize("metadata", CARDS)
def test_a_card_that_cannot_be_read_is_left(tmp_path, metadata):
    card = tmp_path / "README.md"
    text = f"---\n{metadata}\n---\n"
    card.write_text(text)
    with pytest.raises(InputError, match="metadata cannot be read"):
        write_model_card([an_audit()], card)
    assert card.read_text() == text
    card.write_bytes(b"\xff\xfe")
    with pytest.raises(CanaryError, match="as text"):
        write_model_card([an_audit()], card)


def test_a_card_is_of_one_model_and_never_of_natural_secrets(tmp_path):
    one, other = (an_audit().named(model_name=name) for name in "ab")
    other = replace(other, settings={**other.settings, "seed": 1})
    with pytest.raises(InputError, match="several models: a, b.*--model-name"):
        write_model_card([one, other], tmp_path / "README.md")
    write_model_card([one, other], tmp_path / "README.md", model_name="c")
    text = write_annex([one, other], tmp_path / "a.md").read_text()
    assert "different models: a, b" in text
    assert "If all are of one model" in text
    text = write_annex([one, other], tmp_path / "a.md", model_name="c").read_text()
    assert "different models: a, b" in text
    assert "is the word of the person who made this document" in text
    assert text.count("What this file calls the model") == 2
    assert "c (in the result: a)" in text
    assert "c (in the result: b)" in text
    before, table, _ = (tmp_path / "README.md").read_text().partition("| Models in the results |")
    assert table
    assert "different models: a, b" in before
    one = replace(one, about=replace(one.about, model="c"))
    text = write_annex([one, other], tmp_path / "a.md", model_name="c").read_text()
    assert "in the result: c" not in text
    assert "c (in the result: b)" in text
    with pytest.raises(InputError, match="natural secrets"):
        write_model_card([natural()], tmp_path / "other.md")
    annex = write_annex([natural()], tmp_path / "b.md").read_text()
    assert "These may be secrets of real people: confirm where they were found." in annex
    assert "Where they were found was not checked." in annex
    assert "Secrets that were not drawn at random" in annex
    assert "found in the training data" not in annex


def test_an_annex_of_a_classifier_speaks_of_no_secrets(attacked):
    text = markdown_of(annex_of(read_evidence([attacked])))
    for word in ("secret", "jailbreak", "Exposure", "Tokens in prompts", "conversation"):
        assert word not in text, word
    assert "False positive rate" in text
    assert "AUC" in text
    assert "Planted secret" in markdown_of(annex_of(read_evidence([an_audit(), attacked])))


def test_a_deletion_is_filed_with_the_attack_on_unseen_samples_and_all_its_files(tmp_path):
    rng = np.random.default_rng(0)
    knows, own, unseen = rng.exponential(0.1, 300), *rng.exponential(1.0, (2, 300))
    found = forgotten(knows, own, list(rng.exponential(1.0, (19, 300))), unseen=unseen)
    verdict = check(found, forgotten=True)
    page = markdown_of(report_of(verdict))
    annex = markdown_of(annex_of(read_evidence([found, verdict])))
    auc = f"{100 * found.auc.value:.1f} % of pairs"
    assert auc in page
    assert auc in annex
    # Its data are those to be forgotten, on every page, and no page asks for training data.
    card = tmp_path / "CARD.md"
    for given in ("", "request 7"):
        results = [found.named(corpus_name=given), verdict]
        write_model_card(results, card, model_name="net", replace=True)
        texts = [card.read_text(), write_annex(results, tmp_path / "annex.md").read_text()]
        named = replace(verdict, tested=verdict.tested.named(corpus_name=given))
        for text in (*texts, markdown_of(report_of(named))):
            assert "Data to be forgotten" in text
            assert (given or "not named") in text
            assert "Training data" not in text
            assert "on which data the model was trained" not in text
    # A name for results of both kinds is that of training data.
    both = read_evidence([an_audit(), *results], corpus="letters")
    assert [test.facts()[test.data] for test in both] == ["letters", "request 7"]
    assert "| letters | – |" in markdown_of(annex_of(both))
    for role in ("query", "calibration", "unseen"):
        assert found.to_dict()["answers"][role]["fingerprint"] in annex


def test_two_tests_of_one_thing_have_their_own_titles_and_numbers_on_a_card(tmp_path, attacked):
    other = survey(measured_outputs(3), measured_outputs(4), attacks="loss", fprs=[0.1])
    write_model_card([attacked, other], tmp_path / "card.md", model_name="mine")
    text = (tmp_path / "card.md").read_text()
    titles = re.findall("^### (Membership.*)$", text, re.MULTILINE)
    assert len(set(titles)) == len(titles) == 2
    (entry,) = yaml.safe_load(text.split("---")[1])["model-index"]
    keys = [(one["dataset"]["type"], m["type"]) for one in entry["results"] for m in one["metrics"]]
    assert len(set(keys)) == len(keys) == 4


def test_the_colour_of_an_annex_is_that_of_its_limits(tmp_path):
    audit = exact({4: [3.0] * 16, 64: [20.0] * 8, 0: [1.0] * 8}).named(model_name="net")
    passed = trusting(audit, max_exposure_bits=5, require_learned=64)
    failed = trusting(audit, max_exposure_bits=2, require_learned=64)
    assert (passed.outcome, failed.outcome) == ("passed", "memorized")
    for verdicts in ([passed], [passed, failed], []):
        made = annex_of(read_evidence([audit, *verdicts]))
        worst = report_of(verdicts[-1] if verdicts else audit)
        assert (made.label, made.tone) == (worst.label, worst.tone)
        assert "--" not in " ".join(map(words_of, made.decide))
    wrong = exact({4: [1.0] * 8, 0: [20.0] * 8}).named(model_name="net")  # controls look learned
    made = annex_of(read_evidence([audit, passed, wrong]))
    assert (report_of(passed).tone, made.tone) == ("not-found", "suspect")
