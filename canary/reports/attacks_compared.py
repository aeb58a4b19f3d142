"""Several membership tests side by side: which model's training data is recognized least?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canary.errors import InputError
from canary.gate.attacks_written import AtRate, Attack, Attacks, Interval
from canary.gate.check_result import document_of, read_part
from canary.reports.attack_tiles import ends_of
from canary.reports.builders import PlotOptions, figure_of, report_of
from canary.reports.document import Axis, Figure, Panel, Report, Table, mark, said, sentence
from canary.reports.palette import INK, SERIES, across, line
from canary.statistics.numbers import Shown, clean, percent_of, plural
from canary.statistics.roc import Estimate


@dataclass(frozen=True, eq=False, repr=False)
class AttacksCompared(Shown):
    """Membership tests of several models, by the attacks that all of them made.

    Parameters
    ----------
    labels : tuple of str
        What each model is called.
    tests : tuple of Attacks
        What was written of each.
    names : tuple of str
        The attacks that all made.
    """

    labels: tuple[str, ...]
    tests: tuple[Attacks, ...]
    names: tuple[str, ...]

    @property
    def doubted(self) -> list[str]:
        """The models whose test decides nothing."""
        return [
            label
            for label, test in zip(self.labels, self.tests, strict=True)
            if test.doubts or test.outcome in ("void", "undecided")
        ]

    @property
    def reached(self) -> list[Estimate]:
        """The largest AUC of the attacks on each model; intervals allow for the choice."""
        best = [max((one.corrected.auc for one in self._made(t)), key=_value) for t in self.tests]
        return [Estimate(one.value, one.lower, one.upper) for one in best]

    @property
    def least(self) -> int:
        """The model with the smallest of these."""
        values = [one.value for one in self.reached]
        return values.index(min(values))

    def more(self, at: int) -> Estimate:
        """How much larger the AUC is than the smallest one.

        Notes
        -----
        The interval is that of Zou and Donner (MOVER) from both intervals. It is too wide where
        both models were asked about the same samples, and so errs towards no ranking.
        """
        return _gap(self.reached[at], self.reached[self.least])

    @property
    def against(self) -> list[float]:
        """False positive rates at which the least surely loses more samples than another model."""
        least = self.least
        return [
            fpr
            for fpr, found in self.rates().items()
            if any(_gap(found[least], one).lower > 0.0 for one in found)
        ]

    @property
    def decided(self) -> bool:
        """Whether every other model surely leaks more than the least, at no rate surely less."""
        others = (self.more(at) for at in range(len(self.tests)) if at != self.least)
        sure = all(gap.lower > 0.0 for gap in others)
        return sure and bool(self.rates()) and not (self.doubted or self.against)

    def apart(self, at: int, than: int) -> bool:
        """Whether one of these two models surely leaks more, on average."""
        return any(
            _gap(self.reached[one], self.reached[other]).lower > 0.0
            for one, other in ((at, than), (than, at))
        )

    def summary(self) -> str:
        """Which model leaks least, and what the best attack reaches on each."""
        made = report_of(self)
        lines = [
            f"{label}: AUC {percent_of(one.value)} ({ends_of(one)})"
            for label, one in zip(self.labels, self.reached, strict=True)
            if not self.doubted  # of numbers that nothing follows from none is shown
        ]
        return "\n".join([made.label, *lines])

    def _table(self) -> list[dict[str, Any]]:
        return [
            {"model": label, "attack": one.name, "fpr": rate.asked_fpr, "tpr": rate.value,
             "auc": one.corrected.auc.value, "auc lower": one.corrected.auc.lower,
             "auc upper": one.corrected.auc.upper}
            for label, test in zip(self.labels, self.tests, strict=True)
            for one in self._made(test)
            for rate in one.corrected.tpr_at_fpr
        ]  # fmt: skip

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        for label, one in zip(self.labels, self.reached, strict=True):
            yield f"membership/{label}/auc", one.value

    def _made(self, test: Attacks) -> list[Attack]:
        return [one for one in test.attacks if one.name in self.names]

    def rates(self) -> dict[float, list[AtRate]]:
        """At each false positive rate that all were asked for, the most found of each model."""
        every = [
            {rate.asked_fpr for one in self._made(test) for rate in one.corrected.tpr_at_fpr}
            for test in self.tests
        ]
        return {
            fpr: [
                max(
                    (r for one in self._made(test) for r in one.corrected.tpr_at_fpr
                     if r.asked_fpr == fpr),
                    key=_value,
                )
                for test in self.tests
            ]
            for fpr in sorted(set.intersection(*every))
        }  # fmt: skip


def _value(one: Interval) -> float:
    return one.value


def _gap(more: Estimate | Interval, less: Estimate | Interval) -> Estimate:
    gap = more.value - less.value
    return Estimate(
        gap,
        gap - math.hypot(more.value - more.lower, less.upper - less.value),
        gap + math.hypot(more.upper - more.value, less.value - less.lower),
    )


def compare_attacks(results: Sequence[Any], labels: Sequence[str] | None = None) -> AttacksCompared:
    """Put membership tests of several models side by side.

    Parameters
    ----------
    results : sequence
        What `canary.survey` and its like returned, or files that `canary membership` wrote.
    labels : sequence of str, optional
        What each model is called; else their names or files, or A, B, C.

    Raises
    ------
    InputError
        If they are of different kinds or confidences, have no attack in common, or labels are not
        one for each.
    """
    read = [document_of(result) for result in results]
    tests = tuple(read_part(Attacks, *one) for one in read)
    files = [os.fspath(one) for one in results if isinstance(one, str | os.PathLike)]
    if labels is not None and (len(labels) != len(tests) or len({*labels}) < len(labels)):
        raise InputError(
            f"{plural(len(tests), 'test')} and {plural(len(labels), 'label')}",
            cure="give one label for each test, all different",
            where="labels",
        )
    known = [test.about.model for test in tests]
    for names in (labels, known, files):
        if names and all(names) and len({*names}) == len(tests):
            called = tuple(clean(str(name)) for name in names)
            break
    else:
        called = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(tests)])
    common = [
        one.name for one in tests[0].attacks
        if all(one.name in {other.name for other in test.attacks} for test in tests)
    ]  # fmt: skip
    problem, cure = "", "repeat the attacks with the same --attacks (in Python attacks)"
    if len({frozenset(_kind(document)) for document, _ in read}) > 1:
        problem = "the tests are of different kinds, which make different attacks"
        cure = "compare tests of one command; to have several tests of one model side by side, "
        cure += "write them into one document with --annex annex.html"
    elif len({test.confidence for test in tests}) > 1:
        problem, cure = "the tests have different confidences", "repeat them with one confidence"
    elif not common:
        problem = "the tests have no attack in common"
    if problem or len(tests) > 26:
        raise InputError(problem or "more than 26 tests", cure=cure, where="report")
    return AttacksCompared(called, tests, tuple(common))


def _kind(document: Mapping[str, Any]) -> set[str]:
    """By what it says: a test by a shadow, of texts, or of many models."""
    return {*document} & {"target", "words", "most_vulnerable_models"}


@report_of.register
def compared_report(found: AttacksCompared) -> Report:
    """Which model leaks least, as far as the intervals show it."""
    doubted, least = found.doubted, found.labels[found.least]
    number, best = len(found.tests), found.reached[found.least]
    others = [at for at in range(number) if at != found.least]
    label, tone = f"“{least}” leaks {'less' if number == 2 else 'least'}", ""
    worse = [at for at in others if found.more(at).lower > 0.0]
    among = [at for at in worse if not all(found.apart(at, one) for one in worse if one != at)]
    if not found.decided:
        label, tone = "Cannot be ranked: the difference may be chance", "undecided"
        if worse:
            rest = [at for at in range(number) if at not in worse]
            named, left = f"{_called(found, worse)} leak", _called(found, rest)
            more = f"{'s' * (len(worse) == 1)} more; {left} cannot be ranked"
            label = f"{named}{more}: the difference may be chance"
    if not found.rates():
        label = "Cannot be ranked: the tests share no false positive rate"
    elif found.against:
        label = "Cannot be ranked: on average and for the surest guesses they differ"
    if doubted:
        label, tone = "Not comparable: correct the input first", "suspect"
    values: dict[str, Any] = {
        "doubted": " and ".join(doubted), "sound": not doubted, "least": least,
        "best": percent_of(best.value), "decided": found.decided and not doubted,
        "unclear": bool(found.rates()) and not (found.decided or doubted or found.against),
        "among": _called(found, among) if found.decided and among else "",
        "apart_rates": not (doubted or found.rates()),
        "against": not doubted and found.against,
        "surest": " and ".join(percent_of(fpr, digits=None) for fpr in found.against),
        "apart": "; ".join(
            f"{percent_of(found.reached[at].value)} for {found.labels[at]}, "
            f"{_points(found.more(at))} more"
            for at in others
        ),
        "confidence": percent_of(found.tests[0].confidence, digits=None),
        "dropped": ", ".join(sorted({a.name for t in found.tests for a in t.attacks}
                                    - {*found.names})),
    }  # fmt: skip
    return Report(
        title=f"Comparison of {number} membership tests",
        label=label,
        tone=tone,
        about={"Models": "; ".join(found.labels), "Attacks": ", ".join(found.names)},
        sentences=[sentence("attacks_compared.answer", **values)],
        outcome=[] if doubted else [compared_figure(found, PlotOptions())],
        decide=said("attacks_compared.decide", **values),
        actions=said("attacks_compared.actions", **values),
        unsaid=said("attacks_compared.unsaid", **values),
        notes=said("attacks_compared.notes", **values),
    )


def _called(found: AttacksCompared, models: Sequence[int]) -> str:
    *first, last = (found.labels[at] for at in models)
    return f"{', '.join(first)} and {last}" if first else last


def _points(gap: Estimate) -> str:
    """``19.1 points (14.2 to 24.0)``."""
    return f"{100 * gap.value:.1f} points ({100 * gap.lower:.1f} to {100 * gap.upper:.1f})"


@figure_of.register
def compared_figure(found: AttacksCompared, _: PlotOptions) -> Figure:
    """A bar for each model: how often its best attack is right."""
    reached = found.reached
    heights = list(range(len(reached)))[::-1]
    marks = [
        mark("barh", heights, [100 * one.value for one in reached], 0.5, color=SERIES[0],
             alpha=0.8),
        across("axvline", 50, label="guessing"),
        *(
            line([100 * one.lower, 100 * one.upper], [height, height], INK, 1.6)
            for height, one in zip(heights, reached, strict=True)
        ),
    ]  # fmt: skip
    names = {float(h): label for h, label in zip(heights, found.labels, strict=True)}
    x = Axis("pairs in which the best attack is right (AUC, %)", limits=(0, 101))
    y = Axis(limits=(-0.7, len(reached) - 0.3), ticks=names, ruled=False)
    rates = found.rates()
    rows = [
        (label, percent_of(one.value), ends_of(one),
         *(f"{percent_of(rates[fpr][at].value)} ({ends_of(Estimate(*_ends(rates[fpr][at])))})"
           for fpr in rates))
        for at, (label, one) in enumerate(zip(found.labels, reached, strict=True))
    ]  # fmt: skip
    heads = (f"Found at FPR {percent_of(fpr, digits=None)}" for fpr in rates)
    words = "; ".join(f"{row[0]}: {row[1]}" for row in rows)
    return Figure(
        "compared",
        f"How often the best attack on each model is right, in pairs of a training sample and "
        f"another. {words}.",
        [Panel(marks, x, y, grid="x", legend="above")],
        sentence(
            "attacks_compared.caption",
            confidence=percent_of(found.tests[0].confidence, digits=None),
        ),
        Table(
            "What the best attack reaches on each model", ("Model", "AUC", "Interval", *heads), rows
        ),
    )


def _ends(one: AtRate) -> tuple[float, float, float]:
    return one.value, one.lower, one.upper
