"""Results as plain data and back: what is written, what is refused, and where it says so."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from canary.errors import InputError, RecordError
from canary.records.record import Document, Extended, Infinite, Record, to_plain
from canary.records.validation import brief


@dataclass(frozen=True)
class Part:
    name: str
    share: float | None = None


@dataclass(frozen=True)
class Inner(Record, sparse=True):
    number: int
    tossed: int | None = None

    def _check(self) -> None:
        if self.number < 0:
            raise ValueError("is negative")


@dataclass(frozen=True)
class Thing(
    Document,
    kind="canary thing",
    schema=2,
    cure="make it again",
    written=("name", "total", "bits", "upper", "open", "flag", "why", "parts", "inner", "facts"),
):
    name: str
    bits: float
    upper: Extended
    open: Annotated[float, Infinite(up=None)]
    flag: bool
    why: Literal["chance", "choice"]
    parts: tuple[Part, ...]
    inner: tuple[Inner, ...]
    facts: Mapping[str, Any]
    file: str = ""

    def __post_init__(self):
        if self.name == "bad":
            raise InputError("is a bad name", cure="take another", where="canary-1")

    @property
    def total(self) -> Extended:
        return sum(inner.number for inner in self.inner) + self.upper

    @classmethod
    def _upgraded(cls, data):
        return {"flag": False, **data}


THING = Thing(
    name="a",
    bits=1.5,
    upper=math.inf,
    open=math.inf,
    flag=True,
    why="chance",
    parts=(Part("p"), Part("q", 0.5)),
    inner=(Inner(1), Inner(2, 3)),
    facts={"k": [1, {"deep": (2, 3)}]},
    file="elsewhere",
)
PLAIN = {
    "name": "a",
    "total": "inf",
    "bits": 1.5,
    "upper": "inf",
    "open": None,
    "flag": True,
    "why": "chance",
    "parts": [{"name": "p", "share": None}, {"name": "q", "share": 0.5}],
    "inner": [{"number": 1}, {"number": 2, "tossed": 3}],
    "facts": {"k": [1, {"deep": [2, 3]}]},
}


def test_what_is_written_is_what_stands_there_in_that_order():
    assert json.dumps(THING.to_dict()) == json.dumps(PLAIN)
    assert to_plain({"a": np.arange(2), "b": np.float64(1.0), "c": (Part("x"),)}) == {
        "a": [0, 1],
        "b": 1.0,
        "c": [{"name": "x", "share": None}],
    }


def test_a_round_trip_through_a_file(tmp_path):
    THING.save(tmp_path / "thing.json")
    loaded = Thing.load(tmp_path / "thing.json")
    assert loaded.file == str(tmp_path / "thing.json")
    assert loaded.to_dict() == PLAIN
    assert Thing.from_dict({k: v for k, v in PLAIN.items() if k != "flag"}).flag is False
    assert Thing.from_dict({**PLAIN, "upper": "-inf", "bits": 3}).upper == -math.inf


@pytest.mark.parametrize(
    ("change", "where", "problem"),
    [
        ({"name": 10**4000}, "name", "is not text"),
        ({"name": "bad"}, "canary-1", "is a bad name"),
        ({"bits": "x" * 9000}, "bits", "is not a number"),
        ({"bits": True}, "bits", "is not a number"),
        ({"bits": 10**400}, "bits", "is not finite"),
        ({"bits": math.nan}, "bits", "is not finite"),
        ({"upper": math.inf}, "upper", "is not finite"),
        ({"upper": None}, "upper", "is not a number"),
        ({"upper": []}, "upper", "is not a number"),
        ({"open": "inf"}, "open", "is not a number"),
        ({"flag": 1}, "flag", "is not true or false"),
        ({"why": "luck"}, "why", "is none of chance, choice"),
        ({"why": ["chance"]}, "why", "is none of chance, choice"),
        ({"parts": "ab"}, "parts", "is not a list"),
        ({"parts": {"name": "p"}}, "parts", "is not a list"),
        ({"parts": [{"name": "p"}, {"name": "q", "share": "1"}]}, "parts[1].share", "is not a"),
        ({"parts": [{}]}, "parts[0]", "the field 'name' is missing"),
        ({"parts": [[]]}, "parts[0]", "is not an object"),
        ({"inner": [{"number": 1}, {"number": -1}]}, "inner[1]", "is negative"),
        ({"inner": [{"number": 1.0}]}, "inner[0].number", "is not a whole number"),
        ({"inner": [None]}, "inner[0]", "is not an object"),
        ({"facts": []}, "facts", "is not an object"),
        ({"x" * 9000: 1}, "", "has 1 unknown fields"),
        ({"file": "f"}, "", "has 1 unknown fields"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place_input(change, where, problem):
    with pytest.raises(RecordError) as caught:
        Thing.from_dict({**PLAIN, **change})
    assert caught.value.where == where
    assert caught.value.problem.startswith(problem)
    assert caught.value.cure
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("data", [[], None, "name", {}, {"name": "a"}])
def test_what_is_no_whole_object_input(data):
    with pytest.raises(RecordError):
        Thing.from_dict(data)


def test_an_error_of_a_file_names_the_file_input(tmp_path):
    path = tmp_path / "thing.json"
    path.write_text(json.dumps({"kind": "canary thing", "schema": 1, **PLAIN, "bits": None}))
    with pytest.raises(RecordError, match="is not a number; make it again") as caught:
        Thing.load(path)
    assert caught.value.where == f"{path}: bits"


def test_brief():
    assert brief("short") == "'short'"
    assert brief("x" * 99) == f"'{'x' * 19}…{'x' * 19}'"
