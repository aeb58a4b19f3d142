"""Membership attacks with many models as one HTML file that opens from disk."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canary.records.files import atomic_write
from canary.records.overwrite_guard import PAGES
from canary.reports.attack_figures import growth_figure, rocs_figure
from canary.reports.drawing import svg_of
from canary.reports.membership_html import (
    LABELS,
    in_lines,
    interval_of,
    not_told,
    nothing_decided,
    percent_of,
    up_to,
)
from canary.reports.old_pages import page
from canary.reports.palette import SERIES
from canary.reports.wording import software
from canary.statistics.numbers import count, plural

if TYPE_CHECKING:
    from canary.membership.aggregate import Across, Agreement
    from canary.membership.diagnostics import Growth
    from canary.membership.models_result import AttackedModels, ModelsSurvey
    from canary.statistics.roc import OperatingPoint

__all__ = ["model_cells", "model_columns", "models_sentence", "report_models"]

_TEMPLATE = "membership_models.html.j2"
_MOST_ROWS = 20


def report_models(found: ModelsSurvey, path: str | os.PathLike[str]) -> Path:
    """Write what attacks with many models found as a report that a person can read and defend.

    Parameters
    ----------
    found : ModelsSurvey
    path : path-like

    Returns
    -------
    Path
        `path`, one self-contained HTML file without scripts; readable by its owner only,
        for it names samples that were in the training data.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    target = Path(path)
    atomic_write(target, render(found), private=True, replaces=PAGES)
    return target


def render(found: ModelsSurvey) -> str:
    """The HTML of `report_models`, as text."""
    from markupsafe import Markup

    told = found.told_apart()
    curves, grown = _curves(found), _grown(found)
    alone = len(found.targets) == 1
    order = [one.name for one in curves]
    drawings = {"roc": rocs_figure(curves)}
    if grown:
        drawings["growth"] = growth_figure(grown, order)
    return page(
        _TEMPLATE,
        heading=_heading(found),
        tone="memorized" if told else "undecided",
        label=LABELS[told],
        sentence=models_sentence(found),
        tiles=_tiles(found),
        notes=list(found.notes),
        confidence=percent_of(found.confidence, digits=None),
        fleets=found.over_fleets,
        alone=alone,
        target_count=count(len(found.targets)),
        columns=model_columns(found),
        rows=[model_cells(one) for one in found.attacked],
        # The drawings hold our own numbers and words only.
        figures={
            (kind, width): Markup(svg_of(figure, wide=width == "wide"))  # noqa: S704
            for kind, figure in drawings.items()
            for width in ("wide", "narrow")
        },
        roc_words=_roc_words(curves, alone=alone),
        grown=_grown_rows(grown) if grown else None,
        levels=_levels(found),
        agreement=_agreement(found.agreements[-1]) if found.agreements else None,
        strongest=found.strongest.name,
        model_columns=_vulnerable_columns(found),
        model_rows=_vulnerable(found),
        sample_rows=[
            (
                count(row["sample"]),
                count(row["label"]),
                count(row["members"]),
                count(row["nonmembers"]),
                f"{row['auc']:.3f}",
            )
            for row in found.most_vulnerable_samples()
        ],
        perfect=_perfect(found),
        facts=_facts(found),
        software=software(),
    )


def models_sentence(found: ModelsSurvey) -> str:
    """The answer in one sentence."""
    best, k = found.corrected(), len(found.attacked)
    name, targets = found.strongest.name, len(found.targets)
    interval = f"{percent_of(best.lower)} to {percent_of(best.upper)}"
    of = "" if targets == 1 else f", in the mean of {targets} models"
    if not found.told_apart():
        return nothing_decided(found.doubts) + (
            f"{not_told(k, name)} put the member before the nonmember in "
            f"{percent_of(best.value)} of pairs ({interval}){of}{up_to(best)}."
        )
    these = "this one" if targets == 1 else "one of these"
    others = plural(found.table.models - 1, "model")
    who = f"may ask {these}" if name == "P" else f"has {others} like {these}"
    return (
        f"Whoever {who} tells members of its training data from others: the attack {name} puts the "
        f"member before the nonmember in {percent_of(best.value)} of pairs ({interval}; a coin has "
        f"50 %){of}."
    )


