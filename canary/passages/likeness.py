"""Are controls of the kind of the texts, and texts as training read them? Without any model."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from canary.errors import EstimationError, ModelError
from canary.membership.words_alone import LEVEL, words_alone
from canary.records.record import Record
from canary.statistics.numbers import probability
from canary.tokens.tokenizer import Tokenizer

_MOST, _PIECE, _PIECES = 100, 500, 10  # texts of a kind; characters of a piece; pieces of a text
_FEW = 5  # pieces of which all lack something by chance
_APART = 0.85
"""Words that separate texts from controls in this share of pairs show another kind."""

CAPITALS = "capital letters"
_MARKS: Mapping[str, str] = {"digits": r"\d", "punctuation": r"[.,;:!?]", "line breaks": r"\n"}
_LONG = 2_000  # characters that are not without a line break by chance


def _one_line(texts: Sequence[str]) -> bool:
    return max(map(len, texts)) >= _LONG and not any("\n" in text for text in texts)


def _typographic(texts: Sequence[str]) -> bool:
    curly, straight = (
        sum(any(c in t for c in some) for t in texts)
        for some in ("\u2018\u2019\u201c\u201d", "'\"")
    )
    return not straight and 2 * curly >= len(texts) >= _FEW


_ODDITIES: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "no text has a line break, and some are long": _one_line,
    "lines end with a carriage return (\\r\\n)": lambda texts: any("\r\n" in t for t in texts),
    "all quotes are typographic, none is straight": _typographic,
}


@dataclass(frozen=True)
class Likeness(Record):
    """How texts compare with their controls.

    Parameters
    ----------
    auc, p : float or None
        In which share of pairs words distinguish a text from a control, and the p-value of "they
        do not"; None if there are no controls, or fewer than ten different texts of a kind.
    texts_lack, controls_lack : tuple of str
        What no piece of the one has, and half of the pieces of the other or more.
    oddities : tuple of str
        What is unusual in the writing of the texts, and of their controls as well.
    """

    auc: float | None = None
    p: float | None = None
    texts_lack: tuple[str, ...] = ()
    controls_lack: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()

    @property
    def other_kind(self) -> str:
        """Why the controls are of another kind than the texts; empty if nothing shows it."""
        lack = [
            f"no {one} has {_listed(marks)}, as {other} do"
            for one, other, marks in (
                ("text", "controls", self.texts_lack),
                ("control", "texts", self.controls_lack),
            )
            if marks
        ]
        if self.auc is not None and self.p is not None and self.auc >= _APART and self.p <= LEVEL:
            lack.append(
                "their words alone, without any model, separate texts from controls in "
                f"{100 * self.auc:.0f} % of pairs (p = {probability(self.p)})"
            )
        return " and ".join(lack)


def likeness(given: Mapping[str, Sequence[str]], *, capitals: bool) -> Likeness:
    """How ``given["texts"]`` compare with ``given["controls"]``, by at most 100 of each kind.

    `capitals` says whether the model writes capital letters.
    """
    kinds = [
        [text[: _PIECE * _PIECES] for text in texts[:: math.ceil(len(texts) / _MOST)]]
        for texts in given.values()
    ]
    having = [
        {CAPITALS: [piece != piece.lower() for piece in pieces]}
        | {mark: [bool(re.search(how, p)) for p in pieces] for mark, how in _MARKS.items()}
        for pieces in map(_pieces, kinds)
    ]
    bare = [len(marks[CAPITALS]) >= _FEW and not any(marks[CAPITALS]) for marks in having]
    written = any(piece != piece.upper() for piece in kinds[0])
    odd = ["no text has a capital letter"] * (all(bare) and written and capitals)
    odd += [oddity for oddity, shown in _ODDITIES.items() if all(map(shown, kinds))]
    oddities = tuple(odd)
    if len(kinds) == 1:
        return Likeness(oddities=oddities)
    auc = p = None
    with suppress(EstimationError):  # too few texts
        member = np.repeat([True, False], [len(texts) for texts in kinds])
        found = words_alone([*kinds[0], *kinds[1]], member, seed=0, permutations=99)
        auc, p = found.auc.value, found.p
    return Likeness(auc, p, _lack(*having), _lack(*reversed(having)), oddities)


def _pieces(texts: Sequence[str]) -> list[str]:
    return [text[at : at + _PIECE] for text in texts for at in range(0, len(text), _PIECE)]


def _lack(mine: Mapping[str, list[bool]], others: Mapping[str, list[bool]]) -> tuple[str, ...]:
    """The marks that none of these pieces has, and half of the others or more."""
    return tuple(
        mark
        for mark, here in mine.items()
        if len(here) >= _FEW and not any(here) and 2 * sum(others[mark]) >= len(others[mark]) > 0
    )


def knows_capitals(tokenizer: Tokenizer) -> bool:
    """Whether capital letters have tokens other than small ones."""
    with suppress(ModelError):
        small, large, other = (one.ids for one in tokenizer.encode(["t", "T", "S"]))
        return large not in ((), small, other)  # all unknown letters may be one token
    return False


def _listed(marks: Sequence[str]) -> str:
    return " or ".join(marks)
