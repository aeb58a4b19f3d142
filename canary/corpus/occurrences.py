"""Where the texts of canaries occur in other texts, and which of these are copies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canary.corpus.canaries import Canary, CanarySet

Hit = tuple[int, int, str]
"""Start, stop and name of an occurrence."""


class Finder:
    """Finds every occurrence of groups of keys, which have names; no key is within another.

    The keys of a group should begin alike: the text that they share is what is searched
    for, and it costs next to nothing where it does not occur.
    """

    def __init__(self, groups: Iterable[Mapping[str, str]]) -> None:
        self._groups = [dict(group) for group in groups if group]
        self._searches = [_search(group) for group in self._groups]
        self.stems = [stem for stem, _ in self._searches]

    def __reduce__(self) -> tuple[type[Finder], tuple[list[dict[str, str]]]]:
        return Finder, (self._groups,)

    def __call__(self, text: str) -> list[Hit]:
        """Start, stop and name of each occurrence, from left to right; they may overlap."""
        hits: list[Hit] = []
        for stem, search in self._searches:
            if stem in text:
                hits += search(text)
        return sorted(hits) if len(hits) > 1 else hits

    def may_be_in(self, text: str) -> bool:
        """Whether a text has what the keys of a group share; nearly always not, at no cost."""
        return any(map(text.__contains__, self.stems))

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Occurrences in all `texts`, by name."""
        return Counter(name for text in texts for _, _, name in self(text))


def find_canaries(
    canaries: CanarySet,
    chosen: Iterable[Canary],
    before: str = "",
    after: str = "",
    fold: Callable[[str], str] = str,
) -> Finder:
    """The finder of the texts of `chosen`, by id, each folded, and between two texts."""
    groups: dict[int, dict[str, str]] = {}
    for canary in chosen:
        key = before + fold(canaries.text(canary)) + after
        groups.setdefault(canary.format, {})[key] = canary.id
    return Finder(groups.values())


def _search(names: Mapping[str, str]) -> tuple[str, Callable[[str], list[Hit]]]:
    """What must be in a text, and the search in such a text."""
    # What the first and the last key in order share, all between them share.
    first, last = min(names), max(names)
    stem = first[: next((i for i, c in enumerate(first) if c != last[i]), len(first))]
    lengths = sorted({len(key) for key in names})

    def search(text: str) -> list[Hit]:
        hits: list[Hit] = []
        start = text.find(stem)
        while start >= 0:
            for length in lengths:
                stop = start + length
                if stop > len(text):  # a slice would be cut short, and be a key again
                    break
                name = names.get(text[start:stop])
                if name is not None:
                    hits.append((start, stop, name))
            start = text.find(stem, start + 1)
        return hits

    # At most one key begins at a place, so that looking ahead from each place misses none.
    pattern = re.compile(f"(?=({'|'.join(map(re.escape, names))}))")

    def search_anywhere(text: str) -> list[Hit]:
        return [(*match.span(1), names[match[1]]) for match in pattern.finditer(text)]

    return stem, search_anywhere if len(stem) < 2 else search


class Copies:
    """Finds the copies of canaries: the occurrences that are not part of something longer.

    A candidate that ends in a hole is no copy where the text goes on with a letter or digit
    that the hole could hold: 1234 is not in 12345. Likewise at its beginning.
    """

    def __init__(self, canaries: CanarySet) -> None:
        self._find = find_canaries(canaries, canaries)
        self.may_be_in = self._find.may_be_in
        edges = []
        for space in canaries.formats:
            chars = {char for char in space.automaton.chars if char.isalnum()}
            edges.append((set() if space.prefix else chars, set() if space.suffix else chars))
        self._edges = {canary.id: edges[canary.format] for canary in canaries}

    def hits(self, text: str) -> tuple[list[Hit], list[str]]:
        """The copies in `text`, and the names of what occurs within longer runs."""
        copies: list[Hit] = []
        longer: list[str] = []
        for start, stop, name in self._find(text):
            before, after = self._edges[name]
            if (text[stop : stop + 1] in after and text[stop - 1].isalnum()) or (
                start > 0 and text[start - 1] in before and text[start].isalnum()
            ):
                longer.append(name)
            else:
                copies.append((start, stop, name))
        return copies, longer
