"""Added tokens: they cut a text before all else, and each part is tokenized alone.

Those that are not normalized are looked for in the text as it is given. The others are
normalized themselves, and looked for in what the normalizer makes of each part.

One that is found at the same place of every text is a token like any other: what comes before
it changes nothing behind it. One that may be found in some texts and not in others has no place
in a tree.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.formats.automaton import Automaton
from canary.tokens.pattern import OddTextError, UnknownRuleError

Range = tuple[int, int]

# What `tokenizers` takes for spaces beside a token; Python has four more.
_SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@dataclass(frozen=True)
class Cut:
    """An added token at the same place of every text, with the spaces that it takes along.

    Every text passes through the states `start` and `stop`, and through each between them.
    """

    start: int
    stop: int
    text: str
    token: int


@dataclass(frozen=True, eq=False)
class Searched:
    """Texts as added tokens are looked for in them, part by part (its first and last state).

    `spelled` is what each character is then, itself if not given; `lead` is put before each part.
    """

    texts: Automaton
    parts: Sequence[Range]
    spelled: Mapping[str, str] | None = None
    lead: str = ""

    def spell(self, char: str) -> str:
        """What a character of the texts is written as."""
        return char if self.spelled is None else self.spelled.get(char, "")

    @functools.cached_property
    def fixed(self) -> NDArray[np.bool_]:
        """Whether every text passes through a state and goes on by the same character."""
        texts, count = self.texts, len(self.texts.counts)
        if count == 1:
            return np.zeros(1, np.bool_)
        furthest = np.maximum.accumulate(np.maximum.reduceat(texts.targets, texts.offsets[:-2]))
        passed = np.concatenate([[0], furthest]) <= np.arange(count)
        ended = np.concatenate([[False], np.logical_or.accumulate(texts.final)[:-1]])
        fixed: NDArray[np.bool_] = passed & ~ended & ~texts.final & (np.diff(texts.offsets) == 1)
        return fixed

    @functools.cached_property
    def _edges(self) -> dict[str, list[tuple[int, int, bool]]]:
        """By what they read, one letter or nothing: edges between states and within characters.

        Each with its source, its target, and whether every text has it.
        """
        texts, fixed = self.texts, self.fixed.tolist()
        edges: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
        nodes = len(texts.counts)

        def write(word: str, begin: int, end: int, *, alike: bool) -> None:
            nonlocal nodes
            for letter in word[:-1]:
                edges[letter].append((begin, nodes, alike))
                begin, nodes = nodes, nodes + 1
            edges[word[-1:]].append((begin, end, alike))

        for start, stop in self.parts:
            if self.lead:
                nodes += 1
                write(self.lead, nodes - 1, start, alike=True)
            for state in range(start, stop):
                for edge in range(int(texts.offsets[state]), int(texts.offsets[state + 1])):
                    word = self.spell(texts.chars[edge])
                    write(word, state, int(texts.targets[edge]), alike=fixed[state])
        return edges

    def occurs(self, content: str) -> tuple[bool, bool]:
        """Whether `content` is found where all texts are alike, and whether elsewhere."""
        if not content:
            return True, True
        letters = {letter for char in {*self.texts.chars} for letter in self.spell(char)}
        if not letters.union(self.lead).issuperset(content):
            return False, False
        alike, other = self._after(content[0], None, set())
        for letter in content[1:]:
            new: tuple[set[int], set[int]] = alike, other
            while "" in self._edges and any(new):
                reached = self._after("", *new)
                new = reached[0] - alike, reached[1] - other
                alike |= new[0]
                other |= new[1]
            alike, other = self._after(letter, alike, other)
        return bool(alike), bool(other)

    def _after(
        self, letter: str, alike: set[int] | None, other: set[int]
    ) -> tuple[set[int], set[int]]:
        """The nodes that a letter leads to: by edges that all texts have alone, and otherwise.

        From `alike`, which may be every node, and from `other`.
        """
        found: tuple[set[int], set[int]] = set(), set()
        for source, target, fixed in self._edges.get(letter, ()):
            if alike is None or source in alike:
                found[not fixed].add(target)
            if source in other:
                found[1].add(target)
        return found


def between(texts: Automaton, cuts: Sequence[Cut]) -> list[Range]:
    """The parts of the texts that are not cut out, each as its first and last state."""
    starts = [0, *(cut.stop for cut in cuts)]
    stops = [*(cut.start for cut in cuts), len(texts.counts) - 1]
    return [(a, b) for a, b in zip(starts, stops, strict=True) if a < b]


def find_cuts(
    added: Iterable[Mapping[str, Any]],
    searched: Searched,
    *,
    written: Callable[[str], str] = str,
) -> list[Cut]:
    """Where added tokens, as `tokenizer.json` says them, cut the texts.

    `written` is what the tokenizer looks for, given the content of a token. Exact, but for
    tokens that must be words by themselves: beside what differs between the texts, none is
    allowed. O(edges) for each token that fits and each of its characters at most. One that may
    be found in some texts and not in others, or in a part of what a character has become, is an
    UnknownRuleError.
    """
    tokens: dict[str, Mapping[str, Any]] = {}
    for token in added:
        tokens.setdefault(written(token["content"]), token)
    if any(searched.occurs(content)[1] for content in tokens):
        raise _odd()
    if not tokens:
        return []
    # Of those that begin at one place the longest is taken.
    longest = sorted(tokens, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest)))
    if pattern.search(searched.lead):
        raise _in_part()
    cuts: list[Cut] = []
    for part in searched.parts:
        inside = np.flatnonzero(searched.fixed[part[0] : part[1]]) + part[0]
        for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):
            if run.size:
                common = _Run(searched, part, (int(run[0]), int(run[-1]) + 1))
                cuts += common.cuts(pattern, tokens)
    return cuts


def without_head(texts: Automaton, cuts: list[Cut]) -> tuple[str, Automaton, list[Cut]]:
    """What all texts begin with, up to the last cut in it; the rest of them, and of the cuts."""
    states = len(texts.counts)
    # Where each state before one has a single edge, all texts begin alike.
    stops = [cut.stop for cut in cuts if texts.offsets[cut.stop] == cut.stop < states - 1]
    at = max(stops, default=0)
    head = "".join(texts.chars[:at])
    rest = texts.after(head)
    assert rest is not None
    below = [
        replace(cut, start=cut.start - at, stop=cut.stop - at) for cut in cuts if cut.start >= at
    ]
    return head, rest, below


class _Run:
    """A text that all texts have in common, from one state to another.

    Before it and after it the texts differ, or their part ends.
    """

    def __init__(self, searched: Searched, part: Range, run: Range) -> None:
        texts = searched.texts
        self._searched, self._run = searched, run
        self._bounded = run[0] == part[0], run[1] == part[1]
        self._chars = [texts.chars[int(texts.offsets[state])] for state in range(*run)]
        lead = searched.lead if self._bounded[0] else ""
        self._text = lead
        self._begins = {0: run[0]} if lead else {}  # places in the text to states
        self._ends: dict[int, int] = {}
        for state, char in enumerate(self._chars, start=run[0]):
            if word := searched.spell(char):
                if not lead or len(self._text) > len(lead):
                    self._begins[len(self._text)] = state
                self._text += word
                self._ends[len(self._text)] = state + 1

    def cuts(
        self, pattern: re.Pattern[str], tokens: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[Cut]:
        """The added tokens in it, as `tokenizers` finds them."""
        after = 0
        for match in pattern.finditer(self._text):
            token = tokens[match.group()]
            start, stop = match.span()
            if token.get("single_word") and not self._is_word(start, stop):
                continue
            if token.get("lstrip"):
                start = len(self._text[:start].rstrip(_SPACES))
                if not start and not self._bounded[0]:
                    self._check_no_space(before=True)
                start = max(after, start)
            if token.get("rstrip"):
                stop = len(self._text) - len(self._text[stop:].lstrip(_SPACES))
                if stop == len(self._text) and not self._bounded[1]:
                    self._check_no_space(before=False)
            if start < after or start not in self._begins or stop not in self._ends:
                raise _in_part()
            a, b = self._begins[start], self._ends[stop]
            text = "".join(self._chars[a - self._run[0] : b - self._run[0]])
            yield Cut(a, b, text, token["id"])
            after = stop

    def _is_word(self, start: int, stop: int) -> bool:
        before, after = self._text[:start], self._text[stop:]
        if not (before or self._bounded[0]) or not (after or self._bounded[1]):
            raise _odd()
        return not any(map(_in_words(), (*before[-1:], *after[:1])))

    def _check_no_space(self, *, before: bool) -> None:
        """Refuse a token that takes along the spaces of some texts, before or after the run."""
        texts, place = self._searched.texts, -1 if before else 0
        edges: Iterable[int] = range(*texts.offsets[self._run[1] : self._run[1] + 2].tolist())
        if before:
            edges = np.flatnonzero(texts.targets == self._run[0]).tolist()
        words = [self._searched.spell(texts.chars[edge]) for edge in edges]
        if any(not word or word[place] in _SPACES for word in words):
            raise _odd()


@functools.cache
def _in_words() -> Callable[[str], bool]:
    """Whether a character beside an added token makes both of them one word."""
    from tokenizers import AddedToken, Tokenizer, models

    asked = Tokenizer(models.BPE())
    asked.add_tokens([AddedToken("a", single_word=True, normalized=False)])
    return lambda char: not asked.encode(f"a{char}").ids


def _odd() -> OddTextError:
    return OddTextError("an added token that may be found in some candidates and not in others")


def _in_part() -> UnknownRuleError:
    return UnknownRuleError("an added token in a part of what its normalizer writes")
