"""Whether a model prefers candidates that nobody planted, as if another set had been injected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from canary.formats.format import Format
from canary.statistics.numbers import count

SHARE = 0.01
"""A candidate that a model writes in this share of its answers, or in more, is prominent."""
SEVERAL = 3
"""So many must be prominent, and in as many of the answers each, where answers are counted."""
BEGUN = 2
"""Characters by which such candidates must differ."""
_SPACE = 1_000_000
_BITS = 3.0  # of each character, at least: of words and names, each has fewer
_STEPS, _MOST_STEPS = 0.7, 5
_STRANGE = (
    "that look drawn at random come out and no canary of this set does, as if another set had "
    "been injected"
)
_UNCHECKED = (
    "look like memorized secrets: they look drawn at random and are far more likely than by "
    "chance, and nobody checked whether they are real"
)
_LOOK_UP = (
    "look them up in the training data (canary discover lists the secrets of this form there, and "
    "extract takes its file as --canaries)"
)
_CURE = (
    "make sure that this is the canary file that was injected into the training data; if it is, "
    "the model memorized other secrets of this form (canary extract lists them)"
)


def unplanted(likely: Mapping[str, float], format: Format, planted: Collection[str]) -> int:
    """How many prominent candidates are no canary, if that is surely odd; else 0.

    A model that learned nothing also prefers some candidates: 123456, dates, words. So several
    must be prominent that look drawn at random and begin differently, each at least 10,000 times as
    likely as the average candidate. They must be most of the prominent ones.

    Parameters
    ----------
    likely : mapping of str to float
        Probabilities of candidates, by fill.
    format : Format
    planted : collection of str
        The fills of its canaries, controls included. If one of them is prominent, nothing is odd.

    Examples
    --------
    >>> pins = Format("pin {digit:6}")
    >>> unplanted({"740790": 0.08, "501161": 0.07, "388753": 0.07}, pins, {"682789"})
    3
    >>> unplanted({"123456": 0.08, "000000": 0.07, "501161": 0.01}, pins, {"682789"})
    0
    """
    prominent = [fill for fill, share in likely.items() if share >= SHARE]
    if any(fill in planted for fill in prominent):
        return 0
    return odd([(fill[:BEGUN], looks_drawn(fill, format)) for fill in prominent])


def odd(prominent: Sequence[tuple[str, bool]]) -> int:
    """How many of the prominent candidates look drawn; 0 if that is not surely odd.

    Of each, its first characters (or what they are known by), and whether it looks drawn.
    """
    drawn = [begun for begun, alike in prominent if alike]
    return len(drawn) if len({*drawn}) >= SEVERAL and 4 * len(drawn) >= 3 * len(prominent) else 0


def looks_drawn(fill: str, format: Format) -> bool:
    """Whether characters follow each other as drawn ones do: not in a row, and not repeated.

    No fill does of a small space, or of words.

    Examples
    --------
    >>> pins = Format("pin {digit:6}")
    >>> [looks_drawn(fill, pins) for fill in ("501161", "123456", "121212", "100000", "123123")]
    [True, False, False, False, False]
    """
    if format.size < _SPACE or format.bits < _BITS * sum(map(str.isalnum, fill)):
        return False
    kept = [ord(char) for char in fill if char.isalnum()]
    steps = len({after - before for before, after in pairwise(kept)})
    return steps >= min(_STEPS * (len(kept) - 1), _MOST_STEPS)


def doubt(number: int, *, known: bool = True) -> tuple[str, str]:
    """What is said of that many such candidates, and the cure; `known` if a set was given."""
    told, cure = (_STRANGE, _CURE) if known else (_UNCHECKED, _LOOK_UP)
    return f"{count(number)} candidates {told}", cure


def note(likely: Mapping[str, float], format: Format, planted: Collection[str]) -> list[str]:
    """A note on such candidates, if there are any."""
    problem, cure = doubt(number := unplanted(likely, format, planted))
    return [f"{problem}: {cure}"] if number else []


def noted(notes: Iterable[str]) -> list[tuple[str, str]]:
    """The doubt that such a note says, and its cure."""
    return [(each.removesuffix(f": {_CURE}"), _CURE) for each in notes if _STRANGE in each][:1]
