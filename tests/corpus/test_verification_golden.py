"""Verification counts what is there, whatever it is part of, and says what was done to a corpus."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from corpora import write_corpus
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import Canary, CanarySet, generate
from canary.corpus.injection import inject
from canary.corpus.stripping import strip, strip_file
from canary.corpus.verification import Count, Verification, verify
from canary.errors import CorpusError
from canary.formats.format import Format


def _set(*texts):
    """A set of canaries to be found once, from formats that hold the texts."""
    alternatives = "|".join(texts)
    canaries = (Canary(f"canary-{i}", 0, text, 1) for i, text in enumerate(texts))
    return CanarySet((Format("{choice:" + alternatives + "}"),), tuple(canaries), 0)


def _found(texts, canaries, **options):
    """What verify says of a corpus of texts."""
    return verify(Dataset.from_dict({"text": texts}), canaries, **options)


def test_what_was_injected_is_found():
    canaries = generate(["The code is {digit:6}", "{letter:8}, é"], seed=0)
    result = verify(inject(Dataset.from_dict({"text": ["nothing"] * 20}), canaries), canaries)
    assert result.ok
    assert result
    assert not result.departures
    assert [(c.id, c.expected, c.found) for c in result.canaries] == [
        (c.id, c.repetitions, c.repetitions) for c in canaries
    ]
    assert result.records == 20 + sum(c.repetitions for c in canaries)
    # Two formats: 8 canaries of each of 1, 4, 16 and 64 copies, and 16 controls.
    assert result.summary() == (
        "1,380 records: 64 canaries (1,360 copies) found; 32 controls absent\n"
        "all 1,360 copies begin their text\n"
        "note: 99 % of the records are canaries or hold one: a model that reads little else looks "
        "as if it memorized more than it would in a usual corpus; take more records, or fewer "
        "copies"
    )


def test_a_share_of_canaries_above_one_percent_is_said():
    canaries = generate("The code is {digit:6}", repetitions=[1, 4], per_repetition=4, seed=0)
    for records, told in ((299, "6.3 % of"), (1_900, "1.0 % of"), (1_980, ""), (20, "")):
        mixed = inject(Dataset.from_dict({"text": ["nothing"] * records}), canaries)
        found = verify(mixed, canaries)
        assert found.records == records + 20
        assert bool(found.doubts) == bool(told)
        assert told in found.summary()
        assert ("more than about 0.1 % change what the model learns" in found.summary()) == bool(
            told
        )


@pytest.mark.parametrize(
    ("fill", "repetitions", "told"),
    [
        ("1", 1, "1 canary (1 copy) found\n1 copy begins its text"),
        (
            *("2", 0),
            "1 control absent\nnote: 1 other text of these formats is in the corpus, "
            "perhaps of another canary set",
        ),
    ],
)
def test_what_is_not_there_is_not_named(fill, repetitions, told):
    canaries = CanarySet((Format("code {digit:1}"),), (Canary("c", 0, fill, repetitions),), 0)
    summary = _found(["code 1"], canaries).summary()
    assert summary.partition(": a model that")[0] == f"1 record: {told}"


def test_departures_are_named():
    canaries = generate("code {digit:6}", repetitions=[2], per_repetition=2, controls=2, seed=0)
    one, two, control, _ = (canaries.text(canary) for canary in canaries)
    result = _found([one, one, two, f"quoted: {control}, and {one}."], canaries)
    assert not result.ok
    assert not result  # so that an assert of it fails
    assert result.summary().splitlines() == [
        "4 canaries and controls in 4 records: 3 not found as often as expected",
        "  canary-1   expected 2, found 3",
        "  canary-2   expected 2, found 1",
        "  control-1  expected 0, found 1",
        "4 copies follow texts with no common end",
        "likely cause: unknown",
    ]
    data = result.to_dict()
    assert (data["ok"], data["column"], data["records"]) == (False, "text", 4)
    counts = {"expected": 0, "found": 0, "longer": 0}
    assert data["canaries"][3] == {"id": "control-2", **counts}
    shown = result.summary() + json.dumps(data) + repr(result)
    assert not any(canary.fill in shown for canary in canaries)


def test_ids_bring_no_control_characters_into_a_summary():
    """A set has none in its ids, but a result is read from a file that anybody may have written."""
    made = _found(["x"], _set("a"))
    read = replace(made, canaries=(Count("a\x1b[31m\nb", 1, 0, 0),))
    assert read.summary().splitlines()[1:-1] == ["  a[31m b  expected 1, found 0"]


def test_a_long_summary_is_cut():
    canaries = generate("code {digit:6}", repetitions=[1], per_repetition=50, seed=0)
    lines = _found(["x"], canaries).summary().splitlines()
    assert len(lines) == 23
    assert lines[-2] == "  and 30 more"


def test_only_the_column_is_searched(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "no", "other": "aba"}\n{"other": "\\u0061ba", "text": "no"}\n')
    assert verify(path, _set("aba")).canaries[0].found == 0
    assert verify(path, _set("aba"), column="other").canaries[0].found == 2


def test_the_texts_of_a_dataset_are_searched_not_how_it_shows_them():
    dataset = Dataset.from_dict({"text": ["aba", None, "aba"]})
    shown = dataset.with_transform(
        lambda batch: {"text": [str(text)[:1] for text in batch["text"]]}
    )
    for corpus in (dataset, shown):
        result = verify(corpus, _set("aba"))
        assert (result.records, result.canaries[0].found) == (3, 2)


@settings(max_examples=50)
@given(
    words=st.lists(st.text("ab.", min_size=2, max_size=4), min_size=1, max_size=4, unique=True),
    texts=st.lists(st.text("ab.", max_size=12), min_size=1, max_size=5),
)
def test_counts_are_those_of_brute_force(words, texts):
    words = [a for a in words if not any(a in b for b in words if b != a)]
    result = _found(texts, _set(*words))
    held = {char for word in words for char in word if char.isalnum()}
    for word, count in zip(words, result.canaries, strict=True):
        found = [
            (text[at - 1 : at], word, text[at + len(word) :][:1])
            for text in texts
            for at in range(len(text))
            if text.startswith(word, at)
        ]
        alone = [
            not (before in held and word[0].isalnum())
            and not (after in held and word[-1].isalnum())
            for before, _, after in found
        ]
        assert (count.found, count.longer) == (sum(alone), len(alone) - sum(alone))


FORMAT = "Le numéro de Zoé est {upper:6}"
CANARIES = generate(FORMAT, repetitions=[1, 4], per_repetition=2, controls=2, seed=0)
OTHERS = generate(FORMAT, repetitions=[1, 4], per_repetition=2, controls=2, seed=1)
TEXTS = inject(Dataset.from_dict({"text": [f"Bonjour {i}." for i in range(40)]}), CANARIES)["text"]


def _decomposed(text):
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("texts", "cause"),
    [
        (map(_decomposed, TEXTS), "4 canaries are there in another Unicode form"),
        (map(str.lower, TEXTS), "4 canaries are there in another case"),
        ((text.replace(" ", "  ") for text in TEXTS), "4 canaries are there with other white"),
        (
            (_decomposed(text.upper()) for text in TEXTS),
            "4 canaries are there with several changes",
        ),
        (TEXTS[:20], "copies are there, so the corpus was probably cut"),
        (dict.fromkeys(TEXTS), "each canary is there once, so the corpus was probably de-dup"),
        ([*TEXTS] * 3, "every canary is there 3 times as often as expected"),
        ([OTHERS.text(c) for c in OTHERS], "6 texts of the same format are there with fills that"),
        (["other text"], "probably not the file that canary inject wrote"),
    ],
)
def test_verify_names_what_was_probably_done_to_the_corpus(texts, cause, tmp_path):
    found = _found([*texts], CANARIES)
    assert not found.ok
    (named,) = found.causes
    assert cause in named
    assert found.summary().splitlines()[-1] == f"likely cause: {named}"
    kept = tmp_path / "verification.json"
    kept.write_text(json.dumps({"kind": "canary verify", "schema": 1, **found.to_dict()}))
    assert Verification.load(kept) == found


def test_strip_counts_what_is_missing_and_refuses_a_set_that_is_not_there(tmp_path):
    out, whole = tmp_path / "out.jsonl", write_corpus(tmp_path / "whole.jsonl", TEXTS)
    cut = write_corpus(tmp_path / "cut.jsonl", [*dict.fromkeys(TEXTS)])
    for call in (
        lambda: strip_file(whole, out, OTHERS),
        lambda: strip(Dataset.from_dict({"text": TEXTS}), OTHERS),
    ):
        with pytest.raises(CorpusError, match="holds none of the canaries of this set"):
            call()
    assert not out.exists()
    assert strip_file(cut, out, CANARIES).missing == 6
    assert strip_file(whole, tmp_path / "back.jsonl", CANARIES).missing == 0


@pytest.mark.parametrize(("copies", "times"), [(2, "2 times"), (8, "8 times"), (0, "0 times")])
def test_the_group_with_another_number_of_copies_is_named(copies: int, times: str) -> None:
    known = generate("code {digit:5}", repetitions=[1, 4], per_repetition=3, seed=0)
    texts = [
        known.text(one)
        for one in known.injected
        for _ in range(copies if one.repetitions == 4 else 1)
    ]
    (cause,) = verify([*texts, "other text"], known).causes
    assert cause.startswith(f"each of the canaries with 4 copies is there {times}, and all others")


def test_copies_that_are_lost_here_and_there_are_of_no_group() -> None:
    known = generate("code {digit:5}", repetitions=[1, 4], per_repetition=3, seed=0)
    texts = [known.text(one) for one in known.injected for _ in range(one.repetitions)]
    assert "cut, filtered" in verify(texts[:-1], known).causes[0]
