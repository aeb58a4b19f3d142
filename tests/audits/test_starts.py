"""The start token that an audit chooses, what it says of it, and that no pass is quiet."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from started import OTHER, START, TEXT, really_trained, table

from canary.audits import auditing, start_search
from canary.audits.audit_result import Audit
from canary.audits.auditing import exposure
from canary.audits.extracting import extract, with_extractions
from canary.audits.start_search import much_more
from canary.corpus.canaries import generate
from canary.errors import EstimationError, InputError, RecordError
from canary.gate.check_audit import check, new_baseline
from canary.reports.sentences import answer, extract_command
from canary.scoring.run_options import RunOptions
from canary.scoring.start_choice import choose_start
from canary.scoring.start_notes import StartChoice, TriedStart
from canary.scoring.texts import score
from canary.tokens.starts import ORDINARY, start_flag

audit = partial(auditing.audit, draws=500)  # the curve is nothing here
CANARIES = generate(TEXT, repetitions=[4], per_repetition=4, controls=8, seed=1)
LEARNED = [CANARIES.text(c) for c in CANARIES.injected]


def measured(found):
    return [(c.px_bits, c.exposure) for c in found.canaries]


@pytest.mark.parametrize("start", [START, "\n", None])
def test_a_trained_model_shows_its_start_token(start):
    model, canaries = really_trained(start)
    found, named = audit(model, canaries), audit(model, canaries, start_token=start)
    assert found.start.token == found.settings["start_token"] == start
    assert measured(found) == measured(named)
    assert found.start.flag in found.notes[0]
    assert (named.start.token, named.start.why, named.start.rivals) == (start, "asked", ())
    verdict = check(found, max_exposure_bits=8)
    assert verdict.outcome == "memorized"
    assert found.notes[0] in verdict.notes


def test_the_token_is_found_where_canaries_are_known_after_it_alone():
    model = table([START], {START: LEARNED})
    found = audit(model, CANARIES)
    assert found.start.token == START
    assert check(found, max_exposure_bits=8).outcome == "memorized"
    assert measured(found) == measured(audit(model, CANARIES, start_token=START))
    without = audit(model, CANARIES, start_token=None)
    assert without.start.notes == without.notes
    assert "--start-token auto" in without.notes[0]


@pytest.mark.parametrize("named", [None, OTHER])
def test_a_wrong_start_token_that_is_named_is_undecided(named):
    model = table([START], {START: LEARNED})
    found = audit(model, CANARIES, start_token=named)
    assert [rival.flag for rival in found.start.rivals] == [f"--start-token '{START}'"]
    verdict = check(found, max_exposure_bits=8)
    assert verdict.outcome == "undecided"
    assert f"audit again with --start-token '{START}'" in str(verdict)
    assert "--context TEXT" in str(verdict)
    right = audit(model, CANARIES, start_token=START)
    assert right.start.rivals == ()
    assert (
        f"not more exposed after other beginnings that were tried (nothing; '\\n'; {OTHER}"
        in right.start.notes[0]
    )
    told = " ".join(extract(model, TEXT, start_token=named, canaries=CANARIES).notes)
    assert f"audit again with --start-token '{START}'" in told


def test_a_space_before_each_canary_is_a_rival():
    """The model continues the canaries after a space, as it would where training put it there."""
    spaced = [f" {text}" for text in LEARNED]
    found = audit(table([], {None: spaced}), CANARIES, start_token=None)
    assert [rival.flag for rival in found.start.rivals] == ["--start-token none --context ' '"]
    assert "--context ' '" in str(check(found, max_exposure_bits=8))
    settled = audit(table([], {None: spaced}), CANARIES, start_token=None, context=" ")
    assert check(settled, max_exposure_bits=8).outcome == "memorized"


def test_a_context_that_training_did_not_use_has_a_rival():
    model = table([START], {START: LEARNED})
    found = audit(model, CANARIES, start_token=START, context="so: ")
    (rival,) = found.start.rivals
    assert rival.flag == f"--start-token '{START}' and no --context"
    verdict = check(found, max_exposure_bits=8)
    assert verdict.outcome == "undecided"
    assert f"more exposed after {START} without the context than after {START}" in str(verdict)
    assert Audit.from_dict(found.to_dict()).start == found.start


def test_where_nothing_decides_the_verdict_is_undecided():
    """No text begins after the token, and only canaries say that it matters."""
    found = audit(table([], {START: LEARNED}), CANARIES)
    assert found.start.token is None
    (rival,) = found.start.rivals
    assert rival.token == START
    assert rival.bits > rival.chosen_bits + 3
    verdict = check(found, max_exposure_bits=8)
    assert verdict.outcome == "undecided"
    assert f"--start-token '{START}'" in str(verdict)
    assert "If it put nothing there" in str(verdict)
    assert answer(found).label == "Not enough evidence to decide"
    assert not check(found, max_p=0.001)
    with pytest.raises(EstimationError, match="start token"):
        new_baseline(found)


@pytest.mark.parametrize(
    ("own", "bits", "rival"),
    [(3.0, 4.1, True), (9.0, 10.5, True), (14.0, 17.5, False), (14.0, 18.5, True)],
)
def test_memorized_canaries_are_not_doubted_by_a_little_more(own, bits, rival):
    assert much_more(bits, own, draws=128) is rival


def test_exact_ranks_clear_what_few_draws_suspect(monkeypatch):
    """A curve off 128 draws may be bits too low for the true start token."""
    found = iter([9.8] + [12.4] * 99)
    monkeypatch.setattr(
        start_search._Injected, "exposures", lambda *_: {4: (next(found), 4e-13)}
    )  # the chosen start is scored first
    model = table([START], {START: LEARNED})
    assert audit(model, CANARIES, start_token=START).start.rivals == ()
    found = iter([9.8] + [12.4] * 99)
    wrong = audit(model, CANARIES, start_token=None).start.rivals
    assert START in {rival.token for rival in wrong}
    found = iter([9.8] + [12.4] * 99)  # where ranks are not to be had, the suspicion stays
    monkeypatch.setattr(start_search, "median_by_ranks", lambda *_: None)
    assert audit(model, CANARIES, start_token=START).start.rivals


def test_a_model_that_knows_no_canary_passes():
    for begins in ([], [START], ["\n"]):
        found = audit(table(begins), CANARIES)
        assert found.start.token == next(iter(begins), None)
        assert found.start.rivals == ()
        assert check(found, max_exposure_bits=8, trust_injection=True)


def test_what_the_tokenizer_itself_puts_there_is_the_choice():
    model = table([START], own=START)
    found = audit(model, CANARIES)
    assert found.start == StartChoice(None, "tokenizer", own=START)
    tried = TriedStart(START, 9.5, 3.0, likely=True)
    (said,) = StartChoice(START, "evidence", texts=3, tried=(tried,)).notes
    first, *_, numbers = said.split(". ")
    assert (
        first
        == f"Before each candidate comes {START}, after which text without secrets is most likely"
    )
    assert numbers == f"Bits of 3 texts without secrets (fewer is more likely): 9.5 after {START}."
    (said,) = StartChoice(None, "asked", own=START, compared=("' '",)).notes
    assert said.startswith(
        "The canaries are not more exposed after other beginnings that were tried (' ')."
    )
    assert found.notes == (f"Before each candidate comes {START}, which the tokenizer puts there.",)


def test_of_hundreds_of_special_tokens_the_right_one_is_found():
    special = [f"<|reserved_{n}|>" for n in range(300)]
    model = table([special[170]], special=special)
    priced, score_rows = [], model.score

    def counted(rows):
        priced.append(len(rows))
        return score_rows(rows)

    model.score = counted
    found = choose_start(model, CANARIES.formats, RunOptions())
    assert found.token == special[170]
    assert sum(priced) <= 302 * 2 + 17 * 9
    assert len(found.notes[0]) < 650


def test_texts_of_the_corpus_are_the_evidence():
    model = table([START])
    found = choose_start(model, CANARIES.formats, RunOptions(start_texts=ORDINARY[:3]))
    assert (found.token, found.texts) == (START, 3)
    many = choose_start(model, CANARIES.formats, RunOptions(start_texts=ORDINARY * 40))
    assert many.texts == 64
    below = choose_start(model, CANARIES.formats, RunOptions(context="In 1998 "))
    assert (below.token, below.texts) == (START, 1 + len(ORDINARY))  # the context is one of them


def test_texts_that_hold_a_canary_are_refused_input():
    canary = CANARIES.controls[0]
    texts = ["fine", f"The end. {CANARIES.text(canary)}"]
    for call in (audit, exposure):
        with pytest.raises(InputError, match=f"text 2 of start_texts holds {canary.id}") as caught:
            call(table(), CANARIES, start_texts=texts)
        assert canary.fill not in str(caught.value)
    with pytest.raises(InputError, match="nothing is chosen by them"):
        audit(table(), CANARIES, start_texts=["fine"], start_token=START)
    with pytest.raises(InputError, match="no start_texts"):
        audit(table(), CANARIES, start_texts=[])


@pytest.mark.parametrize("call", [exposure, audit])
def test_start_texts_are_asked_for_in_place_of_english(monkeypatch, call):
    asked = []
    monkeypatch.setattr(
        "canary.audits.auditing.note_on_english", lambda model, texts=(): asked.append(texts)
    )
    call(table(), CANARIES, start_texts=ORDINARY[:3])
    assert asked == [tuple(ORDINARY[:3])] or asked == [ORDINARY[:3]]


def test_a_token_that_is_none_is_refused_input():
    for call in (audit, exposure):
        with pytest.raises(InputError, match="'<bogus>' is 7 tokens|no token '<bogus>'"):
            call(table(), CANARIES, start_token="<bogus>")
    with pytest.raises(InputError, match="nothing is chosen here"):
        score(table(), ["1"], start_token="auto")
    assert np.array_equal(score(table(), ["12"], start_token="none"), score(table(), ["12"]))


def test_a_hole_at_the_beginning_is_priced_after_the_best_token():
    canaries = generate("{digit:3}.", repetitions=[1], per_repetition=2, controls=2, seed=0)
    found = audit(table([OTHER]), canaries)
    assert found.start.token == OTHER
    assert None not in {each.token for each in found.start.tried}


def test_a_model_that_gives_no_rows_is_undecided():
    model = table([START])
    model.facts = replace(model.facts, capabilities=("expand",))
    found = choose_start(model, CANARIES.formats, RunOptions())
    assert (found.token, found.why, found.settled) == (None, "unpriced", False)
    assert "could not be found out" in found.notes[0]


@pytest.mark.parametrize("start", [START, OTHER, "\n"])
def test_bounds_of_the_likeliest_tokens_choose_it_too(start):
    model = table([start], {start: LEARNED})
    model.facts = replace(model.facts, capabilities=("expand",))
    model.score_at_most = lambda rows: np.maximum(model.score(rows), -4.5)
    found = extract(model, CANARIES.formats[0])
    assert found.settings["start_token"] == start
    assert found.candidates[0].fill in {c.fill for c in CANARIES.injected}
    assert "lower bounds" in found.notes[0]


def test_records_keep_it_and_older_ones_load(tmp_path):
    found = audit(table([], {START: LEARNED}), CANARIES)
    found.save(tmp_path / "audit.json")
    assert Audit.load(tmp_path / "audit.json") == found
    data = json.loads((tmp_path / "audit.json").read_text())
    assert data["start"]["settled"] is False
    old = {k: v for k, v in found.to_dict().items() if k != "start"}
    assert Audit.from_dict(old).start is None
    assert check(Audit.from_dict(old), max_exposure_bits=8, trust_injection=True)
    for change in ({"why": "luck"}, {"token": 7}, {"tried": [{"token": 1}]}, {"context": 1}):
        with pytest.raises(RecordError):
            Audit.from_dict({**found.to_dict(), "start": {**data["start"], **change}})


def test_an_audit_that_goes_on_chooses_the_same(tmp_path):
    model = table([START], {START: LEARNED})
    first = audit(model, CANARIES, parts=tmp_path / "parts")
    again = audit(model, CANARIES, parts=tmp_path / "parts")
    assert again.start == first.start
    with pytest.raises(RecordError):
        audit(model, CANARIES, start_token=None, parts=tmp_path / "parts")


def test_extraction_says_it_and_its_command_names_it():
    model = table([START], {START: LEARNED})
    found = extract(model, TEXT)
    assert found.settings["start_token"] == START
    assert start_flag(START) in found.notes[0]
    assert found.candidates == extract(model, TEXT, start_token=START).candidates
    audited = with_extractions(audit(model, CANARIES), model, CANARIES)
    (extraction,) = audited.extractions
    assert f"--start-token '{START}'" in extract_command(audited, extraction)
    bare = with_extractions(audit(model, CANARIES, start_token=None), model, CANARIES)
    assert "--start-token none" in extract_command(bare, bare.extractions[0])


@pytest.mark.parametrize(
    ("token", "flag"),
    [
        (None, "--start-token none"),
        ("\n", r"--start-token '\n'"),
        (START, f"--start-token '{START}'"),
        ("it's", "--start-token 'it'\"'\"'s'"),
        ("\\n", r"--start-token '\\n'"),
    ],
)
def test_flags_name_the_token_for_a_shell(token, flag):
    import shlex

    from canary.cli.options import unescaped

    assert start_flag(token) == flag
    word = unescaped(shlex.split(flag)[1])
    assert word == ("none" if token is None else token)
