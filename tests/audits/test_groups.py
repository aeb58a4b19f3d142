"""The table by number of copies: medians, and the interval of each."""

from __future__ import annotations

import numpy as np
import pytest
from gate_audits import by_bits, by_draws, exact, of_groups
from scipy.stats import binom

from canary.audits.exposure_result import Exposures
from canary.audits.group_medians import interval_of_median
from canary.errors import EstimationError
from canary.reports.wording import EXPOSURE_COLUMNS, exposure_cells

LEARNED = [3.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0]


def test_the_interval_is_two_sided_oracle():
    table = exact({16: LEARNED, 4: [6.0] * 3, 0: [1.0] * 12}).groups().set_index("repetitions")
    assert list(table.index) == [0, 4, 16]
    assert list(table.canaries) == [12, 3, 8]
    assert table.median_bits.tolist() == pytest.approx([1.0, 6.0, 16.5], abs=0.01)
    # Of 8 fair coins 7 or more are heads in 3.5 %, 6 or more in 14.5 %.
    assert binom.sf(6, 8, 0.5) <= 0.05 < binom.sf(5, 8, 0.5)
    ends = table.loc[16, ["lower_bits", "upper_bits"]].tolist()
    assert ends == pytest.approx([LEARNED[1], LEARNED[-2]], abs=0.01)
    # Three canaries are too few for it.
    assert table.loc[4, ["lower_bits", "upper_bits"]].isna().all()
    assert table.loc[4, "canaries_needed"] == 5
    wider = exact({16: LEARNED}).groups(confidence=0.99).iloc[0]
    assert [wider.lower_bits, wider.upper_bits] == pytest.approx([3.0, 20.0], abs=0.01)


def test_a_narrow_terminal_hides_what_is_needed_least():
    import pandas as pd

    audit = exact({16: LEARNED, 4: [6.0] * 3, 0: [1.0] * 12})
    with pd.option_context("display.width", 80, "display.max_columns", 6):
        shown = str(audit.groups()).splitlines()[0].split()
    ends = ["lower_bits", "upper_bits"]
    assert shown == ["repetitions", "median_bits", "canaries", "...", "bound", *ends]
    assert audit.groups().to_string().split()[3:5] == ["confidence", "canaries_needed"]


def test_draws_that_miss_widen_the_interval_and_bound_its_confidence():
    drawn = by_draws(2.0 ** -np.arange(1.0, 9.0), draws=2_000, rng=np.random.default_rng(1))
    audit = of_groups({4: drawn})
    row = audit.groups().iloc[0]
    known = interval_of_median(drawn, 0.95)
    assert (row.lower_bits, row.upper_bits) == (known.lower_bits, known.upper_bits)
    assert row.lower_bits <= row.median_bits <= row.upper_bits
    # An interval of 95 % misses with 0.025 at one end, and so may that of the median.
    assert audit.groups(confidence=0.95).iloc[0].lower_bits is None
    with pytest.raises(EstimationError, match="confidence"):
        audit.groups(confidence=1.0)


def test_terminal_report_and_exposures_show_the_same_interval():
    audit = exact({16: LEARNED, 4: [6.0] * 3})
    lines = audit.summary().splitlines()
    assert "   16 copies: 8 canaries, median 16.50 bits (90 % interval 14.00 to 19.00)" in lines
    assert "    4 copies: 3 canaries, median 6.00 bits" in lines
    assert Exposures(audit.canaries).groups().equals(audit.groups())
    metrics = audit.metrics()
    ends = [metrics[f"canary/exposure_16_copies_{end}"] for end in ("lower", "upper")]
    row = audit.groups().iloc[1]
    assert ends == [row.lower_bits, row.upper_bits]
    assert "canary/exposure_4_copies_lower" not in metrics  # too few to say
    assert Exposures(audit.canaries).metrics()["canary/exposure_16_copies_upper"] == ends[1]
    named = EXPOSURE_COLUMNS.index("90 % interval\nof the median")
    assert exposure_cells(16, by_bits(LEARNED))[named] == "14.00 to 19.00"
    assert exposure_cells(4, by_bits([6.0] * 3))[named] == "–"
