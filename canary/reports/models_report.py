"""The report of membership attacks on classifiers by each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from canary.membership.aggregate import Across
from canary.membership.models_result import ModelsSurvey
from canary.reports.attack_figures import drawn_of, growth_figure, rocs_figure
from canary.reports.attack_tiles import answers_of, found_tiles
from canary.reports.attack_wording import (
    attacks_blocks,
    found_blocks,
    identified,
    in_lines,
    interval_of,
    listed,
    measured_blocks,
    named,
    none_alone,
    not_identified,
    rate_columns,
    short_of,
    singled_out_sentences,
    survey_report,
)
from canary.reports.builders import PlotOptions, figure_of, report_of, section
from canary.reports.document import (
    Block,
    Figure,
    Heading,
    Report,
    Table,
    Tile,
    said_in_one,
    sentence,
)
from canary.reports.wording import NOT_STATED, about_of, called, folded, no_limit
from canary.statistics.numbers import count, percent_of, plural
from canary.statistics.roc import OperatingPoint

_MOST_ROWS = 20
_BOTH = 0.9
"""The share of samples that are members of some targets, and not of others."""


@report_of.register
def models_report(survey: ModelsSurvey) -> Report:
    """What there is to say about attacks on models by each other."""
    targets, others = len(survey.targets), survey.table.models - 1
    target = _short(survey, survey.targets[0]) if targets == 1 else plural(targets, "model")
    about = about_of(survey, own=target)
    one = called(about["Model"]) if targets == 1 else target
    if targets > 1 and about["Model"] != target:
        about |= {"Model": f"{about['Model']} ({target} together)"}
    of = "" if targets == 1 else f", in the mean of {targets} models"
    answer = not_identified(survey, "models", "picked the training sample in {} of pairs", of)
    if survey.told_apart():
        alone = survey.lead.name == "P"
        answer = identified(
            survey, "models", targets=targets, several=targets > 1, alone=alone, others=others
        )
    if targets > 1:
        answer = [sentence("models.several", targets=targets, alone=none_alone(survey)), *answer]
    if survey.table.samples < survey.given:
        judged, given = count(survey.table.samples), count(survey.given)
        answer = [*answer, sentence("models.judged", judged=judged, given=given)]
    actions = {
        "listed": "the report lists the members and classes most at risk; --singled-out "
        "(in Python singled_out()) lists all who are recognized"
        if targets == 1
        else "the report lists the models and samples that are most vulnerable",
        "less": "return the most likely class, without its probability",
        "in_use": targets > 1 and survey.outcome() == "identified" and not none_alone(survey),
        "targets": targets,
    }
    beside = f"{plural(others, 'other model')}{' each' if targets > 1 else ''}"
    return survey_report(
        survey,
        f"Can training samples of {one} be recognized?",
        answer,
        kind="models",
        shown=_shows_training(survey),
        about=about
        | no_limit("membership")
        | {
            "Version of the weights": NOT_STATED,
            **answers_of(survey.table, survey.targets),
            "Compared with": beside,
            "Samples": count(survey.given),
        },
        tiles=() if survey.doubts else [*_tiles(survey)],
        outcome=[
            *found_blocks(survey, "models"),
            *(singled_out_sentences(survey) if targets == 1 else ()),
        ],
        actions=actions,
    )


def _shows_training(survey: ModelsSurvey) -> bool:
    """Whether surest guesses are right where each sample is a member of some models alone.

    Then only training makes the difference: both kinds are the same samples.
    """
    surest, member = survey.surest(), survey.table.member[[*survey.targets]]
    both = len(survey.targets) > 1 and (member != member[0]).any(axis=0).mean() > _BOTH
    return bool(both and survey.told_apart() and surest is not None and surest.beats_guessing)


@figure_of.register
def plotted(survey: ModelsSurvey, _: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    return rocs_figure(_curves(survey)[0])


def _tiles(survey: ModelsSurvey) -> Iterator[Tile]:
    yield from found_tiles(survey, "models")
    found = survey.outcome() == "identified"
    if len(survey.targets) > 1 and found and not none_alone(survey):
        place, lead, surest = survey.most_vulnerable_models(1)[0], survey.lead, survey.surest()
        note, value = "of pairs right", lead.across.evaluations[place].auc.value
        if surest is not None:
            note = "of its training samples are recognized, by the same guesses"
            value = lead.points[lead.fprs.index(surest.fpr)][place].tpr.value
        name = _short(survey, survey.targets[place])
        title = f"Most vulnerable of the {plural(len(survey.targets), 'model')}"
        yield Tile(
            title,
            f"no. {name}" if name.isdigit() else name,
            f"{percent_of(value)} {note}" + "; the first is no. 0" * name.isdigit(),
        )


@section(ModelsSurvey, "Attacks", specialist=True)
def attacks(survey: ModelsSurvey) -> Iterator[Block]:
    """What each attack reaches."""
    targets = len(survey.targets)
    rows = []
    for attacked in survey.attacked:
        spread, models = attacked.across.auc, count(attacked.scores.models_trained)
        several = (percent_of(spread.sd),) if spread.count > 1 else ()
        rates = (
            "–" if attacked.too_coarse(fpr) else in_lines(tpr, fpr=_mean_fpr(points))
            for fpr, tpr, points in zip(survey.fprs, attacked.tpr, attacked.points, strict=True)
        )
        rows.append((attacked.name, models, interval_of(attacked.auc), *several, *rates))
    several = ("SD",) if targets > 1 else ()
    columns = ("Attack", "Models", "AUC", *several, *rate_columns(survey.fprs))
    curves, undrawn = _curves(survey)
    caption = said_in_one("survey.roc", alone=targets == 1, undrawn=undrawn)
    yield from attacks_blocks(
        survey,
        "models",
        Table("Attacks", columns, rows),
        replace(rocs_figure(curves), caption=caption),
        targets=targets,
        several=targets > 1,
        fleets=survey.over_fleets,
    )


def _curves(survey: ModelsSurvey) -> tuple[list[Across], str]:
    """Those that are drawn, and the names of the others."""
    return drawn_of([one.across for one in survey.attacked], lambda across: across.auc.mean)


def _mean_fpr(points: tuple[OperatingPoint, ...]) -> float:
    return float(np.mean([point.fpr for point in points]))


@section(ModelsSurvey, "More models", specialist=True)
def growth(survey: ModelsSurvey) -> Iterator[Block]:
    """The AUC by the number of models."""
    order = [across.name for across in _curves(survey)[0]]
    grown = [a.growth for a in survey.attacked if a.growth is not None and a.name in order]
    if not grown:
        return
    sizes = sorted({size for curve in grown for size in curve.sizes})
    rows = []
    for curve in grown:
        known = dict(zip(curve.sizes, curve.auc, strict=True))
        means = (percent_of(known[size].mean) if size in known else "none" for size in sizes)
        rows.append((curve.name, *means, count(curve.samples)))
    targets = plural(grown[0].auc[0].count, "model")
    fewest = plural(min(curve.samples for curve in grown), "sample")
    columns = ("Attack", *(plural(size, "model") for size in sizes), "Samples")
    yield replace(
        growth_figure(grown, order),
        caption=said_in_one("models.growth.caption", targets=targets, fewest=fewest),
        table=Table("AUC by number of models", columns, rows),
    )


@section(ModelsSurvey, "Decisions", specialist=True)
def levels(survey: ModelsSurvey) -> Iterator[Block]:
    """What decisions at levels come to, and how far attacks agree."""
    decided = {a.name: a.rates for a in survey.attacked if a.rates is not None}
    if not decided:
        return
    yield said_in_one(
        "models.levels",
        counted="R" in decided,
        rmia=any(name.startswith("rmia") for name in decided),
        without=" and ".join(a.name for a in survey.attacked if a.rates is None),
    )
    rows = []
    for name, rates in decided.items():
        pairs = zip(rates.fpr, rates.tpr, strict=True)
        rows.append((name, *(percent_of(float(rate)) for pair in pairs for rate in pair)))
    alphas = [percent_of(float(a), digits=None) for a in next(iter(decided.values())).alphas]
    columns = ("Attack", *(f"{rate} at {alpha}" for alpha in alphas for rate in ("FPR", "TPR")))
    yield Table("Decisions", columns, rows)
    if not survey.agreements:
        return
    # Members above the diagonal and non-members below, as in table 3 of Ye et al.
    agreed = survey.agreements[-1]
    yield Heading("Agreement")
    yield said_in_one("models.agreement", alpha=percent_of(agreed.alpha, digits=None))
    below = np.tri(len(agreed.names), dtype=bool)
    shares = np.where(below, agreed.nonmembers, agreed.members)
    rows = [
        (name, *("–" if i == j else percent_of(float(share)) for j, share in enumerate(row)))
        for i, (name, row) in enumerate(zip(agreed.names, shares, strict=True))
    ]
    yield Table("Agreement", ("", *agreed.names), rows)


@section(ModelsSurvey, "Who is most at risk", specialist=True, before="attacks")
def exposed(survey: ModelsSurvey) -> Iterator[Block]:
    """The models and samples that the best attacks do best on."""
    best, alone = survey.lead, len(survey.targets) == 1
    if survey.outcome() != "identified":
        return
    yield Heading("Model" if alone else "Models")
    yield said_in_one("models.exposed", alone=alone, attack=named(best.name))
    rows = []
    for place in survey.most_vulnerable_models(_MOST_ROWS):
        evaluation = best.across.evaluations[place]
        numbers = (*(points[place].tpr for points in best.points), evaluation.auc)
        known = (count(evaluation.roc.members), count(evaluation.roc.nonmembers))
        rows.append((_short(survey, survey.targets[place]), *known, *map(in_lines, numbers)))
    columns = ("Model", "Members", "Non-members", *rate_columns(survey.fprs), "AUC")
    yield from folded(Table("Most vulnerable models", columns, rows))
    if alone:
        yield from _single(survey)
    if not (samples := survey.most_vulnerable_samples()):
        return
    # How many samples every model that knows them gives away, beside what chance would give.
    perfect, chance = survey.perfect_samples()
    given = 0 if survey.exposed is None else len(survey.exposed.samples)
    yield Heading("Samples")
    yield said_in_one(
        "models.samples",
        attack=named(survey.strongest.name),
        perfect=count(perfect) if perfect and given else "",
        given=plural(given, "sample"),
        few="fewer than one" if chance < 1 else f"up to {count(math.ceil(chance))}",
    )
    yield from listed(
        *("Most vulnerable samples", samples),
        members=("Trained on it", count),
        nonmembers=("Trained without", count),
        auc=("AUC", "{:.3f}".format),
    )


def _single(survey: ModelsSurvey) -> Iterator[Block]:
    """The classes and members of a single target that the leading attack does best on."""
    kinds = (("Classes", "class ", survey.by_class), ("Groups", "", survey.by_group))
    for heading, prefix, parts in kinds:
        known = [(part, part.auc) for part in parts if part.auc is not None]
        known.sort(key=lambda pair: -pair[1].value)
        if len(known) < 2:
            continue
        yield Heading(heading)
        many = f"{len(known)} {heading.lower()}"
        yield said_in_one("models.classes", classes=many, attack=named(survey.lead.name))
        rows: list[tuple[str, ...]] = [
            (f"{prefix}{p.value}", count(p.members), count(p.nonmembers), interval_of(auc))
            for p, auc in known[:_MOST_ROWS]
        ]
        columns = ("Samples", "Members", "Non-members", "AUC")
        yield Table(f"{heading} most at risk", columns, rows)
    yield Heading("Members")
    yield said_in_one("models.members", attack=named(survey.lead.name))
    yield from listed(
        *("Members most at risk", survey.most_member_like()),
        nonmembers_as_high=("Others as high", count),
        score=("Score", short_of),
    )


@section(ModelsSurvey, "How it was measured", specialist=True)
def how(survey: ModelsSurvey) -> Iterator[Block]:
    """The models and samples, and what the numbers do not say."""
    table, rows = survey.table, list(survey.targets)
    facts = {
        "Given": table.source,
        "Models": count(table.models),
        "Targets": count(len(survey.targets)),
        "Samples": count(survey.given),
        "Samples that are judged": count(table.samples),
        "Classes": count(table.classes),
        "Members of a model": _from_to(table.member.sum(axis=1)),
        "Models that know a sample": _from_to(table.member.sum(axis=0)),
        "Rule of the quantile": survey.rule,
    }
    if (right := table.values.get("correctness")) is not None:
        for kind, flags in (("members", table.member[rows]), ("non-members", ~table.member[rows])):
            facts[f"Accuracy on {kind}"] = percent_of(float(right[rows][flags].mean()))
    if table.missing:
        missing = (f"model {number}: {why}" for number, why in table.missing.items())
        facts["Missing models"] = "; ".join(missing)
    yield from measured_blocks({"": facts}, said_in_one("models.limits"))


def _from_to(numbers: np.ndarray) -> str:
    low, high = count(int(numbers.min())), count(int(numbers.max()))
    return low if low == high else f"{low} to {high}"


def _short(survey: ModelsSurvey, row: int) -> str:
    """The name of a model: of a file without its folder, where no other has the same."""
    names = [Path(name).name for name in survey.names]
    return names[row] if names.count(names[row]) == 1 else survey.names[row]
