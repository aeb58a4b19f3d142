"""What cannot be a canary set is refused with its place, and without its secrets."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import Canary, CanarySet, generate
from canary.errors import CanaryError, FormatError, InputError, RecordError
from canary.formats.format import Format

SMALL = generate(["pin {digit:4}.", "{letter:6}!"], repetitions=[2], controls=2, seed=5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"formats": "x{digit:1}"}, FormatError, "10 fills, but 48 canaries and controls"),
        ({"formats": [None]}, FormatError, "a format is text"),
        ({"formats": []}, InputError, "no format"),
        ({"formats": ["x{digit:9}", "x{digit:9}"]}, InputError, "stands twice"),
        ({"repetitions": 4}, InputError, r"a list of numbers, got 4; write \[4\]"),
        ({"repetitions": "1,4"}, InputError, "whole number"),
        ({"repetitions": [1, 1]}, InputError, "stands twice"),
        ({"repetitions": [0]}, InputError, "at least 1"),
        ({"repetitions": [True]}, InputError, "got True"),
        ({"repetitions": [10**7]}, InputError, "more than 10,000,000 copies in all"),
        ({"repetitions": [10**5000]}, InputError, r"less than 2\^63"),
        ({"repetitions": [], "controls": 0}, InputError, "0 canaries"),
        ({"per_repetition": 0}, InputError, "per_repetition must be"),
        ({"controls": -1}, InputError, "controls must be"),
        ({"seed": -1}, InputError, "seed must be"),
        ({"coin_flips": 1}, InputError, "coin_flips must be True or False"),
    ],
)
def test_generate_refuses(options, error, message):
    with pytest.raises(error, match=message) as caught:
        generate(**{"formats": "x{digit:9}", "seed": 0, **options})
    assert caught.value.cure


def test_numpy_integers_are_numbers():
    made = generate("x{digit:9}", repetitions=np.array([1, 2]), seed=np.int64(3))
    assert made == generate("x{digit:9}", repetitions=[1, 2], seed=3)
    json.dumps(made.to_dict())


def test_texts_within_texts_are_refused():
    space = Format("say {choice:a|ab}")
    with pytest.raises(InputError, match="text of canary-1 occurs within that of control-1"):
        CanarySet((space,), (Canary("canary-1", 0, "a", 1), Canary("control-1", 0, "ab", 0)), 0)
    inner, outer = Format("{digit:3}"), Format("{digit:5}")
    with pytest.raises(InputError, match="text of canary-2 occurs within that of canary-1"):
        CanarySet(
            (inner, outer), (Canary("canary-1", 1, "91239", 1), Canary("canary-2", 0, "123", 1)), 0
        )
    CanarySet(
        (inner, outer), (Canary("canary-1", 1, "91239", 1), Canary("canary-2", 0, "124", 1)), 0
    )


def test_equal_texts_of_two_formats_are_refused():
    formats = (Format("a{digit:2}"), Format("a1{digit:1}"))
    with pytest.raises(InputError, match="text of two occurs within that of one"):
        CanarySet(formats, (Canary("one", 0, "12", 1), Canary("two", 1, "2", 1)), 0)


def _changed(*path_and_value):
    """The small set as plain data with one value replaced."""
    *path, last, value = path_and_value
    data = json.loads(json.dumps(SMALL.to_dict()))
    inner = data
    for key in path:
        inner = inner[key]
    inner[last] = value
    return data


def _without(*path):
    data = json.loads(json.dumps(SMALL.to_dict()))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return data


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (_without("formats"), "", "'formats' is missing"),
        (_without("canaries", 1, "fill"), "canaries[1]", "'fill' is missing"),
        (_changed("extra", 1), "", "has 1 unknown field"),
        (_changed("canaries", 0, "extra", 1), "canaries[0]", "has 1 unknown field"),
        (_changed("formats", "x"), "formats", "is not a list"),
        (_changed("formats", []), "formats", "no format"),
        (_changed("formats", 0, "{digit:"), "column 1", "never closed"),
        (_changed("formats", 1, "pin {digit:4}."), "formats[1]", "stands twice"),
        (_changed("seed", "0"), "seed", "is not a whole number"),
        (_changed("seed", -1), "seed", "negative"),
        (_changed("canaries", []), "canaries", "no canary"),
        (_changed("canaries", 2, "id", 5), "canaries[2].id", "is not text"),
        (_changed("canaries", 2, "id", "\x1b[31m"), "canaries[2].id", "letters, digits"),
        (_changed("canaries", 2, "id", "canary-1"), "canaries[2].id", "canary-1 stands twice"),
        (_changed("canaries", 2, "format", 2), "canaries[2].format", "does not exist"),
        (_changed("canaries", 2, "format", 1), "canaries[2].fill", "not in the space"),
        (_changed("canaries", 2, "fill", "12345"), "canaries[2].fill", "not in the space"),
        (_changed("canaries", 2, "repetitions", -1), "canaries[2].repetitions", "out of range"),
        (_changed("canaries", 2, "repetitions", "2"), "canaries[2].repetitions", "whole number"),
        (_changed("canaries", 1, "fill", SMALL.canaries[0].fill), "canary-2", "occurs within"),
    ],
)
def test_manifests_are_read_strictly(tmp_path, data, where, message):
    path = tmp_path / "canaries.json"
    path.write_text(json.dumps({"kind": "canary set", "schema": 1, **data}))
    with pytest.raises(RecordError, match=message) as caught:
        CanarySet.load(path)
    assert caught.value.where.startswith(str(path))
    assert where in caught.value.where
    assert caught.value.cure
    assert not any(canary.fill in str(caught.value) for canary in SMALL)


def test_newer_foreign_and_truncated_manifests(tmp_path):
    path = tmp_path / "canaries.json"
    SMALL.save(path)
    text = path.read_text()
    for broken, message in (
        (text.replace('"schema": 1', '"schema": 2'), "upgrade"),
        (text.replace("canary set", "canary audit"), "is not a canary set document"),
        (text[: len(text) // 2], "truncated"),
        ("", "truncated"),
    ):
        path.write_text(broken)
        with pytest.raises(RecordError, match=message):
            CanarySet.load(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_manifests_load_or_raise_a_record_error(data):
    document = json.loads(json.dumps(SMALL.to_dict()))
    places = [(document, key) for key in document]
    for index, item in enumerate(document["canaries"]):
        places += [(document["canaries"], index), *((item, key) for key in item)]
    for _ in range(data.draw(st.integers(1, 3))):
        inner, key = data.draw(st.sampled_from(places))
        inner[key] = data.draw(_JSON)
    try:
        loaded = CanarySet.from_dict(document)
    except RecordError:
        return
    assert loaded.to_dict() == document


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_mutated_bytes_load_or_raise(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "canaries.json"
    SMALL.save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        end = data.draw(st.integers(at, min(at + 30, len(content))))
        content[at:end] = data.draw(st.binary(max_size=8))
    path.write_bytes(content)
    problem = None
    try:
        CanarySet.load(path)
    except CanaryError as error:
        problem = error
    assert problem is None or str(path) in str(problem)
