"""What cannot be a canary set is refused with its place, and without its secrets."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from canary.corpus.canaries import Canary, CanarySet, generate
from canary.errors import FormatError, InputError, RecordError
from canary.formats.format import Format

SMALL = generate(["pin {digit:4}.", "{letter:6}!"], repetitions=[2], controls=2, seed=5)
PHONE = "{digit:3}-{digit:3}-{digit:4}"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"formats": "x{digit:1}"}, FormatError, "10 fills, but 48 canaries and controls"),
        ({"formats": [None]}, FormatError, "a format is text"),
        ({"formats": []}, InputError, "no format"),
        ({"formats": ["x{digit:9}", "x{digit:9}"]}, InputError, "is listed twice"),
        ({"formats": "{re:a?}"}, FormatError, "is not prefix-free"),
        ({"repetitions": 4}, InputError, r"a list of numbers, got 4; write \[4\]"),
        ({"repetitions": "1,4"}, InputError, "whole number"),
        ({"repetitions": [1, 1]}, InputError, "is listed twice"),
        ({"repetitions": [0]}, InputError, "at least 1"),
        ({"repetitions": [True]}, InputError, "got True"),
        ({"repetitions": [10**7]}, InputError, "more than 10,000,000 copies in all"),
        ({"repetitions": [10**5000]}, InputError, r"less than 2\^63"),
        ({"repetitions": []}, InputError, "all secrets would be controls"),
        ({"formats": {"x{digit:9}": [1], "y{digit:9}": []}}, InputError, "would be controls"),
        ({"repetitions": {1: 4, 4: 0}}, InputError, "per_repetition must be"),
        ({"per_repetition": 0}, InputError, "per_repetition must be"),
        ({"controls": -1}, InputError, "controls must be"),
        ({"formats": {"x{digit:9}": 4}}, InputError, r"a list of numbers, got 4"),
        ({"formats": {"x{digit:9}": [4]}, "repetitions": [4]}, InputError, "given twice"),
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


@pytest.mark.parametrize(
    ("formats", "fills", "problem"),
    [
        (["say {choice:a|ab}"], [(0, "a"), (0, "ab")], "text of one occurs within that of two"),
        (
            ["{digit:3}", "{digit:5}"],
            [(1, "91239"), (0, "123")],
            "of two occurs within that of one",
        ),
        (["{digit:3}", "{digit:5}"], [(1, "91239"), (0, "124")], None),
        (["a{digit:2}", "a1{digit:1}"], [(0, "12"), (1, "2")], "of two occurs within that of one"),
    ],
)
def test_no_text_is_within_another(formats, fills, problem):
    spaces = tuple(map(Format, formats))
    canaries = [Canary(name, *fills[at], 1 - at) for at, name in enumerate(("one", "two"))]
    if problem is None:
        CanarySet(spaces, tuple(canaries), 0)
    else:
        with pytest.raises(InputError, match=problem):
            CanarySet(spaces, tuple(canaries), 0)


@pytest.mark.parametrize(
    ("fills", "error", "message"),
    [
        (["555-010-123"], FormatError, "is not in the space"),
        (["555-010-1234"] * 2, InputError, "a secret is listed twice"),
        ([], InputError, "no canary"),
        ("555-010-1234", InputError, "one text"),
        ({"555-010-1234": 0}, InputError, "at least 1"),
    ],
)
def test_fills_that_do_not_serve(fills, error, message):
    with pytest.raises(error, match=message) as caught:
        CanarySet.from_fills(PHONE, fills)
    assert "555" not in str(caught.value)


GONE = object()
COINS = generate(PHONE, repetitions=[2], controls=0, seed=2, coin_flips=True)
NATURAL = CanarySet.from_fills(PHONE, ["555-010-1234"])
WORDS = generate(Format("{word:8}.", words=["up", "down"]), seed=0)


@pytest.mark.parametrize(
    ("canaries", "path", "value", "where", "message"),
    [
        (SMALL, ["formats"], GONE, "", "'formats' is missing"),
        (SMALL, ["canaries", 1, "fill"], GONE, "canaries[1]", "'fill' is missing"),
        (SMALL, ["extra"], 1, "", "has 1 unknown field"),
        (SMALL, ["canaries", 0, "extra"], 1, "canaries[0]", "has 1 unknown field"),
        (SMALL, ["formats"], "x", "formats", "is not a list"),
        (SMALL, ["formats"], [], "formats", "no format"),
        (SMALL, ["formats", 0], "{digit:", "column 1", "never closed"),
        (SMALL, ["formats", 1], "pin {digit:4}.", "formats[1]", "is listed twice"),
        (SMALL, ["seed"], "0", "seed", "is not a whole number"),
        (SMALL, ["seed"], -1, "seed", "negative"),
        (SMALL, ["canaries"], [], "canaries", "no canary"),
        (SMALL, ["canaries", 2, "id"], 5, "canaries[2].id", "is not text"),
        (SMALL, ["canaries", 2, "id"], "\x1b[31m", "canaries[2].id", "letters, digits"),
        (SMALL, ["canaries", 2, "id"], "canary-1", "canaries[2].id", "canary-1 is listed twice"),
        (SMALL, ["canaries", 2, "format"], 2, "canaries[2].format", "does not exist"),
        (SMALL, ["canaries", 2, "format"], 1, "canaries[2].fill", "not in the space"),
        (SMALL, ["canaries", 2, "fill"], "12345", "canaries[2].fill", "not in the space"),
        (SMALL, ["canaries", 2, "repetitions"], -1, "canaries[2].repetitions", "out of range"),
        (SMALL, ["canaries", 2, "repetitions"], "2", "canaries[2].repetitions", "whole number"),
        (SMALL, ["canaries", 1, "fill"], SMALL.canaries[0].fill, "canary-2", "occurs within"),
        *(
            (COINS, ["canaries", 0, "tossed"], value, "tossed", "tossed")
            for value in (3, 0, "1", True)
        ),
        (COINS, ["natural"], True, "canaries", "natural secrets are different texts"),
        *((NATURAL, ["natural"], value, "natural", "natural") for value in (1, "true")),
        (WORDS, ["formats", 0, "size"], 17, "formats[0]", "another size"),
        (WORDS, ["formats", 0, "size"], "16", "formats[0].size", "not a whole number"),
        (WORDS, ["formats", 0, "words"], "up down", "formats[0].words", "not a list"),
        (WORDS, ["formats", 0, "words"], ["up", 7], "formats[0].words", "not text"),
        (WORDS, ["formats", 0, "words"], ["up", "up"], "", "is listed twice"),
        (WORDS, ["formats", 0, "text"], None, "formats[0].text", "not text"),
        (WORDS, ["formats", 0, "extra"], 1, "formats[0]", "unknown"),
    ],
)
def test_manifests_are_read_strictly(tmp_path, canaries, path, *, value, where, message):
    data = inner = copy.deepcopy(canaries.to_dict())
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    if value is GONE:
        del inner[path[-1]]
    file = tmp_path / "canaries.json"
    file.write_text(json.dumps({"kind": "canary set", "schema": 1, **data}))
    with pytest.raises(RecordError, match=message) as caught:
        CanarySet.load(file)
    assert caught.value.where.startswith(str(file))
    assert where in caught.value.where
    assert caught.value.cure
    assert not any(canary.fill in str(caught.value) for canary in canaries)
