"""Natural secrets are found where they stand alone, counted, and marked as not drawn."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise

import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.discovery import discover
from canary.corpus.injection import inject, inject_file
from canary.corpus.stripping import strip, strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, FormatError, InputError, RecordError
from canary.formats.format import Format

PHONE = "{digit:3}-{digit:3}-{digit:4}"


def _found(texts, formats):
    found = discover(Dataset.from_dict({"text": texts}), formats)
    return {found.text(secret): secret.repetitions for secret in found}


def test_numbers_that_stand_alone_are_found_and_counted():
    texts = [
        "Call 555-010-1234, or 555-010-1234 (office: 555-010-9999).",
        "No. 1555-010-0000, 555-010-00001, x555-010-1111 and 555-010-1111x are none.",
        "555-010-2222",
        None,
        "Overlap: 555-010-3333-010-4444.",
    ]
    assert _found(texts, PHONE) == {
        "555-010-1234": 2,
        "555-010-9999": 1,
        "555-010-2222": 1,
        "555-010-3333": 1,
    }


def test_the_longest_candidate_counts():
    texts = ["It is red. It is redder. It is redd. It is reddish."]
    assert _found(texts, "It is {choice:red|redder|reddest}") == {
        "It is red": 1,
        "It is redder": 1,
    }


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


@settings(max_examples=80)
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
    path = tmp_path / "mail.parquet"
    Dataset.from_dict({"text": rows}).to_parquet(path)
    found = discover(path, PHONE)
    assert {s.fill: s.repetitions for s in found} == Counter(row[5:17] for row in rows)
    with pytest.raises(CorpusError, match="no secret") as caught:
        discover(path, "pin {digit:4}")
    assert caught.value.where == str(path)


def test_sets_of_natural_secrets(tmp_path):
    found = CanarySet.from_fills(PHONE, {"555-010-1234": 3, "555-010-9999": 1})
    assert found.natural
    assert [secret.repetitions for secret in found.injected] == [3, 1]
    assert found.controls == ()
    found.save(tmp_path / "found.json")
    assert CanarySet.load(tmp_path / "found.json") == found
    listed = CanarySet.from_fills(Format("{choice:a|ab}"), iter(["ab", "a"]))
    assert [secret.repetitions for secret in listed] == [1, 1]
    assert not generate(PHONE, seed=0).natural


@pytest.mark.parametrize(
    ("fills", "error", "message"),
    [
        (["555-010-123"], FormatError, "is not in the space"),
        (["555-010-1234"] * 2, InputError, "a fill stands twice"),
        ([], InputError, "no canary"),
        ("555-010-1234", InputError, "one text"),
        ({"555-010-1234": 0}, InputError, "at least 1"),
    ],
)
def test_fills_that_do_not_serve(fills, error, message):
    with pytest.raises(error, match=message) as caught:
        CanarySet.from_fills(PHONE, fills)
    assert "555" not in str(caught.value)


def test_natural_secrets_are_not_put_in_nor_taken_out(tmp_path):
    found = CanarySet.from_fills(PHONE, ["555-010-1234"])
    base = Dataset.from_dict({"text": ["x"]})
    (tmp_path / "in.txt").write_text("x\n")
    files = tmp_path / "in.txt", tmp_path / "out.txt"
    for call in (
        lambda: inject(base, found),
        lambda: strip(base, found),
        lambda: inject_file(*files, found),
        lambda: strip_file(*files, found),
    ):
        with pytest.raises(InputError, match="not injected or stripped"):
            call()
    with pytest.raises(InputError, match="found, not injected"):
        verify(base, found)


def test_formats_that_do_not_serve():
    base = Dataset.from_dict({"text": ["x"]})
    for formats in ([], [PHONE, PHONE]):
        with pytest.raises(InputError, match="different formats"):
            discover(base, formats)


@pytest.mark.parametrize("format", ["{re:a?}", "{re:(ab)?}{re:c{0,2}}"])
def test_formats_with_an_empty_candidate(format):
    base = Dataset.from_dict({"text": ["ab c"]})
    for call in (
        lambda: discover(base, ["{digit:3}", format]),
        lambda: generate(format, repetitions=[1], per_repetition=1, controls=0, seed=0),
        lambda: CanarySet.from_fills(format, [""]),
    ):
        with pytest.raises(
            FormatError, match="a candidate of this format is empty|is not prefix-free"
        ) as caught:
            call()
        assert "text" in caught.value.cure or "at least one character" in caught.value.cure
    # With fixed text the same holes do: no candidate is empty.
    assert _found(["x, xab and xc."], "x{re:(ab)?}{re:c{0,2}}") == {"x": 1, "xab": 1, "xc": 1}


def test_coins_are_fair_independent_and_recorded(tmp_path):
    options = {"repetitions": [1, 4], "per_repetition": 2000, "controls": 3}
    plain = generate("{letter:9}", seed=7, **options)
    tossed = generate("{letter:9}", seed=7, coin_flips=True, **options)
    assert [c.fill for c in tossed] == [c.fill for c in plain]
    assert [c.id for c in tossed] == [c.id for c in plain]
    assert [c.tossed for c in tossed] == [c.repetitions or None for c in plain]
    heads = [c.repetitions > 0 for c in tossed if c.tossed]
    assert abs(sum(heads) - 2000) < 4 * 31.6  # four standard deviations of 4,000 coins
    runs = sum(a != b for a, b in pairwise(heads))
    assert abs(runs - 2000) < 4 * 31.6
    assert all(c.repetitions in (0, c.tossed) for c in tossed if c.tossed)
    assert len(tossed.controls) == 3 + heads.count(False)
    tossed.save(tmp_path / "set.json")
    assert CanarySet.load(tmp_path / "set.json") == tossed
    again = generate("{letter:9}", seed=7, coin_flips=True, **options)
    assert again == tossed
    document = json.loads((tmp_path / "set.json").read_text())
    for value in (3, 0, "1", True):
        document["canaries"][0]["tossed"] = value
        (tmp_path / "set.json").write_text(json.dumps(document))
        with pytest.raises(RecordError, match=r"tossed"):
            CanarySet.load(tmp_path / "set.json")


def test_the_mark_is_read_strictly():
    data = CanarySet.from_fills(PHONE, ["555-010-1234"]).to_dict()
    for value in (1, "true"):
        with pytest.raises(RecordError, match="natural"):
            CanarySet.from_dict({**data, "natural": value})
    tossed = generate(PHONE, seed=0, coin_flips=True).to_dict()
    with pytest.raises(RecordError, match="natural secrets are different texts"):
        CanarySet.from_dict({**tossed, "natural": True})
