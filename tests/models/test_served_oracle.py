"""A served model gives the numbers of the same model in process."""

from __future__ import annotations

import pytest
from fake_server import FakeServer
from small_models import build, character_tokenizer

import canary
from canary.models.conformance import CHECKS
from canary.models.served.endpoint import Endpoint

FORMAT = "abc {digit:2}"


def served(server, folder, **options):
    endpoint = Endpoint(server.url, answers=folder, **options)
    return canary.load(endpoint, tokenizer=character_tokenizer())


@pytest.mark.parametrize("ways", [{}, {"numbered": False}, {"ids": False}])
@pytest.mark.parametrize("name", ["table", "gpt2"])
def test_exposures_are_those_in_process(tmp_path, name, ways):
    model = build(name)
    canaries = canary.generate([FORMAT], repetitions=[1], per_repetition=4, controls=2, seed=3)
    inside = canary.exposure(model, canaries, seed=1)
    with FakeServer(model, **ways) as server:
        outside = canary.exposure(served(server, tmp_path), canaries, seed=1)
    noise = 24 * 1e-5
    for here, there in zip(inside, outside, strict=True):
        assert there.exposure.bits == here.exposure.bits
        assert there.px_bits == pytest.approx(here.px_bits, abs=noise)
        assert there.context_bits == pytest.approx(here.context_bits, abs=noise)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(tmp_path, check):
    if check.__name__ == "memory_is_bounded":
        pytest.skip("nothing is held")
    with FakeServer(build("table")) as server:
        check(served(server, tmp_path))
