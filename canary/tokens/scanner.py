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

FRESH: Part = None

Outcome = tuple[tuple[tuple[str, bool], ...], State]
"""Characters as the model gets them, each with whether a piece begins there; the state."""


@dataclass(frozen=True, eq=False)
class Level:
    """One pre-tokenizer: it cuts each piece of the one before.

    Parameters
    ----------
    pattern : Pattern, or None to cut nothing
    behavior : str
        What becomes of matches: ``Isolated``, ``Removed``, ``Contiguous``,
        ``MergedWithNext`` or ``MergedWithPrevious``.
    invert : bool
        Matches are what lies between.
    replace : mapping of str to str
        Characters that become another one before the pattern is applied.
    prepend : str, optional
        Put before each piece that does not begin with it.
    prepend_once : bool
        Only before the beginning of the text.
    """

    pattern: Pattern | None = None
    behavior: str = "Isolated"
    invert: bool = False
    replace: Mapping[str, str] = field(default_factory=dict)
    prepend: str | None = None
    prepend_once: bool = False

    def step(self, part: Part, char: str) -> list[tuple[bool, bool, Part]]:
        """What reading `char` may mean: cut before it, removed, and the piece after it."""
        if self.pattern is None:
            return [(part is None, False, ((MATCH,), frozenset(), _MATCHED))]
        if part is None:
            return self._begin(None, frozenset(), char)
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
        found: list[tuple[bool, bool, Part]] = []
        if after:
            found.append((False, self._removed(kind), (after, still_forbidden, kind)))
        if ends:
            found.extend(self._begin(kind, still_forbidden | frozenset(after), char))
        return found

    def ends(self, part: Part) -> bool:
        """Whether the piece may end where there is nothing more to read."""
        if part is None or self.pattern is None:
            return True
        threads, forbidden, _ = part
        return MATCH in self.pattern.closure(threads, None) and MATCH not in self.pattern.closure(
            forbidden, None
        )

    def _begin(
        self, before: int | None, forbidden: frozenset[int], char: str
    ) -> list[tuple[bool, bool, Part]]:
        assert self.pattern is not None
        after = self.pattern.read(self.pattern.closure((self.pattern.start,), char), char)
        found: list[tuple[bool, bool, Part]] = []
        if after:
            found.append(
                (
                    self._cut(before, _MATCHED),
                    self._removed(_MATCHED),
                    (after, forbidden, _MATCHED),
                )
            )
        # No match begins at a character that lies between matches.
        part = ((MATCH,), forbidden | frozenset(after), _BETWEEN)
        found.append((self._cut(before, _BETWEEN), self._removed(_BETWEEN), part))
        return found

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
            return not (first and not second)
        if self.behavior == "MergedWithPrevious":
            return not (second and not first)
        return True


class Scanner:
    """The pre-tokenizers of a tokenizer, one after the other."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self._levels = levels
        self.start: State = (FRESH,) * len(levels)
        self._known: dict[tuple[State, str, bool, bool], tuple[Outcome, ...]] = {}

    def read(self, state: State, text: str, *, begins: bool, first: bool) -> tuple[Outcome, ...]:
        """What reading the characters of `text` may mean.

        `begins` at the beginning of a part that is tokenized alone, `first` at that of the
        whole text.
        """
        key = (state, text, begins, first)
        if key not in self._known:
            found: list[Outcome] = [((), state)]
            for number, char in enumerate(text):
                found = [
                    (read + more, after)
                    for read, between in found
                    for more, after in self._feed(
                        0, between, char, begins and not number, first and not number
                    )
                ]
            self._known[key] = tuple(found)
        return self._known[key]

    def ends(self, state: State) -> bool:
        """Whether the text may end here."""
        return all(level.ends(part) for level, part in zip(self._levels, state, strict=True))

    def _feed(
        self,
        depth: int,
        state: State,
        char: str,
        begins: bool,  # noqa: FBT001
        first: bool,  # noqa: FBT001
    ) -> list[Outcome]:
        """Read `char` at one level and those below.

        `begins` where a piece of the level above begins, `first` where the text does.
        """
        if depth == len(self._levels):
            return [(((char, begins),), ())]
        level = self._levels[depth]
        char = level.replace.get(char, char)
        added = level.prepend if begins and (first or not level.prepend_once) else None
        chars = char if added is None or added == char else added + char
        found: list[Outcome] = [((), (FRESH if begins else state[0], *state[1:]))]
        for one in chars:
            found = [
                (read + more, (part, *below))
                for read, between in found
                for cut, removed, part in level.step(between[0], one)
                for more, below in self._below(
                    depth, between[1:], one, cut=cut, removed=removed, first=first
                )
            ]
            first = False
        return found

    def _below(
        self, depth: int, state: State, char: str, *, cut: bool, removed: bool, first: bool
    ) -> list[Outcome]:
        if cut:
            levels = self._levels[depth + 1 :]
            if not all(level.ends(part) for level, part in zip(levels, state, strict=True)):
                return []
            state = (FRESH,) * len(levels)
        if removed:
            return [((), state)]
        return self._feed(depth + 1, state, char, cut, first)
