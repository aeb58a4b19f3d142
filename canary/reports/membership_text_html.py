"""Membership attacks on texts as one HTML file that opens from disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from canary.membership.words import FOLDS
from canary.records.files import atomic_write
from canary.records.overwrite_guard import PAGES
from canary.reports.attack_figures import roc_figure
from canary.reports.drawing import svg_of
from canary.reports.membership_html import (
    LABELS,
    attack_cells,
    attack_columns,
    in_lines,
    interval_of,
    not_told,
    nothing_decided,
    percent_of,
    roc_words,
    short_of,
    surest_tiles,
    up_to,
)
from canary.reports.old_pages import page
from canary.reports.wording import software
from canary.statistics.numbers import count, probability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.membership.text_survey import TextSurvey
    from canary.statistics.roc import Estimate, Roc

__all__ = ["length_cells", "report_text_membership", "text_membership_sentence", "words_cells"]

_TEMPLATE = "membership_text.html.j2"


def report_text_membership(found: TextSurvey, path: str | os.PathLike[str]) -> Path:
    """Write what attacks on texts found as a report that a person can read and defend.

    Parameters
    ----------
    found : TextSurvey
    path : path-like

    Returns
    -------
    Path
        `path`, one self-contained HTML file without scripts; no text is in it.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    target = Path(path)
    atomic_write(target, render(found), private=True, replaces=PAGES)
    return target


def render(found: TextSurvey) -> str:
    """The HTML of `report_text_membership`, as text."""
    from markupsafe import Markup

    told, doubted = found.told_apart(), found.doubted()
    labels = {
        (True, True): "Members can be told, and not by the model alone",
        (True, False): "Members can be told",
        (False, True): "Members were not told by the model",
        (False, False): "Members were not told",
    }
    return page(
        _TEMPLATE,
        name=found.measured.table.source,
        tone="memorized" if told and not doubted else "undecided",
        label=LABELS[None] if told is None else labels[told, doubted],
        sentence=text_membership_sentence(found),
        tiles=_tiles(found),
        warning=found.warning(),
        notes=list(found.notes),
        confidence=percent_of(found.confidence, digits=0),
        columns=attack_columns(found),
        rows=[
            *(attack_cells(one) for one in found.attacked),
            words_cells(found),
            length_cells(found),
        ],
        words=interval_of(found.words.auc),
        words_p=probability(found.words.p),
        permutations=count(found.words.permutations),
        length=interval_of(found.length.auc),
        length_warning=found.length_warning(),
        folds=FOLDS,
        strongest=found.strongest.attack.name,
        surest=[
            (count(row["line"]), count(row["tokens"]), short_of(row["value"]))
            for row in found.most_member_like()
        ],
        # The drawings hold our own numbers and words only.
        figures={
            ("roc", width): Markup(svg_of(roc_figure(found), wide=width == "wide"))  # noqa: S704
            for width in ("wide", "narrow")
        },
        roc_words=roc_words(found),
        text_facts=_text_facts(found),
        model_facts=_model_facts(found),
        reference=found.measured.settings["reference"] is not None,
        software=software(),
    )


def text_membership_sentence(found: TextSurvey) -> str:
    """The answer in one sentence."""
    best, k = found.corrected(), len(found.attacked)
    name = found.strongest.attack.name
    interval = f"{percent_of(best.lower)} to {percent_of(best.upper)}"
    if found.told_apart():
        return (
            f"Of a text that the model was trained on and another, the attack {name} tells which "
            f"is which in {percent_of(best.value)} of cases ({interval}; a coin in 50 %)."
        )
    return nothing_decided(found.against()) + (
        f"{not_told(k, name)} was right on {percent_of(best.value)} of pairs ({interval})"
        f"{up_to(best)}."
    )


def words_cells(found: TextSurvey, *, intervals: bool = True) -> tuple[str, ...]:
    """Words alone in a row beside the attacks; they make no guesses."""
    rates = [point.asked_fpr for point in found.attacked[0].points]
    name = "words alone, no model" if intervals else "words alone"
    return (
        name,
        "none",
        *_cells(found, found.words.roc, found.words.auc, rates, intervals=intervals),
    )


def length_cells(found: TextSurvey, *, intervals: bool = True) -> tuple[str, ...]:
    """The length alone in a row beside the attacks, a longer text taken for a member."""
    rates = [point.asked_fpr for point in found.attacked[0].points]
    name = "length alone, no model" if intervals else "length alone"
    return (
        name,
        "none",
        *_cells(found, found.length.roc, found.length.auc, rates, intervals=intervals),
    )


def _cells(
    found: TextSurvey, curve: Roc, auc: Estimate, rates: list[float], *, intervals: bool
) -> Iterator[str]:
    """AUC, and the TPRs; none at a rate below one of the different nonmembers."""
    yield in_lines(auc) if intervals else percent_of(auc.value)
    for rate in rates:
        if rate * curve.nonmembers < 1:
            yield "none"
            continue
        point = curve.tpr_at_fpr(rate, confidence=found.confidence)
        yield in_lines(point.tpr, fpr=point.fpr) if intervals else percent_of(point.tpr.value)


def _tiles(found: TextSurvey) -> list[tuple[str, str, str]]:
    best = found.strongest
    tiles = [
        (
            "Strongest attack",
            percent_of(best.evaluation.auc.value),
            f"AUC of {best.attack.name}; 50 % is a coin",
        ),
        (
            "Without the model",
            percent_of(found.words.auc.value),
            f"AUC of a bag of words; it should be 50 %. p = {probability(found.words.p)}",
        ),
    ]
    tiles.extend(surest_tiles(found))
    return tiles


def _text_facts(found: TextSurvey) -> dict[str, str]:
    member, tokens = found.member, found.measured.tokens
    facts = {}
    for name, inside in (("Members", member), ("Nonmembers", ~member)):
        facts[name] = count(int(inside.sum()))
        facts[f"Tokens of {name.lower()}"] = count(int(tokens[inside].sum()))
    return facts


def _model_facts(found: TextSurvey) -> dict[str, str]:
    settings = found.measured.settings
    facts = {}
    for name, key in (
        ("Model", "model"),
        ("Reference model", "reference"),
        ("Masked model", "masked"),
    ):
        if settings[key] is not None:
            facts[name] = str(settings[key]["name"])
            facts[f"Fingerprint of the {name.lower()}"] = str(settings[key]["fingerprint"])
    if settings["window"] is not None:
        facts["Windows"] = f"{settings['window']} tokens, {settings['overlap']} of them shared"
    if settings["masked"] is not None:
        words = percent_of(settings["masked_share"], digits=None)
        facts["Rewritten copies"] = f"{settings['neighbours']} of each text, {words} of the words"
    facts["Lowest tokens"] = percent_of(settings["share"], digits=None)
    facts["Seed"] = str(found.seed)
    return facts
