"""What the history of a monitor shows of a training: what a verdict takes, doubts and refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate_audits import (
    NEVER,
    READ,
    SET,
    exact,
    history,
    measured,
    verified,
)
from html_pages import render
from toys import characters, fresh

from canary.audits.audit_result import CANARY_SET
from canary.audits.copies_seen import note_on_copies
from canary.audits.history import AT_THE_END
from canary.errors import InputError, RecordError
from canary.gate.check_audit import check, new_baseline
from canary.models.loading import load
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.verdicts import junit, markdown
from canary.scoring.start_notes import RivalStart, StartChoice, TriedStart


def test_a_history_that_counted_and_never_measured_decides_nothing(tmp_path):
    """It may be of any training on this canary set, so not even a verification helps."""
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    file = tmp_path / "history.json"
    counted = history(counted=40)
    counted.save(file)
    for given, shown in ((counted, None), (file, None), (counted, verified(learned))):
        verdict = check(learned, max_exposure_bits=10, history=given, verification=shown)
        assert (verdict.outcome, verdict.exit_code) == ("undecided", 3)
        assert verdict.reason.subject == "history"
        assert "counted 40 copies of canaries in 9 batches, and never measured them" in str(verdict)
        assert "leave it out and give --verification" in verdict.reason.cure
        assert "is not shown to be of this model" in report_of(verdict).label
    assert check(learned, max_exposure_bits=10, verification=verified(learned))
    unlearned = check(NEVER, max_exposure_bits=10, history=counted)
    assert "nothing shows that the canaries were in the training data" in unlearned.summary()


def test_a_history_of_canaries_behind_other_text_decides_nothing_below_a_limit():
    """Training put a text before each canary, which neither monitor nor audit knew."""
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    within = (
        "most canaries were seen within other text (other text before 40); candidates are scored "
        "after '<s>', so exposure may be too low: give the text before them as context"
    )
    options = {"history": measured(learned, findings=[within]), "verification": verified(learned)}
    verdict = check(learned, max_exposure_bits=10, **options)
    assert verdict.outcome == "undecided"
    assert "but most canaries were seen within other text" in verdict.reason.sentence
    assert "with that text as context" in verdict.reason.cure
    assert check(learned, max_exposure_bits=4, **options).outcome == "memorized"
    assert check(learned, max_exposure_bits=10, history=measured(learned))
    after = replace(learned, settings={**learned.settings, "context": "Q: "})
    verdict = check(after, max_exposure_bits=10, history=measured(after, findings=[within]))
    assert "seen within other text" not in verdict.summary()  # packed: text before the context


def test_a_verification_may_be_its_file(tmp_path):
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    file = tmp_path / "verified.json"
    verified(learned).save(file)
    for given in (file, str(file)):
        verdict = check(learned, max_exposure_bits=10, verification=given)
        assert (verdict.outcome, verdict.rests_on) == ("passed", "verified")
        assert f"are in the corpus of {file}" in verdict.notes[0]
        assert new_baseline(learned, verification=given).audits
    with pytest.raises(RecordError, match="none.json"):
        check(learned, max_exposure_bits=10, verification=tmp_path / "none.json")
    with pytest.raises(InputError, match="verification must be a Verification, or its file"):
        check(learned, max_exposure_bits=10, verification=3)


def test_the_doubt_about_a_chat_template_names_it_and_does_not_lead_back():
    context = "<|user|>Hi<|assistant|>"
    rival = RivalStart(None, 4, 9.0, 3.0, 1e-6, bare=True)
    start = StartChoice(None, "template", context=True, rivals=(rival,), compared=("nothing",))
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    settings = {**learned.settings, "context": context, "chats": "assistant"}
    audit = replace(learned, start=start, settings=settings)
    rendered = replace(verified(audit), follows=context)
    verdict = check(audit, max_exposure_bits=10, verification=rendered)
    assert (verdict.outcome, verdict.reason.check) == ("undecided", "start token")
    assert verdict.reason.cure.startswith(
        "audit again with --chat-template none (in Python chat_template=None) if training applied "
        "no chat template. If it put the chat template there, these numbers are right"
    )
    assert "This test assumed: the chat template." in render(verdict)
    plain = replace(
        start,
        context=False,
        why="evidence",
        rivals=(),
        tried=(TriedStart(None, 1.0, None, likely=True),),
    )
    again = replace(audit, start=plain, settings={**settings, "context": ""})
    told = check(again, max_exposure_bits=10, verification=rendered).reason
    assert "as verified with the chat template" in told.sentence
    assert told.cure.startswith("if training applied no chat template, this audit is right")


def test_what_a_history_or_a_verification_answers_is_no_doubt_any_more():
    rival = RivalStart("\n", 4, 9.0, 3.0, 1e-6)
    start = StartChoice("<s>", "asked", rivals=(rival,))
    audit = replace(exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4}), start=start)
    open_start = check(audit, max_exposure_bits=10, history=history())
    assert (open_start.outcome, open_start.reason.check) == ("undecided", "start token")
    for after, outcome in (({"<s>": 40}, "passed"), ({"<s>": 30, "nothing": 10}, "undecided")):
        verdict = check(audit, max_exposure_bits=10, history=measured(audit, after=after))
        assert verdict.outcome == outcome
        answered = "In the batches of the training, the start token <s> came before 40 canaries, "
        answered += "as in the audit"
        assert (answered in verdict.notes) == (outcome == "passed")
        told = " ".join(map(words_of, report_of(verdict).sentences))
        assert ("What came directly before each" in told) == (outcome == "undecided")
        assert any("depends on the start token" in n for n in verdict.notes) != (
            answered in verdict.notes
        )

    # Of counts alone, or of another training, nothing shows that they are of this model.
    counted = history(counted=40)
    counted = replace(counted, batches={**counted.batches, "after": {"<s>": 40}})
    for given in (counted, measured(audit, shift=9.0, after={"<s>": 40})):
        verdict = check(audit, max_exposure_bits=10, history=given)
        assert (verdict.outcome, verdict.reason.check) == ("undecided", "start token")
        assert not any("In the batches" in note for note in verdict.notes)

    same = [4.0 + 0.1 * n for n in range(8)]
    note = note_on_copies(exact({1: same, 64: same}).injected)
    alike = exact({1: same, 64: same})
    alike = replace(alike, formats=(replace(alike.formats[0], notes=(note,)),))
    assert note in check(alike, max_exposure_bits=10).notes
    assert note not in check(alike, max_exposure_bits=10, verification=verified(alike)).notes


@pytest.mark.parametrize(("shift", "outcome"), [(0.001, "passed"), (0.5, "undecided")])
def test_a_history_that_ends_with_the_prices_of_the_audit_is_of_its_model(shift, outcome):
    """Weights and tokenizer are those of the training, so nothing was learned indeed."""
    verdict = check(NEVER, max_exposure_bits=10, history=measured(NEVER, shift=shift))
    assert verdict.outcome == outcome
    assert ("at step 7 it scored them all" in verdict.summary()) == (outcome == "passed")
    assert bool(verdict.doubt) == (outcome == "passed")


def test_a_history_with_other_prices_decides_nothing_even_of_a_model_that_learned():
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    options = {"max_exposure_bits": 10, "verification": verified(learned)}
    own = check(learned, history=measured(learned), **options)
    assert (own.outcome, own.rests_on) == ("passed", "watched")
    foreign = measured(learned, shift=9.0)
    verdict = check(learned, history=foreign, **options)
    assert (verdict.outcome, verdict.reason.subject) == ("undecided", "history")
    assert "it scored 1 of 20 canaries otherwise than the audit (by up to 8.98 bits)" in str(
        verdict
    )
    assert verdict.reason.sentence.startswith("the history is of another training")
    assert "the training of this model" in verdict.reason.cure
    allowed = check(learned, history=foreign, undecided="pass", **options)
    assert (bool(allowed), allowed.rests_on) == (True, "verified")
    elsewhere = replace(foreign, settings={**foreign.settings, "context": "Hi "})
    told = check(learned, history=elsewhere, **options)
    assert "after another start token or context" in str(told)
    noisy = replace(foreign, model={"noise_bits_per_token": 1.0})  # in 16 bits, say
    exactly = replace(learned, model={**learned.model, "noise_bits_per_token": 1e-3})
    loose = replace(exactly, formats=(replace(exactly.formats[0], noise_bits=0.01),))
    assert check(loose, history=noisy, **options)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"counted": 0}, "the monitor counted no canary in 9 batches"),
        ({"counted": 39}, "counted 39 copies of canaries in 9 batches, and the set has 40"),
        (
            {"counted": 40, "findings": ["3 canaries had no label on their secret (-100)"]},
            "had no label on their secret",
        ),
    ],
)
def test_a_history_that_lacks_canaries_decides_nothing(change, told):
    for verification in (None, verified(NEVER)):
        options = {"history": history(**change), "verification": verification}
        verdict = check(NEVER, max_exposure_bits=10, **options)
        assert verdict.outcome == "undecided"
        assert told in str(verdict)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"missing": {"canary-1": 4}}, "1 of 12 canaries were there fewer times than the set says"),
        ({"missing": {}, "first_epoch": 20}, "20 of them were in the first epoch"),
        ({"missing": {}, "first_epoch": 255}, ""),
    ],
)
def test_a_training_on_a_part_of_the_corpus_is_not_made_whole_by_more_epochs(seen, told):
    verdict = check(READ, max_exposure_bits=10, require_learned=64,
                    history=measured(READ, canaries=600, **seen))  # fmt: skip
    assert told in str(verdict)
    assert (verdict.reason.subject == "batches") == bool(told)


def test_a_history_that_its_own_monitor_ended_names_the_stop_and_no_filter():
    stopped = replace(
        measured(NEVER, canaries=20), stopped_at=7, stop_reason="canaries with 4 copies have 5 bits"
    )
    told = check(NEVER, max_exposure_bits=10, history=stopped).reason
    assert told.sentence.startswith(
        "the monitor stopped this training at step 7: canaries with 4 copies have 5 bits. Until "
        "then the monitor counted 20 copies of canaries in 9 batches, and the set has 40"
    )
    assert "filters" not in told.cure
    assert "require_learned" in told.cure
    late = replace(stopped, stop_reason=f"exceeded {AT_THE_END}")
    assert "filters" in check(NEVER, max_exposure_bits=10, history=late).reason.cure


def test_a_failed_check_names_the_last_step_within_the_limit():
    over = exact({1: [12.0] * 8, 4: [20.0] * 8, 0: [1.0] * 4})
    made = measured(over)
    early = exact({1: [3.0] * 8, 4: [20.0] * 8, 0: [1.0] * 4})
    first = replace(made.moments[0], step=3, exposures=tuple(c.exposure for c in early.canaries))
    made = replace(made, moments=(first, *made.moments))
    told = "for each number of copies: 1 copy: step 3 (median 3.0 bits); 4 copies: no measured step"
    verdict = check(over, max_exposure_bits=10, history=made)
    assert verdict.outcome == "memorized"
    assert any(told in note for note in verdict.notes)
    assert not any(told in note for note in check(over, max_exposure_bits=25, history=made).notes)
    other = check(over, max_exposure_bits=10, history=measured(over, shift=9.0))
    assert not any("last step" in note for note in other.notes)


def test_with_a_history_no_finding_asks_for_one():
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4}, context="Hi ")
    options = {"max_exposure_bits": 10, "verification": replace(verified(learned), follows="Hi ")}
    given = replace(measured(learned), settings={CANARY_SET: SET, "context": "Hi "})
    for extra, asks in (({}, True), ({"history": given}, False)):
        (context,) = [
            f for f in check(learned, **options, **extra).findings if f.check == "context"
        ]
        assert ("canary.preflight count" in context.sentence) == asks


def test_a_verification_says_that_the_others_are_in_the_corpus_and_not_that_they_were_read():
    learned = exact({1: [1.0] * 8, 4: [9.0] * 8, 0: [1.0] * 4})
    told = render(check(learned, max_exposure_bits=10, verification=verified(learned)))
    assert "the others are in the training data" in told
    assert "Whether the training read all of that data is not known" in told
    assert "the others were in the training data" not in told


def test_a_history_of_another_tokenizer_is_refused():
    """Unless it prices the canaries as the audit does; earlier versions do not say which it was."""
    audit = replace(READ, settings={**READ.settings, "tokenizer": "a" * 64})

    def of(tokenizer, shift):
        made = measured(audit, shift=shift, canaries=512)
        return replace(made, settings={**made.settings, **tokenizer})

    other, asked = {"tokenizer": "b" * 64}, {"max_exposure_bits": 10, "require_learned": 64}
    with pytest.raises(InputError, match="another tokenizer"):
        check(audit, history=of(other, 3.0), **asked)
    assert check(audit, history=of(other, 0.0), **asked)
    assert check(audit, history=of({}, 3.0), **asked).reason.subject == "history"


def test_a_model_of_an_earlier_step_is_named_as_such():
    """What load_best_model_at_end leaves is no model of another training."""
    kept = measured(READ).moments[0]
    later = replace(kept, step=9, px_bits=tuple(bits + 3.0 for bits in kept.px_bits))
    history = replace(measured(READ, canaries=512), moments=(kept, later))
    verdict = check(READ, history=history, max_exposure_bits=10, require_learned=64)
    assert "model is that of step 7 of this training, not of its end at step 9" in str(verdict)
    assert verdict.reason.subject == "history"


def test_what_the_batches_showed_is_not_doubted():
    same = measured(READ, canaries=512)
    options = {"max_exposure_bits": 10, "require_learned": 64, "verification": verified(READ)}
    verdict = check(READ, history=same, **options)
    assert verdict
    assert not any("does not show" in note for note in verdict.notes)
    (counted,) = [f.sentence for f in verdict.findings if f.subject == "batches"]
    assert "which is enough, so it counted no further" in counted
    fewer = check(READ, history=measured(READ, canaries=300), **options)
    assert "no further" not in next(f.sentence for f in fewer.findings if f.subject == "batches")


def test_an_audit_of_other_weights_is_refused():
    """A pipeline that failed to audit a new model still has the audit of the last one."""
    model = load(fresh(), tokenizer=characters())
    now = replace(READ, model={**READ.model, "fingerprint": model.facts.fingerprint})
    asked = {"max_exposure_bits": 10, "require_learned": 64, "trust_injection": True}
    passed = check(now, model=model, **asked)
    assert passed
    for told in (junit(passed), markdown(passed)):
        assert f"weights {model.facts.fingerprint[:12]}, audited on {now.about.date}" in told
    with pytest.raises(InputError, match="other weights"):
        check(READ, model=model, **asked)
    with pytest.raises(InputError, match="several audits"):
        check([now, READ], model=model, **asked)
    served = replace(now, model={**now.model, "device": "served"})
    with pytest.raises(InputError, match="does not know the weights"):
        check(served, model=model, **asked)


def test_a_history_of_another_training_is_refused():
    other = exact({4: [1.0] * 9, 0: [1.0] * 4})
    told = {
        "of another canary set": [history(other), history(settings={CANARY_SET: "other"})],
        "of a model with 7 tokens": [history(model={"vocabulary": 7})],
    }
    audit = replace(NEVER, model={**NEVER.model, "vocabulary": 9})
    for words, histories in told.items():
        for given in histories:
            with pytest.raises(InputError, match=words):
                check(audit, max_exposure_bits=10, history=given)
    twice = [exact({4: [1.0] * 8}), exact({4: [1.0] * 8}, fingerprint="b" * 64)]
    with pytest.raises(InputError, match="a history is of one training"):
        check(twice, max_exposure_bits=10, history=history())
