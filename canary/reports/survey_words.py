"""What reports of membership attacks have in common: the answer, cells of tables, captions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from canary.membership.survey import Attacked, OneTargetSurvey, Survey
from canary.reports.builders import sections_of
from canary.reports.document import Block, Facts, Heading, Report, Text, Tile, words_of
from canary.reports.long_words import said_in_one
from canary.reports.wording import software
from canary.statistics.numbers import count
from canary.statistics.roc import Estimate

_LABELS = {True: "Members can be told", False: "Members were not told", None: "Undecided"}


def survey_report(
    found: Survey[Any], title: str, sentence: str, *, tiles: Sequence[Tile], **fields: Any
) -> Report:
    """The report of a survey, with more `fields` where it has any."""
    told = found.told_apart()
    common: dict[str, Any] = {
        "label": _LABELS[told],
        "tone": "memorized" if told else "undecided",
        "notes": ended(found.notes),
    }
    return Report(
        title=title,
        sentences=[sentence],
        tiles=tiles,
        sections=sections_of(found),
        **common | fields,
    )


def ended(notes: Iterable[str]) -> list[str]:
    """Notes as sentences."""
    return [f"{note.removesuffix('.')}." for note in notes]


def undecided(found: Survey[Any], did: str, of: str = "") -> str:
    """That no attack was shown to tell anything, up to what the best reached.

    Parameters
    ----------
    found : Survey
    did : str
        What the best attack did, with ``{}`` for its share: ``had {} balanced accuracy``.
    of : str
        Of what that was the mean.
    """
    best, k = found.corrected(), len(found.attacked)
    told = "shown to tell members from others better than a coin does"
    who = f"None of {k} attacks was {told}; the best, {found.strongest.name},"
    if k == 1:
        who = f"The attack {found.strongest.name} was not {told}; it"
    doubt = ""
    if found.against():
        doubt = (
            "Nothing is decided, because the files may be put together wrongly, as notes and "
            "warnings say. "
        )
    more = f", and up to {percent_of(best.upper)} is possible" if best.upper > 0.5 else ""
    return f"{doubt}{who} {did.format(percent_of(best.value))} ({ends_of(best)}){of}{more}."


def ends_of(found: Estimate) -> str:
    """``58.2 % to 63.7 %``."""
    return f"{percent_of(found.lower)} to {percent_of(found.upper)}"


def surest_tiles(found: OneTargetSurvey) -> list[Tile]:
    """The tile of the surest guesses; none where no false positive rate was looked at."""
    best = found.surest()
    if best is None:
        return []
    point, tpr = best.point, best.point.tpr
    least, most = (100 * end for end in point.fpr_interval)
    chosen = f"; the best of {best.attacks} attacks there, which the interval allows for"
    note = (
        f"({100 * tpr.lower:.1f} to {100 * tpr.upper:.1f} %) found by {best.name} while "
        f"{point.false_positives} of {count(point.nonmembers)} nonmembers are called members by "
        f"mistake ({least:.2g} to {most:.2g} % of all there could be)"
    )
    value = f"{percent_of(tpr.value)} of members"
    return [Tile("Surest guesses", value, note + (chosen if best.attacks > 1 else ""))]


def attack_columns(found: OneTargetSurvey) -> tuple[str, ...]:
    """Headings of `attack_cells`."""
    rates = rate_columns([point.asked_fpr for point in found.attacked[0].points])
    return "Attack", "Balanced accuracy", "AUC", *rates


def rate_columns(fprs: Sequence[float]) -> tuple[str, ...]:
    """Headings of true positive rates."""
    return tuple(f"TPR at FPR {percent_of(fpr, digits=None)}" for fpr in fprs)


def attack_cells(one: Attacked, *, intervals: bool = True) -> tuple[str, ...]:
    """An attack in a row: its name, and its numbers, with their intervals where asked.

    Intervals have a line of their own, so that three rates fit on a page.
    """
    numbers = (one.accuracy, one.evaluation.auc, *(point.tpr for point in one.points))
    if not intervals:
        return one.name, *(percent_of(number.value) for number in numbers)
    rates = (in_lines(point.tpr, fpr=point.fpr) for point in one.points)
    return one.name, *map(in_lines, numbers[:2]), *rates


def brackets(found: Survey[Any]) -> str:
    """What the brackets in the table of attacks are."""
    confidence = percent_of(found.confidence, digits=None)
    return words_of(said_in_one("survey.brackets", confidence=confidence))


def measured_blocks(facts: dict[str, dict[str, str]], limits: Text) -> list[Block]:
    """How it was measured: facts by heading, what the numbers do not say, and the software."""
    blocks: list[Block] = []
    for heading, some in facts.items():
        blocks += [Heading(heading)] if heading else []
        blocks.append(Facts(some))
    return [*blocks, Heading("Limits"), limits, Heading("Software"), software()]


def interval_of(found: Estimate) -> str:
    """``61.0 % (58.2 to 63.7)``."""
    return in_lines(found).replace("\n", " ")


def in_lines(found: Estimate, *, fpr: float | None = None) -> str:
    """``61.0 %``, ``at 1 %`` where it is a rate, and ``(58.2 to 63.7)`` in a line below."""
    at = "" if fpr is None else f" at {percent_of(fpr, digits=None)}"
    ends = f"({100 * found.lower:.1f} to {100 * found.upper:.1f})"
    return f"{percent_of(found.value)}{at}\n{ends}"


def percent_of(share: float, digits: int | None = 1) -> str:
    """``61.0 %``; as many digits as it has where `digits` is None, three at most."""
    return f"{100 * share:.3g} %" if digits is None else f"{100 * share:.{digits}f} %"


def short_of(value: float | str) -> str:
    """A number with three digits, or the word for an infinite one."""
    return value if isinstance(value, str) else f"{value:.3g}"
