"""The share of passages that come out of a model, beside that of controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from canary.records.record import Record
from canary.statistics.clustered import (
    ClusteredShare,
    Counts,
    ShareDifference,
    clustered_difference,
    clustered_share,
)
from canary.statistics.numbers import Shown, count, plural, probability

WITHOUT_CONTROLS = (
    "There are no controls: nothing distinguishes what the model memorized from what any model "
    "writes, such as licences and headers"
)


@dataclass(frozen=True)
class Extractable(Record):
    """The share of windows that come out of a model, beside that of controls, if there are any."""

    texts: ClusteredShare
    controls: ClusteredShare | None = None
    difference: ShareDifference | None = None


def share_of(counted: Sequence[Counts], confidence: float) -> Extractable:
    """The share of hits among windows, by document: of texts, and of controls if they are given."""
    shares = [clustered_share(*counts, confidence=confidence) for counts in counted]
    if len(counted) == 1:
        return Extractable(shares[0])
    difference = clustered_difference(counted[0], counted[1], confidence=confidence)
    return Extractable(shares[0], shares[1], difference)


def none_needed(share: ClusteredShare, limit: float) -> int:
    """How many documents like these keep a limit if nothing of them comes out, as of these."""
    none = share.documents * math.log1p(-share.upper) if share.upper < 1 else math.log(0.025)
    return math.ceil(none / math.log1p(-limit))


def lowest_limit(share: ClusteredShare, limit: float = 0.05) -> str:
    """Which limits a share of 0 can keep, and how many secrets or texts another one takes."""
    least = f"only limits of {math.ceil(1e4 * share.upper) / 100:g} % or more"
    if share.upper <= limit:
        return least
    return f"{least}; a limit of {100 * limit:g} % takes {count(none_needed(share, limit))} of them"


def said_share(share: ClusteredShare) -> str:
    """A share of passages in words; where it is 0 its upper bound is what was found."""
    ends = f"{100 * share.lower:.3g} % to {100 * share.upper:.3g} %"
    if not share.hits:
        ends = f"at most {100 * share.upper:.3g} %"
    elif not math.isclose(share.value, share.hits / share.windows):
        ends = f"weighted {100 * share.value:.3g} %, {ends}"
    return (
        f"{count(share.hits)} of {plural(share.windows, 'passage')} ({ends} at "
        f"{100 * share.confidence:g} %, over {plural(share.documents, 'document')})"
    )


def percent_said(share: ClusteredShare) -> str:
    """A share with its interval; of none its upper bound."""
    if not share.hits:
        return f"0 % (at most {share_percent(share.upper)})"
    ends = f"{share_percent(share.lower)} to {share_percent(share.upper)}"
    return f"{share_percent(share.value)} ({ends})"


def share_percent(share: float) -> str:
    """``0.0083 %``, two digits."""
    return "100 %" if share >= 0.995 else f"{100 * share:.2g} %"


class Way(NamedTuple):
    """A way in which passages may come out: how, when, its name as a metric, and the share."""

    how: str
    when: str
    metric: str
    found: Extractable

    @property
    def words(self) -> str:
        """As a row of a table names it."""
        return f"{self.when} ({self.how})" if self.how else self.when


class Repeated(Shown):
    """What is said in the same way of all results on passages that come out."""

    _series: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the numbers must know."""
        raise NotImplementedError

    def ways(self) -> Sequence[Way]:
        """The share that comes out in each way that was measured, the main one first."""
        return self._ways

    @cached_property
    def _ways(self) -> Sequence[Way]:
        raise NotImplementedError

    def _summary(self, headline: str, more: Sequence[str] = ()) -> str:
        """The first way, the others a line each by how, `more` lines, and notes."""
        (*_, found), *others = self.ways()
        lines = [f"{said_share(found.texts)} {headline}"]
        if found.controls and found.difference:
            lead = found.difference
            lines.append(
                f"of the controls {said_share(found.controls)}; difference "
                f"{100 * lead.value:.2f} points ({100 * lead.lower:.2f} to {100 * lead.upper:.2f}),"
                f" p = {probability(lead.p)} by permutation of documents"
            )
        for how, ways in groupby(others, lambda way: way.how):
            lines.append(f"{how}: {'; '.join(f'{way.when} {_beside(way.found)}' for way in ways)}")
        return "\n".join([*lines, *more, *self.notes])

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for way in self.ways():
            for name in ("value", "lower", "upper"):
                yield f"{self._series}/{way.metric}_{name}", getattr(way.found.texts, name)


def _beside(found: Extractable) -> str:
    """A share, and that of the controls if there are any."""
    if not found.controls or not found.difference:
        return percent_said(found.texts)
    p = probability(found.difference.p)
    return f"{percent_said(found.texts)}, of the controls {percent_said(found.controls)} (p = {p})"
