"""Text with holes: the exact space from which canaries are drawn."""

from __future__ import annotations

import json
import math
import operator
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from canary.errors import FormatError, InputError
from canary.formats.automaton import Automaton, in_all
from canary.formats.building import concatenate, from_texts
from canary.formats.kinds import KINDS, alternatives_of, compile_pieces, english
from canary.formats.syntax import Hole, Literal, parse, place
from canary.records.sealing import sealed

_BULLET = "•"
_OPEN = "open"
_LONGEST_MASK = 16


@dataclass(frozen=True, init=False)
class Format:
    """Text with holes, such as ``"The random number is {digit:9}"``.

    A **fill** is what a candidate says from the start of the first hole to the end of
    the last one, text between holes included; ``candidate == prefix + fill + suffix``.
    The **space** is the set of all different fills, ordered as Python orders strings.

    Parameters
    ----------
    text : str
        Literal text and holes ``{kind:argument}``: ``{digit:9}``, ``{letter:8}``
        (a to z), ``{choice:red|green|blue}`` and more. ``{{`` and ``}}`` are literal
        braces.
    words : sequence of str, optional
        The word list of ``{word:4}``, which is that many words with single spaces between;
        1,024 English words if it is not given. It is part of the format.

    Raises
    ------
    FormatError
        If the text is not a format, with the column; if a hole needs an automaton of more
        than 500,000 edges (8,000,000 with words) or there are more than 2^4096 fills.
        If `words` are no list of different words, or no hole uses them.

    Examples
    --------
    >>> ssn = Format("My SSN is {digit:3}-{digit:2}-{digit:4}.")
    >>> ssn.size
    1000000000
    >>> ssn.unrank(78051120)
    '078-05-1120'
    >>> ssn.candidate("078-05-1120")
    'My SSN is 078-05-1120.'
    >>> "078-05-112" in ssn
    False
    >>> ssn.masked
    'My SSN is •••-••-••••.'
    """

    text: str
    words: tuple[str, ...] | None = field(repr=False)
    known: str = field(repr=False)

    def __init__(self, text: str, *, words: Iterable[str] | None = None) -> None:
        self.__dict__.update(
            text=text, known="", words=None if words is None else _check_words(words, text)
        )
        if words is None and self._has("text"):
            raise self._refusal("a hole {text} needs texts", "give them as words")
        _ = self.automaton  # what is wrong with the text shows now, not at first use
        if self.words is not None and "_words" not in self.__dict__:
            raise self._refusal(
                "words were given, but no hole uses them",
                "write one such as {word:4}, or give no words",
            )

    @classmethod
    def of(cls, given: Format | str) -> Format:
        """A format, or the format of a text; a FormatError if it is neither."""
        return given if isinstance(given, Format) else cls(given)

    @classmethod
    def several(cls, given: Format | str | Iterable[Format | str]) -> tuple[Format, ...]:
        """The formats of one format or text, or of several."""
        return tuple(map(cls.of, [given] if isinstance(given, Format | str) else given))

    @cached_property
    def _pieces(self) -> tuple[Literal | Hole, ...]:
        return parse(self.text)

    @cached_property
    def prefix(self) -> str:
        """The fixed text before the first hole, and then what is known of the fill."""
        first = self._pieces[0]
        return (first.text if isinstance(first, Literal) else "") + self.known

    @cached_property
    def suffix(self) -> str:
        """The fixed text after the last hole."""
        last = self._pieces[-1]
        return last.text if isinstance(last, Literal) else ""

    @cached_property
    def automaton(self) -> Automaton:
        """The fills, as a deterministic automaton over characters."""
        with in_all():
            parts = self._parts
            try:
                return concatenate(parts[bool(self.prefix) : len(parts) - bool(self.suffix)])
            except FormatError as error:
                raise self._refusal(error.problem, error.cure) from error

    @cached_property
    def prefix_free(self) -> bool:
        """Whether no candidate is a proper prefix of another; decided exactly.

        If not, a shorter candidate is never less likely than a longer one that begins with
        it, and ranks mean little. Fixed text after the last hole usually mends it.
        """
        return self.automaton.prefix_free_before(self.suffix)

    def check_prefix_free(self) -> None:
        """Refuse a format whose candidates continue each other, by a FormatError."""
        if not self.prefix_free:
            raise FormatError(
                f"{self.masked!r} is not prefix-free: some candidates continue others, and the "
                "shorter ones would always win",
                cure="put fixed text that no fill can contain after the last hole",
            )

    @property
    def size(self) -> int:
        """Number of fills, |R|; exact."""
        return self.automaton.size

    @property
    def bits(self) -> float:
        """log2|R|: the largest exposure a canary of this format can have, in bits."""
        return math.log2(self.size)

    @cached_property
    def alphabet(self) -> frozenset[str]:
        """The characters that occur in candidates."""
        return frozenset(self.automaton.chars) | set(self.prefix) | set(self.suffix)

    @cached_property
    def masked(self) -> str:
        """A candidate for showing; its holes are bullets, 16 at most for each."""
        return "".join(
            piece.text if isinstance(piece, Literal) else _BULLET * min(part.longest, _LONGEST_MASK)
            for piece, part in zip(self._pieces, self._parts, strict=True)
        )

    @cached_property
    def opened(self) -> Format | None:
        """The same with its open slots as choices: what copies are of. None if it has none."""
        text = self.text
        for piece in reversed(self._pieces):
            if isinstance(piece, Hole) and piece.kind == _OPEN:
                start = piece.start + 1
                text = f"{text[:start]}choice{text[start + len(_OPEN) :]}"
        return None if text == self.text else Format(text, words=self.words)

    @sealed
    def slots(self, fill: str) -> list[tuple[str, ...]]:
        """What each part of a fill may be in copies, fills of `opened`; one choice of each is one.

        A FormatError if `fill` is not in the space.
        """
        self.index(fill)
        whole = slice(bool(self.prefix), len(self._parts) - bool(self.suffix))
        parts, pieces = self._parts[whole], self._pieces[whole]
        # Where each part may end, and where it then began: any reading of the fill serves.
        began: list[dict[int, int]] = [{0: 0}]
        for part in parts:
            began.append({e: start for start in began[-1] for e in part.ends(fill, start)})
        slots, stop = list[tuple[str, ...]](), len(fill)
        for piece, starts in zip(reversed(pieces), reversed(began), strict=False):
            words = [fill[(start := starts[stop]) : stop]]
            if isinstance(piece, Hole) and piece.kind == _OPEN:
                words = alternatives_of(piece.argument)
            slots, stop = [tuple(words), *slots], start
        return slots

    @cached_property
    def portable(self) -> bool:
        """Whether it means the same in every process: no hole is of a registered kind."""
        return all(KINDS[piece.kind].builtin for piece in self._pieces if isinstance(piece, Hole))

    @sealed
    def given(self, prefix: str) -> Format:
        """The same format where the first characters of the fill are known, as fixed text.

        A FormatError if no fill begins so; it does not repeat them. `masked` stays as it was.

        Examples
        --------
        >>> ssn = Format("My SSN is {digit:3}-{digit:2}-{digit:4}.").given("078-")
        >>> ssn.size
        1000000
        >>> ssn.candidate("05-1120")
        'My SSN is 078-05-1120.'
        """
        rest = self.automaton.after(prefix)
        if rest is None:
            raise self._refusal(
                f"no fill begins with these {len(prefix)} characters",
                "give the first characters of a fill",
            )
        format = object.__new__(Format)
        format.__dict__.update(
            text=self.text,
            words=self.words,
            known=self.known + prefix,
            automaton=rest,
            _pieces=self._pieces,
            _parts=self._parts,
        )
        return format

    @sealed
    def candidate(self, fill: str) -> str:
        """The format with `fill` in its holes; a FormatError if it is not in the space."""
        self.index(fill)
        return self.prefix + fill + self.suffix

    def unrank(self, index: int) -> str:
        """The fill at `index` in the order of the space; the inverse of `index`.

        A FormatError if `index` is not in ``0 .. size - 1``.
        """
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise self._refusal(
                f"there is no fill at index {_number(index)}",
                f"the {_number(self.size)} fills have indices from 0",
            )
        return self.automaton.unrank(index)

    @sealed
    def index(self, fill: str) -> int:
        """The place of `fill` in the order of the space, from 0.

        A FormatError if it is not in the space. The message does not repeat it: it may be
        almost a secret.
        """
        if not isinstance(fill, str):
            raise self._refusal(
                f"a fill is text, got {type(fill).__name__}",
                "put it into quotes; numbers keep their leading zeros so",
            )
        index = self.automaton.index(fill)
        if index is None:
            raise self._refusal(
                f"the fill ({len(fill)} characters) is not in the space",
                "give the text from the first hole to the last, text between included",
            )
        return index

    def _refusal(self, problem: str, cure: str) -> FormatError:
        return FormatError(problem, cure=cure, where=place(self.text))

    def __contains__(self, fill: object) -> bool:
        return isinstance(fill, str) and self.automaton.index(fill) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.automaton)

    def sample(self, count: int, *, rng: np.random.Generator) -> list[str]:
        """Draw `count` different fills uniformly, without replacement.

        They are in the order of drawing, so that any part is a uniform sample too. It takes
        O(count), whatever the size of the space: a microsecond for a fill of 16 digits. A
        FormatError if there are not as many.
        """
        if count < 0 or count > self.size:
            raise self._refusal(
                f"{_number(count)} different fills were asked, there are {_number(self.size)}",
                "ask for fewer, or use a longer hole",
            )
        return self.automaton.unrank_many(draw_indices(self.size, count, rng=rng))

    @cached_property
    def _parts(self) -> list[Automaton]:
        return compile_pieces(self._pieces, self.text, lambda: self._words)

    @cached_property
    def new_tokens(self) -> bool:
        """Whether a hole is for tokens that the tokenizer must have been given."""
        return self._has("new")

    def _has(self, kind: str) -> bool:
        return any(isinstance(piece, Hole) and piece.kind == kind for piece in self._pieces)

    @cached_property
    def _words(self) -> Automaton:
        """The texts of one word."""
        return english() if self.words is None else from_texts(self.words)


