"""Where a pre-tokenizer cuts a text, character by character.

A cut may depend on what comes later: a pattern of higher preference may still succeed.
The scanner follows every possibility, and keeps for each what must not match any more;
exactly one of them is left at the end of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canary.tokens.pattern import MATCH, Pattern

_MATCHED, _BETWEEN = 1, 0

Part = tuple[tuple[int, ...], frozenset[int], int] | None
"""A piece that is being read: its threads in order of preference, threads that must not
match, and whether it is a match or lies between matches. None before a piece begins."""

State = tuple[Part, ...]

Outcome = tuple[tuple[tuple[str, bool], ...], State]
"""Characters as the model gets them, each with whether a piece begins there; the state."""


@dataclass(frozen=True, eq=False)
class Level:
    """One pre-tokenizer: it cuts each piece of the one before.

    What becomes of matches is ``Isolated``, ``Removed``, ``Contiguous``, ``MergedWithNext`` or
    ``MergedWithPrevious``; with `invert` they are what is between.
    """

    pattern: Pattern | None = None  # cuts nothing
    behavior: str = "Isolated"
    invert: bool = False
    replace: Mapping[str, str] = field(default_factory=dict)  # before the pattern is applied
    prepend: str | None = None  # to each piece that does not begin with it
    prepend_once: bool = False  # only to the beginning of the text

    def step(self, part: Part, char: str) -> list[tuple[bool, bool, Part]]:
        """What reading `char` may mean: cut before it, removed, and the piece after it."""
        if self.pattern is None:
            return [(part is None, False, ((MATCH,), frozenset(), _MATCHED))]
        if part is None:
            return self._begin(self.pattern, None, frozenset(), char)
        threads, forbidden, kind = part
        must_fail = self.pattern.closure(forbidden, char)
        if MATCH in must_fail:
            return []
        still_forbidden = frozenset(self.pattern.read(must_fail, char))
        alive = self.pattern.closure(threads, char)
        ends = MATCH in alive
        # The threads before the match are preferred to it: either one of them succeeds,
        # or all of them fail.
        preferred = alive[: alive.index(MATCH)] if ends else alive
        after = self.pattern.read(preferred, char)
        ways: list[tuple[bool, bool, Part]] = []
        if after:
            ways.append((False, self._removed(kind), (after, still_forbidden, kind)))
        if ends:
            ways += self._begin(self.pattern, kind, still_forbidden | frozenset(after), char)
        return ways

    def ends(self, part: Part) -> bool:
        """Whether the piece may end where there is nothing more to read."""
        if part is None or self.pattern is None:
            return True
        closed = [self.pattern.closure(threads, None) for threads in part[:2]]
        return MATCH in closed[0] and MATCH not in closed[1]

    def _begin(
        self, pattern: Pattern, before: int | None, forbidden: frozenset[int], char: str
    ) -> list[tuple[bool, bool, Part]]:
        """A match that begins at `char`, or, where none does, what lies between matches."""
        after = pattern.read(pattern.closure((pattern.start,), char), char)
        parts: list[tuple[tuple[int, ...], frozenset[int], int]] = [
            ((MATCH,), forbidden | frozenset(after), _BETWEEN)
        ]
        if after:
            parts.insert(0, (after, forbidden, _MATCHED))
        return [(self._cut(before, part[2]), self._removed(part[2]), part) for part in parts]

    def _removed(self, kind: int) -> bool:
        return self.behavior == "Removed" and kind != self.invert

    def _cut(self, before: int | None, after: int) -> bool:
        if before is None:
            return True
        if before == after == _BETWEEN:
            return False
        first, second = before != self.invert, after != self.invert
        if self.behavior == "Contiguous":
            return first != second
        if self.behavior == "MergedWithNext":
            return second or not first
        if self.behavior == "MergedWithPrevious":
            return first or not second
        return True


class Scanner:
    """The pre-tokenizers of a tokenizer, one after the other."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self.start: State = (None,) * len(levels)
        self._known: dict[tuple[State, str, bool, bool], tuple[Outcome, ...]] = {}

    def read(self, state: State, text: str, *, begins: bool, first: bool) -> tuple[Outcome, ...]:
        """What reading `text` may mean, where a part begins, or the whole text (`first`)."""
        key = (state, text, begins, first)
        if key not in self._known:
            ways: list[Outcome] = [((), state)]
            for number, char in enumerate(text):
                new = not number
                ways = [
                    (read + more, after)
                    for read, between in ways
                    for more, after in self._feed(
                        0, between, char, begins=begins and new, first=first and new
                    )
                ]
            self._known[key] = tuple(ways)
        return self._known[key]

    def ends(self, state: State) -> bool:
        """Whether the text may end here."""
        return all(level.ends(part) for level, part in zip(self._levels, state, strict=True))

    def _feed(
        self, depth: int, state: State, char: str, *, begins: bool, first: bool
    ) -> list[Outcome]:
        """Read `char` at one level and those below, where a piece of the level above begins."""
        if depth == len(self._levels):
            return [(((char, begins),), ())]
        level, below = self._levels[depth], self._levels[depth + 1 :]
        char = level.replace.get(char, char)
        added = level.prepend if begins and (first or not level.prepend_once) else None
        chars = char if added is None or added == char else added + char
        ways: list[Outcome] = [((), (None if begins else state[0], *state[1:]))]
        for each in chars:
            longer: list[Outcome] = []
            for read, (own, *rest) in ways:
                for cut, removed, part in level.step(own, each):
                    inner: State = tuple(rest)
                    if cut:
                        if not all(one.ends(p) for one, p in zip(below, inner, strict=True)):
                            continue
                        inner = (None,) * len(below)
                    fed: list[Outcome] = [((), inner)]
                    if not removed:
                        fed = self._feed(depth + 1, inner, each, begins=cut, first=first)
                    longer += [(read + more, (part, *after)) for more, after in fed]
            ways, first = longer, False
        return ways
