"""Natural secrets are found where they stand alone, counted, and marked as not drawn."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from corpora import write_corpus
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.discovery import discover
from canary.corpus.injection import inject, inject_file
from canary.corpus.stripping import strip, strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, FormatError, InputError
from canary.formats.format import Format

PHONE = "{digit:3}-{digit:3}-{digit:4}"


def _found(texts, formats):
    found = discover(Dataset.from_dict({"text": texts}), formats)
    return {found.text(secret): secret.repetitions for secret in found}


@pytest.mark.parametrize(
    ("format", "texts", "expected"),
    [
        (
            PHONE,
            [
                "Call 555-010-1234, or 555-010-1234 (office: 555-010-9999).",
                "No. 1555-010-0000, 555-010-00001, x555-010-1111 and 555-010-1111x are none.",
                "555-010-2222",
                None,
                "Overlap: 555-010-3333-010-4444.",
            ],
            {"555-010-1234": 2, "555-010-9999": 1, "555-010-2222": 1, "555-010-3333": 1},
        ),
        (  # the longest candidate counts
            "It is {choice:red|redder|reddest}",
            ["It is red. It is redder. It is redd. It is reddish."],
            {"It is red": 1, "It is redder": 1},
        ),
        # With fixed text no candidate of these holes is empty.
        ("x{re:(ab)?}{re:c{0,2}}", ["x, xab and xc."], {"x": 1, "xab": 1, "xc": 1}),
    ],
)
def test_what_stands_alone_is_found_and_counted(format, texts, expected):
    assert _found(texts, format) == expected


def test_several_formats_keep_their_order():
    dataset = Dataset.from_dict({"text": ["pin 1234! 555-010-1234 pin 9999!", "pin 1234!"]})
    found = discover(dataset, [PHONE, "none {digit:2}", "pin {digit:4}!"])
    assert [space.text for space in found.formats] == [PHONE, "pin {digit:4}!"]
    assert [(s.id, s.format, s.fill, s.repetitions) for s in found] == [
        ("natural-1", 0, "555-010-1234", 1),
        ("natural-2", 1, "1234", 2),
        ("natural-3", 1, "9999", 1),
    ]
    assert repr(found) == "<CanarySet of 3 natural secrets>"


@settings(max_examples=40)
@given(
    text=st.text("ab1- .", max_size=40),
    format=st.sampled_from(
        ["{digit:1}", "a{choice:b|bb|-}", "{choice:a|ab|abb}.", "{choice:1-1|1}{letter:1}"]
    ),
)
def test_what_is_found_is_what_a_slow_search_finds(text, format):
    space = Format(format)
    whole = "|".join(sorted((re.escape(space.candidate(f)) for f in space), key=len, reverse=True))
    expected: Counter[str] = Counter()
    at = 0
    while at < len(text):
        fits = [
            stop
            for stop in range(at + 1, len(text) + 1)
            if re.fullmatch(whole, text[at:stop])
            and not (at and text[at - 1].isalnum() and text[at].isalnum())
            and not (stop < len(text) and text[stop - 1].isalnum() and text[stop].isalnum())
        ]
        if fits:
            expected[text[at : max(fits)]] += 1
        at = max(fits, default=at + 1)
    if expected:
        assert _found([text], format) == expected
    else:
        with pytest.raises(CorpusError, match="no secret of these formats"):
            _found([text], format)


def test_in_files(tmp_path):
    rows = [f"Call 555-010-{n % 7:04}. Bye." for n in range(50)]
    path = write_corpus(tmp_path / "mail.parquet", rows)
    assert {s.fill: s.repetitions for s in discover(path, PHONE)} == Counter(r[5:17] for r in rows)
    with pytest.raises(CorpusError, match="no secret") as caught:
        discover(path, "pin {digit:4}")
    assert caught.value.where == str(path)


def test_natural_secrets_are_not_put_in_nor_taken_out(tmp_path):
    found = CanarySet.from_fills(PHONE, {"555-010-1234": 3, "555-010-9999": 1})
    assert found.natural
    assert not generate(PHONE, seed=0).natural
    assert [secret.repetitions for secret in found.injected] == [3, 1]
    assert found.controls == ()
    base = Dataset.from_dict({"text": ["x"]})
    files = write_corpus(tmp_path / "in.txt", ["x"]), tmp_path / "out.txt"
    for call, corpora in (
        (inject, [base]),
        (strip, [base]),
        (inject_file, files),
        (strip_file, files),
    ):
        with pytest.raises(InputError, match="not injected or stripped"):
            call(*corpora, found)
    with pytest.raises(InputError, match="found, not injected"):
        verify(base, found)


@pytest.mark.parametrize(
    ("formats", "error", "message"),
    [
        ([], InputError, "different formats"),
        ([PHONE, PHONE], InputError, "different formats"),
        (["{digit:3}", "{re:a?}"], FormatError, "a candidate of this format is empty"),
        (["{re:(ab)?}{re:c{0,2}}"], FormatError, "a candidate of this format is empty"),
    ],
)
def test_formats_that_do_not_serve(formats, error, message):
    with pytest.raises(error, match=message) as caught:
        discover(Dataset.from_dict({"text": ["ab c"]}), formats)
    assert caught.value.cure
    if error is FormatError:
        with pytest.raises(error, match=message):
            CanarySet.from_fills(formats[-1], [""])
