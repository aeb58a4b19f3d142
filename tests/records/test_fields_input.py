"""Plain data of another type, size or shape is refused, briefly and without its values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from canary.records.fields import brief, from_fields


@dataclass(frozen=True)
class Thing:
    name: str
    count: int
    bits: float
    bound: float | None = None


GOOD = {"name": "a", "count": 10**400, "bits": 3}


def test_what_fits_is_built():
    assert from_fields(Thing, GOOD) == Thing("a", 10**400, 3)
    assert from_fields(Thing, {**GOOD, "bound": 1.5}).bound == 1.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 10**400}, "bits must be finite"),
        ({"bits": -(10**400)}, "bits must be finite"),
        ({"bound": float("inf")}, "bound must be finite"),
        ({"bits": float("nan")}, "bits must be finite"),
        ({"bits": "x" * 9000}, "bits must be float, got str"),
        ({"bits": None}, "bits must be float, got NoneType"),
        ({"count": 1.0}, "count must be int, got float"),
        ({"count": True}, "count must be int, got bool"),
        ({"name": 10**4000}, "name must be str, got int"),
        ({"x" * 9000: 1}, "Thing has no field 'xxxx"),
    ],
)
def test_what_does_not_fit_is_named_briefly(change, message):
    with pytest.raises(TypeError) as caught:
        from_fields(Thing, {**GOOD, **change})
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("data", [[], None, "name", {}, {"name": "a"}])
def test_what_is_no_whole_object(data):
    with pytest.raises(TypeError):
        from_fields(Thing, data)


def test_brief():
    assert brief("short") == "'short'"
    assert brief("x" * 99) == f"'{'x' * 19}…{'x' * 19}'"
