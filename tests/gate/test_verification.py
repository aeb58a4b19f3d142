"""Nothing is decided where canaries did not survive in the corpus."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gate_audits import by_bits, of_groups, space

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.verification import verify
from canary.errors import EstimationError, InputError
from canary.gate.check_audit import check, new_baseline

FORMAT = "The code is {digit:6}"


@pytest.fixture(scope="module")
def canaries():
    return generate(FORMAT, repetitions=[2], per_repetition=4, controls=2, seed=0)


@pytest.fixture(scope="module")
def audit(canaries):
    groups = {2: by_bits([2.0] * 4), 0: by_bits([1.0] * 2)}
    return of_groups(groups, formats=[space(FORMAT)], canary_set=canaries.fingerprint)


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
    match = "1 of 6 .* 'canary-1' was to stand 2 times .* and stood there 1 times; inject into a"
    with pytest.raises(EstimationError, match=match):
        check(audit, max_exposure_bits=10, verification=found)


@pytest.mark.parametrize(
    "other",
    [
        {"repetitions": [3], "controls": 2, "seed": 0},
        {"repetitions": [2], "controls": 3, "seed": 0},  # all of the audit's ids are in it
        {"repetitions": [2], "controls": 2, "seed": 1},  # same ids and copies, other fills
        {"repetitions": [2], "controls": 2, "seed": 0, "formats": "The pin is {digit:6}"},
    ],
    ids=["copies", "controls", "seed", "format"],
)
def test_another_set_is_refused(tmp_path, audit, other):
    canaries = generate(**{"formats": FORMAT, "per_repetition": 4, **other})
    found = replace(verify(corpus(tmp_path, canaries), canaries), file="verify.json")
    with pytest.raises(InputError) as caught:
        check(replace(audit, file="audit.json"), max_exposure_bits=10, verification=found)
    assert "verify.json is of another canary set than audit.json" in str(caught.value)


def test_an_audit_of_an_earlier_version_is_refused(tmp_path, canaries, audit):
    found = verify(corpus(tmp_path, canaries), canaries)
    old = replace(audit, settings={})
    with pytest.raises(InputError, match="and audit again: the audit is of an earlier version"):
        check(old, max_exposure_bits=10, verification=found)


def test_an_edited_fill_is_another_set(canaries):
    fills = [c.fill for c in canaries]
    edited = replace(canaries.canaries[0], fill="0" * 5 + str(1 + int(fills[0][-1]) % 9))
    changed = replace(canaries, canaries=(edited, *canaries.canaries[1:]))
    assert changed.fingerprint != canaries.fingerprint
    again = generate(FORMAT, repetitions=[2], per_repetition=4, controls=2, seed=0)
    assert again.fingerprint == canaries.fingerprint
    drawn = {generate(FORMAT, repetitions=[2]).seed.bit_length() for _ in range(8)}
    assert max(drawn) > 100  # nobody finds the key by trying
    assert CanarySet.from_fills(FORMAT, fills).fingerprint is None


def test_a_memorized_model_is_memorized_whatever_the_file_lacks(tmp_path, canaries, audit):
    found = verify(corpus(tmp_path, canaries, drop=2), canaries)
    learned = of_groups({2: by_bits([20.0] * 4)}, formats=audit.formats)
    learned = replace(audit, canaries=(*learned.canaries, *audit.controls))
    verdict = check(learned, max_exposure_bits=10, verification=found)
    assert (verdict.outcome, verdict.exit_code) == ("memorized", 1)
    (note,) = verdict.notes
    assert note.startswith("1 of 6 canaries did not survive as they should: 'canary-1' was to")
    assert "so this is not the file that the training read" in note
    with pytest.raises(EstimationError, match="1 of 6 canaries did not survive"):
        new_baseline(learned, verification=found)


def test_natural_secrets_have_none(tmp_path, canaries, audit):
    found = verify(corpus(tmp_path, canaries), canaries)
    secrets = tuple(replace(c, natural=True) for c in audit.injected)
    with pytest.raises(InputError, match="no verification speaks of them; leave"):
        check(replace(audit, canaries=secrets), max_exposure_bits=10, verification=found)
