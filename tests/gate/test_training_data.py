"""Whether the model was trained on the canaries: what a verdict asks for, notes and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from drawing import figures
from gate_audits import (
    NEVER,
    READ,
    by_bits,
    exact,
    measured,
    of_groups,
    space,
    verified,
)
from html_pages import render

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.verification import verify
from canary.errors import EstimationError, InputError
from canary.gate.baselines import Baseline
from canary.gate.check_audit import check, new_baseline
from canary.reports.verdicts import explained, junit, markdown

TRUSTED = "nobody checked that the canaries were in the training data: give --verification what "
LEARNED = "the canaries with 4 copies look learned (p = "
UNLEARNED = (
    "even the canaries with 4 copies do not look learned (p = 0.8), and a model that never read "
    "the corpus would look the same. This is right if the training was private or short. It is "
    "wrong if training read another corpus or masked the secrets, or if this is another model "
    "file or tokenizer. To make sure, add canaries with many more copies (generate "
    "--repetitions), which a model that read them has learned. Or train longer on the same files: "
    "that model must be found to have memorized them"
)
START, TOKENIZER = "no start token was given", "the tokenizer was <trained> on them"


def of_other_weights(audit):
    return Baseline.of(replace(audit, model={**audit.model, "fingerprint": "b" * 64}))


NEVER_BUT_OWN = replace(NEVER, settings={**NEVER.settings, "canaries_in_corpus": True})


def noted(*notes, bits=1.0, **options):
    audit = exact({4: [bits] * 8, 0: [1.0] * 4}, **options)
    return replace(audit, formats=(replace(audit.formats[0], notes=notes),))


# --- without evidence -----------------------------------------------------------------


def test_that_nothing_was_read_comes_before_more_canaries():
    """Of canaries that were never injected, more would decide nothing."""
    wide = exact({1: [1.0] * 8, 4: [1.0] * 4 + [4.5] * 4, 0: [1.0] * 4})
    verdict = check(wide, max_exposure_bits=4)
    assert verdict.reason.check == "training data"
    assert "training data" in verdict.summary().splitlines()[0]
    assert "would decide" in verdict.summary()


def test_the_summary_of_an_audit_says_that_nothing_shows_what_was_read():
    told = NEVER.summary().splitlines()[1]
    assert "nothing shows" in told
    assert check(NEVER, max_exposure_bits=10).reason.sentence in told
    for shown in (exact({4: [12.0] * 8, 0: [1.0] * 4}), NEVER_BUT_OWN):
        assert "nothing shows" not in shown.summary()


@pytest.mark.parametrize(
    "limit",
    [{"max_exposure_bits": 10}, {"max_p": 0.01}, {"baseline": of_other_weights(NEVER)}],
    ids=str,
)
def test_a_low_number_alone_is_no_pass(limit):
    """Whatever the limit: a model that never read the canaries would keep it as well."""
    verdict = check(NEVER, **limit)
    assert (verdict.outcome, verdict.exit_code, verdict.notes) == ("undecided", 3, ())
    assert verdict.reason.check == "training data"
    assert verdict.reason.sentence == (
        "nothing shows that the canaries were in the training data: even the canaries with 4 "
        "copies do not look learned (p = 0.8), and a model that never read the corpus would "
        "look the same"
    )
    assert "--verification FILE" in verdict.reason.cure
    assert "--trust-injection" in verdict.reason.cure
    # A verification speaks of a file, and not of this model: a baseline like it accepts that.
    held = check(NEVER, verification=verified(NEVER), **limit)
    assert held.outcome == ("passed" if "baseline" in limit else "undecided")
    assert check(NEVER, trust_injection=True, **limit)
    assert check(replace(NEVER, settings={"canaries_in_corpus": True}), **limit)  # the demo's


def test_never_injected_canaries_pass_in_one_audit_of_a_hundred_theory():
    """At a level of 1 %: 1,000 audits of four unlearned canaries, within three deviations."""
    rng = np.random.default_rng(0)
    audits = (exact({4: -np.log2(rng.random(4))}) for _ in range(1_000))
    passed = np.mean([bool(check(audit, max_exposure_bits=20)) for audit in audits])
    assert 0.003 <= passed <= 0.02


def test_of_several_audits_each_must_show_it():
    other = exact({4: [1.0] * 8}, fingerprint="b" * 64)
    verdict = check([exact({4: [9.0] * 8}), other], max_exposure_bits=10)
    assert verdict.outcome == "undecided"
    assert verdict.reason.subject == "audit 2: canaries with 4 copies"


LEARNED_THEN = of_other_weights(exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4}))


@pytest.mark.parametrize(
    "evidence", [{"trust_injection": True}, {"verification": verified(NEVER)}], ids=str
)
def test_what_was_learned_in_the_baseline_and_is_not_any_more_is_no_pass(evidence):
    """A private training looks so; so does another model file, tokenizer or mask."""
    verdict = check(NEVER, baseline=LEARNED_THEN, **evidence)
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
    assert verdict.reason.check == "training data"
    assert str(verdict).startswith(
        "undecided: even the canaries with 4 copies do not look learned (p = 0.8), and in the "
        "baseline they do (p = "
    )
    assert "It is wrong if training read another corpus" in verdict.reason.sentence
    assert "--update-baseline" in verdict.reason.cure
    # Its cures serve: consent, and a new baseline.
    assert check(NEVER, baseline=LEARNED_THEN, undecided="pass", **evidence)
    assert check(NEVER, baseline=of_other_weights(NEVER), **evidence)
    # Less is no doubt, if something still is learned.
    less = exact({1: [1.0] * 8, 4: [5.0] * 8, 0: [1.0] * 4})
    assert check(less, baseline=LEARNED_THEN, trust_injection=True)


# --- notes ----------------------------------------------------------------------------


def test_a_pass_without_a_verification_says_what_it_does_not_know():
    note, unlearned = check(NEVER, max_exposure_bits=10, trust_injection=True).notes
    assert note.startswith(TRUSTED)
    assert unlearned == UNLEARNED
    (note,) = check(exact({4: [9.0] * 8}), max_exposure_bits=10).notes
    assert note.startswith(LEARNED)
    assert check(exact({4: [20.0] * 8}), max_exposure_bits=10).notes == ()


def test_a_printed_pass_names_the_note_that_decides():
    learned = exact({4: [9.0] * 8, 0: [1.0] * 4})
    for audit, doubt in ((NEVER, "not look learned (p = 0.8), and a model that"), (learned, "")):
        for evidence in ({}, {"verification": verified(audit)}):
            evidence |= {"trust_injection": True}
            passed = check(audit, max_exposure_bits=10, **evidence)
            assert passed
            assert ("look learned" in str(passed)) == bool(doubt)
            assert doubt in str(passed)


def test_a_pass_with_a_verification_says_what_that_shows():
    audit = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    (note,) = check(audit, max_exposure_bits=10, verification=verified(audit)).notes
    assert note == (
        "16 of 16 canaries (40 copies) are in the corpus of verify.json; whether the training of "
        "this model read all of it is not seen, nor whether it left the text as it is (spaces "
        "between digits, masks, padding before it): --history shows it (in Python history), the "
        "canary_history.json of ExposureMonitor"
    )
    learned = exact({1: [20.0] * 8, 4: [20.0] * 8})
    assert check(learned, max_exposure_bits=10, verification=verified(learned)).notes == ()
    others = replace(verified(audit), others=91)
    (doubt, _) = check(audit, max_exposure_bits=10, verification=others).notes
    assert doubt.startswith("91 other texts of these formats are in the corpus")
    crowded = replace(others, records=990)
    (_, crowd, _) = check(audit, max_exposure_bits=10, verification=crowded).notes
    assert crowd.startswith("4.0 % of the records are canaries")
    evidence = {"verification": verified(NEVER)}
    verdict = check(NEVER, max_exposure_bits=10, trust_injection=True, **evidence)
    assert verdict.notes == (note, UNLEARNED)
    verdict = check(NEVER, max_exposure_bits=10, **evidence)
    assert (verdict.outcome, verdict.reason.check) == ("undecided", "training data")
    assert UNLEARNED.startswith(verdict.reason.sentence)
    assert "add canaries with many more copies" in verdict.reason.cure
    assert "--trust-injection" in verdict.reason.cure


def test_a_pass_says_which_canaries_it_does_not_speak_of():
    audit = exact({1: [1.0] * 8, 4: [20.0] * 8, 16: [20.0] * 8, 0: [1.0] * 4})
    options = {"max_exposure_bits": 10, "verification": verified(audit)}
    note, _ = check(audit, repetitions=[1], **options).notes
    assert note.startswith("canaries with 4, 16 copies were left out, as was asked")
    assert check(audit, repetitions=[1, 4], **options).notes == ()  # it did not pass


def test_of_several_audits_what_not_all_note_says_whose_it_is():
    of_each = enumerate([(START,), (START, TOKENIZER), (START,)])
    several = [noted(*notes, fingerprint=str(seed) * 64) for seed, notes in of_each]
    verdict = check(several, max_exposure_bits=10)
    assert verdict.notes[:2] == (START, f"audit 2: {TOKENIZER}")


@pytest.mark.parametrize("policy", ["pass", "fail"])
@pytest.mark.parametrize("bits", [9.0, 20.0, [8.0, 12.0]], ids=["passed", "memorized", "undecided"])
def test_every_face_of_a_verdict_shows_them(bits, policy):
    audit = exact({4: [bits] * 8 if isinstance(bits, float) else bits * 4})
    audit = replace(audit, formats=(replace(audit.formats[0], notes=(START, TOKENIZER)),))
    verdict = check(audit, max_exposure_bits=10, undecided=policy)
    # What a pass does not know is said of an undecided verdict that counts as one, too.
    assert len([note for note in verdict.notes if note.startswith(LEARNED)]) == bool(verdict)
    notes = list(verdict.notes)
    assert notes[:2] == [START, TOKENIZER] == list(audit.notes)
    assert verdict.summary().splitlines()[-len(notes) :] == [f"note: {note}" for note in notes]
    assert json.loads(json.dumps(verdict.to_dict()))["notes"] == notes
    (suite,) = ET.fromstring(junit(verdict)).findall("testsuite")
    (case,) = suite.findall("testcase")
    properties = [p.get("value") for p in suite.findall("properties/property[@name='note']")]
    assert properties == notes
    shown = suite.find("system-out").text.splitlines()  # and not the failure of a case
    assert shown[-1 - len(notes) : -1] == [f"note: {note}" for note in notes]
    assert "note: " not in "".join(case.itertext())
    assert f"- {START[0].upper()}{START[1:]}." in markdown(verdict).splitlines()
    assert "<trained>" not in markdown(verdict)
    assert explained(verdict).splitlines()[-len(notes) :] == [f"- note: {note}" for note in notes]


def test_reports_show_them():
    with figures(drawn=False):
        assert f"N{START[1:]}." in render(noted(START))
        page = render(
            [noted(START), noted(START, bits=3.0, fingerprint="b" * 64)], labels=["x", "y"]
        )
    assert f"A and B: N{START[1:]}" in page


# --- a verification that contradicts --------------------------------------------------

FORMAT = "The code is {digit:6}"
SHAPE = {"formats": FORMAT, "repetitions": [2], "per_repetition": 4, "controls": 2, "seed": 0}
CANARIES = generate(**SHAPE)
AUDIT = replace(
    of_groups(
        {2: by_bits([8.0] * 4), 0: by_bits([1.0] * 2)},
        formats=[space(FORMAT)],
        canary_set=CANARIES.fingerprint,
    ),
    file="audit.json",
)


def found_in(tmp_path, canaries=CANARIES, *, drop=0):
    """What is found in a corpus from which so many copies were lost."""
    texts = [canaries.text(c) for c in canaries for _ in range(c.repetitions)][drop:]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, "other"]))
    return replace(verify(path, canaries), file="verify.json")


def test_lost_canaries_are_refused(tmp_path):
    assert check(AUDIT, max_exposure_bits=10, verification=found_in(tmp_path))
    match = "1 of 4 .* 'canary-1' should appear 2 times .* and appears 1 time; inject into a"
    with pytest.raises(EstimationError, match=match):
        check(AUDIT, max_exposure_bits=10, verification=found_in(tmp_path, drop=1))


@pytest.mark.parametrize(
    ("audit", "other", "message"),
    [
        (AUDIT, {"repetitions": [3]}, "verify.json is of another canary set than audit.json"),
        (AUDIT, {"controls": 3}, "another canary set"),  # all of the audit's ids are in it
        (AUDIT, {"seed": 1}, "another canary set"),  # same ids and copies, other fills
        (AUDIT, {"formats": "The pin is {digit:6}"}, "another canary set"),
        (replace(AUDIT, canaries=AUDIT.canaries[1:]), {}, "or one of the sets was edited"),
        (replace(AUDIT, settings={}), {}, "and audit again: the audit is of an earlier version"),
        (
            replace(AUDIT, canaries=tuple(replace(c, natural=True) for c in AUDIT.injected)),
            *({}, "no verification speaks of them; leave"),
        ),
    ],
)
def test_a_verification_of_something_else_is_refused(tmp_path, audit, other, message):
    found = found_in(tmp_path, generate(**{**SHAPE, **other}))
    with pytest.raises(InputError, match=message):
        check(audit, max_exposure_bits=10, verification=found)


@pytest.mark.parametrize(
    ("before", "settings", "outcome"),
    [
        ("", {}, "passed"),
        ("User: ", {"context": "User: "}, "passed"),
        ("\nUser: ", {"start_token": "\n", "context": "User: "}, "passed"),
        ("\n", {"start_token": "\n"}, "passed"),
        ("User: ", {"start_token": "\n"}, "undecided"),
        ("\nUser: ", {"context": "User: "}, "undecided"),
    ],
)
def test_text_before_the_canaries_of_the_corpus_belongs_into_the_audit(
    tmp_path, before, settings, outcome
):
    audit = replace(AUDIT, settings={**AUDIT.settings, **settings})
    found = replace(found_in(tmp_path), follows=before)
    verdict = check(audit, max_exposure_bits=10, verification=found)
    assert verdict.outcome == outcome
    if outcome == "passed":
        assert new_baseline(audit, verification=found).audits
        return
    assert verdict.reason.check == "context"
    with pytest.raises(EstimationError, match="comes before the canaries, and the audit scored"):
        new_baseline(audit, verification=found)


def test_an_edited_fill_is_another_set():
    fills = [c.fill for c in CANARIES]
    edited = replace(CANARIES.canaries[0], fill="0" * 5 + str(1 + int(fills[0][-1]) % 9))
    changed = replace(CANARIES, canaries=(edited, *CANARIES.canaries[1:]))
    assert changed.fingerprint != CANARIES.fingerprint
    assert generate(**SHAPE).fingerprint == CANARIES.fingerprint
    drawn = {generate(FORMAT, repetitions=[2]).seed.bit_length() for _ in range(8)}
    assert max(drawn) > 100  # nobody finds the key by trying
    assert CanarySet.from_fills(FORMAT, fills).fingerprint is None


def test_a_memorized_model_is_memorized_whatever_the_file_lacks(tmp_path):
    found = found_in(tmp_path, drop=2)
    learned = of_groups({2: by_bits([20.0] * 4)}, formats=AUDIT.formats)
    learned = replace(AUDIT, canaries=(*learned.canaries, *AUDIT.controls))
    verdict = check(learned, max_exposure_bits=10, verification=found)
    assert (verdict.outcome, verdict.exit_code) == ("memorized", 1)
    (note,) = verdict.notes
    assert note.startswith("1 of 4 canaries did not survive as they should: 'canary-1' should ")
    assert "so this is not the file that the training read" in note
    with pytest.raises(EstimationError, match="1 of 4 canaries did not survive"):
        new_baseline(learned, verification=found)


def test_a_file_without_any_canary_is_another_one_than_training_read(tmp_path):
    found = found_in(tmp_path, drop=2)
    empty = tuple(replace(one, found=0) for one in found.canaries)
    with pytest.raises(EstimationError, match="none of 4 canaries is in the corpus of") as none:
        check(AUDIT, max_exposure_bits=10, verification=replace(found, canaries=empty))
    assert none.value.cure.startswith("verify the file that training read")
    whole = [replace(one, found=one.expected or 3) for one in found.canaries]
    with pytest.raises(EstimationError, match="2 of 2 controls, which must never be in it, did "):
        check(AUDIT, max_exposure_bits=10, verification=replace(found, canaries=tuple(whole)))


@pytest.mark.parametrize("context", ["", "<|user|>\n"])
def test_canaries_that_begin_chat_messages_need_an_audit_with_a_context(tmp_path, context):
    audit = replace(AUDIT, settings={**AUDIT.settings, "context": context})
    found = replace(found_in(tmp_path), messages=True)
    verdict = check(audit, max_exposure_bits=10, verification=found)
    assert verdict.outcome == ("passed" if context else "undecided")
    if not context:
        assert "begin chat messages" in verdict.reason.sentence


# --- a positive control ---------------------------------------------------------------

UNREAD = exact({1: [1.0] * 8, 64: [1.0] * 4, 0: [1.0] * 4})


def test_a_positive_control_that_was_not_learned_is_no_pass():
    """Masked labels, another model file, a verification of another corpus: all look like this."""
    evidence = {"verification": verified(UNREAD)}
    verdict = check(UNREAD, max_exposure_bits=10, repetitions=[1], **evidence)
    assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
    assert "even the canaries with 64 copies do not look learned" in str(verdict)
    assert "ExposureMonitor looks at the batches" in verdict.reason.cure
    assert check(UNREAD, max_exposure_bits=10, undecided="pass", **evidence)
    # Its cure serves, and so does a baseline that accepts it.
    assert check(UNREAD, max_exposure_bits=10, trust_injection=True, **evidence).notes
    assert check(UNREAD, baseline=of_other_weights(UNREAD), **evidence)


def test_a_required_group_has_no_limit_and_must_look_learned():
    """Without it, the positive control itself would be above the limit."""
    assert check(READ, max_exposure_bits=10).outcome == "memorized"
    verdict = check(READ, max_exposure_bits=10, max_p=0.001, require_learned=64)
    assert (verdict.outcome, verdict.left_out) == ("passed", (64,))
    told = [f.sentence for f in verdict.findings if f.check == "training data"]
    assert told[0].startswith("the canaries with 64 copies, a positive control without a limit, ")
    assert check(READ, baseline=of_other_weights(UNREAD), require_learned=64)

    few = exact({1: [1.0] * 8, 4: [1.0] * 8})  # any number of copies can be required
    verdict = check(few, max_exposure_bits=10, require_learned=4, trust_injection=True)
    assert (verdict.outcome, verdict.reason.check) == ("undecided", "training data")
    assert not check(
        UNREAD, baseline=of_other_weights(UNREAD), require_learned=64, trust_injection=True
    )


def test_a_positive_control_below_the_limit_shows_nothing_of_it():
    """As under another tokenizer: it looks learned a little, and memorized secrets would, too."""
    weak = exact({1: [1.0] * 8, 64: [5.0] * 8, 0: [1.0] * 4})
    for asked in ({"require_learned": 64}, {"repetitions": [1]}):
        verdict = check(weak, max_exposure_bits=10, verification=verified(weak), **asked)
        assert (verdict.outcome, verdict.reason.check) == ("undecided", "positive control")
        assert "5.0 bits, below the limit of 10" in verdict.reason.sentence
        assert "--history" in verdict.reason.cure
        assert "more copies" in verdict.reason.cure
        assert check(weak, max_exposure_bits=4, **asked)
        assert check(weak, max_p=0.001, **asked)  # no exposure is limited
    assert not check(weak, max_exposure_bits=10, require_learned=64, trust_injection=True)
    assert check(weak, max_exposure_bits=10, repetitions=[1], trust_injection=True)
    # The training's own prices show more than any control.
    same = replace(measured(weak), batches={"read": 9, "canaries": 512, "after": {}})
    assert check(weak, max_exposure_bits=10, require_learned=64, history=same)


def test_a_positive_control_at_its_ceiling_is_learned_whatever_the_limit():
    """Eight of a space of 1,000 candidates take each other's ranks, and draws show no more."""
    at_most = np.log2(1000 / np.arange(1, 9))
    few, small = {"size": 1_000}, space("The code is {digit:3}", size=1_000)
    one = by_bits([1.0] * 4, **few)
    learned = of_groups({1: one, 64: by_bits(at_most, **few)}, formats=[small])
    assert check(learned, max_exposure_bits=8.5, require_learned=64, trust_injection=True)
    weak = of_groups({1: one, 64: by_bits([6.0] * 8, **few)}, formats=[small])
    assert not check(weak, max_exposure_bits=8.5, require_learned=64, trust_injection=True)


