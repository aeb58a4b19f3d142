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

__all__ = [
    "MATCH",
    "OddTextError",
    "Pattern",
    "UnknownRuleError",
    "class_of",
    "parse",
    "runs",
    "single",
]

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


# The tree of a pattern: what `parse` reads and `_emit` writes as instructions.


@dataclass(frozen=True)
class _Char:
    source: str
    literal: bool


@dataclass(frozen=True)
class _Ahead:
    source: _Char
    negative: bool


@dataclass(frozen=True)
class _Sequence:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Either:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None


_Node = _Char | _Ahead | _Sequence | _Either | _Repeat


def parse(source: str) -> Pattern:
    """A pattern as tokenizers publish them.

    Raises
    ------
    UnknownRuleError
        If it has parts that are not read here (anchors, references, lazy or possessive
        repetition, a longer look ahead), or if it matches the empty text.
    """
    reader = _Reader(source)
    tree = reader.either(ignore_case=False)
    if reader.at < len(source):
        raise reader.unread()
    if _empty(tree):
        raise UnknownRuleError(f"the pattern {source!r}, which matches nothing at all")
    code: list[_Read | _Choose | _Look | None] = [None]
    start = _emit(tree, MATCH, code, {})
    return Pattern(tuple(code), start)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0

    def unread(self) -> UnknownRuleError:
        return UnknownRuleError(f"the pattern {self.source!r} from character {self.at + 1} on")

    def next(self, count: int = 1) -> str:
        return self.source[self.at : self.at + count]

    def take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def either(self, *, ignore_case: bool) -> _Node:
        parts = [self.sequence(ignore_case=ignore_case)]
        while self.take("|"):
            parts.append(self.sequence(ignore_case=ignore_case))
        return parts[0] if len(parts) == 1 else _Either(tuple(parts))

    def sequence(self, *, ignore_case: bool) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.source) and self.next() not in "|)":
            parts.append(self.repeated(ignore_case=ignore_case))
        return _Sequence(tuple(parts))

    def repeated(self, *, ignore_case: bool) -> _Node:
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
        return _Repeat(part, least, bound)

    def atom(self, *, ignore_case: bool) -> _Node:
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
        if ignore_case:
            return _Char(f"(?i:{source})", literal=False)
        return _Char(source, literal=len(source) == 1 and source != ".")

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

    def ahead(self, *, negative: bool, ignore_case: bool) -> _Node:
        inner = self.group(ignore_case=ignore_case)
        if isinstance(inner, _Sequence) and len(inner.parts) == 1:
            inner = inner.parts[0]
        if not isinstance(inner, _Char):
            raise self.unread()
        return _Ahead(inner, negative)

    def group(self, *, ignore_case: bool) -> _Node:
        inner = self.either(ignore_case=ignore_case)
        if not self.take(")"):
            raise self.unread()
        return inner


def _empty(node: _Node) -> bool:
    """Whether a node can match without reading."""
    if isinstance(node, _Char):
        return False
    if isinstance(node, _Ahead):
        return True
    if isinstance(node, _Sequence):
        return all(map(_empty, node.parts))
    if isinstance(node, _Either):
        return any(map(_empty, node.parts))
    return node.least == 0 or _empty(node.part)


def _emit(
    node: _Node,
    then: int,
    code: list[_Read | _Choose | _Look | None],
    tests: dict[_Char, Test],
) -> int:
    """Instructions that read `node` and go on at `then`; the number of the first."""

    def add(instruction: _Read | _Choose | _Look | None) -> int:
        code.append(instruction)
        return len(code) - 1

    if isinstance(node, _Char):
        return add(_Read(_test(node, tests), then))
    if isinstance(node, _Ahead):
        return add(_Look(_test(node.source, tests), node.negative, then))
    if isinstance(node, _Sequence):
        for part in node.parts[::-1]:
            then = _emit(part, then, code, tests)
        return then
    if isinstance(node, _Either):
        return add(_Choose(tuple(_emit(part, then, code, tests) for part in node.parts)))
    if _empty(node.part):
        raise UnknownRuleError("the repetition of what may be empty")
    end = then
    if node.most is None:
        then = add(None)
        code[then] = _Choose((_emit(node.part, then, code, tests), end))
    else:
        for _ in range(node.most - node.least):
            then = add(_Choose((_emit(node.part, then, code, tests), end)))
    for _ in range(node.least):
        then = _emit(node.part, then, code, tests)
    return then


def _test(char: _Char, tests: dict[_Char, Test]) -> Test:
    if char not in tests:
        tests[char] = char.source.__eq__ if char.literal else class_of(char.source)
    return tests[char]
