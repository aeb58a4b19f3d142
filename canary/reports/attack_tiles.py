"""How surely members are recognized, in sentences and tiles of all reports on attacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from canary.membership.survey import Surest, Survey
from canary.reports.document import Tile, sentence
from canary.signals.signal_table import SignalTable
from canary.statistics.numbers import count, percent_of
from canary.statistics.roc import Estimate

OFTEN = 0.1
"""The false positive rate of guesses that are less sure, one yardstick for all reports."""


def surest_sentence(survey: Survey[Any], surest: Surest, kind: str, how: str) -> str:
    """How many members the surest guesses find, and how many guessing finds.

    `how` they are found: ``sure``, or else ``average`` or ``calm``; ``open`` where the others are
    too few to show it, and ``ties`` where too many scores are equal.
    """
    if not surest.beats_guessing:
        how = how if surest.shows else "open"
        how = how if surest.measured else "ties"
    tpr, others = surest.tpr, others_of(kind)
    return sentence(
        "survey.surest", **{how: True}, coarse=how == "sure" and _coarse(survey, surest),
        some=in_people(tpr.value), ends=ends_of(tpr), what=f"training {others}",
        others=others, one=f"training {one_of(kind)}", rarely=rarely(surest.fpr, others),
        rate=in_people(surest.fpr).lower().removeprefix("about "),
        found=_of(surest.tpr.value, surest.fpr), blind=_of(surest.fpr, surest.fpr),
    )  # fmt: skip


def _coarse(survey: Survey[Any], surest: Surest) -> bool:
    """Whether surer guesses were looked at, and the others are too few to judge them."""
    return bool(surest.fpr > min(survey.attacked[0].rates_found()))


def _of(share: float, fpr: float) -> str:
    """``about 2 in 100``: of as many as a false positive rate is a part of, at least 100."""
    whole = max(100, round(1 / fpr))
    found = round(whole * share)
    return f"{'about ' if share != fpr else ''}{count(found)} in {count(whole)}"


def in_people(share: float) -> str:
    """A share as people count: ``About 1 in 9``, ``About 97 in 100``, ``All``."""
    if share >= 1.0:
        return "All"
    if share >= 0.2:
        return f"About {min(round(100 * share), 99)} in 100"
    return f"About 1 in {count(round(1 / share))}" if share else "None"


def _of_wrong(fpr: float) -> str:
    """``1 in 100 wrong``, for the head of a tile."""
    return f"{rarely(fpr, '').removesuffix(' other ')} wrong"


def rarely(fpr: float, others: str) -> str:
    """``1 in 100 other samples``: how many are mistaken at a false positive rate, at most."""
    one_in = 1.0 / fpr
    if abs(one_in - round(one_in)) < 0.01:
        return f"1 in {count(round(one_in))} other {others}"
    return f"{100 * fpr:.3g} in 100 other {others}"


def others_of(kind: str) -> str:
    """``samples`` or ``texts``, by the kind of survey."""
    return f"{one_of(kind)}s"


def one_of(kind: str) -> str:
    """``sample`` or ``text``, by the kind of survey."""
    return "text" if kind == "texts" else "sample"


def found_tiles(survey: Survey[Any], kind: str) -> Iterator[Tile]:
    """The tiles of the surest guesses, where a false positive rate was looked at, and of all."""
    surest, mean = survey.surest(), survey.corrected()
    if surest is not None:
        coarse = surest.measured and _coarse(survey, surest)
        least = min(survey.attacked[0].rates_found())
        most = max(one.rates_found()[least].value for one in survey.attacked)
        note = sentence(
            "survey.tile", coarse=coarse, least=rarely(least, others_of(kind)),
            least_found=percent_of(most), others=others_of(kind), **_found_how(surest),
            rarely=rarely(surest.fpr, others_of(kind)),
            rate=percent_of(surest.fpr, digits=None), ends=ends_of(surest.tpr),
        )  # fmt: skip
        share = _share(surest, kind)
        which = "Surest that can be judged" if coarse else "Surest guesses"
        yield Tile(f"{which}: {_of_wrong(surest.fpr)}", share, note)
        if surest.beats_guessing:
            yield _auc(survey, kind)
            return
        if (often := survey.surest(at_least=OFTEN)) is not None and often.fpr > surest.fpr:
            note = sentence(
                "survey.tile", **_found_how(often, "often"),
                rarely=rarely(often.fpr, others_of(kind)),
                rate=percent_of(often.fpr, digits=None), others=others_of(kind),
                ends=ends_of(often.tpr),
            )  # fmt: skip
            yield Tile(f"Less sure: {_of_wrong(often.fpr)}", _share(often, kind), note)
    if kind == "shadow":
        right = f"{percent_of(mean.value)} right"
        yield Tile("On average", right, sentence("survey.tile.average"))
    yield _auc(survey, kind)


def _found_how(surest: Surest, more: str = "sure") -> dict[str, bool]:
    """How ``survey.tile`` says what was found; by ``more`` if it is more than guessing finds."""
    ties, sure = not surest.measured, surest.beats_guessing
    return {"ties": ties, more: sure and not ties, "luck": not (sure or ties)}


def _share(surest: Surest, kind: str) -> str:
    if not surest.measured:
        return "Not measurable"
    return f"{percent_of(surest.tpr.value)} of {others_of(kind)}"


def _auc(survey: Survey[Any], kind: str) -> Tile:
    """The number that a limit on the AUC applies to: that of the attack with the largest."""
    best = max((one.auc_at(survey.each) for one in survey.attacked), key=lambda auc: auc.value)
    words = sentence("survey.tile.auc", others=others_of(kind), ends=ends_of(best))
    return Tile("In pairs (AUC)", f"{percent_of(best.value)} right", words)


def ends_of(estimate: Estimate) -> str:
    """``58.2 % to 63.7 %``."""
    return f"{percent_of(estimate.lower)} to {percent_of(estimate.upper)}"


def answers_of(table: SignalTable, rows: Sequence[int] = (0,)) -> dict[str, str]:
    """By what the tested answers are known again, where nobody knows the weights."""
    chosen = [table.values[name][[*rows]] for name in sorted(table.values)]
    known = sha256(np.ascontiguousarray(chosen).tobytes()).hexdigest()
    return {"Answers of the tested model" + "s" * (len(rows) > 1): f"fingerprint {known[:12]}"}
