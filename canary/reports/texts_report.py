"""The report of membership attacks on the texts of a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from canary.membership.text_survey import TextSurvey
from canary.membership.words_alone import FOLDS
from canary.reports.attack_figures import roc_figure
from canary.reports.builders import PlotOptions, figure_of, report_of, section
from canary.reports.document import Block, Figure, Note, Report, Span, Table, Tile
from canary.reports.long_words import said, said_in_one
from canary.reports.survey_words import (
    attack_cells,
    attack_columns,
    brackets,
    ended,
    ends_of,
    in_lines,
    interval_of,
    measured_blocks,
    percent_of,
    short_of,
    surest_tiles,
    survey_report,
    undecided,
)
from canary.statistics.numbers import count, probability

_DOUBTED = {
    True: "Members can be told, and not by the model alone",
    False: "Members were not told by the model",
}


@report_of.register
def texts_report(found: TextSurvey, *, name: str | None = None) -> Report:
    """What there is to say about attacks on texts."""
    told, best, words = found.told_apart(), found.strongest, found.words
    tiles = [
        Tile(
            "Strongest attack",
            percent_of(best.evaluation.auc.value),
            f"AUC of {best.name}; 50 % is a coin",
        ),
        Tile(
            "Without the model",
            percent_of(words.auc.value),
            f"AUC of a bag of words; it should be 50 %. p = {probability(words.p)}",
        ),
        *surest_tiles(found),
    ]
    warnings = [warning for warning in (found.warning(), found.length_warning()) if warning]
    fields = {"label": _DOUBTED[told]} if told is not None and found.doubted() else {}
    return survey_report(
        found,
        f"Membership attacks on {name or found.measured.table.source}",
        _sentence(found),
        tiles=tiles,
        **{
            "tone": "memorized" if told and not found.doubted() else "undecided",
            "notes": [
                *((Span(warning, "strong"),) for warning in ended(warnings)),
                *ended(found.notes),
            ],
            "brief": [_attacks(found, intervals=False)],
            **fields,
        },
    )


@figure_of.register
def plotted(found: TextSurvey, _: PlotOptions) -> Figure:
    """That of `canary.plot`."""
    return roc_figure(found)


def _sentence(found: TextSurvey) -> str:
    best = found.corrected()
    if found.told_apart():
        return (
            f"Of a text that the model was trained on and another, the attack "
            f"{found.strongest.name} tells which is which in {percent_of(best.value)} of cases "
            f"({ends_of(best)}; a coin in 50 %)."
        )
    return undecided(found, "was right on {} of pairs")


def _attacks(found: TextSurvey, *, intervals: bool) -> Table:
    """All attacks, and beside them words and lengths alone, which make no guesses."""
    rows = [attack_cells(one, intervals=intervals) for one in found.attacked]
    rates = [point.asked_fpr for point in found.attacked[0].points]
    for name, curve, auc in (
        ("words alone", found.words.roc, found.words.auc),
        ("length alone", found.length.roc, found.length.auc),
    ):
        cells = [in_lines(auc) if intervals else percent_of(auc.value)]
        for rate in rates:
            if rate * curve.nonmembers < 1:  # of the different nonmembers
                cells.append("none")
                continue
            point = curve.tpr_at_fpr(rate, confidence=found.confidence)
            shown = in_lines(point.tpr, fpr=point.fpr)
            cells.append(shown if intervals else percent_of(point.tpr.value))
        rows.append((f"{name}, no model" if intervals else name, "none", *cells))
    return Table("Attacks", attack_columns(found), rows)


@section(TextSurvey, "Attacks")
def attacks(found: TextSurvey) -> Iterator[Block]:
    """What each attack reaches."""
    yield said_in_one("texts.attacks")
    yield _attacks(found, intervals=True)
    yield Note(said_in_one("texts.note", brackets=brackets(found)))
    yield replace(roc_figure(found), caption=said_in_one("survey.roc", alone=True, words=True))


@section(TextSurvey, "Without any model")
def words(found: TextSurvey) -> Iterator[Block]:
    """What words and lengths tell."""
    alone = found.words
    yield from said(
        "texts.words",
        words=interval_of(alone.auc),
        folds=FOLDS,
        permutations=count(alone.permutations),
        p=probability(alone.p),
        length=interval_of(found.length.auc),
    )


@section(TextSurvey, "Members that stand out most")
def surest(found: TextSurvey) -> Iterator[Block]:
    """The members that the strongest attack is surest of, by their lines."""
    yield said_in_one("texts.surest", strongest=found.strongest.name)
    rows = [
        (count(row["line"]), count(row["tokens"]), short_of(row["value"]))
        for row in found.most_member_like()
    ]
    yield Table("Members that stand out most", ("Line", "Tokens", "Signal"), rows)


@section(TextSurvey, "How it was measured", specialist=True)
def how(found: TextSurvey) -> Iterator[Block]:
    """The texts, the models and the settings, and what the numbers do not say."""
    beside = ""
    if found.measured.settings["reference"] is not None:
        beside = ", and one reference model beside it"
    yield from measured_blocks(
        {"Texts": _text_facts(found), "Model": _model_facts(found)},
        said_in_one("texts.limits", beside=beside),
    )


def _text_facts(found: TextSurvey) -> dict[str, str]:
    member, tokens = found.member, found.measured.tokens
    facts = {}
    for name, inside in (("Members", member), ("Nonmembers", ~member)):
        facts[name] = count(int(inside.sum()))
        facts[f"Tokens of {name.lower()}"] = count(int(tokens[inside].sum()))
    return facts


def _model_facts(found: TextSurvey) -> dict[str, str]:
    settings, facts = found.measured.settings, {}
    models = {"Model": "model", "Reference model": "reference", "Masked model": "masked"}
    for name, key in models.items():
        if settings[key] is not None:
            facts[name] = str(settings[key]["name"])
            facts[f"Fingerprint of the {name.lower()}"] = str(settings[key]["fingerprint"])
    if settings["window"] is not None:
        facts["Windows"] = f"{settings['window']} tokens, {settings['overlap']} of them shared"
    if settings["masked"] is not None:
        share = percent_of(settings["masked_share"], digits=None)
        facts["Rewritten copies"] = f"{settings['neighbours']} of each text, {share} of the words"
    facts["Lowest tokens"] = percent_of(settings["share"], digits=None)
    facts["Seed"] = str(found.seed)
    return facts
