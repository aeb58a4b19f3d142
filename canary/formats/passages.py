"""Real prose as a format: words that have synonyms become slots, and some slots stay open."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from canary.errors import FormatError
from canary.formats.format import Format

LEAST = 2**20
"""Variants that a passage must have, so that one says something by itself."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ALONE = re.compile(
    rf"(?<![\w@./\\<\"'-]){_WORD.pattern}(?![\w@/\\>\"'(-]|\.\w)"
)  # no part of a name or code
_VOWELS = "aeiou"


@cache
def synonyms() -> tuple[tuple[str, ...], ...]:
    """The built-in groups of English words of which each can replace the others in most prose."""
    text = Path(__file__).with_name("synonyms.txt").read_text(encoding="ascii")
    return tuple(tuple(line.split()) for line in text.splitlines())


def passage(
    text: str,
    *,
    groups: Iterable[Sequence[str]] | None = None,
    least: int = LEAST,
    fuzzy: bool = False,
) -> Format:
    """A format of a piece of prose: each word that has a synonym becomes a slot.

    The first word stays as it is. In a canary of the format each slot has one of its words, drawn
    at random: its rank among all variants is what an audit measures.

    Parameters
    ----------
    text : str
        Prose, such as a paragraph; braces in it are literal.
    groups : iterable of sequence of str, optional
        Words of which each can replace the others, such as ``[["begin", "start"]]``; the built-in
        `synonyms` unless given. A capital at the beginning of a word is kept.
    least : int
        The fewest variants of a secret, 2^20 unless given.
    fuzzy : bool
        Spread over the text, as many slots are secret as `least` takes. All others are open
        (``{open:begin|start}``): each copy has words of its own there, so that near-de-duplication
        does not take copies for duplicates.

    Raises
    ------
    FormatError
        If the text has fewer variants, the groups are not usable, or no slot is left open.

    References
    ----------
    .. [1] Rastogi et al., STAMP Your Content, 2025, arXiv:2504.13416.
    .. [2] Shilov, Meeus and de Montjoye, The Mosaic Memory of LLMs, arXiv:2405.15523.

    Examples
    --------
    >>> passage("We shall begin very soon.", least=2).text
    'We shall {choice:begin|start|commence} {choice:very|extremely} {choice:soon|shortly}.'
    """
    if not isinstance(text, str):
        raise FormatError(
            f"a passage is text, got {type(text).__name__}", cure="give a piece of prose"
        )
    words = _by_word(synonyms() if groups is None else groups)
    slots = list(_slots(text, words))
    sizes = [len(alternatives) for _, alternatives in slots]
    if math.prod(sizes) < least:
        raise FormatError(
            f"the passage {text[:30]!r}… has {math.prod(sizes):,} variants in "
            f"{len(slots)} slots, and {least:,} are needed",
            cure="give a longer passage, or groups with more of its words",
        )
    secret = _spread(sizes, least) if fuzzy else set(range(len(slots)))
    if fuzzy and len(secret) == len(slots):
        raise FormatError(
            f"the passage {text[:30]!r}… has no slot to leave open: all {len(slots)} are needed "
            f"for {least:,} variants",
            cure="give a longer passage, groups with more of its words, or fewer variants",
        )
    parts, end = [], 0
    for number, (match, alternatives) in enumerate(slots):
        kind = "choice" if number in secret else "open"
        parts += [as_literal(text[end : match.start()]), f"{{{kind}:{'|'.join(alternatives)}}}"]
        end = match.end()
    return Format("".join([*parts, as_literal(text[end:])]))


def as_literal(text: str) -> str:
    """A text as it is written in a format: braces doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def _by_word(groups: Iterable[Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
    """The group of each word, which must be in one group only."""
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for word in group:
            if not isinstance(word, str) or not _WORD.fullmatch(word) or isinstance(group, str):
                raise FormatError(
                    "the groups of synonyms are no lists of words",
                    cure='give them as in [["begin", "start"], ["big", "large"]]',
                )
            if word in found:
                raise FormatError(
                    f"the word {word!r} is in two groups of synonyms, or twice in one",
                    cure="put words that can replace each other into one group",
                )
            found[word] = tuple(group)
    return found


def _slots(
    text: str, words: Mapping[str, tuple[str, ...]]
) -> Iterable[tuple[re.Match[str], list[str]]]:
    """Each word with synonyms, and what it may be: itself first."""
    before = ""
    for number, match in enumerate(_ALONE.finditer(text)):
        word, article = match.group(), before
        before = word.lower()
        alternatives = _alternatives(word, words) if number else []
        # An article must fit whatever follows it.
        if article in ("a", "an"):
            begins = {other[0].lower() in _VOWELS for other in alternatives}
            alternatives = alternatives if len(begins) == 1 else []
        if len(alternatives) > 1:
            yield match, alternatives


def _alternatives(word: str, words: Mapping[str, tuple[str, ...]]) -> list[str]:
    if word in words:
        return [word, *(other for other in words[word] if other != word)]
    small = word[0].lower() + word[1:]
    group = words.get(small, ())
    return [word, *(other[0].upper() + other[1:] for other in group if other != small)]


def _spread(sizes: Sequence[int], least: int) -> set[int]:
    """The fewest slots, at even distances, that have so many variants together."""
    for count in range(1, len(sizes)):
        chosen = {round((number + 0.5) * len(sizes) / count - 0.5) for number in range(count)}
        if math.prod(sizes[slot] for slot in chosen) >= least:
            return chosen
    return set(range(len(sizes)))
