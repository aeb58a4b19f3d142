"""Estimates at rest: what was written is read back, and no parts that cannot all be true."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from canary.errors import RecordError
from canary.statistics.exposures import SKEW_NORMAL, exposure_by_draws, exposure_by_rank
from canary.statistics.extrapolation import SkewNormalFit
from canary.statistics.histogram import Histogram
from canary.statistics.pvalues import fisher
from canary.statistics.skewnormal import SkewNormal

(DRAWN,) = exposure_by_draws([3.0], [2.0, 4.0], space_size=100)
RANKED = exposure_by_rank(2, lower=1, upper=3, space_size=100)
CURVED = replace(DRAWN, method=SKEW_NORMAL, p_value=None, upper_bits=math.inf)
HISTOGRAM = Histogram(1.0, 0.5, (1, 0, 2))
FIT = SkewNormalFit(SkewNormal(1.0, 2.0, -math.inf), 50, 50, 0.1, 0.5, 10.0, 0.1, 0.95, 20)


@pytest.mark.parametrize(
    "result", [DRAWN, RANKED, CURVED, HISTOGRAM, FIT, replace(FIT.curve, shape=0), fisher([0.1])]
)
def test_round_trip(result):
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert type(result).from_dict(plain) == result


@pytest.mark.parametrize(
    ("result", "change", "where", "word"),
    [
        (DRAWN, {"bits": "1"}, "bits", "number"),
        (DRAWN, {"lower_bits": 90.0}, "", "lower_bits"),
        (DRAWN, {"bits": 6.7}, "", "interval"),
        (DRAWN, {"upper_bits": None}, "", "upper_bits"),
        (DRAWN, {"hits": 3}, "", "hits"),
        (DRAWN, {"confidence": 1.0}, "", "confidence"),
        (DRAWN, {"confidence": None}, "", "confidence"),
        (DRAWN, {"space_bits": 1e16}, "", "space_bits"),
        (RANKED, {"rank": 4}, "", "ranks"),
        (RANKED, {"rank_lower": 0}, "", "ranks"),
        (RANKED, {"rank_lower": None}, "", "ranks"),
        (RANKED, {"p_value": None}, "", "p_value"),
        (CURVED, {"p_value": 0.5}, "", "upper_bits"),
        (HISTOGRAM, {"counts": [1, -1]}, "", "counts"),
        (HISTOGRAM, {"counts": [2**62, 2**62]}, "", "counts"),
        (HISTOGRAM, {"width_bits": 0}, "", "width"),
        (HISTOGRAM, {"start_bits": 1e16}, "", "start"),
        (FIT, {"curve": {"location_bits": 1.0, "scale_bits": 1.0}}, "curve", "shape"),
        (FIT, {"curve": {**FIT.curve.to_dict(), "scale_bits": 0.0}}, "curve", "positive"),
        (FIT, {"curve": {**FIT.curve.to_dict(), "shape": "inf"}}, "curve.shape", "number"),
        (FIT, {"tested_tail_bits": None}, "", "tested_tail_bits"),
    ],
)
def test_parts_that_do_not_fit_together_input(result, change, where, word):
    with pytest.raises(RecordError, match=word) as caught:
        type(result).from_dict({**result.to_dict(), **change})
    assert caught.value.where == where
