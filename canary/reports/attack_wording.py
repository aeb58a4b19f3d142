"""What membership attacks found, in words, tiles and tables that all kinds of surveys share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.gate.check_result import check_attacks
from canary.membership.doubts import POSITIVE_CONTROL
from canary.membership.evaluation import Evaluation
from canary.membership.models_result import ModelsSurvey
from canary.membership.shadow_survey import ShadowSurvey
from canary.membership.survey import Attacked, OneTargetSurvey, Survey
from canary.membership.words_alone import WordsAlone
from canary.reports.attack_figures import Reach, best_first, reached_figure
from canary.reports.attack_tiles import ends_of, one_of, others_of, rarely, surest_sentence
from canary.reports.builders import sections_of
from canary.reports.document import (
    Block,
    Figure,
    Heading,
    Note,
    Report,
    Span,
    Table,
    Text,
    basis,
    if_claimed,
    said,
    said_in_one,
    sentence,
    words_of,
)
from canary.reports.wording import (
    STRICT_SAMPLES,
    ended,
    facts_blocks,
    folded,
    software,
    under_strict,
)
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import clean, count, percent_of
from canary.statistics.roc import Estimate, OperatingPoint, Roc

CONFIDENTIAL = "Show the list (confidential: it names training samples)"
"""What opens a list of members."""

_OUTCOMES = {
    "identified": ("Training samples are at risk", "memorized"),
    "not identified": ("No attack succeeded", "not-found"),
    "undecided": ("Not enough data to decide", "undecided"),
    "void": ("The test is void", "suspect"),
}
"""What follows from attacks: the label and the tone of a report."""

_BARELY = 0.6
"""Below this share of right guesses, samples are barely recognized."""


def survey_report(
    survey: Survey[Any],
    title: str,
    answer: Sequence[str],
    *,
    kind: str,
    aloud: Sequence[str] = (),
    actions: Mapping[str, object],
    shown: bool = False,
    **fields: Any,
) -> Report:
    """The report of a survey of membership attacks, with more `fields` where it has any.

    What is wrong with the input comes first. `kind` of survey is where its words are, `aloud` are
    warnings above all notes, and `actions` what ``survey.actions`` asks besides the outcome.
    `shown` if the test itself shows that the model was trained on the members.
    """
    outcome, doubts, surest = survey.outcome(), survey.doubts, survey.surest()
    each = survey.by_target() if isinstance(survey, ModelsSurvey) and survey.targets[1:] else []
    calm, found = outcome == "not identified", outcome == "identified"
    loud = [*doubts] if outcome == "void" else [*aloud, *doubts]  # a void test says why
    told = enumerate(ended(loud))
    average = found and surest is not None and not surest.beats_guessing
    retrain = bool(actions.get("texts_differ"))
    open_to = outcome in ("void", "undecided") and not doubts
    label, tone = _OUTCOMES[outcome]
    if outcome == "undecided" and retrain:
        label = "Cannot be decided: the texts differ"
    weak, how = survey.not_made if (calm or found) and not doubts else ("", "")
    sure = found and not average and not doubts
    if average:
        label, tone = _on_average(survey)
    if weak and not sure:
        made = "stronger attacks were not made"
        label = f"{label[:-1]}; {made})" if label.endswith(")") else f"{label} ({made})"
    label = label.replace("sample", one_of(kind))
    sentences, one = [*answer], one_of(kind)
    if weak:
        sentences.append(sentence("survey.weak", **{kind: True}, weak=weak))
    sentences += [sentence("survey.rests", one=one)] if calm and not doubts else []
    read = f"the model was trained on these {others_of(kind)}"
    label, tone = if_claimed(label, tone, "" if shown else read)
    if doubts and outcome != "void":
        label, tone = "Do not rely on this test before its input is checked", "suspect"
        sentences = [sentence("survey.doubted", one=len(doubts) == 1, several=len(doubts) > 1)]
    if outcome == "void" or doubts:
        # Of numbers that nothing follows from there is no picture.
        fields["outcome"] = [one for one in fields["outcome"] if not isinstance(one, Figure)]
    asked = {
        "what": others_of(kind),
        "doubted": bool(doubts),
        "found": found and not doubts,
        "calm": calm and not doubts,
        "sure": sure,
        "average": average and not doubts,
        "weak": weak and not sure,
        "weak_alarm": weak and sure,
        "needed": STRICT_SAMPLES,
    }
    return Report(
        title=title,
        label=label,
        tone=tone,
        sentences=sentences,
        basis=""
        if open_to or tone == "suspect"
        else basis("shown" if shown else "taken", read, "this result"),
        decide=said(
            "survey.decide",
            undecided=open_to,
            again=open_to and not retrain,
            retrain=open_to and retrain,
            open_question=open_to or asked["doubted"],
            proof=(found or calm) and not (doubts or shown),
            people=f"{100 * survey.corrected().value:.0f}",
            targets=len(each),
            which=found and each and not none_alone(survey),
            alone=found and each and none_alone(survey),
            **(strictly(survey) if average and not doubts else {}),
            **asked,
        ),
        actions=said(
            "survey.actions", **{**asked, "how": how, **_numbers(survey, kind), **actions}
        ),
        notes=[
            *((Span("For the engineers: " * (not n) + note, "strong"),) for n, note in told),
            *ended(n for n in (*aloud, *survey.notes) if n not in (*loud, POSITIVE_CONTROL)),
        ],
        sections=sections_of(survey),
        unsaid=said(
            "survey.unsaid",
            void=outcome == "void",
            calm=calm,
            open=outcome in ("void", "undecided"),
            what=others_of(kind),
            blind_to_source=kind == "shadow" and _without_inputs(survey),
            targets=len(each) or 1,
            one=kind != "texts" and not each,
            low=each and percent_of(min(one.value for one in each)),
            high=each and percent_of(max(one.value for one in each)),
        ),
        **fields,
    )


def none_alone(survey: Survey[Any]) -> bool:
    """Whether the surest guesses show something about models together, and about none alone."""
    if not isinstance(survey, ModelsSurvey) or survey.surest() is None:
        return False
    return all(one.lower <= 0.0 for one in survey.by_target())


def strictly(survey: Survey[Any]) -> dict[str, object]:
    """What a model would do under the strict limits that the header names, and what follows."""
    limits: dict[str, Any] = {"max_auc": 0.55, "max_tpr_at_fpr": {0.01: 0.02}, "max_p": None}
    judged = check_attacks(survey, **limits, trust_members=True, undecided="fail")
    several = isinstance(survey, ModelsSurvey) and survey.targets[1:]
    words = under_strict(judged, "these models" if several else "this model")
    return {"strictly": words, "fails": judged.outcome == "failed"}


def _without_inputs(survey: Survey[Any]) -> bool:
    target = getattr(survey, "target", None)
    return isinstance(target, SignalTable) and target.inputs is None


def _on_average(survey: Survey[Any]) -> tuple[str, str]:
    """The label and the tone where guesses with few mistakes find no more than chance."""
    surest, share = survey.surest(), survey.corrected().value
    barely = share < _BARELY
    unclear = surest is not None and not (surest.shows and surest.measured)
    values = {"barely": barely, "often": not (barely or unclear), "unclear": unclear and not barely}
    label = sentence("survey.label", people=f"{100 * share:.0f}", **values)
    return label, "" if barely else "undecided"


def identified(survey: Survey[Any], kind: str, **values: object) -> list[str]:
    """That training samples can be identified: how surely, how well on average, and by whom.

    `kind` of survey is where its words are, and `values` what these ask besides the numbers.
    """
    mean, surest = survey.corrected(), survey.surest()
    average = sentence(f"{kind}.average", **{**values, "people": f"{100 * mean.value:.0f}"})
    who = sentence(f"{kind}.needs", **values)
    if surest is None:
        return [average, who]
    if surest.beats_guessing:
        return [surest_sentence(survey, surest, kind, "sure"), who]
    return [average, f"{surest_sentence(survey, surest, kind, 'average')} {who}"]


def _numbers(survey: Survey[Any], kind: str) -> dict[str, str]:
    """Which attacks are best, and how good the best is on average, for engineers."""
    best = sentence(
        "survey.best", two=survey.lead.name != survey.strongest.name,
        surest=named(survey.lead.name), strongest=named(survey.strongest.name),
    )  # fmt: skip
    mean = survey.corrected()
    words = sentence(
        "survey.right", pairs=kind != "shadow", one=one_of(kind), share=percent_of(mean.value),
        ends=ends_of(mean),
    )  # fmt: skip
    return {"best": best, "average_words": words}


def named(attack: str) -> str:
    """An attack in a sentence: its name, and in brackets what it reads."""
    return " ".join([_quoted(attack), *(f"({words})" for words in [reads_of(attack)] if words)])


def _looked_at(attacks: Sequence[str]) -> str:
    """What some attacks look at, those that look at the same together."""
    known: dict[str, list[str]] = {}
    for attack in attacks:
        known.setdefault(reads_of(attack), []).append(_quoted(attack))
    known.pop("", None)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in known.items())


def reads_of(attack: str) -> str:
    """What an attack looks at, in plain words; nothing for one that is not known."""
    base = attack.removesuffix("-one-threshold").replace("-", "_").replace("+", "")
    models = base in ("R", "D", "L") or base.startswith(("lira", "rmia"))
    return " ".join(map(words_of, said("attack.reads", **{base: True, "models": models})))


def _quoted(attack: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{attack}\N{RIGHT DOUBLE QUOTATION MARK}"


def not_identified(survey: Survey[Any], kind: str, did: str, of: str = "") -> list[str]:
    """That no attack was better than guessing, on average and in its surest guesses.

    `did` says what the best attack did, with ``{}`` for its share, as in ``had {} balanced
    accuracy``; `of` of what that was the mean.
    """
    best, surest = survey.corrected(), survey.surest()
    average = sentence(
        "survey.not_identified", attacks=len(survey.attacked), several=len(survey.attacked) > 1,
        what=others_of(kind), did=did.format(percent_of(best.value)), of=of,
    )  # fmt: skip
    if surest is None:
        return [average]
    return [average, surest_sentence(survey, surest, kind, "calm")]


def found_blocks(
    survey: Survey[Any], kind: str, others: Mapping[str, Evaluation | WordsAlone] | None = None
) -> list[Block]:
    """What each attack finds in its surest guesses, beside what guessing finds.

    `others` are no attacks, by name. Intervals are those of the answer: they allow for the number
    of attacks.
    """
    surest, beside = survey.surest(), others or {}
    found_out = survey.outcome() == "identified"
    if surest and (not surest.measured or (found_out and not surest.beats_guessing)):
        surest = None  # the answer is the average then
    reached = []
    for one in survey.attacked:
        mean = survey.average_found_by(one)
        found = mean if surest is None else survey.found_by(one, surest.fpr)
        reached.append(Reach(one.name, found, percent_of(mean.value)))
    for name, alone in beside.items():
        at = None if surest is None else alone_at(alone.roc, surest.fpr, survey.confidence)
        if at is not None or surest is None:
            found = alone.auc if at is None else at.tpr
            reached.append(Reach(name, found, percent_of(alone.auc.value), attack=False))
    fpr = None if surest is None else surest.fpr
    reached, undrawn = best_first(reached)
    caption = said_in_one(
        "survey.reached", confidence=percent_of(survey.confidence, digits=None),
        attacks=len(survey.attacked), several=len(survey.attacked) > 1,
        undrawn=", ".join(one.name for one in undrawn),
        reads=_looked_at([one.name for one in reached if one.attack]),
        empty=", ".join(one.name for one in reached if not one.found.value), words=beside,
        surest=surest, what=f"training {others_of(kind)}",
        rarely="" if fpr is None else rarely(fpr, others_of(kind)),
    )  # fmt: skip
    average = f"{survey.average_name[0].upper()}{survey.average_name[1:]}"
    return [reached_figure(reached, undrawn, fpr, caption, what=others_of(kind), average=average)]


def singled_out_sentences(survey: ShadowSurvey | ModelsSurvey) -> Iterator[Text]:
    """How many members are singled out at each rate that was asked for; nothing in doubt."""
    if survey.outcome() not in ("identified", "not identified"):
        return
    for fpr in survey.attacked[0].rates_found():
        one = survey.singled_out(fpr)
        at = one.point
        yield said_in_one(
            "survey.singled_out", fpr=percent_of(fpr, digits=None), found=count(len(one.samples)),
            members=count(at.members), attack=_quoted(one.name), others=count(at.false_positives),
            nonmembers=count(at.nonmembers), chance=f"{fpr * at.members:.3g}",
        )  # fmt: skip


def alone_at(curve: Roc, fpr: float, confidence: float) -> OperatingPoint | None:
    """What words or lengths find without any model; None where different texts are too few."""
    return curve.tpr_at_fpr(fpr, confidence=confidence) if fpr * curve.nonmembers >= 1 else None


def sizes_of(member: NDArray[np.bool_], kind: str) -> dict[str, str]:
    """How many samples of each kind there are."""
    members, others = (count(int(flags.sum())) for flags in (member, ~member))
    return {f"Training {others_of(kind)} (members)": members, "Others (non-members)": others}


def attack_columns(survey: OneTargetSurvey) -> tuple[str, ...]:
    """Headings of `attack_cells`."""
    rates = rate_columns([point.asked_fpr for point in survey.attacked[0].points])
    return "Attack", "Balanced accuracy", "AUC", *rates


def rate_columns(fprs: Sequence[float]) -> tuple[str, ...]:
    """Headings of true positive rates."""
    return tuple(f"TPR at FPR {percent_of(fpr, digits=None)}" for fpr in fprs)


def attack_cells(attacked: Attacked) -> tuple[str, ...]:
    """An attack in a row: its name, and its numbers with their intervals."""
    shown = (
        "–" if attacked.too_coarse(point.asked_fpr) else in_lines(point.tpr, fpr=point.fpr)
        for point in attacked.points
    )
    return attacked.name, *map(in_lines, (attacked.accuracy, attacked.evaluation.auc)), *shown


def attacks_blocks(
    survey: Survey[Any], kind: str, table: Table, roc: Figure, **values: object
) -> Iterator[Block]:
    """What each attack reaches; `kind` of survey is where its words are."""
    confidence = percent_of(survey.confidence, digits=None)
    brackets = sentence("survey.brackets", confidence=confidence)
    yield said_in_one(f"{kind}.attacks")
    yield table
    yield Note(said_in_one(f"{kind}.note", brackets=brackets, **values))
    yield roc


def measured_blocks(facts: dict[str, dict[str, str]], limits: Text) -> Iterator[Block]:
    """How it was measured: facts by heading, what the numbers do not say, and the software."""
    yield from facts_blocks(facts)
    yield from (Heading("Limits"), limits, Heading("Software"), software())


def interval_of(estimate: Estimate) -> str:
    """``61.0 % (58.2 to 63.7)``."""
    return in_lines(estimate).replace("\n", " ")


def in_lines(estimate: Estimate, *, fpr: float | None = None) -> str:
    """``61.0 %``, ``at 1 %`` where it is a rate, and ``(58.2 to 63.7)`` in a line below."""
    at = "" if fpr is None else f" at {percent_of(fpr, digits=None)}"
    ends = f"({100 * estimate.lower:.1f} to {100 * estimate.upper:.1f})"
    return f"{percent_of(estimate.value)}{at}\n{ends}"


def short_of(value: float | str) -> str:
    """A number with three digits, or the word for an infinite one."""
    return value if isinstance(value, str) else f"{value:.3g}"


def listed(
    title: str, rows: Sequence[Mapping[str, Any]], **more: tuple[str, Callable[[Any], str]]
) -> Iterator[Block]:
    """A closed table of samples by number, id (where they have some), class and `more` columns."""
    shown: dict[str, tuple[str, Callable[[Any], str]]] = {
        "sample": ("Sample", count),
        "id": ("Id", lambda name: clean(str(name))),
        "label": ("Class", count),
        **more,
    }
    there = [name for name in shown if rows and name in rows[0]]
    cells = [tuple(shown[name][1](row[name]) for name in there) for row in rows]
    columns = tuple(shown[name][0] for name in there)
    yield from folded(Table(title, columns, cells, closed=CONFIDENTIAL))
