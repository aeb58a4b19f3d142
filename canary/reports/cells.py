"""Exposures of a group of canaries as the cells of a table."""

from __future__ import annotations

from collections.abc import Sequence

from canary.audits.audit_result import largest_bits, median_bits, smallest_bits
from canary.statistics.exposure_result import Exposure
from canary.statistics.numbers import count

__all__ = ["EXPOSURE_COLUMNS", "bound_or_bits", "copies_cell", "exposure_cells"]

EXPOSURE_COLUMNS = ("Copies", "Canaries", "Median", "Smallest", "Largest")
"""Of `exposure_cells`."""


def exposure_cells(repetitions: int, exposures: Sequence[Exposure]) -> tuple[str, ...]:
    """Of the canaries of one number of copies: that, their number, median, least and most."""
    found = (measure(exposures) for measure in (median_bits, smallest_bits, largest_bits))
    shown = (bound_or_bits(*value) for value in found)
    return copies_cell(repetitions), count(len(exposures)), *shown


def bound_or_bits(bits: float, bound: bool) -> str:  # noqa: FBT001 - what median_bits returns
    """Bits with two decimals, marked where they are only a lower bound."""
    return f"{'≥ ' if bound else ''}{bits:.2f}"


def copies_cell(repetitions: int) -> str:
    """The number of copies; controls are called so."""
    return count(repetitions) if repetitions else "0 (controls)"
