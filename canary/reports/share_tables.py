"""Shares of passages that come out, in the words and cells of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from canary.passages.extractable import Way, percent_said
from canary.passages.result import CHANCE, TRIES
from canary.reports.document import Table
from canary.statistics.clustered import ClusteredShare
from canary.statistics.numbers import count, plural, probability

if TYPE_CHECKING:
    from canary.passages.result import Verbatim

_FEW_HITS = 5
"""Of fewer passages that come out a table has only their number."""


def in_words(way: Way) -> str:
    """How it was asked, in plain words."""
    _, _, tries = way.metric.rpartition("_")
    if not tries.isdigit():
        return "first try, always the most probable piece"
    near = way.how.partition(", ")[2] if way.metric.startswith("near") else ""
    one = "one answer of random pieces"
    answers = one if tries == "1" else f"{count(int(tries))} random answers"
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


def counted(share: ClusteredShare) -> str:
    """``3 of 421 passages``, ``none of 445 passages``."""
    return f"{count(share.hits) if share.hits else 'none'} of {plural(share.windows, 'passage')}"


def never_seen(result: Verbatim, limit: float) -> str:
    """What the model never saw and a million answers give, where that is above a limit."""
    never = result.rate(tries=TRIES[-1], chance=CHANCE).controls
    return counted(never) if never and never.hits > limit * never.windows else ""


def rates_table(result: Verbatim, *, tested: bool = True) -> Table:
    """The shares of passages that come out, for specialists or in plain words."""
    caption = "Share of passages that come out"
    if tested:  # for specialists
        return shares_table(caption, "How", result.ways())
    several = len(result.schemes) > 1
    ways = [
        way._replace(when=in_words(way), how=way.how if several else "") for way in result.ways()
    ]
    return shares_table(caption, "How", ways, tested=False, said=cell)
