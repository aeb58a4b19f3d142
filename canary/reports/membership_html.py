"""Membership attacks as one HTML file that opens from disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.records.files import atomic_write
from canary.records.overwrite_guard import PAGES
from canary.reports.attack_figures import risk_counts, risks_figure, roc_figure
from canary.reports.drawing import svg_of
from canary.reports.old_pages import page
from canary.reports.wording import software
from canary.statistics.numbers import count, plural

if TYPE_CHECKING:
    from canary.membership.analysis import ClassRisks
    from canary.membership.evaluation import Part
    from canary.membership.risk import Reliability
    from canary.membership.shadow_survey import ShadowSurvey
    from canary.membership.survey import Attacked
    from canary.membership.text_survey import TextSurvey
    from canary.signals.signal_table import SignalTable
    from canary.statistics.roc import Estimate

__all__ = [
    "LABELS",
    "attack_cells",
    "attack_columns",
    "calibration_sentence",
    "class_risk_sentence",
    "epsilon_sentence",
    "in_lines",
    "interval_of",
    "membership_sentence",
    "not_told",
    "nothing_decided",
    "percent_of",
    "report_membership",
    "roc_words",
    "short_of",
    "surest_tiles",
    "up_to",
]

LABELS = {True: "Members can be told", False: "Members were not told", None: "Undecided"}
"""The answer in a word or two."""

_TEMPLATE = "membership.html.j2"
_MOST_ROWS = 20


def report_membership(found: ShadowSurvey, path: str | os.PathLike[str]) -> Path:
    """Write what attacks found as a report that a person can read and defend.

    Parameters
    ----------
    found : ShadowSurvey
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


def render(found: ShadowSurvey) -> str:
    """The HTML of `report_membership`, as text."""
    from markupsafe import Markup

    drawings = [("roc", roc_figure)] + ([("risk", risks_figure)] if found.risks else [])
    told = found.told_apart()
    name = Path(found.target.source).name
    return page(
        _TEMPLATE,
        name=name,
        tone="memorized" if told else "undecided",
        label=LABELS[told],
        sentence=membership_sentence(found),
        tiles=_tiles(found),
        notes=list(found.notes),
        confidence=percent_of(found.confidence, digits=0),
        columns=attack_columns(found),
        rows=[attack_cells(one) for one in found.attacked],
        strongest=found.strongest.attack.name,
        part_columns=("Samples", "Members", "Nonmembers", "Balanced accuracy", "AUC"),
        classes=_worst(found.by_class, "class "),
        class_count=count(len(found.by_class)),
        groups=_worst(found.by_group, ""),
        risks=None if found.risks is None else _risks(found),
        most_at_risk=[
            (
                count(r["sample"]),
                count(r["label"]),
                short_of(r["modified_entropy"]),
                _risk(r["risk"]),
            )
            for r in found.most_at_risk()
        ],
        class_risks=_class_risks(found.class_risks),
        epsilon=epsilon_sentence(found),
        # The drawings hold our own numbers and words only.
        figures={
            (kind, width): Markup(svg_of(draw(found), wide=width == "wide"))  # noqa: S704
            for kind, draw in drawings
            for width in ("wide", "narrow")
        },
        roc_words=roc_words(found),
        target_facts=_facts(found.target),
        shadow_facts=_facts(found.shadow),
        shadow_models=(
            "one shadow"
            if found.shadow.models == 1
            else f"{count(found.shadow.models)} shadow models, taken together"
        ),
        software=software(),
    )


def membership_sentence(found: ShadowSurvey) -> str:
    """The answer in one sentence."""
    best, k = found.corrected(), len(found.attacked)
    name = found.strongest.attack.name
    interval = f"{percent_of(best.lower)} to {percent_of(best.upper)}"
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
            f"{percent_of(best.value)} balanced accuracy ({interval}; a coin has 50 %), by the "
            f"attack {name}."
        )
    return nothing_decided(found.doubts) + (
        f"{not_told(k, name)} had {percent_of(best.value)} balanced accuracy ({interval})"
        f"{up_to(best)}."
    )


