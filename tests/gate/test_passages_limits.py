"""Limits on passages that come out: intervals, controls, doubts, and answers of servers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import canary
from canary.errors import InputError
from canary.gate.check_audit import check
from canary.gate.extraction_limit import FIND_OUT, NOT_DRAWN, OWN_CANDIDATES
from canary.models.decoding import Scheme
from canary.passages.answers import Answers
from canary.passages.likeness import Likeness
from canary.passages.result import Passages, Verbatim
from canary.passages.sampled import Chance, Sampled, Sought
from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.verdicts import junit, markdown


def passages(out, of=4, *, documents=200, controls=0, scheme_nats=-50.0):
    """A test of documents of which `out` have one passage that greedy decoding gives."""

    def kind(hits):
        leading = [5 if at % of == 0 and at // of < hits else 0 for at in range(of * documents)]
        return Passages(
            documents=documents, short=0, digest="digest", suffix=5,
            document=tuple(at // of for at in range(of * documents)),
            position=tuple(5 * (at % of) for at in range(of * documents)),
            log_probs=((scheme_nats,),) * len(leading),
            leading=tuple(leading), longest=tuple(leading), trailing=tuple(leading),
        )  # fmt: skip

    beside = None if controls is None else kind(controls)
    settings = {"prefix": 5, "suffix": 5, "stride": 5, "start_token": None}
    return Verbatim(
        texts=kind(out), controls=beside, schemes=(Scheme(),), confidence=0.95, model={},
        settings=settings,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("near", "outcome"),
    [
        ((1e-9, 0.0, 1e-8), "passed"),
        ((1e-9, 0.0, 0.9), "undecided"),
        ((0.9, 0.0, 0.95), "undecided"),
        ((0.9, 0.8, 0.95), "failed"),
    ],
)
def test_both_ends_of_near_intervals_have_to_agree(near, outcome):
    """An estimate that its interval does not carry decides nothing."""
    found = passages(0)
    far = (1e-9, 0.0, 1e-8)
    texts = replace(found.texts, near=(near,) * len(found.texts))
    controls = replace(found.controls, near=(far,) * len(found.controls))
    settings = {**found.settings, "near": 2, "near_width": 80}
    found = replace(found, texts=texts, controls=controls, settings=settings)
    verdict = check(found, max_extractable=0.05, tries=100, trust_members=True)
    assert verdict.outcome == outcome
    if outcome == "undecided":
        assert "ends of the intervals of near passages" in verdict.reason.sentence
        assert "--near-width" in verdict.reason.cure


def test_the_interval_of_passages_decides_with_its_controls(tmp_path):
    """A pass by the share of the texts; a failure by what is beyond the controls."""
    found = passages(60)
    rate = found.greedy_rate()
    for limit, outcome in (
        (rate.difference.lower - 1e-6, "failed"),
        (rate.difference.lower + 1e-6, "undecided"),
        (rate.texts.upper - 1e-6, "undecided"),
        (rate.texts.upper + 1e-6, "passed"),
    ):
        verdict = check(found, max_extractable=limit)
        assert verdict.outcome == outcome
        assert verdict.reason.upper == rate.texts.upper
        assert "60 of 800 passages" in str(verdict)
        assert "1,000 samples (t=1)" in str(verdict)
        assert outcome in junit(verdict)
        assert "Check of a test of passages" in report_of(verdict).title
        assert markdown(verdict).startswith(f"## canary: {outcome}")
    named = replace(found, model={"name": "small", "fingerprint": "abcdef0123456789"})
    told = f"model small (weights abcdef012345, tested on {found.about.date}): 60 of 800"
    assert told in str(check(named, max_extractable=0.01))
    found.save(tmp_path / "verbatim.json")
    assert check(tmp_path / "verbatim.json", max_extractable=0.01) == check(
        found, max_extractable=0.01
    )
    assert canary.read(tmp_path / "verbatim.json").texts == found.texts


@pytest.mark.parametrize(
    ("made", "asked", "outcome", "said"),
    [
        ({"out": 60, "controls": None}, {}, "undecided", "without controls any model may do so"),
        ({"out": 60, "controls": None}, {}, "undecided", "with --controls: about 200 texts"),
        ({"out": 60, "controls": 60}, {}, "undecided", "so memory is not shown to exceed"),
        ({"out": 2, "documents": 3}, {}, "undecided", "is in this interval"),
        ({"out": 0, "documents": 2}, {}, "undecided", "give at least 368 texts long enough"),
        ({"out": 1, "documents": 1}, {"max_extractable": 0.9}, "undecided", "interval"),
        ({"out": 0, "documents": 400}, {}, "undecided", "nothing shows that the model"),
        ({"out": 0, "documents": 400}, {"trust_members": True}, "passed", "at most 0.918 %"),
        ({"out": 0, "documents": 400, "controls": None}, {"trust_members": True}, "passed", ""),
        ({"out": 0, "documents": 400, "controls": 60}, {"trust_members": True}, "undecided",
         "the controls come out more often"),
        ({"out": 0, "scheme_nats": -5.0}, {}, "undecided", "800 of 800 passages"),
        ({"out": 0, "scheme_nats": -5.0, "documents": 400},
         {"tries": 10, "trust_members": True}, "passed", "within 10 samples"),
    ],
)  # fmt: skip
def test_passages_that_decide_nothing(made, asked, outcome, said):
    verdict = check(passages(**made), **{"max_extractable": 0.01, **asked})
    assert verdict.outcome == outcome
    assert said in str(verdict)


@pytest.mark.parametrize(
    ("out", "controls", "limit", "decided"),
    [(60, 0, 0.07, "failed"), (60, 20, 0.045, "failed"), (60, 0, 0.08, "passed"),
     pytest.param(60, 50, 0.01, "failed", marks=pytest.mark.slow)],
)  # fmt: skip
def test_the_cure_says_how_many_texts_decide(out, controls, limit, decided):
    """As many texts as it says decide, if shares stay what they are."""
    few = check(passages(out, controls=controls), max_extractable=limit)
    assert few.outcome == "undecided"
    needed = int(re.search("give about ([0-9,]+) texts", few.reason.cure)[1].replace(",", ""))
    assert needed > 200
    for times, outcome in ((1.1, decided), (0.25, "undecided")):
        documents = round(times * needed)
        more = {kind: round(n * documents / 200) for kind, n in (("t", out), ("c", controls))}
        found = passages(more["t"], controls=more["c"], documents=documents)
        assert check(found, max_extractable=limit, trust_members=True).outcome == outcome


@pytest.mark.parametrize(
    ("out", "limit", "trusted", "outcome"),
    [(60, 0.01, True, "undecided"), (60, 0.2, False, "undecided"), (60, 0.2, True, "passed")],
)
def test_controls_of_another_kind_decide_nothing(out, limit, trusted, outcome):
    """A failure rests on controls, and so does a pass that shows that texts were trained on."""
    found = passages(out)
    limits = {"max_extractable": limit, "trust_members": trusted}
    assert check(found, **limits).outcome in ("failed", "passed")
    for likeness in (Likeness(auc=0.97, p=0.01), Likeness(controls_lack=("digits",))):
        other = replace(found, likeness=likeness)
        verdict = check(other, **limits)
        assert verdict.outcome == outcome
        assert any("of another kind than the texts" in note for note in verdict.notes)
        assert ("from the same source" in verdict.reason.cure) == (outcome == "undecided")
        assert report_of(other).tone != "memorized"
    assert report_of(found).tone == "memorized"


def test_texts_that_may_not_be_as_in_training_do_not_pass():
    found = replace(passages(0, documents=400), likeness=Likeness(texts_lack=("capital letters",)))
    verdict = check(found, max_extractable=0.01, trust_members=True)
    assert verdict.outcome == "undecided"
    assert "no text has capital letters" in str(verdict)
    assert "exactly as training reads text" in verdict.reason.cure


def sampled_secrets(hits, *, samples=100, p_value=1e-9, secrets=40, temperature=1.0):
    def kind(name, hits):
        return Sought(
            documents=secrets, short=0, digest="digest", document=tuple(range(secrets)),
            position=(0,) * secrets, hits=(1,) * hits + (0,) * (secrets - hits),
            near=(1,) * hits + (0,) * (secrets - hits), copies=(4,) * secrets,
            names=tuple(f"{name}-{at}" for at in range(secrets)),
        )  # fmt: skip

    return Sampled(
        texts=kind("canary", hits), controls=kind("control", 0), samples=samples, near=0.8, cut=0,
        chance=Chance(1e-6, p_value), confidence=0.95, model={"name": "m", "server": "http://s"},
        settings={"temperature": temperature, "chat": False},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "asked", "outcome", "said"),
    [
        ({"hits": 20}, {}, "memorized", "20 of 40 planted secrets"),
        ({"hits": 20, "p_value": 0.01}, {}, "undecided", "chance may give that many"),
        ({"hits": 5}, {}, "undecided", "is in this interval"),
        ({"hits": 5}, {}, "undecided", "plant about 598 secrets, which decide"),
        ({"hits": 0}, {"max_extractable": 0.05}, "undecided", "plant at least 72 secrets"),
        ({"hits": 1, "secrets": 400}, {}, "passed", "within the limit of 10 %"),
        ({"hits": 0}, {}, "undecided", "nothing shows that the model was trained on them"),
        ({"hits": 0}, {"trust_members": True}, "passed", "0 of 40 planted secrets"),
        ({"hits": 0, "samples": 71}, {"trust_members": True}, "undecided", "at least 72 samples"),
        ({"hits": 0, "samples": 72}, {"trust_members": True}, "passed", ""),
        ({"hits": 0, "samples": 1, "temperature": 0.0}, {"trust_members": True}, "passed", ""),
    ],
)
def test_samples_of_a_server_are_judged_as_other_results(tmp_path, made, asked, outcome, said):
    found = sampled_secrets(**made)
    verdict = check(found, **{"max_extractable": 0.1, **asked})
    assert verdict.outcome == outcome
    assert said in str(verdict)
    assert outcome in junit(verdict)
    assert "Check of samples of a server" in report_of(verdict).title
    assert markdown(verdict).startswith(f"## canary: {outcome}")
    found.save(tmp_path / "samples.json")
    again = check(tmp_path / "samples.json", **{"max_extractable": 0.1, **asked})
    assert str(again) == str(verdict)
    with pytest.raises(InputError, match="max_auc cannot be asked of samples of a server"):
        check(found, max_auc=0.6)
    with pytest.raises(InputError, match="say so with trust_members"):
        check(found, max_extractable=0.1, verification="verified.json")


def test_natural_secrets_that_come_out_of_a_server_have_no_chance_of_luck():
    found = sampled_secrets(20)
    found = replace(found, settings={**found.settings, "natural": True}, chance=None)
    verdict = check(found, max_extractable=0.05)
    assert verdict.outcome == "undecided"
    assert f"but {NOT_DRAWN}; {OWN_CANDIDATES}; {FIND_OUT}" in str(verdict)
    assert "planted" not in str(verdict) + verdict.about["Limit"] + verdict.reason.subject
    assert verdict.reason.chance is None
    assert "take about" in str(check(found, max_extractable=0.4))
    none = replace(sampled_secrets(0), settings=found.settings, chance=None)
    assert "take at least 72 secrets" in str(check(none, max_extractable=0.05))


def sampled_passages(near, *, controls):
    """None of 40 passages word for word, this number nearly."""

    def kind(near):
        zeros = (0,) * 40
        return Sought(
            documents=40, short=0, digest="d", document=tuple(range(40)), position=zeros,
            hits=zeros, near=(1,) * near + zeros[near:],
        )  # fmt: skip

    return replace(
        sampled_secrets(0), texts=kind(near), controls=kind(0) if controls else None, chance=None
    )


@pytest.mark.parametrize(
    ("near", "controls", "said"),
    [
        (0, True, ""),
        (2, True, ""),
        (20, True, "texts come out more than controls"),
        (20, False, "20 of 40 passages"),
        (2, False, ""),
    ],
)
def test_passages_that_come_out_nearly_do_not_pass(near, controls, said):
    found = sampled_passages(near, controls=controls)
    verdict = check(found, max_extractable=0.3, trust_members=True)
    assert verdict.outcome == ("undecided" if said else "passed")
    assert ("with 80 % of the words" in str(verdict)) is bool(said)
    assert said in str(verdict)
    assert any("is your word" in note for note in verdict.notes) is not bool(said)
    assert ("nearly: at least 80 % of the words 0 %" in found.summary()) is (near == 0)


def test_an_answer_in_which_nothing_could_come_out_is_no_evidence():
    """A filter may empty just the answers that have a passage, so the limit bounds them too."""
    some = Answers(
        prompts=10, samples=100, empty=95, unfinished=0, short=0, alike=0, stuck=0, sure=0
    )
    found = replace(sampled_passages(0, controls=True), answers=some)
    for limit, outcome in ((0.2, "passed"), (0.1, "passed"), (0.09, "undecided")):
        verdict = check(found, max_extractable=limit, trust_members=True)
        assert verdict.outcome == outcome
        assert ("95 of 1,000 answers are empty" in str(verdict)) is (outcome == "undecided")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "give a limit: max_extractable=0.001"),
        ({"max_extractable": 0.0}, "a limit of 0.0 on the share of passages"),
        ({"max_extractable": 0.1, "tries": 0}, "tries"),
        ({"max_extractable": 0.1, "chance": 1}, "a chance of 1 makes no sense"),
        ({"max_auc": 0.6}, "max_auc cannot be asked of a test of passages"),
    ],
)
def test_limits_on_passages_that_make_no_sense(asked, said):
    with pytest.raises(InputError, match=said):
        check(passages(0, documents=3), **asked)


def test_samples_that_show_nothing_say_what_would_show_more():
    asked = {"temperature": 1.0, "chat": False, "seed": 0, "max_tokens": None}
    asked |= {"prefix": 4, "suffix": 5}
    secrets, passing, found = (
        str(report_of(replace(each, settings=asked)).actions)
        for each in (sampled_secrets(0), sampled_passages(0, controls=True), sampled_secrets(9))
    )
    assert "if none of 40 secrets comes out" in secrets
    assert "only limits of 8.81 % or more; a limit of 5 % takes 72 of them" in secrets
    assert "membership text" in passing
    assert "membership text" not in secrets + found
    assert "Plant more" not in passing + found


@pytest.mark.parametrize(("hits", "secrets", "claimed"), [(0, 40, True), (1, 400, False)])
def test_a_pass_of_what_a_server_wrote_never_looks_releasable(hits, secrets, claimed):
    greedy = sampled_secrets(hits=hits, secrets=secrets, samples=1, temperature=0.0)
    verdict = check(greedy, max_extractable=0.1, trust_members=claimed)
    made = report_of(verdict)
    assert verdict.outcome == "passed"
    assert (made.label, made.tone) == (
        "Passed, but only what the server wrote was tested",
        "undecided",
    )
    assert words_of(made.decide[0]).startswith(
        "Do not release on this report alone, nor on a limit that it passes: reading what a model "
        "writes misses most"
    )
    unsaid = " ".join(map(words_of, made.unsaid))
    assert "what the model would write once in a million times" in unsaid
    assert "At temperature 0, the server always gives its most probable answer" in unsaid
