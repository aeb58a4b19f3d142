"""Corpora that are not what somebody takes them for: no step says that all is well."""

from __future__ import annotations

import json
import unicodedata

import pytest
from datasets import Dataset

from canary.corpus.canaries import generate
from canary.corpus.injection import inject, inject_file
from canary.corpus.stripping import strip, strip_file
from canary.corpus.verification import Verification, verify
from canary.errors import CorpusError

FORMAT = "Le numéro de Zoé est {upper:6}"
CANARIES = generate(FORMAT, repetitions=[1, 4], per_repetition=2, controls=2, seed=0)
OTHERS = generate(FORMAT, repetitions=[1, 4], per_repetition=2, controls=2, seed=1)


@pytest.fixture
def canaried(tmp_path):
    plain, mixed = tmp_path / "plain.jsonl", tmp_path / "mixed.jsonl"
    plain.write_text("".join(json.dumps({"text": f"Bonjour {i}."}) + "\n" for i in range(40)))
    inject_file(plain, mixed, CANARIES)
    return mixed


def _changed(path, change):
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    new = path.with_name("changed.jsonl")
    new.write_text("".join(json.dumps({"text": text}) + "\n" for text in change(texts)))
    return new


def _each(change):
    return lambda texts: [change(text) for text in texts]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            _each(lambda text: unicodedata.normalize("NFD", text)),
            "4 canaries are there in another Unicode form",
        ),
        (_each(lambda text: text.replace(" ", "  ")), "4 canaries are there with other white"),
        (
            _each(lambda text: unicodedata.normalize("NFD", text.upper())),
            "4 canaries are there with several changes",
        ),
        (lambda texts: texts[:20], "copies are there, so the corpus was probably cut"),
        (lambda texts: texts * 3, "every canary is there 3 times as often as expected"),
    ],
)
def test_verify_names_what_was_probably_done_to_the_corpus(canaried, change, cause, tmp_path):
    found = verify(_changed(canaried, change), CANARIES)
    assert not found.ok
    (named,) = found.causes
    assert cause in named
    assert found.summary().splitlines()[-1] == f"likely cause: {named}"
    kept = tmp_path / "verification.json"
    kept.write_text(json.dumps({"kind": "canary verify", "schema": 1, **found.to_dict()}))
    assert Verification.load(kept) == found


def test_verify_knows_the_canaries_of_another_run(canaried):
    (named,) = verify(canaried, OTHERS).causes
    assert named.startswith("4 texts of the same format are there with fills that are not of")
    assert verify(canaried, CANARIES).causes == ()


def test_strip_of_a_set_that_is_not_there_is_refused(canaried, tmp_path):
    out = tmp_path / "out.jsonl"
    with pytest.raises(CorpusError, match="holds none of the canaries of this set"):
        strip_file(canaried, out, OTHERS)
    assert not out.exists()
    mixed = inject(Dataset.from_dict({"text": ["a"] * 9}), CANARIES)
    with pytest.raises(CorpusError, match="holds none of the canaries of this set"):
        strip(mixed, OTHERS)


def test_strip_says_how_many_copies_were_not_there(canaried, tmp_path):
    cut = _changed(canaried, lambda texts: list(dict.fromkeys(texts)))
    assert strip_file(cut, tmp_path / "out.jsonl", CANARIES).missing == 6
    assert strip_file(canaried, tmp_path / "back.jsonl", CANARIES).missing == 0