def nothing_decided(doubts: Sequence[str]) -> str:
    """What stands before an answer that nothing was found, where doubts speak against the files."""
    if not doubts:
        return ""
    return (
        "Nothing is decided, because the files may be put together wrongly, as notes and warnings "
        "say. "
    )


def not_told(attacks: int, name: str) -> str:
    """That none of so many attacks was shown to tell anything, up to what the best reached.

    Examples
    --------
    >>> not_told(1, "loss")
    'The attack loss was not shown to tell members from others better than a coin does; it'
    """
    told = "shown to tell members from others better than a coin does"
    if attacks == 1:
        return f"The attack {name} was not {told}; it"
    return f"None of {attacks} attacks was {told}; the best, {name},"


def up_to(best: Estimate) -> str:
    """What an attack that was not shown to be better than a coin may be worth all the same.

    Examples
    --------
    >>> from canary.statistics.roc import Estimate
    >>> up_to(Estimate(0.541, 0.494, 0.588))
    ', and up to 58.8 % is possible'
    """
    return f", and up to {percent_of(best.upper)} is possible" if best.upper > 0.5 else ""


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


def _class_risks(found: ClassRisks | None) -> dict[str, Any] | None:
    """The classes that generalize worst, as rows."""
    if found is None:
        return None
    rows = zip(found.classes[::-1], found.error[::-1], found.risk[::-1], strict=True)
    return {
        "sentence": class_risk_sentence(found),
        "columns": ("Class", "Generalization error", "Mean risk of members"),
        "rows": [
            (f"class {label}", percent_of(float(error)), _risk(float(risk)))
            for label, error, risk in list(rows)[:_MOST_ROWS]
        ],
    }


def attack_columns(found: ShadowSurvey | TextSurvey) -> tuple[str, ...]:
    """Headings of `attack_cells`."""
    rates = found.attacked[0].points
    return (
        "Attack",
        "Balanced accuracy",
        "AUC",
        *(f"TPR at FPR {percent_of(point.asked_fpr, digits=None)}" for point in rates),
    )


def attack_cells(one: Attacked, *, intervals: bool = True) -> tuple[str, ...]:
    """An attack in a row: its name, and its numbers, with their intervals where asked.

    Intervals stand on a line of their own, so that three rates fit on a page.
    """
    if not intervals:
        numbers = (one.accuracy, one.evaluation.auc, *(p.tpr for p in one.points))
        return one.attack.name, *(percent_of(number.value) for number in numbers)
    return (
        one.attack.name,
        in_lines(one.accuracy),
        in_lines(one.evaluation.auc),
        *(in_lines(point.tpr, fpr=point.fpr) for point in one.points),
    )


def _tiles(found: ShadowSurvey) -> list[tuple[str, str, str]]:
    best = found.strongest
    tiles = [
        (
            "Strongest attack",
            percent_of(best.accuracy.value),
            f"balanced accuracy of {best.attack.name}; 50 % is a coin",
        )
    ]
    tiles.extend(surest_tiles(found))
    if found.reliability is not None and found.risks is not None:
        high = float((found.risks.scores[found.target.member[0]] >= 0.9).mean())
        tiles.append(
            ("At high risk", f"{percent_of(high)} of members", "have a risk score of 0.9 or more")
        )
    return tiles


def surest_tiles(found: ShadowSurvey | TextSurvey) -> list[tuple[str, str, str]]:
    """The tile of the surest guesses; none where no false positive rate was looked at."""
    best = found.surest()
    if best is None:
        return []
    point, tpr = best.point, best.point.tpr
    least, most = (100 * end for end in point.fpr_interval)
    chosen = (
        ""
        if best.attacks == 1
        else f"; the best of {best.attacks} attacks there, which the interval allows for"
    )
    return [
        (
            "Surest guesses",
            f"{percent_of(tpr.value)} of members",
            f"({100 * tpr.lower:.1f} to {100 * tpr.upper:.1f} %) found by {best.name} while "
            f"{point.false_positives} of {count(point.nonmembers)} nonmembers are called members "
            f"by mistake ({least:.2g} to {most:.2g} % of all there could be){chosen}",
        )
    ]