RANDOM = "The model 'm' finds ordinary English no more likely than random tokens (9 bits). Is it?"


def test_a_model_that_reads_no_english_may_have_read_another_file():
    """The commonest cause comes first: training read the file without canaries."""
    foreign = replace(UNREAD, formats=(replace(UNREAD.formats[0], notes=(RANDOM,)),))
    verdict = check(foreign, max_exposure_bits=10, verification=verified(UNREAD), repetitions=[1])
    assert verdict.outcome == "undecided"
    causes = ("the file that canary inject wrote", "the model file", "tokenizer", "more copies")
    places = [verdict.reason.cure.index(cause) for cause in causes]
    assert places == sorted(places)
    assert len(str(verdict.reason).split()) < 90


FEWER = (
    "The model 'm' has 1,000 tokens and its tokenizer 257. Is this the tokenizer that it was "
    "trained with? With another one the exposures say nothing."
)


def test_a_tokenizer_that_does_not_fit_the_model_is_no_pass():
    """Not even with a positive control: of another tokenizer, it may look learned as well."""
    foreign = replace(READ, formats=(replace(READ.formats[0], notes=(FEWER,)),))
    for asked in ({"require_learned": 64}, {"repetitions": [1], "trust_injection": True}):
        verdict = check(foreign, max_exposure_bits=10, verification=verified(READ), **asked)
        assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
        assert verdict.reason.check == "tokenizer"
        assert "--tokenizer" in verdict.reason.cure
        assert FEWER not in verdict.notes  # it is the verdict
    assert check(foreign, max_exposure_bits=10).outcome == "memorized"
    with pytest.raises(EstimationError, match="tokenizer of another model"):
        new_baseline(foreign)
    same = replace(measured(foreign), batches={"read": 9, "canaries": 512, "after": {}})
    shown = check(foreign, max_exposure_bits=10, require_learned=64, history=same)
    assert shown
    assert FEWER not in shown.notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"require_learned": 5}, "no canary has 5 copies"),
        ({"require_learned": 64, "repetitions": [64]}, "the canaries with 64 copies, the positive"),
        ({"require_learned": 0}, "require_learned"),
    ],
)
def test_what_cannot_be_required_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        check(READ, max_exposure_bits=10, **options)
