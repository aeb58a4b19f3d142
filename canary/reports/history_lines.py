"""The lines of a figure of a training that was watched: a number of copies each."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass

from canary.audits.group_medians import median_bits
from canary.audits.history import History
from canary.reports.exposure_figures import group_name
from canary.reports.history_answer import at_the_edge


@dataclass(frozen=True)
class GroupLine:
    """Exposure of the canaries with one number of copies, at each moment in bits.

    `bounds` says of each median whether it may be higher: it is a lower bound, or more than all
    draws but one; it is within `ends` then. The band goes from `least` to `most` of the
    estimates and bounds. `heights` are what is drawn of them: of a lower bound the estimate, so
    that groups keep their order.
    """

    copies: int
    control: bool
    steps: tuple[int, ...]
    medians: tuple[float, ...]
    bounds: tuple[bool, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    heights: tuple[float, ...]
    ends: tuple[tuple[float, float], ...]

    @property
    def name(self) -> str:
        """``16 copies``, and whether that is the positive control."""
        return group_name(self.copies) + ": positive control" * self.control

    @property
    def certain(self) -> list[float]:
        """The medians, and of those that are drawn as bounds what is certain."""
        known = zip(self.medians, self.bounds, self.ends, strict=True)
        return [ends[0] if bound else median for median, bound, ends in known]

    @property
    def open_ended(self) -> list[tuple[float, float]]:
        """The `ends` of the medians that are drawn as bounds."""
        return [ends for ends, bound in zip(self.ends, self.bounds, strict=True) if bound]

    def meets(self, other: GroupLine, near: float) -> bool:
        """Whether both are drawn as one line from a step to the next."""
        theirs = dict(zip(other.steps, other.heights, strict=True))
        mine = zip(self.steps, self.heights, strict=True)
        same = [abs(theirs.get(step, math.inf) - height) <= near for step, height in mine]
        return any(map(all, itertools.pairwise(same)))


def group_lines(history: History, at: int, *, skew_normal: bool = False) -> list[GroupLine]:
    """The lines of one format, controls first.

    With `skew_normal` they are off the curves; a moment at which a group has no such
    estimates has no point then.
    """
    lines = []
    for copies, places in history.places(at).items():
        rows: list[tuple[int, float, bool, float, float, float, tuple[float, float]]] = []
        for moment in history.measured:
            group = [moment.exposures[place] for place in places]
            curve = [moment.curve_bits[place] for place in places]
            drawn = [e.lower_bits if e.bits is None else e.bits for e in group]
            known = [value for value in (curve if skew_normal else drawn) if value is not None]
            if len(known) < len(places):
                continue
            told = (statistics.median(known), False) if skew_normal else median_bits(group)
            bound = told[1] or (not skew_normal and at_the_edge(history.formats[at], told[0]))
            height = statistics.median(e.place_bits for e in group) if bound else told[0]
            height = told[0] if skew_normal else max(height, told[0])
            band = min(*known, told[0]), max(*known, height)
            low, high = zip(*((e.lower_bits, e.upper_bits) for e in group), strict=True)
            ends = min(statistics.median(low), told[0]), max(statistics.median(high), height)
            rows.append((moment.step, told[0], bound, *band, height, ends))
        columns = zip(*rows, strict=True) if rows else ((),) * 7
        lines.append(GroupLine(copies, copies == (history.control or None), *columns))
    return lines
