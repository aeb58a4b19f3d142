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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.formats.automaton import Automaton
from canary.tokens.pattern import OddTextError, UnknownRuleError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Range = tuple[int, int]

# What `tokenizers` takes for spaces beside a token; Python has four more.
_SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@dataclass(frozen=True)
class Cut:
    """An added token at the same place of every text.

    Parameters
    ----------
    start, stop : int
        States of the texts' automaton before and after it. Every text passes through both,
        and through each state between them.
    text : str
        What it was found in, with the spaces that it takes along.
    token : int
    """

    start: int
    stop: int
    text: str
    token: int


def between(texts: Automaton, cuts: Sequence[Cut]) -> list[Range]:
    """The parts of the texts that are not cut out, each as its first and last state."""
    starts = [0, *(cut.stop for cut in cuts)]
    stops = [*(cut.start for cut in cuts), len(texts.counts) - 1]
    return [(a, b) for a, b in zip(starts, stops, strict=True) if a < b]


def find_cuts(
    added: Sequence[Mapping[str, Any]],
    texts: Automaton,
    parts: Sequence[Range],
    *,
    written: Callable[[str], str] = str,
    spelled: Mapping[str, str] | None = None,
    lead: str = "",
) -> list[Cut]:
    """Where added tokens cut the texts.

    Parameters
    ----------
    added : sequence of mapping
        Added tokens, as `tokenizer.json` says them.
    texts : Automaton
    parts : sequence of (int, int)
        The parts of the texts that are searched, as of `between`.
    written : callable
        What the tokenizer looks for, given the content of a token.
    spelled : mapping of str to str, optional
        What each character of the texts is when tokens are looked for; itself if not given.
    lead : str
        What is put before each part.

    Raises
    ------
    OddTextError
        If one may be found in some texts and not in others.
    UnknownRuleError
        If one is found in a part of what a character has become.

    Notes
    -----
    Exact, but for tokens that must be words by themselves: beside what differs between the
    texts, none is allowed. O(edges) for each token and each of its characters at most.
    """
    tokens: dict[str, Mapping[str, Any]] = {}
    for token in added:
        tokens.setdefault(written(token["content"]), token)
    if not tokens:
        return []
    fixed = _fixed(texts)
    letters = _Letters.of(texts, parts, spelled, lead)
    if any(letters.find(content)[1] for content in tokens):
        raise _odd()
    # Of those that begin at one place the longest is taken.
    longest = sorted(tokens, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest)))
    if pattern.search(lead):
        raise _in_part()
    return [
        cut
        for part in parts
        for run in _runs(fixed, part)
        for cut in _Run(texts, part, run, spelled, lead).cuts(pattern, tokens)
    ]


def occurs(
    content: str,
    texts: Automaton,
    parts: Sequence[Range],
    spelled: Mapping[str, str],
    lead: str,
) -> bool:
    """Whether `content` is found in what some text is written as; see `find_cuts`."""
    return any(_Letters.of(texts, parts, spelled, lead).find(content))


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


def _fixed(texts: Automaton) -> Bools:
    """Whether every text passes through a state and goes on by the same character."""
    count = len(texts.counts)
    if count == 1:
        return np.zeros(1, np.bool_)
    furthest = np.maximum.accumulate(np.maximum.reduceat(texts.targets, texts.offsets[:-2]))
    passed = np.concatenate([[0], furthest]) <= np.arange(count)
    ended = np.concatenate([[False], np.logical_or.accumulate(texts.final)[:-1]])
    fixed: Bools = passed & ~ended & ~texts.final & (np.diff(texts.offsets) == 1)
    return fixed


