"""The report of several audits side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from canary.reports.builders import report_of, section, sections_of
from canary.reports.comparison import Comparison, Strategy, View, front, names_of
from canary.reports.comparison_figures import (
    MOST_PANELS,
    exposures_figure,
    in_order,
    utility_figure,
)
from canary.reports.document import (
    Block,
    Bullets,
    Heading,
    Report,
    Section,
    Span,
    Table,
    Text,
    prose,
    said,
    said_in_one,
)
from canary.reports.palette import SERIES
from canary.reports.sentences import answer
from canary.reports.wording import (
    facts_blocks,
    in_words,
)
from canary.statistics.numbers import bits, count, plural, probability


@report_of.register
def comparison_report(comparison: Comparison) -> Report:
    """What there is to say about several audits."""
    sentences: list[str] = []
    for group in comparison.groups:
        if len(group) > 1:
            words = _headline(View(group))
            alone = len(comparison.groups) == 1
            sentences.append(
                words[0].upper() + words[1:] if alone else f"{names_of(group)}: {words}"
            )
    number = count(len(comparison.strategies))
    return Report(
        title=f"Comparison of {number} memorization audits",
        label="Which training memorizes less",
        sentences=sentences or ["No two of these audits can be compared."],
        notes=[*comparison.reasons, *comparison.notes, *_notes(comparison.strategies)],
        sections=sections_of(comparison),
    )


def _notes(strategies: Sequence[Strategy]) -> Iterator[str]:
    """Which audits are suspect, and what they note of their own numbers."""
    for one in strategies:
        if answer(one.audit).verdict == "suspect":
            yield (
                f"Do not rely on {one.name}: its own report calls the audit suspect, for what was "
                "never in the corpus looks memorized as well."
            )
    for note in dict.fromkeys(note for one in strategies for note in one.audit.notes):
        yield f"{names_of([one for one in strategies if note in one.audit.notes])}: {note}"


def _headline(view: View) -> str:
    """What the reader wants to know first of audits that can be compared; first format."""
    group, shown = view.group, _panels_of(view)
    if not shown:
        return "there is no canary to compare them by."
    where = " of the first format" if len(group[0].audit.formats) > 1 else ""
    if any(one.test_loss_nats is None for one in group):
        start = f"median exposure of canaries{where}"
        by_copies = {n: _extremes({one: view.median(one, n) for one in group}) for n in shown}
    else:
        both = f"in both test loss and exposure of canaries{where}"
        best = {n: in_order(front(view.points(n))) for n in shown}
        if all(len(some) == len(group) for some in best.values()):
            return f"none is beaten by another {both}."
        start = f"beaten by no other {both}"
        by_copies = {
            n: "all" if len(some) == len(group) else names_of(some) for n, some in best.items()
        }
    each = (f"with {plural(n, 'copy', 'copies')}, {words}" for n, words in by_copies.items())
    return f"{start}: {'; '.join(each)}."


def _extremes(medians: Mapping[Strategy, tuple[float, bool]]) -> str:
    """Where the median exposure is least and most, as far as bounds let it be known."""
    low, high = (end(value for value, _ in medians.values()) for end in (min, max))
    if (low, True) in medians.values():
        return f"at least {bits(low)} bits in all, and nothing tells them apart"
    least, most = (
        names_of([one for one, (value, _) in medians.items() if value == end])
        for end in (low, high)
    )
    text = f"least in {least} ({bits(low)} bits)"
    if any(bound for _, bound in medians.values()):
        return text
    if low == high:
        return f"the same in all ({bits(low)} bits)"
    return f"{text} and most in {most} ({bits(high)} bits)"


@section(Comparison, "The audits")
def audits(comparison: Comparison) -> Iterator[Block]:
    """What each audit found, and how well its model does."""
    yield said_in_one("comparison.audits")
    rows: list[Sequence[Text]] = []
    tones = []
    for one in comparison.strategies:
        loss, combined, judged = one.test_loss_nats, one.audit.injected_p, answer(one.audit)
        tones.append(judged.verdict.replace(" ", "-"))
        rows.append(
            (
                (Span(one.name, f"series-{one.place % len(SERIES)}"),),
                one.label,
                (Span(judged.label, "strong"),),
                "–" if loss is None else f"{loss:.4f}",
                "–" if combined is None else probability(combined.p_value),
            )
        )
    title = (
        "The audits: letter, label, answer, test loss in nats per token, and p-value of the "
        "injected canaries"
    )
    columns = ("Audit", "Label", "Answer", "Test loss\n(nats per token)", "p-value\n(injected)")
    yield Table(title, columns, rows, tones, style="words", numbers=2)


@section(Comparison, "")
def groups(comparison: Comparison) -> Iterator[Section]:
    """A section for each group of audits that can be compared."""
    for number, group in enumerate(comparison.groups, 1):
        heading = "Side by side"
        if len(comparison.groups) > 1:
            heading = f"{names_of(group)}: {'alone' if len(group) == 1 else 'side by side'}"
        yield Section(f"group-{number}", heading, [*_group_blocks(group)])


def _group_blocks(group: Sequence[Strategy]) -> Iterator[Block]:
    alone = len(group) == 1
    if alone:
        yield (
            "No other audit can be compared with this one. What it found stands in its own report."
        )
    views = [View(group, at) for at in range(len(group[0].audit.formats))]
    views = [view for view in views if view.copies]
    for number, view in enumerate(views, 1):
        priced = view.priced
        draws = "" if priced.draws is None else f", with {count(priced.draws)} uniform draws"
        yield prose(
            f"The format is `{{format}}`, with {count(priced.space_size)} possible secrets "
            f"({bits(view.space_bits)} bits). The method is {priced.method}{draws}.",
            format=priced.masked,
        )
        if alone:
            continue
        which = f", format {number}" if len(views) > 1 else ""
        yield from _measured_blocks(view, which)
        if view.bounds and view.has_curves:
            yield from _measured_blocks(replace(view, skew_normal=True), which)
    if not alone and sum(one.test_loss_nats is not None for one in group) < 2:
        yield "Utility is not compared here: that needs the test loss of each model."


def _measured_blocks(view: View, which: str) -> Iterator[Block]:
    """The figures of one format."""
    estimate = " by the skew-normal estimate" if view.skew_normal else ""
    yield Heading(f"Exposure{estimate or ' by number of copies'}{which}")
    if view.skew_normal:
        fits = {one: one.audit.formats[view.at].skew_normal for one in view.group}
        failed = [one for one, fit in fits.items() if fit and fit.rejected]
        yield said_in_one("comparison.curves", failed=names_of(failed) if failed else "")
    yield exposures_figure(view)
    shown = _panels_of(view)
    if shown and sum(one.test_loss_nats is not None for one in view.group) > 1:
        yield Heading(f"Utility against exposure{estimate}{which}")
        yield utility_figure(view, shown)


@section(Comparison, "How each was audited", specialist=True)
def how(comparison: Comparison) -> Iterator[Block]:
    """What is the same in the models and settings of all audits, and what is not."""
    worded = {
        f"{one.name}: {one.label}": in_words({**one.audit.model, **one.audit.settings})
        for one in comparison.strategies
    }
    shared = set.intersection(*(set(facts.items()) for facts in worded.values()))
    first = next(iter(worded.values()))
    same = {"The same in all": {k: v for k, v in first.items() if (k, v) in shared}}
    yield from facts_blocks(
        same
        | {
            heading: {k: v for k, v in facts.items() if (k, v) not in shared}
            for heading, facts in worded.items()
        }
    )


@section(Comparison, "What this does not say", specialist=True)
def limits(_: Comparison) -> Iterator[Block]:
    """What must not be read into the numbers."""
    yield Bullets(said("comparison.limits"))


def _panels_of(view: View) -> list[int]:
    """Some numbers of copies, without controls, the least and the most among them."""
    copies = [n for n in view.copies if n]
    if len(copies) <= MOST_PANELS:
        return copies
    return [copies[i] for i in np.linspace(0, len(copies) - 1, MOST_PANELS).round().astype(int)]
