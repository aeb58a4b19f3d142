"""The reports of membership attacks on a classifier by its shadow, and on texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from canary.membership.analysis import ClassRisks
from canary.membership.evaluation import Part
from canary.membership.risk import Reliability
from canary.membership.shadow_survey import ShadowSurvey
from canary.membership.text_survey import TextSurvey
from canary.membership.words_alone import FOLDS
from canary.reports.attack_figures import risk_counts, risks_figure, roc_figure
from canary.reports.builders import report_of, section
from canary.reports.document import (
    Block,
    Heading,
    Report,
    Span,
    Table,
    Tile,
    said,
    said_in_one,
    sentence,
)
from canary.reports.wording import (
    attack_cells,
    attack_columns,
    attacks_blocks,
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
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import count, plural, probability

_MOST_ROWS = 20
_HIGH_RISK = 0.9


@report_of.register
def shadow_report(survey: ShadowSurvey, *, name: str | None = None) -> Report:
    """What there is to say about attacks on a classifier by its shadow."""
    best, corrected = survey.strongest, survey.corrected()
    share = percent_of(corrected.value)
    note = f"balanced accuracy of {best.name}; 50 % is a coin"
    tiles = [Tile("Strongest attack", percent_of(best.accuracy.value), note)]
    tiles += surest_tiles(survey)
    if survey.reliability is not None and survey.risks is not None:
        high = float((survey.risks.scores[survey.target.member[0]] >= _HIGH_RISK).mean())
        note = f"have a risk score of {_HIGH_RISK:g} or more"
        tiles.append(Tile("At high risk", f"{percent_of(high)} of members", note))
    if not survey.blind:
        answer = sentence("shadow.split", attack=best.name, share=share)
    elif survey.told_apart():
        answer = sentence("shadow.told", attack=best.name, share=share, ends=ends_of(corrected))
    else:
        answer = undecided(survey, "had {} balanced accuracy")
    rows = [attack_cells(attacked, intervals=False) for attacked in survey.attacked]
    private = epsilon_sentence(survey)
    brief = [Table("", attack_columns(survey), rows), *([private] if private else [])]
    title = f"Membership attacks on {name or Path(survey.target.source).name}"
    return survey_report(survey, title, answer, tiles=tiles, brief=brief)


def epsilon_sentence(survey: ShadowSurvey) -> str | None:
    """What the attacks say of the privacy of the training; None where no coins were tossed."""
    if survey.epsilon is None:
        return None
    name, bound = survey.epsilon
    return sentence(
        "shadow.epsilon",
        bounded=bound.epsilon > 0.0,
        epsilon=f"{bound.epsilon:.2f}",
        beside=f" (delta {bound.delta:g})" if bound.delta else "",
        asked=percent_of(survey.confidence, digits=None),
        confidence=percent_of(bound.confidence, digits=None),
        right=f"{count(bound.correct)} of {count(bound.guesses)} guesses by the attack {name}",
        coins=plural(bound.coins, "coin"),
        largest=f"{bound.largest_possible:.2f}",
    )


def calibration_sentence(trust: Reliability, *, confidence: float) -> str:
    """How far risk scores lie from what they claim to be."""
    error = trust.calibration_error
    return sentence(
        "shadow.calibration",
        error=f"{error.value:.3f}",
        ends=f"{error.lower:.3f} to {error.upper:.3f}",
        confidence=percent_of(confidence, digits=None),
        rmse=f"{trust.rmse:.3f}",
    )


def class_risk_sentence(risks: ClassRisks) -> str:
    """Whether the classes that generalize badly are those at risk."""
    rank = risks.correlation.rank
    return (
        f"Over {count(risks.correlation.count)} classes the mean risk of the members and the "
        f"generalization error have a rank correlation of {rank.value:.2f} "
        f"({rank.lower:.2f} to {rank.upper:.2f})."
    )


@section(ShadowSurvey, "Attacks")
def attacks(survey: ShadowSurvey) -> Iterator[Block]:
    """What each attack reaches, and what follows for the privacy of the training."""
    rows = [attack_cells(attacked) for attacked in survey.attacked]
    table = Table("Attacks", attack_columns(survey), rows)
    yield from attacks_blocks(survey, "shadow", table, roc_figure(survey))
    if (private := epsilon_sentence(survey)) is not None:
        yield Heading("Privacy of the training")
        yield said_in_one("shadow.privacy", private=private)


@section(ShadowSurvey, "Risk of single samples")
def risk(survey: ShadowSurvey) -> Iterator[Block]:
    """Risk scores, how far they can be trusted, and the members most at risk."""
    if survey.risks is None or survey.reliability is None:
        return
    scale = {"log": "logarithmic", "linear": "linear"}[survey.risks.scale]
    bins = survey.risks.bins
    how = "by a Gaussian kernel" if bins is None else f"with {plural(bins, 'bin')}"
    prior = percent_of(survey.risks.prior)
    yield said_in_one("shadow.risk", prior=prior, how=how, scale=scale)
    inside, outside, edges = risk_counts(survey)
    rows: list[tuple[str, ...]] = [
        (f"{low:.2f} to {high:.2f}", count(int(m)), count(int(n)))
        for low, high, m, n in zip(edges[:-1], edges[1:], inside, outside, strict=True)
    ]
    trust = calibration_sentence(survey.reliability, confidence=survey.confidence)
    yield replace(
        risks_figure(survey),
        caption=said_in_one("shadow.risk.caption", trust=trust),
        table=Table("Samples by risk score", ("Risk score", "Members", "Nonmembers"), rows),
    )
    rows = [
        (
            f"{guess.threshold:g}",
            count(guess.true_positives + guess.false_positives),
            "none called" if guess.precision is None else interval_of(guess.precision),
            interval_of(guess.recall),
        )
        for guess in survey.guesses()
    ]
    yield Heading("Guesses by the risk score")
    yield said_in_one("shadow.guesses")
    columns = ("Risk score from", "Called members", "Precision", "Recall")
    yield Table("Guesses by the risk score", columns, rows)
    rows = [
        (
            *(count(row["sample"]), count(row["label"])),
            *(short_of(row["modified_entropy"]), f"{row['risk']:.3f}"),
        )
        for row in survey.most_at_risk()
    ]
    yield Heading("Members most at risk")
    yield said_in_one("shadow.members")
    columns = ("Sample", "Class", "Modified entropy", "Risk score")
    yield Table("Members most at risk", columns, rows)
    if (risks := survey.class_risks) is None:
        return
    yield Heading("Risk and generalization error")
    yield said_in_one("shadow.generalization", rank=class_risk_sentence(risks))
    worst = list(zip(risks.classes, risks.error, risks.risk, strict=True))[::-1]
    rows = [
        (f"class {label}", percent_of(float(error)), f"{float(mean):.3f}")
        for label, error, mean in worst[:_MOST_ROWS]
    ]
    named = ("Class", "Generalization error", "Mean risk of members")
    yield Table("Risk and generalization error", named, rows)


@section(ShadowSurvey, "Classes most at risk")
def parts(survey: ShadowSurvey) -> Iterator[Block]:
    """The classes and groups that the strongest attack does best on."""
    classes = count(len(survey.by_class))
    yield said_in_one("shadow.parts", strongest=survey.strongest.name, classes=classes)
    columns = ("Samples", "Members", "Nonmembers", "Balanced accuracy", "AUC")
    yield Table("Classes most at risk", columns, _worst(survey.by_class, "class "))
    if groups := _worst(survey.by_group, ""):
        yield Heading("Groups")
        yield Table("Groups most at risk", columns, groups)


def _worst(parts: Sequence[Part], prefix: str) -> list[tuple[str, ...]]:
    known = [
        (part, part.accuracy, part.auc)
        for part in parts
        if part.accuracy is not None and part.auc is not None
    ]
    known.sort(key=lambda row: -row[1].value)
    return [
        (
            *(f"{prefix}{part.value}", count(part.members), count(part.nonmembers)),
            *(interval_of(accuracy), interval_of(auc)),
        )
        for part, accuracy, auc in known[:_MOST_ROWS]
    ]


@section(ShadowSurvey, "How it was measured", specialist=True)
def how(survey: ShadowSurvey) -> Iterator[Block]:
    """The files of target and shadow, and what the numbers do not say."""
    models = survey.shadow.models
    shadows = "one shadow" if models == 1 else f"{count(models)} shadow models, taken together"
    facts = {"Target": _table_facts(survey.target), "Shadow": _table_facts(survey.shadow)}
    yield from measured_blocks(facts, said_in_one("shadow.limits", shadows=shadows))


def _table_facts(table: SignalTable) -> dict[str, str]:
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


# --- texts ---------------------------------------------------------------------------------------


@report_of.register
def texts_report(survey: TextSurvey, *, name: str | None = None) -> Report:
    """What there is to say about attacks on texts."""
    told, best, words = survey.told_apart(), survey.strongest, survey.words
    note = f"AUC of a bag of words; it should be 50 %. p = {probability(words.p)}"
    strongest = percent_of(best.evaluation.auc.value), f"AUC of {best.name}; 50 % is a coin"
    tiles = [
        Tile("Strongest attack", *strongest),
        Tile("Without the model", percent_of(words.auc.value), note),
        *surest_tiles(survey),
    ]
    answer = undecided(survey, "was right on {} of pairs")
    if told:
        corrected = survey.corrected()
        values = {"share": percent_of(corrected.value), "ends": ends_of(corrected)}
        answer = sentence("texts.told", attack=best.name, **values)
    warnings = [warning for warning in (survey.warning(), survey.length_warning()) if warning]
    loud = ((Span(warning, "strong"),) for warning in ended(warnings))
    fields = {
        "tone": "memorized" if told and not survey.doubted() else "undecided",
        "notes": [*loud, *ended(survey.notes)],
        "brief": [_attacks(survey, intervals=False)],
    }
    if told is not None and survey.doubted():
        by_all = "Members can be told, and not by the model alone"
        fields["label"] = by_all if told else "Members were not told by the model"
    title = f"Membership attacks on {name or survey.measured.table.source}"
    return survey_report(survey, title, answer, tiles=tiles, **fields)


def _attacks(survey: TextSurvey, *, intervals: bool) -> Table:
    """All attacks, and beside them words and lengths alone, which make no guesses."""
    rows = [attack_cells(attacked, intervals=intervals) for attacked in survey.attacked]
    rates = [point.asked_fpr for point in survey.attacked[0].points]
    for name, curve, auc in (
        ("words alone", survey.words.roc, survey.words.auc),
        ("length alone", survey.length.roc, survey.length.auc),
    ):
        cells = [in_lines(auc) if intervals else percent_of(auc.value)]
        for rate in rates:
            if rate * curve.nonmembers < 1:  # of the different nonmembers
                cells.append("none")
                continue
            point = curve.tpr_at_fpr(rate, confidence=survey.confidence)
            shown = in_lines(point.tpr, fpr=point.fpr)
            cells.append(shown if intervals else percent_of(point.tpr.value))
        rows.append((f"{name}, no model" if intervals else name, "none", *cells))
    return Table("Attacks", attack_columns(survey), rows)


@section(TextSurvey, "Attacks")
def text_attacks(survey: TextSurvey) -> Iterator[Block]:
    """What each attack reaches."""
    table = _attacks(survey, intervals=True)
    yield from attacks_blocks(survey, "texts", table, roc_figure(survey))


@section(TextSurvey, "Without any model")
def words(survey: TextSurvey) -> Iterator[Block]:
    """What words and lengths tell."""
    alone = survey.words
    yield from said(
        "texts.words",
        words=interval_of(alone.auc),
        folds=FOLDS,
        permutations=count(alone.permutations),
        p=probability(alone.p),
        length=interval_of(survey.length.auc),
    )


@section(TextSurvey, "Members that stand out most")
def surest(survey: TextSurvey) -> Iterator[Block]:
    """The members that the strongest attack is surest of, by their lines."""
    yield said_in_one("texts.surest", strongest=survey.strongest.name)
    rows = [
        (count(row["line"]), count(row["tokens"]), short_of(row["value"]))
        for row in survey.most_member_like()
    ]
    yield Table("Members that stand out most", ("Line", "Tokens", "Signal"), rows)


@section(TextSurvey, "How it was measured", specialist=True)
def text_how(survey: TextSurvey) -> Iterator[Block]:
    """The texts, the models and the settings, and what the numbers do not say."""
    settings, tokens = survey.measured.settings, survey.measured.tokens
    texts, model = {}, {}
    for name, inside in (("Members", survey.member), ("Nonmembers", ~survey.member)):
        texts[name] = count(int(inside.sum()))
        texts[f"Tokens of {name.lower()}"] = count(int(tokens[inside].sum()))
    models = {"Model": "model", "Reference model": "reference", "Masked model": "masked"}
    for name, key in models.items():
        if settings[key] is not None:
            model[name] = str(settings[key]["name"])
            model[f"Fingerprint of the {name.lower()}"] = str(settings[key]["fingerprint"])
    if settings["window"] is not None:
        model["Windows"] = f"{settings['window']} tokens, {settings['overlap']} of them shared"
    if settings["masked"] is not None:
        share = percent_of(settings["masked_share"], digits=None)
        model["Rewritten copies"] = f"{settings['neighbours']} of each text, {share} of the words"
    model["Lowest tokens"] = percent_of(settings["share"], digits=None)
    model["Seed"] = str(survey.seed)
    beside = "" if settings["reference"] is None else ", and one reference model beside it"
    limits = said_in_one("texts.limits", beside=beside)
    yield from measured_blocks({"Texts": texts, "Model": model}, limits)
