"""How fast a model does the work of an audit, measured on a part of it before the rest is begun.

A probe does what the audit would do: the walk over all leaves, draws, the search for ranks, or
whole rows. The later part of the probe gives the pace, when the batch size has been found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from canary.audits.cut_secrets import rows_compared as rows_of_cuts
from canary.audits.method import Cost, Method
from canary.audits.question import Question, Sizes
from canary.errors import CanaryError
from canary.records.clocks import seconds
from canary.records.progress import phase, remark
from canary.records.shards import Run
from canary.scoring.batcher import Batcher
from canary.scoring.shared_rows import worth_sharing
from canary.search.bounded import BoundedWalk
from canary.search.enumerate import enumerate_leaves
from canary.search.pricing import FILLS_AT_ONCE, Pricer, price_rows, rows_compared
from canary.search.shortest import MOST_OPEN, ShortestWalk
from canary.statistics.number_checks import LN2
from canary.statistics.numbers import duration, plural
from canary.tokens.arrays import branches

LOOK = 3.0
"""Processor seconds of a probe."""

_LONG = 60.0  # seconds from which on an audit says how long it takes
_GLANCE = 0.25  # seconds of a probe of whether it takes that long
_BUSY = 3.0  # times a probe's seconds on the clock, where other work takes the processors
_STEPS, _LONGER = 24, 4.0  # fewer batches than these are given as many times the seconds
_EARLY = 2.0  # times the seconds of other probes for the first batches of an extraction
_OVER = 1.5  # times its seconds a probe takes, as its last batch is the largest
_PART, _AGREE = 0.25, 0.85  # two parts of a probe this long, at paces this near, are enough
_LATER = 0.4  # of a probe's time has passed when its pace is taken
_FIRST = 16  # canaries that are priced to see what all take
_SEARCHED = 8  # candidates that the probe of a search ranks
_FEWEST = 64  # queries of the first step of that probe
_STREAM = 0x666F7265


@dataclass(frozen=True)
class Pace:
    """What some work took: queries, seconds on the clock, and of the processors together."""

    queries: int = 0
    seconds: float = 0.0
    processor: float = 0.0

    def of(self, queries: int) -> Pace:
        """What this number of queries takes at this pace."""
        share = queries / max(self.queries, 1)
        return Pace(queries, share * self.seconds, share * self.processor)

    def __add__(self, other: Pace) -> Pace:
        return Pace(
            self.queries + other.queries,
            self.seconds + other.seconds,
            self.processor + other.processor,
        )


class Probes:
    """How fast a model does each kind of work for a question, measured when it is first asked.

    Parameters
    ----------
    question : Question
    seconds : float
        Of the processors, for each probe.
    known : dict, optional
        What was measured for questions of the same model before; formats whose candidates,
        contexts and spaces are alike share it.
    """

    def __init__(
        self, question: Question, seconds: float, known: dict[Any, list[Pace]] | None = None
    ) -> None:
        self.question, self._seconds = question, seconds
        self._known = {} if known is None else known
        self._canaries: Pace | None = None

    @cached_property
    def _sizes(self) -> Sizes:
        tree = self.question.certified_tree
        return self.question.sizes(None if isinstance(tree, Exception) else tree)

    @property
    def _cost(self) -> Cost:
        return Cost("", 0, 0, self._sizes)

    @property
    def alike(self) -> tuple[int, ...]:
        """What questions of one pace have in common: tokens, and powers of two."""
        sizes, space = self._sizes, self.question.format.size
        return sizes.below, (sizes.tokens - sizes.below).bit_length(), space.bit_length()

    def _measured(
        self, kind: str, *, walked: bool, measure: Callable[[], list[Pace]]
    ) -> list[Pace]:
        """What is known of one kind of work, for questions like this one."""
        key = (kind, walked, *self.alike)
        if key not in self._known:
            phase("Timing the model")
            self._known[key] = measure()
        return self._known[key]

    @property
    def canaries(self) -> Pace:
        """What reading the context and pricing the canaries take."""
        if self._canaries is None:
            question, sizes = self.question, self._sizes
            phase("Timing the model")
            began = clocks()
            with question.pricer(sizes.tree, sizes.noise_bits) as pricer:
                _, queries = pricer.canaries(self._batcher(), question.fills[:_FIRST])
            taken = since(began, queries)
            if (more := len(question.fills) - _FIRST) > 0:
                taken += self.pace("draws", self._cost).of(round(queries * more / _FIRST))
            self._canaries = taken
        return self._canaries

    def pace(self, kind: str, cost: Cost, *, soon: float = 0.0) -> Pace:
        """How fast the model does one kind of work.

        A probe ends early where a query takes less than `soon` seconds.
        """

        def measure() -> list[Pace]:
            with self.question.pricer(cost.sizes.tree, cost.sizes.noise_bits) as pricer:
                if not pricer.walks:
                    steps = self._rows()
                elif kind == "search":
                    steps = self._searched(pricer)
                else:
                    steps = self._walked(pricer, drawn=kind == "draws")
                return [_pace(steps, self._seconds, soon)]

        return self._measured(kind, walked=cost.sizes.tree is not None, measure=measure)[0]

    @property
    def leaves(self) -> Pace:
        """How fast it walks over all leaves."""
        return self.pace("leaves", self._cost)

    def extraction(self, cost: Cost, *, top: int, budget: int) -> Pace:
        """What searching the `top` most likely candidates takes, if the budget is spent.

        Its batches are small at first, and grow. So the first of it is done and counted as it is;
        the rest has the pace of the search for ranks, and what the last doubling of the queries
        took beyond that pace is added for each doubling to come.
        """
        limit = _EARLY * self._seconds

        def measure() -> list[Pace]:
            taken = [Pace()]
            with self.question.pricer(cost.sizes.tree, cost.sizes.noise_bits) as pricer:
                if pricer.tree is None or not pricer.walks:
                    return taken
                began = clocks()
                walk = ShortestWalk(
                    pricer.tree, pricer.walker, self._batcher(), top=top, most_open=MOST_OPEN
                )
                while len(walk.open) and walk.step(budget - walk.queries):
                    taken.append(since(began, walk.queries))
                    if _spent(taken[-1]) >= limit:
                        break
            return taken

        taken = self._measured("extraction", walked=True, measure=measure)
        first = taken[-1]
        if first.queries == budget:
            return first
        pace = self.pace("search", cost)
        found = first + pace.of(budget - first.queries)
        half = next(p for p in reversed(taken) if 2 * p.queries <= first.queries)
        if not half.queries:
            return found
        usual = pace.of(first.queries - half.queries)
        doublings = math.log2(budget / first.queries) / math.log2(first.queries / half.queries)
        return found + Pace(
            0,
            doublings * max(first.seconds - half.seconds - usual.seconds, 0.0),
            doublings * max(first.processor - half.processor - usual.processor, 0.0),
        )

    def rows(self, number: int) -> Pace:
        """What scoring this number of candidates as rows takes, their common beginning once."""
        sizes = self.question.sizes()
        context, tokens = sizes.tokens - sizes.below, number * sizes.tokens
        if worth_sharing(self.question.model, context, number):
            tokens = 2 * context + number * sizes.below  # one row is a whole one, to compare
        return self._whole_rows.of(tokens)

    def beginnings(self, walked: int, rows: int) -> Pace:
        """What comparing beginnings takes: tokens of walks, and of whole rows."""
        found = self.pace("draws", self._cost).of(walked) if walked else Pace()
        if rows:
            found += self._whole_rows.of(rows)
        return found

    @property
    def _whole_rows(self) -> Pace:
        def measure() -> list[Pace]:
            return [_pace(self._rows(whole=True), self._seconds, 0.0)]

        return self._measured("rows", walked=False, measure=measure)[0]

    def _batcher(self) -> Batcher:
        return Batcher(self.question.model, batch_size=self.question.options.batch_size)

    def _fills(self, most: int) -> list[str]:
        format = self.question.format
        rng = np.random.default_rng([_STREAM, self.question.options.seed])
        return format.sample(min(most, format.size), rng=rng)

    def _rows(self, *, whole: bool = False) -> Iterator[int]:
        """Tokens below the contexts, which are read once; or all, of rows that are read apart."""
        question, batcher = self.question, self._batcher()
        size = min(8, rows_compared(question.sizes().tokens)) if whole else 8
        for _ in range(30):
            fills = self._fills(min(size, FILLS_AT_ONCE))
            below = price_rows(batcher, question.format, question.encoder, fills, alike=not whole)[
                1
            ]
            rows = question.encoder.candidates(question.format, fills) if whole else []
            yield sum(len(row.ids) for row in rows) or below
            size *= 2

    def _walked(self, pricer: Pricer, *, drawn: bool) -> Iterator[int]:
        tree = pricer.tree
        assert tree is not None
        if drawn:
            # One block of the draws, which share their beginnings as those of an audit do.
            fills = sorted(self._fills(self.question.draws))[:FILLS_AT_ONCE]
            chosen = np.unique(np.asarray(pricer.leaves(fills), tree.leaves.dtype))
            tree = replace(branches(tree, chosen), canonical=True)
        for _, spent in enumerate_leaves(tree, pricer.walker, self._batcher()):
            yield spent

    def _searched(self, pricer: Pricer) -> Iterator[int]:
        """Ranks of candidates that are far back, so that the search has work to do."""
        tree, batcher = pricer.tree, self._batcher()
        assert tree is not None
        fills = self._fills(_SEARCHED)
        costs = pricer.price(batcher, fills)[0].px_bits * LN2
        walk = BoundedWalk(
            tree,
            pricer.walker,
            batcher,
            numbers=pricer.leaves(fills),
            costs=costs,
            noise_bits=pricer.noise_bits,
        )
        spent, step, done = walk.bounds().queries, _FEWEST, False
        while not done:
            done = walk.run(budget=step)
            now = walk.bounds().queries
            yield now - spent
            spent, step = now, 2 * step
        walk.close()


def _pace(steps: Iterator[int], limit: float, soon: float) -> Pace:
    """The pace of the later part of some steps, or of all of them if they end within the limit.

    If all so far took less than `soon` seconds a query, the rest, which is faster, is not done.
    """
    began, taken = clocks(), [Pace()]
    for queries in steps:
        taken.append(replace(since(began, queries), queries=taken[-1].queries + queries))
        # Of a large model, few batches have not found their size, unless two parts agree.
        few = _LONGER if len(taken) <= _STEPS and not _agree(taken, _PART * limit) else 1.0
        if taken[-1].seconds < soon * taken[-1].queries:
            return taken[-1]
        if _spent(taken[-1]) >= few * limit:
            break
    else:
        return taken[-1]
    last = taken[-1]
    first = next(p for p in taken if p.seconds >= _LATER * last.seconds or p is taken[-2])
    return Pace(
        last.queries - first.queries,
        last.seconds - first.seconds,
        last.processor - first.processor,
    )


def _spent(pace: Pace) -> float:
    """Seconds of the processors, as on a busy machine the clock says little of what was done."""
    return max(pace.processor, pace.seconds / _BUSY)


def _agree(taken: Sequence[Pace], part: float) -> bool:
    """Whether the last two parts of a probe, of so many seconds at least, have the same pace."""
    end, paces = taken[-1], list[float]()
    for pace in reversed(taken[:-1]):
        lasted = _spent(end) - _spent(pace)
        if lasted >= part:
            paces.append((end.queries - pace.queries) / lasted)
            end = pace
        if len(paces) == 2:
            return min(paces) >= _AGREE * max(paces)
    return False


def clocks() -> tuple[float, float]:
    """Seconds on the clock, and of the processors."""
    return seconds(), seconds(time.process_time)


def since(began: tuple[float, float], queries: int) -> Pace:
    """What has been taken since then."""
    now = clocks()
    return Pace(queries, now[0] - began[0], now[1] - began[1])


Work = Sequence[tuple[Question, Method, Cost]]


def expected(work: Work, look: float, *, soon: float = 0, cuts: bool = False) -> tuple[Pace, bool]:
    """What is left of some formats by the chosen methods, and whether that is a bound.

    A stage that takes under `soon` seconds is not looked at further; `cuts` adds `note_on_cut`.
    """
    total, at_most, known = Pace(), False, dict[Any, list[Pace]]()
    for question, method, cost in work:
        kept = question.series()
        left = 1.0 - sum(piece.state["share"] for piece in kept) if kept else 1.0
        probes = Probes(question, look, known)
        canaries = len(question.fills) * probes._sizes.below if left == 1.0 else 0
        for stage in method.stages(question, cost):
            at_most = at_most or stage.at_most
            queries = round(left * stage.queries) + canaries
            canaries = 0  # they are priced once, before the first stage
            total += probes.pace(stage.kind, cost, soon=soon / max(queries, 1)).of(queries)
        if cuts and (injected := [c.fill for c in question.canaries if not c.control]):
            total += probes.rows(rows_of_cuts(question, injected))
    return total, at_most


def say_probing(probes: Sequence[Probes], seconds: float, *, extraction: bool) -> None:
    """Say about how long the probes of a forecast take, where progress is shown."""
    question = probes[0].question
    kinds = 1.0 + 2.0 * ("reuse" in question.model.facts.capabilities) + _EARLY * extraction
    took = _OVER * seconds * kinds * len({each.alike for each in probes})
    told = f"Timing a few batches takes about {duration(took)} of processor time"
    remark(question.options.progress, told)


def say_expected(questions: Sequence[Question], work: Callable[[], Work], *, cuts: bool) -> None:
    """Say how long an audit takes, with `cuts` that of `expected`, if more than a minute."""
    progress = questions[0].options.progress
    if not remark(progress) or questions[0].model.facts.device == "served":
        return
    phase("Timing the model")
    try:
        chosen = work()
        if expected(chosen, _GLANCE, soon=_LONG / (4 * len(chosen)))[0].seconds < _LONG:
            return
        total, at_most = expected(chosen, LOOK, cuts=cuts)
    except CanaryError:  # the audit itself says what is wrong
        return
    most = "at most" if at_most else "about"
    remark(
        progress,
        f"The measurement takes {most} {duration(total.seconds)} here, for {most} "
        f"{plural(total.queries, 'query', 'queries')}; less with a smaller --budget, fewer "
        "--draws, or --seconds",
    )


def within_seconds(question: Question, run: Run | None) -> Question:
    """The question, its budget no larger than the queries that its seconds allow.

    A run that goes on keeps the budget that it was begun with.
    """
    options = question.options
    if options.seconds is None or not question.prices_rows:
        return question
    kept = None if run is None else run.series(f"budget-{question.number}")
    if kept:
        budget = int(kept[0].state["queries"])
    else:
        pace = Probes(question, min(LOOK, options.seconds / 4)).leaves
        budget = max(int(options.seconds * pace.queries / max(pace.seconds, 1e-9)), 1)
        budget = min(options.budget, budget)
        if kept is not None:
            kept.append({"queries": budget})
    return replace(question, options=replace(options, budget=budget))
