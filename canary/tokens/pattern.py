"""Pre-tokenization patterns as automata that keep the order of preference.

What regular expressions of tokenizers are made of: characters and classes, groups,
alternatives, greedy repetition, and a look at the next character. A backtracking engine
takes the first alternative that succeeds; here alternatives are threads in the order of
preference, read side by side [1]_. Which character a class holds is asked of the engine
itself.

References
----------
.. [1] Pike's construction, as in Cox, Regular Expression Matching: the Virtual Machine
   Approach, 2009.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MATCH = 0
"""The instruction at which a match is complete."""

Test = Callable[[str], bool]
"""Whether a character is meant."""

_COPIES = 64  # of what is repeated; published patterns repeat thrice


class UnknownRuleError(Exception):
    """A rule of a tokenizer that cannot be followed; says which."""


class OddTextError(UnknownRuleError):
    """Rules that are followed, and tell of texts unlike the others: no sample shows them."""


@dataclass(frozen=True)
class _Read:
    test: Test
    then: int


@dataclass(frozen=True)
class _Choose:
    among: tuple[int, ...]


@dataclass(frozen=True)
class _Look:
    test: Test
    negative: bool
    then: int


@dataclass(frozen=True, eq=False)
class Pattern:
    """Instructions, the first of which (`MATCH`) ends a match.

    Parameters
    ----------
    code : tuple of instructions
    start : int
        Where a match begins.
    """

    code: tuple[_Read | _Choose | _Look | None, ...]
    start: int

    def closure(self, threads: Iterable[int], following: str | None) -> list[int]:
        """The threads before the next character is read, those preferred first.

        Parameters
        ----------
        threads : iterable of int
        following : str or None
            The next character; None at the end.

        Returns
        -------
        list of int
            Instructions that read, and `MATCH` where a match may end here.
        """
        found: dict[int, None] = {}
        seen: set[int] = set()
        pending = list(threads)[::-1]
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            instruction = self.code[at]
            if isinstance(instruction, _Choose):
                pending.extend(instruction.among[::-1])
            elif isinstance(instruction, _Look):
                there = following is not None and instruction.test(following)
                if there != instruction.negative:
                    pending.append(instruction.then)
            else:
                found[at] = None
        return list(found)

    def read(self, threads: Iterable[int], char: str) -> tuple[int, ...]:
        """The threads of a closure that go on with `char`, each after it."""
        found: dict[int, None] = {}
        for at in threads:
            instruction = self.code[at]
            if isinstance(instruction, _Read) and instruction.test(char):
                found[instruction.then] = None
        return tuple(found)


def class_of(source: str) -> Test:
    """Whether a character matches a pattern of one character, as the engine sees it."""
    from tokenizers import Regex, pre_tokenizers

    try:
        split = pre_tokenizers.Split(Regex(source), behavior="removed")
    except Exception as error:  # tokenizers raises bare Exception
        raise UnknownRuleError(f"the pattern {source!r}") from error
    return functools.cache(lambda char: not split.pre_tokenize_str(char))


def single(test: Test) -> Pattern:
    """One character that `test` holds of."""
    return Pattern((None, _Read(test, MATCH)), 1)


def runs(*tests: Test) -> Pattern:
    """Characters of one kind, as many as follow each other."""
    code: list[_Read | _Choose | _Look | None] = [None]
    starts = []
    for test in tests:
        here = len(code)
        code += [_Read(test, here + 1), _Choose((here, MATCH))]
        starts.append(here)
    return Pattern((*code, _Choose(tuple(starts))), len(code))


Code = list[_Read | _Choose | _Look | None]
Emit = Callable[[int], int]
"""Writes the instructions that read something and then go on; gives the first of them."""


@dataclass(frozen=True)
class _Part:
    """A part of a pattern: how it is written, whether it can match without reading.

    `test` is there if it is one character.
    """

    emit: Emit
    empty: bool = False
    test: Test | None = None


def parse(source: str) -> Pattern:
    """A pattern as tokenizers publish them.

    Raises
    ------
    UnknownRuleError
        If it has parts that are not read here (anchors, references, lazy or possessive
        repetition, a longer look ahead), or if it matches the empty text.
    """
    reader = _Reader(source)
    whole = reader.either(ignore_case=False)
    if reader.at < len(source):
        raise reader.unread()
    if whole.empty:
        raise UnknownRuleError(f"the pattern {source!r}, which matches nothing at all")
    start = whole.emit(MATCH)
    return Pattern(tuple(reader.code), start)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0
        self.code: Code = [None]
        self._tests: dict[str, Test] = {}

    def add(self, instruction: _Read | _Choose | _Look | None) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def unread(self) -> UnknownRuleError:
        return UnknownRuleError(f"the pattern {self.source!r} from character {self.at + 1} on")

    def next(self, count: int = 1) -> str:
        return self.source[self.at : self.at + count]

    def take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def either(self, *, ignore_case: bool) -> _Part:
        parts = [self.sequence(ignore_case=ignore_case)]
        while self.take("|"):
            parts.append(self.sequence(ignore_case=ignore_case))
        if len(parts) == 1:
            return parts[0]

        def emit(then: int) -> int:
            return self.add(_Choose(tuple(part.emit(then) for part in parts)))

        return _Part(emit, any(part.empty for part in parts))

    def sequence(self, *, ignore_case: bool) -> _Part:
        parts: list[_Part] = []
        while self.at < len(self.source) and self.next() not in "|)":
            parts.append(self.repeated(ignore_case=ignore_case))

        def emit(then: int) -> int:
            for part in parts[::-1]:
                then = part.emit(then)
            return then

        return parts[0] if len(parts) == 1 else _Part(emit, all(part.empty for part in parts))

    def repeated(self, *, ignore_case: bool) -> _Part:
        part = self.atom(ignore_case=ignore_case)
        least, most = 1, 1
        bound: int | None = 1
        if self.take("?"):
            least, bound = 0, 1
        elif self.take("*"):
            least, bound = 0, None
        elif self.take("+"):
            least, bound = 1, None
        elif self.take("{"):
            end = self.source.find("}", self.at)
            low, comma, high = self.source[self.at : max(end, self.at)].partition(",")
            if not low.isdecimal() or (high and not high.isdecimal()):
                raise self.unread()
            least = int(low)
            bound = int(high) if high else (None if comma else least)
            most = max(least, bound or 0)
            if most > _COPIES or (bound is not None and bound < least):
                raise self.unread()
            self.at = end + 1
        else:
            return part
        if self.next() in {"?", "+", "*", "{"}:  # lazy, possessive or twice repeated
            raise self.unread()
        return self.copies(part, least, bound)

    def copies(self, part: _Part, least: int, most: int | None) -> _Part:
        if part.empty:
            raise UnknownRuleError("the repetition of what may be empty")

        def emit(then: int) -> int:
            end = then
            if most is None:
                then = self.add(None)
                self.code[then] = _Choose((part.emit(then), end))
            else:
                for _ in range(most - least):
                    then = self.add(_Choose((part.emit(then), end)))
            for _ in range(least):
                then = part.emit(then)
            return then

        return _Part(emit, least == 0)

    def atom(self, *, ignore_case: bool) -> _Part:
        for opening in ("(?!", "(?="):
            if self.take(opening):
                return self.ahead(negative=opening == "(?!", ignore_case=ignore_case)
        if self.take("(?:"):
            return self.group(ignore_case=ignore_case)
        if self.take("(?i:"):
            return self.group(ignore_case=True)
        if self.next(2) == "(?":
            raise self.unread()
        if self.take("("):
            return self.group(ignore_case=ignore_case)
        begin = self.at
        if self.take("["):
            self.rest_of_class()
        elif self.take("\\"):
            self.rest_of_escape()
        elif self.next() in "^$*+?{":
            raise self.unread()
        else:
            self.at += 1
        source = self.source[begin : self.at]
        literal = len(source) == 1 and source != "." and not ignore_case
        source = f"(?i:{source})" if ignore_case else source
        if source not in self._tests:
            self._tests[source] = source.__eq__ if literal else class_of(source)
        test = self._tests[source]
        return _Part(lambda then: self.add(_Read(test, then)), test=test)

    def rest_of_class(self) -> None:
        self.take("^")
        self.take("]")
        while not self.take("]"):
            # Classes within classes and intersections are left to the engine alone.
            if self.at >= len(self.source) or self.next() == "[" or self.next(2) == "&&":
                raise self.unread()
            self.at += 2 if self.next() == "\\" else 1

    def rest_of_escape(self) -> None:
        kind = self.next()
        self.at += 1
        if kind in ("p", "P"):
            end = self.source.find("}", self.at)
            if self.next() != "{" or end < 0:
                raise self.unread()
            self.at = end + 1
        elif not kind or (kind.isalnum() and kind not in "sSdDwWrntfv"):
            raise self.unread()

    def ahead(self, *, negative: bool, ignore_case: bool) -> _Part:
        test = self.group(ignore_case=ignore_case).test
        if test is None:
            raise self.unread()
        return _Part(lambda then: self.add(_Look(test, negative, then)), empty=True)

    def group(self, *, ignore_case: bool) -> _Part:
        inner = self.either(ignore_case=ignore_case)
        if not self.take(")"):
            raise self.unread()
        return inner
