"""Nothing is decided where canaries did not survive in the corpus."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gate_audits import by_bits, of_groups, space

from canary.corpus.canaries import generate
from canary.corpus.verification import Verification, verify
from canary.errors import EstimationError, InputError, RecordError
from canary.gate.checking import check


@pytest.fixture(scope="module")
def canaries():
    return generate("The code is {digit:6}", repetitions=[2], per_repetition=4, controls=2, seed=0)


@pytest.fixture(scope="module")
def audit():
    groups = {2: by_bits([2.0] * 4), 0: by_bits([1.0] * 2)}
    return of_groups(groups, formats=[space("The code is {digit:6}")])


def corpus(tmp_path, canaries, *, drop=0):
    texts = [canaries.text(c) for c in canaries for _ in range(c.repetitions)][drop:]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, "other"]))
    return path


def test_survivors_are_judged(tmp_path, canaries, audit):
    found = verify(corpus(tmp_path, canaries), canaries)
    assert check(audit, max_exposure_bits=10, verification=found)


def test_lost_canaries_are_refused(tmp_path, canaries, audit):
    found = verify(corpus(tmp_path, canaries, drop=1), canaries)
    with pytest.raises(EstimationError) as caught:
        check(audit, max_exposure_bits=10, verification=found)
    assert str(caught.value) == (
        "verification: 1 of 6 canaries did not survive as they should: 'canary-1' was to stand "
        "2 times in the corpus and stood there 1 times; inject into a fresh corpus, keep "
        "de-duplication and filters away from it, train and audit again"
    )


def test_another_set_is_refused(tmp_path, audit):
    other = generate("The code is {digit:6}", repetitions=[3], per_repetition=4, seed=0)
    found = verify(corpus(tmp_path, other), other)
    with pytest.raises(InputError, match="verification is of another canary set"):
        check(audit, max_exposure_bits=10, verification=found)


def test_a_larger_set_is_another_one(tmp_path, canaries, audit):
    """All of the audit's ids are in it, with as many copies each."""
    other = generate("The code is {digit:6}", repetitions=[2], per_repetition=4, controls=3, seed=5)
    found = verify(corpus(tmp_path, other), other)
    with pytest.raises(InputError, match="has 7 canaries and controls, the audit 6; verify"):
        check(audit, max_exposure_bits=10, verification=found)


def test_a_set_of_another_format_is_another_one(tmp_path, canaries, audit):
    other = generate("The pin is {digit:6}", repetitions=[2], per_repetition=4, controls=2, seed=0)
    found = verify(corpus(tmp_path, other), other)
    with pytest.raises(InputError, match="formats of the verification are 'The pin is"):
        check(audit, max_exposure_bits=10, verification=found)
    old = replace(verify(corpus(tmp_path, canaries), canaries), formats=())
    with pytest.raises(InputError, match=r"are not named; verify .*canary verify --json"):
        check(audit, max_exposure_bits=10, verification=old)


def test_natural_secrets_have_none(tmp_path, canaries, audit):
    found = verify(corpus(tmp_path, canaries), canaries)
    secrets = tuple(replace(c, natural=True) for c in audit.injected)
    with pytest.raises(InputError, match="no verification speaks of them; leave"):
        check(replace(audit, canaries=secrets), max_exposure_bits=10, verification=found)


def test_round_trip(tmp_path, canaries):
    found = verify(corpus(tmp_path, canaries), canaries)
    path = tmp_path / "verify.json"
    path.write_text(json.dumps({"kind": "canary verify", "schema": 1, **found.to_dict()}))
    assert Verification.load(path) == found


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "KeyError: 'canaries'"),
        ({"canaries": [{"id": 3}]}, "TypeError"),
        ({"canaries": [], "column": "text", "records": "many"}, "ValueError"),
    ],
)
def test_damaged(tmp_path, document, message):
    path = tmp_path / "verify.json"
    path.write_text(json.dumps({"kind": "canary verify", "schema": 1, **document}))
    with pytest.raises(RecordError, match=f"is not a whole verification .{message}"):
        Verification.load(path)
