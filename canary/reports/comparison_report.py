"""The report of several audits side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from canary.audits.by_rank import can_rank
from canary.models.english import reads_no_english
from canary.reports.audit_report import notes
from canary.reports.builders import report_of, section, sections_of
from canary.reports.comparison import Comparison, Strategy, View, names_of
from canary.reports.comparison_figures import MOST_PANELS, bits_of, exposures_figure, utility_figure
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
    sentence,
    words_of,
)
from canary.reports.limit_choice import limit_choice, limit_table, new_tests
from canary.reports.limits import basis_of, planting, weakest
from canary.reports.palette import SERIES
from canary.reports.ranked_models import Apart, mean_bits, ranked, times_of
from canary.reports.sentences import Verdict, answer, guesses_of
from canary.reports.wording import about_of, facts_blocks, in_words, percent
from canary.statistics.numbers import bits, clean, count, plural, probability

NEAR = 0.01
"""Test losses that differ by this share at most count as comparable."""

_LABEL_CHARACTERS = 40
_OF_ONE = ("Model", "Version of the weights")  # facts that each model has for itself
_NO_DATA = "Not enough data to decide"


@report_of.register
def comparison_report(comparison: Comparison) -> Report:
    """What there is to say about several audits."""
    answers = [_answer(group) for group in comparison.groups if len(group) > 1]
    sentences, label, tone = [], "Not comparable", "undecided"
    for group, found in zip([g for g in comparison.groups if len(g) > 1], answers, strict=True):
        alone = len(comparison.groups) == 1
        sentences += [found.sentence if alone else f"{names_of(group)}: {found.sentence}"]
        label, tone = (found.label, found.tone) if alone else ("Only some can be compared", tone)
    number = count(len(comparison.strategies))
    about = about_of(*(one.audit for one in comparison.strategies))
    return Report(
        title=f"Comparison of {number} memorization audits",
        label=label,
        tone=tone,
        sentences=sentences or ["No two of these audits can be compared."],
        basis=_basis(comparison) if tone != "suspect" else "",
        decide=list(dict.fromkeys(action for found in answers for action in found.decide)),
        actions=list(dict.fromkeys(action for found in answers for action in found.actions)),
        notes=[*comparison.reasons, *comparison.notes, *_notes(comparison)],
        about={
            **{one.name: _identified(one) for one in comparison.strategies},
            **{name: fact for name, fact in about.items() if name not in _OF_ONE},
            "Limit": "none was set",
        },
        outcome=[said_in_one("comparison.canaries"), *_outcome(comparison)],
        unsaid=said("comparison.unsaid"),
        sections=sections_of(comparison),
    )


def _basis(comparison: Comparison) -> Text:
    """Whether all the models that are ranked read the planted secrets."""
    audits = [one.audit for group in comparison.groups if len(group) > 1 for one in group]
    audit = weakest(audits)
    return basis_of(audit) if audit is not None and planting(audit) != "shown" else ""


def _outcome(comparison: Comparison) -> Iterator[Block]:
    """The exposures of the first format, of each group that can be compared."""
    for group in comparison.groups:
        if len(group) > 1 and (view := View(group)).copies:
            if len(comparison.groups) > 1:
                yield Heading(names_of(group))
            yield exposures_figure(view)
            yield from limit_table([(one.name, one.audit) for one in group])


class _Answer(NamedTuple):
    """Which of some alike audits to ship."""

    label: str
    tone: str
    sentence: str
    decide: Sequence[Text]
    actions: Sequence[Text]


def _answer(group: Sequence[Strategy]) -> _Answer:
    """The model that memorizes least at comparable utility, if it can be known."""
    suspect = [one for one in group if _judged(one, group) == "suspect"]
    one = group[0].audit
    if suspect or not one.injected or not one.canaries_in_corpus:
        words = sentence(
            "comparison.nothing",
            no_canaries=not one.injected,
            dry=one.injected and not one.canaries_in_corpus and not suspect,
            suspect=names_of(suspect) if suspect else "",
            names=len(suspect),
        )
        label, tone = ("Do not rely on it", "suspect") if suspect else (_NO_DATA, "undecided")
        return _Answer(label, tone, words, (), ())
    ranking = ranked(group)
    best, worse = ranking.least[0], [one.strategy for one in ranking.more]
    who, degree = ("Both", "less") if len(group) == 2 else ("All", "least")
    ranks = all(can_rank(one.audit.model) for one in group)
    known = [one for one in group if one.test_loss_nats is not None]
    values: dict[str, Any] = {
        "best": _called(best),
        "one": _called(best) if len(ranking.least) == 1 else "the model that you choose",
        "number": count(len(group)),
        "degree": degree,
        "two": _names(worse) if worse and len(group) == 2 else "",
        "open_ends": ranking.open_ends and ranks,
        "drawn": ranking.open_ends and not ranks,
        "no_loss": len(known) < len(group),
        "too_few": ranking.too_few,
        "overlap": ranking.open_ends and not ranking.too_few,
        "alike": not (ranking.open_ends or ranking.too_few),
        "few": len(ranking.least) > 1 and (ranking.too_few or not ranking.open_ends),
        "canaries": plural(len(one.injected), "planted secret"),
        "among": _names(ranking.open_among_more) if ranking.open_among_more else "",
        **new_tests([(_called(one), one.audit) for one in group]),
    }
    memorized = [one for one in group if _judged(one, group) == "memorized"]
    everyone = len(memorized) == len(group)
    values |= {
        "clean": _judged(best, group) == "not found" and memorized,
        "best_name": best.name,
        "memorized": names_of(memorized) if memorized else "",
    }
    label, tone, kind = "Cannot be ranked", "undecided", "none"
    if len(ranking.least) == 1:
        nearest = min(ranking.more, key=lambda apart: apart.bits)
        values["factor"] = sentence("comparison.factor", **_factor(best, nearest))
        label = f"{best.name} memorizes {degree}; not checked against a limit"
        tone, kind = "", "least"
    elif worse:
        values |= {"worse": _names(worse), "left": _names(ranking.least)}
        label, kind = _more_label(worse, ranking.least), "some"
    if len(known) == len(group):
        lowest, chosen = (min(some, key=_loss) for some in (group, ranking.least))
        near = _loss(chosen) <= (1 + NEAR) * _loss(lowest)
        values |= {"loss": f"{_loss(chosen):.4g}", "lowest": f"{_loss(lowest):.4g}"}
        values |= {"other": _called(lowest), "other_name": lowest.name, "near": percent(NEAR),
                   "is_lowest": _loss(chosen) <= _loss(lowest)}  # fmt: skip
        if kind != "least":
            alike = _loss(chosen) == max(map(_loss, ranking.least))
            values |= {} if alike else {"chosen": _called(chosen)}
        elif near:
            kind = "ship"
        else:
            tone, kind = "undecided", "trade"
            label = f"{best.name} memorizes {degree}, {lowest.name} predicts new text best"
    words = sentence(f"comparison.{kind}", **values)
    if everyone:
        words = f"{sentence('comparison.memorized', **values, all=True)} {words}"
        first = {"none": "", "some": f"; {label}"}.get(kind, f"; {best.name} memorizes {degree}")
        label = f"{who} memorize planted secrets{first}"
        tone = "memorized"
    elif len(ranking.least) == 1 and best in memorized:
        words += " " + sentence("comparison.memorized", **values, all=False)
        label = f"{best.name} memorizes {degree}; it memorized planted secrets, too"
        tone = "undecided"
    values |= {"everyone": everyone, "trade": kind == "trade"}
    values |= limit_choice([(one.name, one.audit) for one in group])
    decide, actions = (said(f"comparison.{part}", **values) for part in ("decide", "actions"))
    return _Answer(label, tone, words, decide, actions)


def _more_label(worse: Sequence[Strategy], least: Sequence[Strategy]) -> str:
    memorize = "memorizes" if len(worse) == 1 else "memorize"
    more, rest = (names_of(sorted(some, key=lambda one: one.place)) for some in (worse, least))
    return f"{more} {memorize} more; {rest} cannot be ranked"


def _judged(one: Strategy, group: Sequence[Strategy]) -> Verdict:
    """The verdict of one of some audits; their controls share the level of one."""
    return answer(one.audit, audits=len(group)).verdict


def _factor(best: Strategy, nearest: Apart) -> dict[str, Any]:
    """How many guesses the best and the next take, in the mean by which models are ranked."""
    values: dict[str, Any] = {
        "best_name": best.name,
        "next_name": nearest.strategy.name,
        "times": times_of(2.0**nearest.bits),
        "bounded": nearest.interval is None,
    }
    if nearest.interval is not None:
        low, high = (times_of(2.0**end) for end in nearest.interval)
        values |= {"range": low != high, "low": low, "high": high}
    sizes = {best.audit.formats[c.format].space_size for c in best.audit.injected}
    if len(sizes) > 1:
        return values
    (size,) = sizes
    mine, theirs = (
        count(guesses_of(math.log2(size) - mean_bits(one.audit)))
        for one in (best, nearest.strategy)
    )
    return values | {"absolute": True, "mine": mine, "theirs": theirs, "size": count(size)}


def _identified(one: Strategy) -> str:
    """Its label, and the version of its weights where that is known."""
    version = one.audit.model_version
    return f"{one.label} (weights {version})" if version else one.label


def _loss(one: Strategy) -> float:
    """The test loss of an audit where all have one."""
    assert one.test_loss_nats is not None
    return one.test_loss_nats


def _called(one: Strategy) -> str:
    """``A (its label)``."""
    label = clean(one.label)
    if len(label) > _LABEL_CHARACTERS:
        label = f"{label[: _LABEL_CHARACTERS - 1]}…"
    return f"{one.name} ({label})"


def _names(some: Sequence[Strategy]) -> str:
    """``A (its label), B (its label) and C (its label)``."""
    return " and ".join(filter(None, [", ".join(map(_called, some[:-1])), _called(some[-1])]))


def _notes(comparison: Comparison) -> Iterator[str]:
    """Which audits are suspect, and what they note of their own numbers."""
    for group in comparison.groups:
        for one in group:
            if answer(one.audit).verdict == "suspect":
                values = {"name": one.name, "shared": _judged(one, group) != "suspect"}
                yield sentence("comparison.suspect", **values, audits=len(group))
    strategies = comparison.strategies
    noted = {one: [words_of(note) for note in notes(one.audit, _kept(one))] for one in strategies}
    for note in dict.fromkeys(note for some in noted.values() for note in some):
        yield f"{names_of([one for one in strategies if note in noted[one]])}: {note}"


def _kept(one: Strategy) -> Iterator[str]:
    """Its notes, but for the doubt of a model that has learned its secrets."""
    learned = answer(one.audit).verdict == "memorized"
    yield from (n for n in one.audit.notes if not (learned and reads_no_english([n])))


@section(Comparison, "The audits", specialist=True)
def audits(comparison: Comparison) -> Iterator[Block]:
    """What each audit found, and how well its model does."""
    losses = any(one.test_loss_nats is not None for one in comparison.strategies)
    yield said_in_one("comparison.audits", losses=losses)
    rows: list[Sequence[Text]] = []
    tones = []
    for one in comparison.strategies:
        loss, judged = one.test_loss_nats, answer(one.audit)
        tones.append(judged.verdict.replace(" ", "-"))
        rows.append(
            (
                (Span(one.name, f"series-{one.place % len(SERIES)}"),),
                one.label,
                (Span(judged.label, "strong"),),
                *(("–" if loss is None else f"{loss:.4f}",) if losses else ()),
            )
        )
    columns = ("Audit", "Model", "What its report says", *(("Test loss",) if losses else ()))
    yield Table("The audits", columns, rows, tones, style="words", numbers=int(losses))


@section(Comparison, "How sure the ranking is", specialist=True)
def certainty(comparison: Comparison) -> Iterator[Block]:
    """How much more one model of each pair memorizes, with interval and p-value."""
    rows = [
        (
            apart.than.name,
            apart.strategy.name,
            f"{apart.bits:.2f}",
            "none" if apart.interval is None else " to ".join(f"{x:.2f}" for x in apart.interval),
            probability(apart.p_value),
        )
        for group in comparison.groups
        if len(group) > 1 and group[0].audit.injected
        for ranking in [ranked(group)]
        for apart in ranking.pairs
    ]
    if rows:
        yield said_in_one("comparison.certainty")
        for ranking in (ranked(g) for g in comparison.groups if len(g) > 1 and g[0].audit.injected):
            if len(ranking.least) == 1:
                nearest = min(ranking.more, key=lambda apart: apart.bits)
                yield sentence("comparison.factor_range", **_factor(ranking.least[0], nearest))
        columns = ("Less exposed", "More exposed", "Difference, bits (mean)", "95 % interval", "p")
        yield Table("Differences between the models, in pairs", columns, rows)


@section(Comparison, "")
def groups(comparison: Comparison) -> Iterator[Section]:
    """A section for each group of audits that can be compared."""
    for number, group in enumerate(comparison.groups, 1):
        heading = "Side by side"
        if len(comparison.groups) > 1:
            heading = f"{names_of(group)}: {'alone' if len(group) == 1 else 'side by side'}"
        yield Section(f"group-{number}", heading, [*_group_blocks(group)], specialist=True)


def _group_blocks(group: Sequence[Strategy]) -> Iterator[Block]:
    alone = len(group) == 1
    if alone:
        yield ("No other audit can be compared with this one. Its own report says what it found.")
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
        yield bits_of(view)
        yield from _measured_blocks(view, which)
        if view.bounds and view.has_curves:
            yield from _measured_blocks(replace(view, skew_normal=True), which)
    if not alone and sum(one.test_loss_nats is not None for one in group) < 2:
        yield "Utility is not compared here: that needs the test loss of each model."


def _measured_blocks(view: View, which: str) -> Iterator[Block]:
    """The figures of one format."""
    estimate = " by the skew-normal estimate" if view.skew_normal else ""
    if view.skew_normal:
        fits = {one: one.audit.formats[view.at].skew_normal for one in view.group}
        failed = [one for one, fit in fits.items() if fit and fit.rejected]
        yield Heading(f"Exposure{estimate}{which}")
        yield said_in_one("comparison.curves", failed=names_of(failed) if failed else "")
        yield exposures_figure(view)
    elif view.at:  # the first is what came out
        yield Heading(f"Exposure by number of copies{which}")
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
