"""Options of another type or out of range are refused with a cure; those that serve are plain."""

from __future__ import annotations

import dataclasses
import inspect
import math
from pathlib import Path

import numpy as np
import pytest

import canary
from canary.errors import InputError
from canary.models.served.endpoint import Endpoint
from canary.plugins.monitor import ExposureMonitor
from canary.records.validation import (
    file_path,
    flag,
    function,
    of_kind,
    one_of,
    real_number,
    some,
    text,
    whole_number,
)
from canary.scoring.score_job import score_file
from canary.signals.text_measuring import measure_texts

CANARIES = canary.generate("my pin is {digit:4}", seed=0)
REFUSED = [
    *[
        (whole_number, value, {"at_least": 1}, "at least 1")
        for value in (math.nan, None, True, np.bool_(True), 2.5, np.float64(2), "5", [2], 0, 2**63)
    ],
    (whole_number, np.array([1, 2]), {"at_least": 1}, "at least 1"),
    (whole_number, -(10**5000), {"at_least": 0, "below": None}, "too long to show|-1000"),
    *[
        (real_number, value, {"above": 0, "cure": "leave it out"}, "number above 0, got")
        for value in (math.nan, math.inf, 0, -1.0, 10**400, True, None, "1", 1j)
    ],
    *[
        (text, value, {"cure": "leave it out"}, "must be text|half a character")
        for value in (None, 5, b"a", "secret \ud800")
    ],
    *[
        (one_of, value, {"choices": ("proof", "paper")}, "se one of proof, paper")
        for value in (None, 5, ["proof"], "proofs", "")
    ],
    *[(some, value, {"cure": "give one"}, "list") for value in (None, 5, "text", b"bytes")],
    (of_kind, None, {"kind": int, "cure": "give one"}, "must be a int, got None"),
    (function, 5, {}, "function, got .* int; leave option out"),
    (flag, 1, {}, "True or False"),
    (file_path, b"a", {"cure": "give one"}, "path, got .* bytes"),
]


@pytest.mark.parametrize(("check", "value", "options", "word"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_serve_is_refused_with_a_cure(check, value, options, word):
    with pytest.raises(InputError, match=word) as caught:
        check(value, **{"name": "option", **options})
    assert caught.value.problem.startswith(("option ", "unknown option "))
    assert caught.value.cure
    assert "secret" not in str(caught.value)


def test_what_serves_is_returned_and_plain():
    for value in (3, np.int8(3), np.uint64(3), np.array(3)):
        number = whole_number(value, "top", at_least=1)
        assert (number, type(number)) == (3, int)
    assert whole_number(2**200, "seed", at_least=0, below=None) == 2**200
    for value in (2, 2.0, np.float32(2), np.int64(2)):
        number = real_number(value, "seconds", above=0, cure="leave it out")
        assert (number, type(number)) == (2.0, float)
    assert text("ä\n", "context", cure="") == "ä\n"
    assert some((n for n in (1, 2)), "numbers", cure="") == [1, 2]
    assert of_kind(5, int, "n", cure="") == 5
    assert flag(np.bool_(True), "x") is True
    assert file_path("a", "x", cure="") == Path("a")
    function(print, "progress")
    function(None, "progress")


@pytest.mark.parametrize(
    "call",
    [
        lambda **wrong: canary.score("model", ["a"], **wrong),
        lambda **wrong: score_file("model", "a.jsonl", "b.jsonl", **wrong),
        lambda **wrong: measure_texts("model", ["a"], [True], **wrong),
        lambda **wrong: ExposureMonitor(CANARIES, tokenizer=None, **wrong),
    ],
    ids=["score", "score_file", "measure_texts", "ExposureMonitor"],
)
def test_a_keyword_that_is_not_there_is_answered_with_near_ones(call):
    with pytest.raises(TypeError, match=r"\(\) got an .* 'star_token'; did you mean start_token"):
        call(star_token="x")


def test_an_option_of_loading_is_named_where_it_belongs():
    with pytest.raises(
        TypeError, match=r"give canary.load\(model, tokenizer=...\) in place of the"
    ):
        canary.audit("./model", [], tokenizer="./tokenizer")


def test_an_option_of_an_endpoint_is_named_where_it_belongs():
    url = "http://127.0.0.1:1"
    calls = (
        lambda **wrong: canary.load(url, **wrong),
        lambda **wrong: canary.audit(url, [], **wrong),
        lambda **wrong: canary.sample(url, **wrong),
        lambda **wrong: canary.score(url, ["a"], **wrong),
    )
    for call in calls:
        with pytest.raises(InputError, match=r"^key_env is .* Endpoint\(url, key_env=\.\.\.\) of"):
            call(key_env="X")
    missing = {field.name for field in dataclasses.fields(Endpoint)} - {"url", "say"}
    for name in sorted(missing - set(inspect.signature(canary.load).parameters)):
        with pytest.raises(InputError, match=f"^{name} is an option of an Endpoint, not of load"):
            canary.load(url, **{name: 1})
    with pytest.raises(TypeError, match="'tokeniser'; did you mean tokenizer"):
        canary.load(url, tokeniser="x")
