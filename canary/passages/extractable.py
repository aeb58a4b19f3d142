"""The share of passages that come out of a model, beside that of controls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from canary.records.record import Record
from canary.statistics.clustered import (
    ClusteredShare,
    Counts,
    ShareDifference,
    clustered_difference,
    clustered_share,
)
from canary.statistics.numbers import count, plural


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


def said_share(share: ClusteredShare) -> str:
    """A share of passages in words; where it is 0 its upper bound is what was found."""
    ends = f"{100 * share.lower:.3g} to {100 * share.upper:.3g} %"
    if not share.hits:
        ends = f"at most {100 * share.upper:.3g} %"
    elif not math.isclose(share.value, share.hits / share.windows):
        ends = f"weighted {100 * share.value:.3g} %, {ends}"
    return (
        f"{count(share.hits)} of {plural(share.windows, 'passage')} ({ends} at "
        f"{100 * share.confidence:g} %, over {plural(share.documents, 'document')})"
    )
