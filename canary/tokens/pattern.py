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
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MATCH = 0
"""The instruction at which a match is complete."""

Test = Callable[[str], bool]
"""Whether a character is meant."""

_COPIES = 64  # of what is repeated; published patterns repeat thrice

_ATOM = re.compile(
    r"""
    \[\^?\]?+(?:\\.|(?!&&)[^\]\[\\])*\]   # a class; none within it, and no intersection
    | \\[pP]\{[^}]*\}                    # a property
    | \\(?:[sSdDwWrntfv]|[\W_])          # a kind, or a character that is escaped
    | [^\\\[^$*+?{]
    """,
    re.VERBOSE | re.DOTALL,
)
_REPEATED = re.compile(r"(?P<sign>[?*+])|\{(?P<low>\d+)(?P<comma>,?)(?P<high>\d*)\}")
_BOUNDS: dict[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}


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


Instruction = _Read | _Choose | _Look | None


@dataclass(frozen=True, eq=False)
class Pattern:
    """Instructions, the first of which (`MATCH`) ends a match; one begins at `start`."""

    code: tuple[Instruction, ...]
    start: int

    def closure(self, threads: Iterable[int], following: str | None) -> list[int]:
        """The threads before `following` (None at the end) is read, those preferred first.

        They are instructions that read, and `MATCH` where a match may end here.
        """
        found: dict[int, None] = {}
        seen: set[int] = set()
        pending = list(threads)[::-1]
        while pending:
            thread = pending.pop()
            if thread in seen:
                continue
            seen.add(thread)
            instruction = self.code[thread]
            if isinstance(instruction, _Choose):
                pending.extend(instruction.among[::-1])
            elif isinstance(instruction, _Look):
                there = following is not None and instruction.test(following)
                if there != instruction.negative:
                    pending.append(instruction.then)
            else:
                found[thread] = None
        return list(found)

    def read(self, threads: Iterable[int], char: str) -> tuple[int, ...]:
        """The threads of a closure that go on with `char`, each after it."""
        found: dict[int, None] = {}
        for thread in threads:
            instruction = self.code[thread]
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
    code: list[Instruction] = [None]
    starts = []
    for test in tests:
        here = len(code)
        code += [_Read(test, here + 1), _Choose((here, MATCH))]
        starts.append(here)
    return Pattern((*code, _Choose(tuple(starts))), len(code))


@dataclass(frozen=True)
class _Part:
    """A part of a pattern.

    `emit` writes the instructions that read it and then go on, and gives the first of them;
    `empty` says whether it can match without reading; `test` is there if it is one character.
    """

    emit: Callable[[int], int]
    empty: bool = False
    test: Test | None = None


def parse(source: str) -> Pattern:
    """A pattern as tokenizers publish them.

    Parts that are not read here (anchors, references, lazy or possessive repetition, a longer
    look ahead) are an UnknownRuleError, and so is a match of the empty text.
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
        self.code: list[Instruction] = [None]
        self._tests: dict[str, Test] = {}

    def add(self, instruction: Instruction) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def unread(self) -> UnknownRuleError:
        return UnknownRuleError(f"the pattern {self.source!r} from character {self.at + 1} on")

    def take(self, text: str) -> bool:
        taken = self.source.startswith(text, self.at)
        self.at += len(text) * taken
        return taken

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
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            parts.append(self.repeated(ignore_case=ignore_case))

        def emit(then: int) -> int:
            for part in parts[::-1]:
                then = part.emit(then)
            return then

        return parts[0] if len(parts) == 1 else _Part(emit, all(part.empty for part in parts))

    def repeated(self, *, ignore_case: bool) -> _Part:
        part = self.atom(ignore_case=ignore_case)
        sign = _REPEATED.match(self.source, self.at)
        if sign is None:
            if self.source.startswith("{", self.at):
                raise self.unread()
            return part
        if sign["sign"]:
            least, most = _BOUNDS[sign["sign"]]
        else:
            least = int(sign["low"])
            most = int(sign["high"]) if sign["high"] else None if sign["comma"] else least
        if max(least, most or 0) > _COPIES or (most is not None and most < least):
            raise self.unread()
        self.at = sign.end()
        if self.source[self.at : self.at + 1] in {*"?+*{"}:  # lazy, possessive, twice repeated
            raise self.unread()
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
        if (negative := self.take("(?!")) or self.take("(?="):
            ahead = self.group(ignore_case=ignore_case).test
            if ahead is None:
                raise self.unread()
            return _Part(lambda then: self.add(_Look(ahead, negative, then)), empty=True)
        if self.take("(?i:"):
            return self.group(ignore_case=True)
        if self.take("(?:") or (not self.source.startswith("(?", self.at) and self.take("(")):
            return self.group(ignore_case=ignore_case)
        atom = _ATOM.match(self.source, self.at)
        if atom is None or atom[0] == "(":
            raise self.unread()
        self.at = atom.end()
        literal = len(atom[0]) == 1 and atom[0] != "." and not ignore_case
        source = f"(?i:{atom[0]})" if ignore_case else atom[0]
        if source not in self._tests:
            self._tests[source] = source.__eq__ if literal else class_of(source)
        test = self._tests[source]
        return _Part(lambda then: self.add(_Read(test, then)), test=test)

    def group(self, *, ignore_case: bool) -> _Part:
        inner = self.either(ignore_case=ignore_case)
        if not self.take(")"):
            raise self.unread()
        return inner