def model_columns(found: ModelsSurvey, *, intervals: bool = True) -> tuple[str, ...]:
    """Headings of `model_cells`."""
    rates = (f"TPR at FPR {percent_of(fpr, digits=None)}" for fpr in found.fprs)
    if not intervals:
        return "Attack", "AUC", *rates
    several = ("SD",) if len(found.targets) > 1 else ()
    return "Attack", "Models", "AUC", *several, *rates


def model_cells(one: AttackedModels, *, intervals: bool = True) -> tuple[str, ...]:
    """An attack in a row: its name, and its numbers, with intervals and costs where asked.

    Intervals of rates stand on a line of their own, so that three of them fit on a page.
    """
    if not intervals:
        return one.name, *(percent_of(number.value) for number in (one.auc, *one.tpr))
    spread = one.across.auc
    several = (percent_of(spread.sd),) if spread.count > 1 else ()
    rates = (
        in_lines(tpr, fpr=_mean_fpr(points))
        for tpr, points in zip(one.tpr, one.points, strict=True)
    )
    return one.name, count(one.scores.models_trained), interval_of(one.auc), *several, *rates


def _mean_fpr(points: tuple[OperatingPoint, ...]) -> float:
    return float(np.mean([point.fpr for point in points]))


def _heading(found: ModelsSurvey) -> str:
    if len(found.targets) == 1:
        return (
            f"Membership attacks on {_short(found, found.targets[0])}, by "
            f"{plural(found.table.models - 1, 'other model')}"
        )
    return f"Membership attacks on {count(len(found.targets))} models, by each other"


def _short(found: ModelsSurvey, row: int) -> str:
    """The name of a model: of a file without its folder, where no other has the same."""
    names = [Path(name).name for name in found.names]
    return names[row] if names.count(names[row]) == 1 else found.names[row]


def _tiles(found: ModelsSurvey) -> list[tuple[str, str, str]]:
    best, several = found.strongest, len(found.targets) > 1
    mean = f"mean AUC over {count(len(found.targets))} models" if several else "AUC"
    tiles = [
        ("Strongest attack", percent_of(best.auc.value), f"{mean} of {best.name}; 50 % is a coin")
    ]
    if found.fprs:
        at = found.fprs.index(min(found.fprs))
        surest = max(found.attacked, key=lambda one: one.tpr[at].value)
        realised = _mean_fpr(surest.points[at])
        k = len(found.attacked)
        chosen = "" if k == 1 else f"; the best of {k} attacks there, so a little flattered"
        tiles.append(
            (
                "Surest guesses",
                f"{percent_of(surest.tpr[at].value)} of members",
                f"found by {surest.name} while {percent_of(realised, digits=None)} of nonmembers "
                f"are called members by mistake{chosen}",
            )
        )
    if several:
        place = found.most_vulnerable_models(1)[0]
        auc = best.across.evaluations[place].auc
        tiles.append(
            ("Most exposed model", percent_of(auc.value), _short(found, found.targets[place]))
        )
    return tiles


def _curves(found: ModelsSurvey) -> list[Across]:
    """The attacks whose curves are drawn; of more than there are colours the strongest."""
    chosen = [one.across for one in found.attacked]
    if len(chosen) > len(SERIES):
        chosen.sort(key=lambda one: -one.auc.mean)
    return chosen[: len(SERIES)]


def _grown(found: ModelsSurvey) -> list[Growth]:
    return [one.growth for one in found.attacked if one.growth is not None][: len(SERIES)]


def _roc_words(curves: list[Across], *, alone: bool) -> str:
    areas = "; ".join(f"{one.name}: {one.auc.mean:.3f}" for one in curves)
    mean = "" if alone else ", the mean over models"
    return (
        f"True against false positive rate of each attack{mean}. Areas under the curves, {areas}."
    )


def _grown_rows(grown: list[Growth]) -> dict[str, Any]:
    sizes = sorted({size for one in grown for size in one.sizes})
    rows = []
    for one in grown:
        at = dict(zip(one.sizes, one.auc, strict=True))
        rows.append(
            (
                one.name,
                *(percent_of(at[size].mean) if size in at else "none" for size in sizes),
                count(one.samples),
            )
        )
    fewest = min(one.samples for one in grown)
    return {
        "columns": ("Attack", *(plural(size, "model") for size in sizes), "Samples"),
        "rows": rows,
        "targets": plural(grown[0].auc[0].count, "model"),
        "fewest": plural(fewest, "sample"),
        "words": "; ".join(
            f"{one.name}: {one.auc[0].mean:.3f} with {one.sizes[0]} models, "
            f"{one.auc[-1].mean:.3f} with {one.sizes[-1]}"
            for one in grown
        ),
    }


