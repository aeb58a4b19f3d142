"""The reports of membership attacks on a classifier by its shadow, and on texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from canary.membership.evaluation import Evaluation, Part, worst_first
from canary.membership.risk import Reliability
from canary.membership.shadow_survey import ShadowSurvey
from canary.membership.text_survey import TextSurvey
from canary.membership.words_alone import FOLDS, WordsAlone
from canary.reports.attack_figures import risk_counts, risks_figure, roc_figure
from canary.reports.attack_tiles import answers_of, ends_of, found_tiles
from canary.reports.attack_wording import (
    CONFIDENTIAL,
    alone_at,
    attack_cells,
    attack_columns,
    attacks_blocks,
    found_blocks,
    identified,
    in_lines,
    interval_of,
    listed,
    measured_blocks,
    named,
    not_identified,
    short_of,
    singled_out_sentences,
    sizes_of,
    survey_report,
)
from canary.reports.builders import report_of, section
from canary.reports.document import (
    Block,
    Heading,
    Report,
    Table,
    Tile,
    said,
    said_in_one,
    sentence,
)
from canary.reports.wording import NOT_STATED, about_of, called, folded, no_limit
from canary.signals.signal_table import SignalTable
from canary.signals.text import TEXT_SIGNALS
from canary.statistics.numbers import count, percent_of, plural, probability

_MOST_ROWS = 20


@report_of.register
def shadow_report(survey: ShadowSurvey) -> Report:
    """What there is to say about attacks on a classifier by its shadow."""
    tiles = [*found_tiles(survey, "shadow")]
    if not survey.blind:
        share = percent_of(survey.corrected().value)
        answer = [sentence("shadow.split", attack=named(survey.strongest.name), share=share)]
    elif survey.told_apart():
        answer = identified(survey, "shadow")
    else:
        answer = not_identified(survey, "shadow", "had {} accuracy")
    private = epsilon_sentence(survey)
    found = [*found_blocks(survey, "shadow"), *singled_out_sentences(survey)]
    own = Path(survey.target.source).name if Path(survey.target.source).suffix else "target"
    about = about_of(survey, own=own)
    shadows = "one shadow" if survey.shadow.models == 1 else "shadows taken together"
    actions = {
        "split": not survey.blind,
        "listed": f"the report lists classes and members by their risk, but {shadows} cannot say "
        "which samples are most at risk; --singled-out (in Python singled_out()) lists all who are "
        "recognized",
        "less": "return the most likely class, without its probability",
        "correctness": survey.outcome() == "identified"
        and any(one.name == "correctness" for one in survey.attacked),
    }
    return survey_report(
        survey,
        f"Can training samples of {called(about['Model'])} be recognized?",
        answer,
        kind="shadow",
        brief=[] if survey.doubts else [_highest_auc(survey)],
        about=about
        | {"Version of the weights": NOT_STATED}
        | no_limit("membership")
        | answers_of(survey.target)
        | sizes_of(survey.target.member[0], "shadow"),
        tiles=tiles if survey.blind and not survey.doubts else (),
        outcome=[*found, *([private] if private else [])],
        actions=actions,
    )


def _highest_auc(survey: ShadowSurvey) -> str:
    """The AUC of the attack that ranks best, for a terminal."""
    best = max(survey.attacked, key=lambda one: one.evaluation.auc.value)
    auc, many = interval_of(best.auc_at(survey.each)), len(survey.attacked)
    of = f"{best.name}{f', the best of {many} (the interval allows for that)' * (many > 1)}"
    return f"Highest AUC: {auc}, of the attack {of}; guessing has 50 %."


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
        presumed=bound.epsilon > 0.0 and bound.mechanism != "any",
        any=f"{bound.epsilon_any:.2f}",
    )


def calibration_sentence(trust: Reliability, *, confidence: float) -> str:
    """How far risk scores are from what they claim to be."""
    error = trust.calibration_error
    return sentence(
        "shadow.calibration",
        error=f"{error.value:.3f}",
        ends=f"{error.lower:.3f} to {error.upper:.3f}",
        confidence=percent_of(confidence, digits=None),
        rmse=f"{trust.rmse:.3f}",
    )


@section(ShadowSurvey, "Who is most at risk", specialist=True)
def at_risk(survey: ShadowSurvey) -> Iterator[Block]:
    """The classes, groups and members that attacks do best on."""
    if survey.outcome() != "identified":
        return
    classes = count(len(survey.by_class))
    yield said_in_one("shadow.parts", strongest=named(survey.strongest.name), classes=classes)
    columns: tuple[str, ...] = ("Samples", "Members", "Non-members", "Accuracy", "AUC")
    yield Table("Classes most at risk", columns, _worst(survey.by_class, "class "))
    if groups := _worst(survey.by_group, ""):
        yield Heading("Groups")
        yield Table("Groups most at risk", columns, groups)
    if not (members := survey.most_at_risk()):
        return
    yield Heading("Members")
    tied, others = survey.as_risky()
    last, most = f"{members[-1]['risk']:.3f}", len(members)
    yield said_in_one(
        "shadow.members",
        last=last,
        members=tied,
        others=others,
        most=most,
        rests="support" in members[0],
    )
    yield from listed(
        *("Members with the highest risk scores", members),
        modified_entropy=("Modified entropy", short_of),
        risk=("Risk score", "{:.3f}".format),
        support=("Shadow samples", count),
    )


@section(ShadowSurvey, "Attacks", specialist=True)
def attacks(survey: ShadowSurvey) -> Iterator[Block]:
    """What each attack reaches, and what follows for the privacy of the training."""
    rows = [attack_cells(attacked) for attacked in survey.attacked]
    table = Table("Attacks", attack_columns(survey), rows)
    yield from attacks_blocks(survey, "shadow", table, roc_figure(survey))
    if (private := epsilon_sentence(survey)) is not None:
        yield Heading("Privacy of the training")
        yield said_in_one("shadow.privacy", private=private)


@section(ShadowSurvey, "Risk of single samples", specialist=True)
def risk(survey: ShadowSurvey) -> Iterator[Block]:
    """Risk scores, and how far they can be trusted."""
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
        if m or n
    ]
    trust = calibration_sentence(survey.reliability, confidence=survey.confidence)
    yield replace(
        risks_figure(survey),
        caption=said_in_one("shadow.risk.caption", trust=trust),
        table=Table("Samples by risk score", ("Risk score", "Members", "Non-members"), rows),
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
    columns: tuple[str, ...] = ("Risk score from", "Called members", "Precision", "Recall")
    yield Table("Guesses by the risk score", columns, rows)
    if (risks := survey.class_risks) is None:
        return
    yield Heading("Risk and generalization error")
    yield said_in_one("shadow.generalization", rank=risks.summary())
    places = {part.value: place for place, (part, *_) in enumerate(worst_first(survey.by_class))}
    worst = list(zip(risks.classes, risks.error, risks.risk, strict=True))[::-1]
    worst.sort(key=lambda row: places.get(row[0], len(places)))
    rows = [
        (f"class {label}", percent_of(float(error)), f"{float(mean):.3f}")
        for label, error, mean in worst[:_MOST_ROWS]
    ]
    columns = ("Class", "Generalization error", "Mean risk of members")
    yield Table("Risk and generalization error", columns, rows)


def _worst(parts: Sequence[Part], prefix: str) -> list[tuple[str, ...]]:
    return [
        (
            *(f"{prefix}{part.value}", count(part.members), count(part.nonmembers)),
            *(interval_of(accuracy), interval_of(auc)),
        )
        for part, accuracy, auc in worst_first(parts)[:_MOST_ROWS]
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
        "Non-members": count(int((~member).sum())),
        "Classes": count(table.classes),
    }
    if (right := table.values.get("correctness")) is not None:
        for name, flags in (("members", member), ("non-members", ~member)):
            facts[f"Accuracy on {name}"] = percent_of(float(right[flags].mean()))
    return facts


# --- texts ---------------------------------------------------------------------------------------


@report_of.register
def texts_report(survey: TextSurvey) -> Report:
    """What there is to say about attacks on texts."""
    best, words, corrected = survey.strongest, survey.words, survey.corrected()
    void, differ = survey.outcome() == "void", survey.differ_without_model()
    alone, note = percent_of(words.auc.value), sentence("texts.tile.words", differ=differ)
    tiles = [*found_tiles(survey, "texts"), Tile("Check: words alone", f"{alone} right", note)]
    answer = not_identified(survey, "texts", "picked the training text in {} of pairs")
    if void or survey.told_apart():
        kinds = {"void": void, "differ": differ, "close": survey.warning(),
                 "length": survey.doubted()}  # fmt: skip
        kind = next((kind for kind, holds in kinds.items() if holds), "")
        values = {"attack": named(best.name), "share": percent_of(best.evaluation.auc.value),
                  "ends": ends_of(corrected), "words": alone}  # fmt: skip
        known = {"reference": survey.lead.name == "reference"}
        answer = (
            [sentence(f"texts.{kind}", **values)] if kind else identified(survey, "texts", **known)
        )
    actions = {
        "words_differ": differ,
        "odds": f"1 of {count(int(1.0 / words.p + 1e-9))} tests",
        "texts_differ": differ or survey.differ_in_length(),
        "few": survey.outcome() == "undecided" and not (differ or survey.doubts),
        "listed": "the report lists the lines of the texts that are recognized best; look up "
        "whose they are",
        "less": "return text without the probabilities of its tokens",
    }
    about = about_of(survey, own=survey.measured.table.source)
    return survey_report(
        survey,
        f"Can training texts of {called(about['Model'])} be recognized?",
        answer,
        kind="texts",
        aloud=[*filter(None, [survey.length_warning()])],  # the answer has the other
        shown=survey.dataset() == "seen",
        tiles=() if void or survey.doubts else tiles,
        about=about | no_limit("membership") | sizes_of(survey.member, "texts"),
        outcome=found_blocks(survey, "texts", _alone(survey)),
        actions=actions,
    )


def _alone(survey: TextSurvey) -> dict[str, WordsAlone | Evaluation]:
    """Words and lengths alone, which make no guesses."""
    return {"words alone": survey.words, "length alone": survey.length}


@section(TextSurvey, "Attacks", specialist=True)
def text_attacks(survey: TextSurvey) -> Iterator[Block]:
    """What each attack reaches."""
    rows = [attack_cells(attacked) for attacked in survey.attacked]
    for name, alone in _alone(survey).items():
        asked = (point.asked_fpr for point in survey.attacked[0].points)
        points = [alone_at(alone.roc, fpr, survey.confidence) for fpr in asked]
        cells = (in_lines(at.tpr, fpr=at.fpr) if at else "none" for at in points)
        rows.append((f"{name}, no model", "none", in_lines(alone.auc), *cells))
    table = Table("Attacks", attack_columns(survey), rows)
    yield from attacks_blocks(survey, "texts", table, roc_figure(survey))


@section(TextSurvey, "Without any model", specialist=True)
def words(survey: TextSurvey) -> Iterator[Block]:
    """What words and lengths show."""
    alone = survey.words
    yield from said(
        "texts.words",
        words=interval_of(alone.auc),
        folds=FOLDS,
        permutations=count(alone.permutations),
        p=probability(alone.p),
        length=interval_of(survey.length.auc),
    )


@section(TextSurvey, "All members at once", specialist=True, before="text_attacks")
def together(survey: TextSurvey) -> Iterator[Block]:
    """Whether the file of members was in the training data."""
    if survey.together is not None:
        found = survey.together
        yield from said(
            "texts.dataset",
            **{str(survey.dataset()): True},
            p=probability(found.p),
            auc=interval_of(found.auc),
            dealings=found.permutations + 1,
        )


@section(TextSurvey, "Who is most at risk", specialist=True, before="text_attacks")
def surest(survey: TextSurvey) -> Iterator[Block]:
    """The members that the strongest attack is surest of, by their lines."""
    if survey.outcome() != "identified":
        return
    low = TEXT_SIGNALS[survey.lead.name].sign < 0
    yield said_in_one("texts.surest", attack=named(survey.lead.name), low=low, high=not low)
    rows = [
        (count(row["line"]), count(row["tokens"]), short_of(row["value"]))
        for row in survey.most_member_like()
    ]
    columns = ("Line", "Tokens", "Signal")
    yield from folded(Table("Texts that are recognized best", columns, rows, closed=CONFIDENTIAL))


@section(TextSurvey, "How it was measured", specialist=True)
def text_how(survey: TextSurvey) -> Iterator[Block]:
    """The texts, the models and the settings, and what the numbers do not say."""
    settings, tokens = survey.measured.settings, survey.measured.tokens
    texts, model = {}, {}
    for name, inside in (("Members", survey.member), ("Non-members", ~survey.member)):
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