def _runs(fixed: Bools, part: Range) -> Iterator[Range]:
    """The longest rows of fixed states within a part."""
    inside = np.flatnonzero(fixed[part[0] : part[1]]) + part[0]
    for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):
        if run.size:
            yield int(run[0]), int(run[-1]) + 1


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges that read the same; `fixed` where every text has them."""

    sources: Ints
    targets: Ints
    fixed: Bools

    def after(self, alike: Bools, other: Bools) -> tuple[Bools, Bools]:
        """The nodes that they lead to: from `alike` by fixed ones alone, and otherwise."""
        found = np.zeros_like(alike), np.zeros_like(other)
        found[0][self.targets[self.fixed & alike[self.sources]]] = True
        others = other[self.sources] | (~self.fixed & alike[self.sources])
        found[1][self.targets[others]] = True
        return found


@dataclass(frozen=True, eq=False)
class _Letters:
    """The texts as they are searched: edges by what they read, one letter or nothing."""

    count: int
    edges: Mapping[str, _Edges]

    @classmethod
    def of(
        cls,
        texts: Automaton,
        parts: Sequence[Range],
        spelled: Mapping[str, str] | None,
        lead: str,
    ) -> _Letters:
        """The graph of `parts`; its nodes are states, and more within what is spelled out."""
        sources = np.repeat(np.arange(len(texts.counts)), np.diff(texts.offsets))
        fixed = _fixed(texts)[sources]
        inside = np.zeros(len(sources), np.bool_)
        for start, stop in parts:
            inside[texts.offsets[start] : texts.offsets[stop]] = True
        count = len(texts.counts)
        found: dict[str, list[_Edges]] = defaultdict(list)

        def write(word: str, begin: Ints, end: Ints, alike: Bools) -> None:
            nonlocal count
            for letter in word[:-1]:
                after = count + np.arange(len(begin))
                found[letter].append(_Edges(begin, after, alike))
                begin, count = after, count + len(begin)
            found[word[-1:]].append(_Edges(begin, end, alike))

        for char in sorted(set(texts.chars)):
            some = np.flatnonzero(inside & (texts.codes == ord(char)))
            word = char if spelled is None else spelled.get(char, "")
            write(word, sources[some], texts.targets[some].astype(np.int64), fixed[some])
        if lead:
            ends = np.array([start for start, _ in parts], np.int64)
            begins, count = count + np.arange(len(ends)), count + len(ends)
            write(lead, begins, ends, np.ones(len(ends), np.bool_))
        return cls(count, {letter: _joined(some) for letter, some in found.items()})

    def find(self, content: str) -> tuple[bool, bool]:
        """Whether `content` is found where all texts are alike, and whether elsewhere."""
        if not content:
            return True, True
        alike, other = np.ones(self.count, np.bool_), np.zeros(self.count, np.bool_)
        for number, letter in enumerate(content):
            if number:
                self._pass_silently(alike, other)
            if letter not in self.edges:
                return False, False
            alike, other = self.edges[letter].after(alike, other)
        return bool(alike.any()), bool(other.any())

    def _pass_silently(self, alike: Bools, other: Bools) -> None:
        """Add the nodes that are reached without a letter."""
        before = -1
        while "" in self.edges and before != (before := int(alike.sum() + other.sum())):
            more = self.edges[""].after(alike, other)
            alike |= more[0]
            other |= more[1]


def _joined(some: Sequence[_Edges]) -> _Edges:
    return _Edges(
        np.concatenate([edges.sources for edges in some]),
        np.concatenate([edges.targets for edges in some]),
        np.concatenate([edges.fixed for edges in some]),
    )


class _Run:
    """A text that all texts have in common, from one state to another.

    Before it and after it the texts differ, or their part ends.
    """

    def __init__(
        self,
        texts: Automaton,
        part: Range,
        run: Range,
        spelled: Mapping[str, str] | None,
        lead: str,
    ) -> None:
        self._texts, self._spelled = texts, spelled
        self._run, self._bounded = run, (run[0] == part[0], run[1] == part[1])
        self._chars = [texts.chars[int(texts.offsets[state])] for state in range(*run)]
        self._text = lead if self._bounded[0] else ""
        self._begins: dict[int, int] = {}  # places in the text to states
        self._ends: dict[int, int] = {}
        if self._text:
            self._begins[0] = run[0]
        for state, char in enumerate(self._chars, start=run[0]):
            if word := self._spell(char):
                if not (lead and self._bounded[0] and len(self._text) == len(lead)):
                    self._begins[len(self._text)] = state
                self._text += word
                self._ends[len(self._text)] = state + 1

    def cuts(self, pattern: re.Pattern[str], tokens: Mapping[str, Mapping[str, Any]]) -> list[Cut]:
        """The added tokens in it, as `tokenizers` finds them."""
        found: list[Cut] = []
        after = 0
        for match in pattern.finditer(self._text):
            token = tokens[match.group()]
            start, stop = match.span()
            if token.get("single_word") and not self._is_word(start, stop):
                continue
            if token.get("lstrip"):
                start = max(after, self._spaces_before(start))
            if token.get("rstrip"):
                stop = self._spaces_after(stop)
            if start < after or start not in self._begins or stop not in self._ends:
                raise _in_part()
            a, b = self._begins[start], self._ends[stop]
            text = "".join(self._chars[a - self._run[0] : b - self._run[0]])
            found.append(Cut(a, b, text, token["id"]))
            after = stop
        return found

    def _spell(self, char: str) -> str:
        return char if self._spelled is None else self._spelled[char]

    def _is_word(self, start: int, stop: int) -> bool:
        before, after = self._text[:start], self._text[stop:]
        if not (before or self._bounded[0]) or not (after or self._bounded[1]):
            raise _odd()
        return not any(map(_in_words(), (*before[-1:], *after[:1])))

    def _spaces_before(self, start: int) -> int:
        start = len(self._text[:start].rstrip(_SPACES))
        if not start and not self._bounded[0]:
            into = np.flatnonzero(self._texts.targets == self._run[0]).tolist()
            self._check_no_space(self._spell(self._texts.chars[edge])[-1:] for edge in into)
        return start

    def _spaces_after(self, stop: int) -> int:
        stop = len(self._text) - len(self._text[stop:].lstrip(_SPACES))
        if stop == len(self._text) and not self._bounded[1]:
            a, b = self._texts.offsets[self._run[1] : self._run[1] + 2].tolist()
            self._check_no_space(self._spell(char)[:1] for char in self._texts.chars[a:b])
        return stop

    @staticmethod
    def _check_no_space(letters: Iterator[str]) -> None:
        """Refuse a token that takes along the spaces of some texts."""
        if any(not letter or letter in _SPACES for letter in letters):
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