def draw_indices(size: int, count: int, *, rng: np.random.Generator) -> list[int]:
    """Draw `count` different integers from ``0 .. size - 1``, uniformly, in O(count).

    The order is the order of drawing: every sequence of different indices is equally
    likely, so any part of the result is a uniform sample too.
    """
    if 2 * count >= size:
        shuffled: list[int] = rng.permutation(size)[:count].tolist()
        return shuffled
    # Independent draws with repeats passed over. Each round draws no more than are still
    # missing, so that nothing is ever drawn and then cut off.
    drawn: dict[int, None] = {}
    bits = (size - 1).bit_length()
    width, surplus = (bits + 7) // 8, -bits % 8
    while (missing := count - len(drawn)) > 0:
        if size <= 2**63:
            drawn |= dict.fromkeys(rng.integers(size, size=missing).tolist())
            continue
        data = rng.bytes(width * missing)
        for start in range(0, len(data), width):
            number = int.from_bytes(data[start : start + width], "big") >> surplus
            if number < size:
                drawn[number] = None
    return list(drawn)


def _check_words(words: Iterable[str], format: str) -> tuple[str, ...]:
    """`words` in order, so that equal lists make equal formats; texts, if a hole is for such."""
    whole = any(isinstance(piece, Hole) and piece.kind == "text" for piece in parse(format))
    cure = 'give a list of different words without spaces, such as ["north", "south"]'
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise FormatError(f"words are a list of text, got {type(words).__name__}", cure=cure)
    given = list(words)
    for number, word in enumerate(given, start=1):
        if not isinstance(word, str) or (word.split() != [word] and not (whole and word)):
            raise FormatError(f"word {number} of the list is not a word", cure=cure)
    if not given:
        raise FormatError("the list of words is empty", cure=cure)
    if len(set(given)) < len(given):
        raise FormatError("a word is listed twice", cure="use list(dict.fromkeys(words))")
    return tuple(sorted(given))