def _worst(parts: tuple[Part, ...], prefix: str) -> list[tuple[str, ...]]:
    """The parts that the attack does best on, as rows."""
    there = [part for part in parts if part.accuracy is not None and part.auc is not None]
    there.sort(key=lambda part: -part.accuracy.value if part.accuracy else 0.0)
    return [
        (
            f"{prefix}{part.value}",
            count(part.members),
            count(part.nonmembers),
            interval_of(part.accuracy),
            interval_of(part.auc),
        )
        for part in there[:_MOST_ROWS]
        if part.accuracy is not None and part.auc is not None
    ]


def _risks(found: ShadowSurvey) -> dict[str, Any]:
    assert found.risks is not None
    assert found.reliability is not None
    inside, outside, edges = risk_counts(found)
    return {
        "prior": percent_of(found.risks.prior),
        "read_off": _read_off(found.risks.bins, found.risks.scale),
        "calibration": calibration_sentence(found.reliability, confidence=found.confidence),
        "guess_columns": ("Risk score from", "Called members", "Precision", "Recall"),
        "guesses": [
            (
                f"{one.threshold:g}",
                count(one.true_positives + one.false_positives),
                "none called" if one.precision is None else interval_of(one.precision),
                interval_of(one.recall),
            )
            for one in found.guesses()
        ],
        "words": (
            f"Risk scores of {plural(int(inside.sum()), 'member')} and "
            f"{plural(int(outside.sum()), 'nonmember')}, and the share of members at each score."
        ),
        "columns": ("Risk score", "Members", "Nonmembers"),
        "rows": [
            (f"{low:.2f} to {high:.2f}", count(int(m)), count(int(n)))
            for low, high, m, n in zip(edges[:-1], edges[1:], inside, outside, strict=True)
        ],
    }


def _read_off(bins: int | None, scale: str) -> str:
    """How risk scores came about, as the end of a sentence."""
    words = {"log": "logarithmic", "linear": "linear"}[scale]
    if bins is None:
        return f"by a Gaussian kernel on a {words} scale"
    return f"with {plural(bins, 'bin')} on a {words} scale"


def roc_words(found: ShadowSurvey | TextSurvey) -> str:
    """What the drawing of the curves shows, for who cannot see it."""
    areas = "; ".join(f"{a.attack.name}: {a.evaluation.auc.value:.3f}" for a in found.attacked)
    return f"True against false positive rate of each attack. Areas under the curves, {areas}."


def _facts(table: SignalTable) -> dict[str, str]:
    facts = {
        "File": Path(table.source).name,
        "Members": count(int(table.member.sum())),
        "Nonmembers": count(int((~table.member).sum())),
        "Classes": count(table.classes),
    }
    if "correctness" in table.values:
        right = table.values["correctness"]
        facts["Accuracy on members"] = percent_of(float(right[table.member].mean()))
        facts["Accuracy on nonmembers"] = percent_of(float(right[~table.member].mean()))
    return facts


def interval_of(found: Estimate) -> str:
    """``61.0 % (58.2 to 63.7)``."""
    return f"{percent_of(found.value)} {_ends_of(found)}"


def in_lines(found: Estimate, *, fpr: float | None = None) -> str:
    """``61.0 %``, ``at 1 %`` where it is a rate, and ``(58.2 to 63.7)`` in a line below."""
    at = "" if fpr is None else f" at {percent_of(fpr, digits=None)}"
    return f"{percent_of(found.value)}{at}\n{_ends_of(found)}"


def _ends_of(found: Estimate) -> str:
    return f"({100 * found.lower:.1f} to {100 * found.upper:.1f})"


def percent_of(share: float, digits: int | None = 1) -> str:
    """``61.0 %``; as many digits as it has where `digits` is None, three at most."""
    return f"{100 * share:.3g} %" if digits is None else f"{100 * share:.{digits}f} %"


def short_of(value: float | str) -> str:
    """A number with three digits, or the word for an infinite one."""
    return value if isinstance(value, str) else f"{value:.3g}"


def _risk(value: float) -> str:
    return f"{value:.3f}"
