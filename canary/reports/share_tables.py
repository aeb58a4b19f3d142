"""Shares of passages that come out, in the words and cells of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from canary.passages.extractable import Way, percent_said
from canary.reports.document import Table
from canary.statistics.clustered import ClusteredShare
from canary.statistics.numbers import count, probability

_FEW_HITS = 5
"""Of fewer passages that come out a table has only their number."""


def in_words(way: Way) -> str:
    """How it was asked, in plain words."""
    _, _, tries = way.metric.rpartition("_")
    if not tries.isdigit():
        return "first try, always the most probable piece"
    near = way.how.partition(", ")[2] if way.metric.startswith("near") else ""
    answers = "one random answer" if tries == "1" else f"{count(int(tries))} random answers"
    return f"{answers}, {near}" if near else answers


def cell(share: ClusteredShare) -> str:
    """Passages that come out, and their share where enough of them show its ends."""
    found = f"{count(share.hits)} of {count(share.windows)}"
    if share.hits < _FEW_HITS:
        return found  # an upper end would look larger where fewer were tried
    return f"{found}: {percent_said(share)}"


def shares_table(
    caption: str,
    first: str,
    ways: Sequence[Way],
    *,
    tested: bool = True,
    said: Callable[[ClusteredShare], str] = percent_said,
) -> Table:
    """Shares by way, with those of controls if they are there, and whether they were `tested`."""
    columns, rows = [first, "Texts"], []
    for way in ways:
        one = way.found
        row = [way.words, said(one.texts)]
        if one.controls is not None and one.difference is not None:
            row += [
                said(one.controls),
                *([probability(one.difference.p)] if tested else []),
            ]
        rows.append(row)
    others = ["Never seen (controls)", "p of the difference"]
    return Table(caption, [*columns, *others][: len(rows[0])], rows, style="words")


def enough_texts(share: ClusteredShare, bound: float) -> str:
    """How many texts of which none comes out show that at most this share does."""
    return count(math.ceil(math.log((1 - share.confidence) / 2) / math.log(1 - bound)))


def one_in_of(share: float) -> str:
    """``up to 1 in 8``, of a bound."""
    return f"up to 1 in {count(math.floor(1 / share))}" if share <= 0.5 else "most"