def _number(value: int) -> str:
    """An integer as people read it: thousands separated, huge ones by their length."""
    if abs(value) < 10**15:
        return f"{value:,}"
    return f"{'-' if value < 0 else ''}2^{math.log2(abs(value)):.1f}"


def read_words(path: str | os.PathLike[str]) -> list[str]:
    """The words of a UTF-8 text file, separated by spaces or lines, repeats left out.

    An InputError if the file cannot be read, is not UTF-8, holds no word, or is no list of
    words: it has control characters, as binary files have, or is a JSON document.
    """
    problem, cure = "", "give a text file with one word a line"
    words: list[str] = []
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        words = list(dict.fromkeys(text.split()))
        if any(unicodedata.category(char) == "Cc" for word in words for char in word):
            problem = "has control characters, so it is no text"
        elif not words:
            problem, cure = "is empty", "write one word a line into it"
        elif text.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                json.loads(text)
                problem = "is a JSON document"
    except UnicodeDecodeError as error:
        problem, cure = f"is not UTF-8 at byte {error.start}", "save it as UTF-8"
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if problem:
        raise InputError(f"the word list {problem}", cure=cure, where=str(path))
    return words


def with_words(texts: Sequence[str], words: Sequence[str]) -> list[Format]:
    """The formats `texts`, of which those that have a hole for words get `words`.

    A FormatError if one is no format, or none has such a hole.
    """
    wanted = [
        any(isinstance(piece, Hole) and piece.kind == "word" for piece in parse(text))
        for text in texts
    ]
    if not any(wanted):
        return [Format(text, words=words) for text in texts]
    return [Format(text, words=words if w else None) for text, w in zip(texts, wanted, strict=True)]
