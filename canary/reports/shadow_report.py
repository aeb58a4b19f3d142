"""The report of membership attacks on a classifier by its shadow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from canary.membership.analysis import ClassRisks
from canary.membership.evaluation import Part
from canary.membership.risk import Reliability
from canary.membership.shadow_survey import ShadowSurvey
from canary.reports.attack_figures import risk_counts, risks_figure, roc_figure
from canary.reports.builders import PlotOptions, figure_of, report_of, section
from canary.reports.document import Block, Figure, Heading, Note, Report, Table, Tile
from canary.reports.long_words import said_in_one
from canary.reports.survey_words import (
    attack_cells,
    attack_columns,
    brackets,
    ends_of,
    interval_of,
    measured_blocks,
    percent_of,
    short_of,
    surest_tiles,
    survey_report,
    undecided,
)
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import count, plural

_MOST_ROWS = 20
_HIGH_RISK = 0.9


@report_of.register
def shadow_report(found: ShadowSurvey, *, name: str | None = None) -> Report:
    """What there is to say about attacks on a classifier by its shadow."""
    best = found.strongest
    note = f"balanced accuracy of {best.name}; 50 % is a coin"
    tiles = [Tile("Strongest attack", percent_of(best.accuracy.value), note), *surest_tiles(found)]
    if found.reliability is not None and found.risks is not None:
        high = float((found.risks.scores[found.target.member[0]] >= _HIGH_RISK).mean())
        note = f"have a risk score of {_HIGH_RISK:g} or more"
        tiles.append(Tile("At high risk", f"{percent_of(high)} of members", note))
    rows = [attack_cells(one, intervals=False) for one in found.attacked]
    private = epsilon_sentence(found)
    return survey_report(
        found,
        f"Membership attacks on {name or Path(found.target.source).name}",
        _sentence(found),
        tiles=tiles,
        brief=[Table("", attack_columns(found), rows), *([private] if private else [])],
    )


@figure_of.register
def plotted(found: ShadowSurvey, _: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    return roc_figure(found)


def _sentence(found: ShadowSurvey) -> str:
    best, name = found.corrected(), found.strongest.name
    if not found.blind:
        return (
            "These figures cannot be used: the shadow was trained on the target's own split, so "
            f"the attack knew part of the answers. With them {name} had "
            f"{percent_of(best.value)} balanced accuracy. Attack again with a shadow that was "
            "trained on other samples."
        )
    if found.told_apart():
        return (
            f"Whoever has a similar model tells members of the training data from others with "
            f"{percent_of(best.value)} balanced accuracy ({ends_of(best)}; a coin has 50 %), by "
            f"the attack {name}."
        )
    return undecided(found, "had {} balanced accuracy")


def epsilon_sentence(found: ShadowSurvey) -> str | None:
    """What the attacks say of the privacy of the training; None where no coins were tossed."""
    if found.epsilon is None:
        return None
    name, bound = found.epsilon
    right = f"{count(bound.correct)} of {count(bound.guesses)} guesses by the attack {name}"
    beside = f" (delta {bound.delta:g})" if bound.delta else ""
    if bound.epsilon <= 0.0:
        return (
            f"No lower bound on epsilon follows: {right} are right, no more than chance allows at "
            f"{percent_of(found.confidence, digits=None)} confidence."
        )
    return (
        "If a fair coin decided for each sample by itself whether it went in, the epsilon of the "
        f"training is {bound.epsilon:.2f} at least{beside}, at "
        f"{percent_of(bound.confidence, digits=None)} confidence: {right} are right. The largest "
        f"bound that {plural(bound.coins, 'coin')} could show is {bound.largest_possible:.2f}."
    )


def calibration_sentence(found: Reliability, *, confidence: float) -> str:
    """How far risk scores lie from what they claim to be."""
    error = found.calibration_error
    return (
        "A risk score should be the share of members among samples of such scores. In the mean "
        f"over the samples it is {error.value:.3f} away from that ({error.lower:.3f} to "
        f"{error.upper:.3f} at {percent_of(confidence, digits=None)} confidence); 0 would be "
        "right. Samples of such scores are those of the same tenth of the way from 0 to 1. Over "
        f"the tenths, each counted alike, the root mean square is {found.rmse:.3f}."
    )


def class_risk_sentence(found: ClassRisks) -> str:
    """Whether the classes that generalize badly are those at risk."""
    rank = found.correlation.rank
    return (
        f"Over {count(found.correlation.count)} classes the mean risk of the members and the "
        f"generalization error have a rank correlation of {rank.value:.2f} "
        f"({rank.lower:.2f} to {rank.upper:.2f})."
    )


@section(ShadowSurvey, "Attacks")
def attacks(found: ShadowSurvey) -> Iterator[Block]:
    """What each attack reaches, and what follows for the privacy of the training."""
    yield said_in_one("shadow.attacks")
    yield Table("Attacks", attack_columns(found), [attack_cells(one) for one in found.attacked])
    yield Note(said_in_one("shadow.note", brackets=brackets(found)))
    yield replace(roc_figure(found), caption=said_in_one("survey.roc", alone=True))
    if (private := epsilon_sentence(found)) is not None:
        yield Heading("Privacy of the training")
        yield said_in_one("shadow.privacy", private=private)


@section(ShadowSurvey, "Risk of single samples")
def risk(found: ShadowSurvey) -> Iterator[Block]:
    """Risk scores, how far they can be trusted, and the members most at risk."""
    if found.risks is None or found.reliability is None:
        return
    scale = {"log": "logarithmic", "linear": "linear"}[found.risks.scale]
    bins = found.risks.bins
    how = "by a Gaussian kernel" if bins is None else f"with {plural(bins, 'bin')}"
    prior = percent_of(found.risks.prior)
    yield said_in_one("shadow.risk", prior=prior, how=how, scale=scale)
    inside, outside, edges = risk_counts(found)
    rows = [
        (f"{low:.2f} to {high:.2f}", count(int(m)), count(int(n)))
        for low, high, m, n in zip(edges[:-1], edges[1:], inside, outside, strict=True)
    ]
    trust = calibration_sentence(found.reliability, confidence=found.confidence)
    yield replace(
        risks_figure(found),
        caption=said_in_one("shadow.risk.caption", trust=trust),
        table=Table("Samples by risk score", ("Risk score", "Members", "Nonmembers"), rows),
    )
    yield Heading("Guesses by the risk score")
    yield said_in_one("shadow.guesses")
    yield Table(
        "Guesses by the risk score",
        ("Risk score from", "Called members", "Precision", "Recall"),
        [
            (
                f"{one.threshold:g}",
                count(one.true_positives + one.false_positives),
                "none called" if one.precision is None else interval_of(one.precision),
                interval_of(one.recall),
            )
            for one in found.guesses()
        ],
    )
    yield Heading("Members most at risk")
    yield said_in_one("shadow.members")
    yield Table(
        "Members most at risk",
        ("Sample", "Class", "Modified entropy", "Risk score"),
        [
            (
                *(count(row["sample"]), count(row["label"])),
                *(short_of(row["modified_entropy"]), f"{row['risk']:.3f}"),
            )
            for row in found.most_at_risk()
        ],
    )
    if found.class_risks is not None:
        yield from _class_blocks(found.class_risks)


def _class_blocks(found: ClassRisks) -> Iterator[Block]:
    """The classes that generalize worst."""
    yield Heading("Risk and generalization error")
    yield said_in_one("shadow.generalization", rank=class_risk_sentence(found))
    columns = ("Class", "Generalization error", "Mean risk of members")
    classes = list(zip(found.classes, found.error, found.risk, strict=True))[::-1]
    rows = [
        (f"class {label}", percent_of(float(error)), f"{float(risk):.3f}")
        for label, error, risk in classes[:_MOST_ROWS]
    ]
    yield Table("Risk and generalization error", columns, rows)


@section(ShadowSurvey, "Classes most at risk")
def parts(found: ShadowSurvey) -> Iterator[Block]:
    """The classes and groups that the strongest attack does best on."""
    classes = count(len(found.by_class))
    yield said_in_one("shadow.parts", strongest=found.strongest.name, classes=classes)
    columns = ("Samples", "Members", "Nonmembers", "Balanced accuracy", "AUC")
    yield Table("Classes most at risk", columns, _worst(found.by_class, "class "))
    if groups := _worst(found.by_group, ""):
        yield Heading("Groups")
        yield Table("Groups most at risk", columns, groups)


def _worst(parts: Sequence[Part], prefix: str) -> list[tuple[str, ...]]:
    known = [
        (part, part.accuracy, part.auc)
        for part in parts
        if part.accuracy is not None and part.auc is not None
    ]
    known.sort(key=lambda one: -one[1].value)
    return [
        (
            *(f"{prefix}{part.value}", count(part.members), count(part.nonmembers)),
            *(interval_of(accuracy), interval_of(auc)),
        )
        for part, accuracy, auc in known[:_MOST_ROWS]
    ]


@section(ShadowSurvey, "How it was measured", specialist=True)
def how(found: ShadowSurvey) -> Iterator[Block]:
    """The files of target and shadow, and what the numbers do not say."""
    shadows = found.shadow.models
    several = f"{count(shadows)} shadow models, taken together"
    yield from measured_blocks(
        {"Target": _facts(found.target), "Shadow": _facts(found.shadow)},
        said_in_one("shadow.limits", shadows="one shadow" if shadows == 1 else several),
    )


def _facts(table: SignalTable) -> dict[str, str]:
    member = table.member
    facts = {
        "File": Path(table.source).name,
        "Members": count(int(member.sum())),
        "Nonmembers": count(int((~member).sum())),
        "Classes": count(table.classes),
    }
    if (right := table.values.get("correctness")) is not None:
        for name, flags in (("members", member), ("nonmembers", ~member)):
            facts[f"Accuracy on {name}"] = percent_of(float(right[flags].mean()))
    return facts