def _levels(found: ModelsSurvey) -> dict[str, Any] | None:
    decided = [one for one in found.attacked if one.rates is not None]
    if not decided:
        return None
    first = decided[0].rates
    assert first is not None
    shown = [percent_of(float(alpha), digits=None) for alpha in first.alphas]
    return {
        "columns": (
            "Attack",
            *(f"{rate} at {alpha}" for alpha in shown for rate in ("FPR", "TPR")),
        ),
        "rows": [
            (
                one.name,
                *(
                    percent_of(float(rate))
                    for pair in zip(one.rates.fpr, one.rates.tpr, strict=True)
                    for rate in pair
                ),
            )
            for one in decided
            if one.rates is not None
        ],
        "counted": any(one.name == "R" for one in decided),
        "rmia": any(one.name.startswith("rmia") for one in decided),
        "without": " and ".join(one.name for one in found.attacked if one.rates is None),
    }


def _agreement(found: Agreement) -> dict[str, Any]:
    """Members above the diagonal and nonmembers below, as in table 3 of Ye et al."""
    size = range(len(found.names))
    return {
        "alpha": percent_of(found.alpha, digits=None),
        "columns": ("", *found.names),
        "rows": [
            (
                found.names[i],
                *(
                    "–"
                    if i == j
                    else percent_of(float((found.members if j > i else found.nonmembers)[i, j]))
                    for j in size
                ),
            )
            for i in size
        ],
    }


def _vulnerable_columns(found: ModelsSurvey) -> tuple[str, ...]:
    rates = (f"TPR at FPR {percent_of(fpr, digits=None)}" for fpr in found.fprs)
    return ("Model", "Members", "Nonmembers", "AUC", *rates)


def _vulnerable(found: ModelsSurvey) -> list[tuple[str, ...]]:
    best = found.strongest
    rows = []
    for place in found.most_vulnerable_models(_MOST_ROWS):
        row = found.targets[place]
        one = best.across.evaluations[place]
        rows.append(
            (
                _short(found, row),
                count(one.roc.members),
                count(one.roc.nonmembers),
                *(
                    in_lines(rate)
                    for rate in (one.auc, *(points[place].tpr for points in best.points))
                ),
            )
        )
    return rows


def _perfect(found: ModelsSurvey) -> str | None:
    """How many samples every model that knows them tells, beside what chance would give."""
    if found.exposed is None:
        return None
    perfect, chance = found.perfect_samples()
    if not perfect:
        return None
    few = "fewer than one" if chance < 1 else f"up to {count(math.ceil(chance))}"
    return (
        f"Of {plural(len(found.exposed.samples), 'sample')} {count(perfect)} have an AUC of 1; "
        f"where there is nothing to find, {few} would by chance."
    )


def _facts(found: ModelsSurvey) -> dict[str, str]:
    table = found.table
    of = table.member.sum(axis=1)
    inside = table.member.sum(axis=0)
    facts = {
        "Given": table.source,
        "Models": count(table.models),
        "Targets": count(len(found.targets)),
        "Samples": count(found.given),
        "Samples that are judged": count(table.samples),
        "Classes": count(table.classes),
        "Members of a model": _from_to(of.min(), of.max()),
        "Models that know a sample": _from_to(inside.min(), inside.max()),
        "Rule of the quantile": found.rule,
    }
    if "correctness" in table.values:
        right, rows = table.values["correctness"], list(found.targets)
        for kind, flags in (("members", table.member[rows]), ("nonmembers", ~table.member[rows])):
            facts[f"Accuracy on {kind}"] = percent_of(float(right[rows][flags].mean()))
    if table.missing:
        facts["Missing models"] = "; ".join(
            f"model {number}: {why}" for number, why in table.missing.items()
        )
    return facts


def _from_to(least: int, most: int) -> str:
    low, high = count(int(least)), count(int(most))
    return low if low == high else f"{low} to {high}"
