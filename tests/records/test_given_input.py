"""Options of another type or out of range are refused with a cure; those that serve are plain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from canary.errors import InputError
from canary.records.validation import (
    check_running,
    function,
    of_kind,
    one_of,
    real_number,
    some,
    text,
    whole_number,
)

NO_WHOLE_NUMBERS = (math.nan, None, True, np.bool_(True), 2.5, np.float64(2), "5", [2])


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_whole_numbers_become_plain_ints(value):
    number = whole_number(value, "top", at_least=1)
    assert (number, type(number)) == (3, int)


@pytest.mark.parametrize("value", [*NO_WHOLE_NUMBERS, np.array([1, 2]), 0, -1, 2**63])
def test_what_is_no_whole_number_in_range(value):
    with pytest.raises(InputError, match="^top must be .* at least 1.*; give a number such as 1"):
        whole_number(value, "top", at_least=1)


def test_whole_numbers_without_an_end():
    assert whole_number(2**200, "seed", at_least=0, below=None) == 2**200
    with pytest.raises(InputError, match="got a int too long to show|got -1000"):
        whole_number(-(10**5000), "seed", at_least=0, below=None)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2)])
def test_real_numbers_become_plain_floats(value):
    number = real_number(value, "seconds", above=0, cure="leave it out")
    assert (number, type(number)) == (2.0, float)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0, -1.0, 10**400, True, None, "1", 1j])
def test_what_is_no_real_number_in_range(value):
    with pytest.raises(InputError, match="^seconds must be a number above 0, got .*; leave it out"):
        real_number(value, "seconds", above=0, cure="leave it out")


@pytest.mark.parametrize("value", [None, 5, b"a", "secret \ud800"])
def test_what_is_no_text_is_not_shown(value):
    with pytest.raises(InputError, match="context .*; leave it out") as caught:
        text(value, "context", cure="leave it out")
    assert "secret" not in str(caught.value)
    assert text("ä\n", "context", cure="") == "ä\n"


@pytest.mark.parametrize("value", [None, 5, ["proof"], "proofs", ""])
def test_what_is_none_of_the_words(value):
    with pytest.raises(InputError, match="^unknown stop .*; use one of proof, paper"):
        one_of(value, "stop", ("proof", "paper"))


@pytest.mark.parametrize("value", [None, 5, "text", b"bytes"])
def test_what_is_no_list(value):
    with pytest.raises(InputError, match="^texts must be a list, got .*; give one"):
        some(value, "texts", cure="give one")
    assert some((n for n in (1, 2)), "numbers", cure="") == [1, 2]


def test_what_is_of_another_kind():
    assert of_kind(5, int, "n", cure="") == 5
    with pytest.raises(InputError, match="^n must be a int, got None; give one"):
        of_kind(None, int, "n", cure="give one")
    function(print, "stage")
    function(None, "stage")
    with pytest.raises(InputError, match="^stage must be a function, got .* int; leave stage out"):
        function(5, "stage")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start_token": 5}, "start_token must be text"),
        ({"start_token": "\ud800"}, "start_token holds half a character"),
        ({"context": None}, "context must be text, got None"),
        ({"batch_size": 0}, "batch_size .* at least 1, got 0; leave it out"),
        ({"batch_size": 1.5}, "batch_size .* got 1.5; leave it out"),
    ],
)
def test_how_a_model_is_run(change, message):
    with pytest.raises(InputError, match=message):
        check_running(**{"start_token": None, "context": "", "batch_size": None, **change})
    assert check_running(start_token="a", context="", batch_size=np.int64(4)) == 4
