"""Exposure at rest."""

from __future__ import annotations

import json
import math

import pytest

from canary.statistics.exposure_result import Exposure
from canary.statistics.exposures import exposure_by_draws, exposure_by_rank

FOUND = [
    *exposure_by_draws([1.0, 3.0], [2.0, 4.0], space_size=100),
    exposure_by_rank(2, lower=1, upper=3, space_size=100),
]


@pytest.mark.parametrize("found", FOUND)
def test_round_trip(found):
    assert Exposure.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize(
    "change",
    [
        {"bits": "1"},
        {"bits": math.nan},
        {"lower_bits": None},
        {"method": 3},
        {"rank": 1.0},
        {"hits": True},
        {"unknown": 1},
    ],
)
def test_foreign_data_input(change):
    with pytest.raises(TypeError, match=next(iter(change))):
        Exposure.from_dict({**FOUND[0].to_dict(), **change})
