"""What audits note of their numbers is in the verdict on them, however it is told."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from drawing import figures
from gate_audits import SET, exact
from html_pages import render

from canary.corpus.verification import Count, Verification
from canary.errors import InputError
from canary.gate.baselines import Baseline
from canary.gate.check_audit import check
from canary.reports.verdicts import explained, junit, markdown

TRUSTED = "that the canaries were in the training data is your word: give --verification what "
LEARNED = "the canaries with 4 copies look learned (p = "
UNLEARNED = (
    "even the canaries with 4 copies do not look learned (p = 0.8), and a model that never read "
    "the corpus would look the same: to make sure, add canaries with many more copies (generate "
    "--repetitions), which a model that read them has learned"
)
START, TOKENIZER = "no start token was given", "the tokenizer was <trained> on them"


def noted(*notes, bits=1.0, copies=4):
    audit = exact({copies: [bits] * 8, 0: [1.0] * 4})
    return replace(audit, formats=(replace(audit.formats[0], notes=notes),))


def verified(audit):
    counts = tuple(Count(c.id, c.repetitions, c.repetitions, 0) for c in audit.canaries)
    formats = tuple(one.format for one in audit.formats)
    return Verification(counts, "text", 99, formats, fingerprint=SET, file="verify.json")


def test_a_low_number_alone_is_no_pass():
    """Whatever the limit: a model that never read the canaries would keep it as well."""
    never = exact({1: [1.0] * 8, 4: [1.0] * 8, 0: [1.0] * 4})
    for limit in ({"max_exposure_bits": 10}, {"max_p": 0.01}, {"baseline": Baseline.of(never)}):
        verdict = check(never, **limit)
        assert (verdict.outcome, verdict.exit_code, verdict.notes) == ("undecided", 3, ())
        assert verdict.reason.check == "training data"
        assert verdict.reason.sentence == (
            "nothing shows that the canaries were in the training data: even the canaries with 4 "
            "copies do not look learned (p = 0.8), and a model that never read the corpus would "
            "look the same"
        )
        assert "--verification FILE" in verdict.reason.cure
        assert "--trust-injection" in verdict.reason.cure
    assert check(exact({4: [1.0] * 8}, canaries_in_corpus=True), max_exposure_bits=10)  # a demo's
    found = verified(never)
    assert check(never, max_exposure_bits=10, verification=found)
    with pytest.raises(InputError, match="trust_injection: a verification is given"):
        check(never, max_exposure_bits=10, verification=found, trust_injection=True)


def test_never_injected_canaries_pass_in_one_audit_of_a_hundred_theory():
    """At a level of 1 %: 1,000 audits of four unlearned canaries, within three deviations."""
    rng = np.random.default_rng(0)
    audits = (exact({4: -np.log2(rng.random(4))}) for _ in range(1_000))
    passed = np.mean([bool(check(audit, max_exposure_bits=20)) for audit in audits])
    assert 0.003 <= passed <= 0.02


def test_of_several_audits_each_must_show_it():
    learned, never = exact({4: [9.0] * 8}), exact({4: [1.0] * 8}, fingerprint="b" * 64)
    verdict = check([learned, never], max_exposure_bits=10)
    assert verdict.outcome == "undecided"
    assert verdict.reason.subject == "audit 2: canaries with 4 copies"


def test_a_pass_without_a_verification_says_what_it_does_not_know():
    audit = exact({4: [1.0] * 8, 0: [1.0] * 4})
    note, unlearned = check(audit, max_exposure_bits=10, trust_injection=True).notes
    assert note.startswith(TRUSTED)
    assert unlearned == UNLEARNED
    (note,) = check(exact({4: [9.0] * 8}), max_exposure_bits=10).notes
    assert note.startswith(LEARNED)
    assert check(exact({4: [20.0] * 8}), max_exposure_bits=10).notes == ()


def test_a_pass_with_a_verification_says_what_that_shows():
    audit = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    (note,) = check(audit, max_exposure_bits=10, verification=verified(audit)).notes
    assert note == (
        "16 of 16 canaries (40 copies) are in the corpus of verify.json; it does not show that "
        "this model was trained on that corpus, nor that the training left its text as it is "
        "(spaces between digits, masks, padding before it): ExposureMonitor looks at the batches"
    )
    learned = exact({1: [20.0] * 8, 4: [20.0] * 8})
    assert check(learned, max_exposure_bits=10, verification=verified(learned)).notes == ()
    never = exact({1: [1.0] * 8, 4: [1.0] * 8, 0: [1.0] * 4})
    verdict = check(never, max_exposure_bits=10, verification=verified(never))
    assert verdict.notes == (note, UNLEARNED)


def test_a_pass_says_which_canaries_it_does_not_speak_of():
    audit = exact({1: [1.0] * 8, 4: [20.0] * 8, 16: [20.0] * 8, 0: [1.0] * 4})
    options = {"max_exposure_bits": 10, "verification": verified(audit)}
    note, _ = check(audit, repetitions=[1], **options).notes
    assert note.startswith("canaries with 4, 16 copies were left out, as was asked")
    assert check(audit, repetitions=[1, 4], **options).notes == ()  # it did not pass


def test_an_undecided_verdict_that_counts_as_a_pass_says_what_it_does_not_know():
    audit = exact({4: [8.0, 12.0] * 4, 0: [1.0] * 4})
    verdict = check(audit, max_exposure_bits=10, undecided="pass")
    assert verdict.outcome == "undecided"
    assert verdict.notes[-1].startswith(LEARNED)


def test_a_verdict_has_the_notes_of_its_audit():
    audit = noted(START, TOKENIZER)
    verdict = check(audit, max_exposure_bits=10, verification=verified(audit))
    assert verdict.notes[:2] == audit.notes == (START, TOKENIZER)
    assert verdict.summary().splitlines()[2:4] == [f"note: {START}", f"note: {TOKENIZER}"]
    assert json.loads(json.dumps(verdict.to_dict()))["notes"][:2] == [START, TOKENIZER]
    assert verdict  # notes decide nothing


def test_of_several_audits_what_not_all_note_says_whose_it_is():
    several = [noted(START), noted(START, TOKENIZER), noted(START)]
    verdict = check(several, max_exposure_bits=10)
    assert verdict.notes[:2] == (START, f"audit 2: {TOKENIZER}")


@pytest.mark.parametrize("policy", ["pass", "fail"])
@pytest.mark.parametrize("bits", [9.0, 20.0, [8.0, 12.0]], ids=["passed", "memorized", "undecided"])
def test_every_face_of_a_verdict_shows_them(bits, policy):
    groups = {4: [bits] * 8 if isinstance(bits, float) else bits * 4}
    audit = exact(groups)
    audit = replace(audit, formats=(replace(audit.formats[0], notes=(START, TOKENIZER)),))
    verdict = check(audit, max_exposure_bits=10, undecided=policy)
    assert len([note for note in verdict.notes if note.startswith(LEARNED)]) == bool(verdict)
    notes = list(verdict.notes)
    assert notes[:2] == [START, TOKENIZER]
    (case,) = ET.fromstring(junit(verdict)).findall("testsuite/testcase")
    properties = [p.get("value") for p in case.findall("properties/property[@name='note']")]
    assert properties == notes
    shown = case[-1].text  # what a page of builds shows: failure, skipped or system-out
    assert shown.splitlines()[-len(notes) :] == [f"note: {note}" for note in notes]
    assert f"Note: {START}" in markdown(verdict).splitlines()
    assert "<trained>" not in markdown(verdict)
    assert explained(verdict).splitlines()[-len(notes) :] == [f"- note: {note}" for note in notes]


def test_reports_show_them():
    with figures(drawn=False):
        assert START in render(noted(START))
        page = render([noted(START), noted(START, bits=3.0)], labels=["x", "y"])
    assert f"A and B: {START}" in page
