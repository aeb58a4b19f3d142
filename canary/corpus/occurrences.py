"""Where the texts of canaries occur in other texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from canary.corpus.canaries import Canary, CanarySet


class Finder:
    """Finds every occurrence of groups of keys, which have names; no key is within another.

    The keys of a group should begin alike: the text that they share is what is searched
    for, and it costs next to nothing where it does not occur.
    """

    def __init__(self, groups: Iterable[Mapping[str, str]]) -> None:
        self._groups = [dict(group) for group in groups if group]
        self._searches = [_search(group) for group in self._groups]

    def __reduce__(self) -> tuple[type[Finder], tuple[list[dict[str, str]]]]:
        return Finder, (self._groups,)

    def __call__(self, text: str) -> list[tuple[int, int, str]]:
        """Start, stop and name of each occurrence, from left to right; they may overlap."""
        found: list[tuple[int, int, str]] = []
        for stem, search in self._searches:
            if stem in text:
                found += search(text)
        if len(found) > 1:
            found.sort()
        return found

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Occurrences in all `texts`, by name."""
        return Counter(name for text in texts for _, _, name in self(text))


def find_canaries(
    canaries: CanarySet, chosen: Iterable[Canary], before: str = "", after: str = ""
) -> Finder:
    """The finder of the texts of `chosen`, each between `before` and `after`, by id."""
    groups: dict[int, dict[str, str]] = {}
    for canary in chosen:
        key = before + canaries.text(canary) + after
        groups.setdefault(canary.format, {})[key] = canary.id
    return Finder(groups.values())


def _search(
    names: Mapping[str, str],
) -> tuple[str, Callable[[str], list[tuple[int, int, str]]]]:
    """What must stand in a text, and the search in such a text."""
    stem = _shared_start(names)
    if len(stem) < 2:
        return stem, _by_pattern(names)
    lengths = sorted({len(key) for key in names})

    def search(text: str) -> list[tuple[int, int, str]]:
        hits: list[tuple[int, int, str]] = []
        at = text.find(stem)
        while at >= 0:
            for length in lengths:
                if at + length > len(text):  # a slice would be cut short, and be a key again
                    break
                name = names.get(text[at : at + length])
                if name is not None:
                    hits.append((at, at + length, name))
            at = text.find(stem, at + 1)
        return hits

    return stem, search


def _shared_start(keys: Collection[str]) -> str:
    # What the first and the last in order share, all between them share.
    first, last = min(keys), max(keys)
    return first[: next((i for i, c in enumerate(first) if c != last[i]), len(first))]


def _by_pattern(names: Mapping[str, str]) -> Callable[[str], list[tuple[int, int, str]]]:
    find = re.compile("|".join(map(re.escape, names))).search

    def search(text: str) -> list[tuple[int, int, str]]:
        # At most one key begins at a place, and looking on from the next misses none.
        hits = []
        match = find(text)
        while match:
            hits.append((match.start(), match.end(), names[match[0]]))
            match = find(text, match.start() + 1)
        return hits

    return search
