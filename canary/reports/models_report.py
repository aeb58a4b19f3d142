"""The report of membership attacks on classifiers by each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from canary.membership.aggregate import Across, Agreement
from canary.membership.models_result import AttackedModels, ModelsSurvey
from canary.reports.attack_figures import growth_figure, rocs_figure
from canary.reports.builders import PlotOptions, figure_of, report_of, section
from canary.reports.document import Block, Figure, Heading, Note, Report, Table, Tile
from canary.reports.long_words import said_in_one
from canary.reports.palette import SERIES
from canary.reports.survey_words import (
    brackets,
    ends_of,
    in_lines,
    interval_of,
    measured_blocks,
    percent_of,
    rate_columns,
    survey_report,
    undecided,
)
from canary.statistics.numbers import count, plural
from canary.statistics.roc import OperatingPoint

_MOST_ROWS = 20


@report_of.register
def models_report(found: ModelsSurvey) -> Report:
    """What there is to say about attacks on models by each other."""
    targets = len(found.targets)
    title = f"Membership attacks on {count(targets)} models, by each other"
    if targets == 1:
        others = plural(found.table.models - 1, "other model")
        title = f"Membership attacks on {_short(found, found.targets[0])}, by {others}"
    rows = [
        (one.name, *(percent_of(number.value) for number in (one.auc, *one.tpr)))
        for one in found.attacked
    ]
    brief = Table("", ("Attack", "AUC", *rate_columns(found.fprs)), rows)
    return survey_report(found, title, _sentence(found), tiles=[*_tiles(found)], brief=[brief])


@figure_of.register
def plotted(found: ModelsSurvey, _: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    return rocs_figure(_curves(found))


def _sentence(found: ModelsSurvey) -> str:
    best, name, targets = found.corrected(), found.strongest.name, len(found.targets)
    of = "" if targets == 1 else f", in the mean of {targets} models"
    if not found.told_apart():
        return undecided(found, "put the member before the nonmember in {} of pairs", of)
    these = "this one" if targets == 1 else "one of these"
    others = plural(found.table.models - 1, "model")
    who = f"may ask {these}" if name == "P" else f"has {others} like {these}"
    return (
        f"Whoever {who} tells members of its training data from others: the attack {name} puts the "
        f"member before the nonmember in {percent_of(best.value)} of pairs ({ends_of(best)}; a "
        f"coin has 50 %){of}."
    )


def _tiles(found: ModelsSurvey) -> Iterator[Tile]:
    best, several, k = found.strongest, len(found.targets) > 1, len(found.attacked)
    mean = f"mean AUC over {count(len(found.targets))} models" if several else "AUC"
    note = f"{mean} of {best.name}; 50 % is a coin"
    yield Tile("Strongest attack", percent_of(best.auc.value), note)
    if found.fprs:
        at = found.fprs.index(min(found.fprs))
        surest = max(found.attacked, key=lambda one: one.tpr[at].value)
        realised = percent_of(_mean_fpr(surest.points[at]), digits=None)
        chosen = "" if k == 1 else f"; the best of {k} attacks there, so a little flattered"
        yield Tile(
            "Surest guesses",
            f"{percent_of(surest.tpr[at].value)} of members",
            f"found by {surest.name} while {realised} of nonmembers are called members by "
            f"mistake{chosen}",
        )
    if several:
        place = found.most_vulnerable_models(1)[0]
        auc = percent_of(best.across.evaluations[place].auc.value)
        yield Tile("Most exposed model", auc, _short(found, found.targets[place]))


@section(ModelsSurvey, "Attacks")
def attacks(found: ModelsSurvey) -> Iterator[Block]:
    """What each attack reaches."""
    targets = len(found.targets)
    yield said_in_one("models.attacks")
    several = ("SD",) if targets > 1 else ()
    columns = ("Attack", "Models", "AUC", *several, *rate_columns(found.fprs))
    yield Table("Attacks", columns, [_cells(one) for one in found.attacked])
    note = said_in_one(
        "models.note",
        several=count(targets) if targets > 1 else "",
        brackets=brackets(found),
        fleets=found.over_fleets,
        these="this model" if targets == 1 else "these models",
    )
    yield Note(note)
    yield replace(
        rocs_figure(_curves(found)), caption=said_in_one("survey.roc", alone=targets == 1)
    )


def _curves(found: ModelsSurvey) -> list[Across]:
    """Those that are drawn: of more attacks than there are colours, the strongest."""
    chosen = [one.across for one in found.attacked]
    if len(chosen) > len(SERIES):
        chosen.sort(key=lambda one: -one.auc.mean)
    return chosen[: len(SERIES)]


def _cells(one: AttackedModels) -> tuple[str, ...]:
    spread = one.across.auc
    several = (percent_of(spread.sd),) if spread.count > 1 else ()
    rates = (
        in_lines(tpr, fpr=_mean_fpr(points))
        for tpr, points in zip(one.tpr, one.points, strict=True)
    )
    return one.name, count(one.scores.models_trained), interval_of(one.auc), *several, *rates


def _mean_fpr(points: tuple[OperatingPoint, ...]) -> float:
    return float(np.mean([point.fpr for point in points]))


@section(ModelsSurvey, "More models")
def growth(found: ModelsSurvey) -> Iterator[Block]:
    """The AUC by the number of models."""
    grown = [one.growth for one in found.attacked if one.growth is not None][: len(SERIES)]
    if not grown:
        return
    sizes = sorted({size for one in grown for size in one.sizes})
    rows = []
    for one in grown:
        known = dict(zip(one.sizes, one.auc, strict=True))
        means = (percent_of(known[size].mean) if size in known else "none" for size in sizes)
        rows.append((one.name, *means, count(one.samples)))
    targets = plural(grown[0].auc[0].count, "model")
    fewest = plural(min(one.samples for one in grown), "sample")
    columns = ("Attack", *(plural(size, "model") for size in sizes), "Samples")
    yield replace(
        growth_figure(grown, [one.name for one in _curves(found)]),
        caption=said_in_one("models.growth.caption", targets=targets, fewest=fewest),
        table=Table("AUC by number of models", columns, rows),
    )


@section(ModelsSurvey, "Decisions")
def levels(found: ModelsSurvey) -> Iterator[Block]:
    """What decisions at levels come to, and how far attacks agree."""
    decided = [(one.name, one.rates) for one in found.attacked if one.rates is not None]
    if not decided:
        return
    names = [name for name, _ in decided]
    without = " and ".join(one.name for one in found.attacked if one.rates is None)
    yield said_in_one(
        "models.levels",
        counted="R" in names,
        rmia=any(name.startswith("rmia") for name in names),
        without=without,
    )
    shown = [percent_of(float(alpha), digits=None) for alpha in decided[0][1].alphas]
    rows = []
    for name, rates in decided:
        pairs = zip(rates.fpr, rates.tpr, strict=True)
        rows.append((name, *(percent_of(float(rate)) for pair in pairs for rate in pair)))
    columns = ("Attack", *(f"{rate} at {alpha}" for alpha in shown for rate in ("FPR", "TPR")))
    yield Table("Decisions", columns, rows)
    if found.agreements:
        yield from _agreement(found.agreements[-1])


def _agreement(found: Agreement) -> Iterator[Block]:
    """Members above the diagonal and nonmembers below, as in table 3 of Ye et al."""
    yield Heading("Agreement")
    yield said_in_one("models.agreement", alpha=percent_of(found.alpha, digits=None))
    shares = np.where(np.tri(len(found.names), dtype=bool), found.nonmembers, found.members)
    rows = [
        (name, *("–" if i == j else percent_of(float(share)) for j, share in enumerate(row)))
        for i, (name, row) in enumerate(zip(found.names, shares, strict=True))
    ]
    yield Table("Agreement", ("", *found.names), rows)


@section(ModelsSurvey, "Most vulnerable")
def exposed(found: ModelsSurvey) -> Iterator[Block]:
    """The models and samples that the strongest attack does best on."""
    best, alone = found.strongest, len(found.targets) == 1
    yield Heading("Model" if alone else "Models")
    yield said_in_one("models.exposed", alone=alone, strongest=best.name)
    rows = []
    for place in found.most_vulnerable_models(_MOST_ROWS):
        one = best.across.evaluations[place]
        numbers = (one.auc, *(points[place].tpr for points in best.points))
        known = (count(one.roc.members), count(one.roc.nonmembers))
        rows.append((_short(found, found.targets[place]), *known, *map(in_lines, numbers)))
    columns = ("Model", "Members", "Nonmembers", "AUC", *rate_columns(found.fprs))
    yield Table("Most vulnerable models", columns, rows)
    if not (samples := found.most_vulnerable_samples()):
        return
    yield Heading("Samples")
    yield said_in_one("models.samples", perfect=_perfect(found))
    rows = [
        (
            *(count(row[key]) for key in ("sample", "label", "members", "nonmembers")),
            f"{row['auc']:.3f}",
        )
        for row in samples
    ]
    columns = ("Sample", "Class", "Trained on it", "Trained without", "AUC")
    yield Table("Most vulnerable samples", columns, rows)


def _perfect(found: ModelsSurvey) -> str:
    """How many samples every model that knows them tells, beside what chance would give."""
    perfect, chance = found.perfect_samples()
    if found.exposed is None or not perfect:
        return ""
    few = "fewer than one" if chance < 1 else f"up to {count(math.ceil(chance))}"
    return (
        f"Of {plural(len(found.exposed.samples), 'sample')} {count(perfect)} have an AUC of 1; "
        f"where there is nothing to find, {few} would by chance."
    )


@section(ModelsSurvey, "How it was measured", specialist=True)
def how(found: ModelsSurvey) -> Iterator[Block]:
    """The models and samples, and what the numbers do not say."""
    yield from measured_blocks({"": _facts(found)}, said_in_one("models.limits"))


def _facts(found: ModelsSurvey) -> dict[str, str]:
    table, rows = found.table, list(found.targets)
    facts = {
        "Given": table.source,
        "Models": count(table.models),
        "Targets": count(len(found.targets)),
        "Samples": count(found.given),
        "Samples that are judged": count(table.samples),
        "Classes": count(table.classes),
        "Members of a model": _from_to(table.member.sum(axis=1)),
        "Models that know a sample": _from_to(table.member.sum(axis=0)),
        "Rule of the quantile": found.rule,
    }
    if (right := table.values.get("correctness")) is not None:
        for kind, flags in (("members", table.member[rows]), ("nonmembers", ~table.member[rows])):
            facts[f"Accuracy on {kind}"] = percent_of(float(right[rows][flags].mean()))
    if table.missing:
        missing = (f"model {number}: {why}" for number, why in table.missing.items())
        facts["Missing models"] = "; ".join(missing)
    return facts


def _from_to(numbers: np.ndarray) -> str:
    low, high = count(int(numbers.min())), count(int(numbers.max()))
    return low if low == high else f"{low} to {high}"


def _short(found: ModelsSurvey, row: int) -> str:
    """The name of a model: of a file without its folder, where no other has the same."""
    names = [Path(name).name for name in found.names]
    return names[row] if names.count(names[row]) == 1 else found.names[row]
