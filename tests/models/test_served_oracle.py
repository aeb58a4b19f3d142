"""A served model gives the numbers of the same model in process."""

from __future__ import annotations

import pytest
from fake_server import FakeServer
from served_things import load_served, some_canaries
from small_models import build

import canary
from canary.models.conformance import CHECKS, memory_is_bounded


@pytest.mark.parametrize(
    ("name", "ways"),
    [("table", {}), ("table", {"numbered": False}), ("table", {"ids": False}), ("gpt2", {})],
)
def test_exposures_are_those_in_process(tmp_path, name, ways):
    model, canaries = build(name), some_canaries()
    inside = canary.exposure(model, canaries, seed=1)
    with FakeServer(model, **ways) as server:
        outside = canary.exposure(load_served(server, tmp_path), canaries, seed=1)
    for here, there in zip(inside, outside, strict=True):
        assert there.exposure.bits == here.exposure.bits
        assert there.px_bits == pytest.approx(here.px_bits, abs=1e-4)
        assert there.context_bits == pytest.approx(here.context_bits, abs=1e-4)


def test_extraction_is_that_in_process(tmp_path):
    model = build("table")
    inside = canary.extract(model, "abc {digit:2}", top=3)
    with FakeServer(model) as server:
        outside = canary.extract(load_served(server, tmp_path), "abc {digit:2}", top=3)
    assert [c.fill for c in outside.candidates] == [c.fill for c in inside.candidates]
    assert outside.proven


@pytest.fixture(scope="module")
def served_table(tmp_path_factory):
    with FakeServer(build("table")) as server:
        yield load_served(server, tmp_path_factory.mktemp("answers"))


@pytest.mark.parametrize(
    "check", [c for c in CHECKS if c is not memory_is_bounded], ids=lambda check: check.__name__
)
def test_conformance_but_for_memory_since_nothing_is_held(served_table, check):
    check(served_table)
