"""Why canaries are not in a corpus as they should be: the likely causes, in words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from canary.corpus.canaries import Canary, CanarySet
from canary.corpus.columns import Slot
from canary.corpus.corpora import Corpus
from canary.corpus.discovery import Search
from canary.corpus.occurrences import Finder
from canary.statistics.numbers import plural

MOST_OTHERS = 1000
"""Texts of the formats that are not of the set: no more are looked for."""

_FIXED = 3
"""Characters of fixed text that a format needs, so that what looks like it is no accident."""


def _any_form(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _any_space(text: str) -> str:
    return " ".join(text.split())


def _any(text: str) -> str:
    return _any_space(_any_form(_any_form(text).casefold()))


_FOLDS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("in another case", str.casefold),
    ("in another Unicode form", _any_form),
    ("with other white space", _any_space),
    ("with several changes of case, Unicode form and white space", _any),
)
"""What cleaning does to texts, the simplest first, and the function that undoes the difference."""


class Others:
    """The texts of the formats of a set that are not of the set: `texts`, filled by `look`."""

    def __init__(self, canaries: CanarySet) -> None:
        self.texts: set[str] = set()
        self._known = {canaries.text(canary) for canary in canaries}
        self._searches = [
            (space.prefix, space, Search(space))
            for space in canaries.formats
            if len(space.prefix.strip()) + len(space.suffix.strip()) >= _FIXED
        ]

    def look(self, slots: Iterable[Slot]) -> None:
        """Search a record."""
        for slot in slots:
            for prefix, space, search in self._searches:
                if prefix in slot.text and len(self.texts) < MOST_OTHERS:
                    found = {space.candidate(fill) for fill in search(slot.text)} - self._known
                    self.texts.update(sorted(found)[: MOST_OTHERS - len(self.texts)])


def likely_causes(
    corpus: Corpus, canaries: CanarySet, found: Mapping[str, int], others: int
) -> tuple[str, ...]:
    """What has probably happened to a corpus: sentences without secrets, none if nothing shows.

    `found` are occurrences by id, `others` the number of texts of the same formats that are not
    of this set. The corpus is read once more if copies are missing.
    """
    expected = {canary.id: canary.repetitions for canary in canaries.injected}
    there = {name: found.get(name, 0) for name in expected}
    missing = [name for name, number in there.items() if number < expected[name]]
    if not missing:
        return _repeated(there, expected)
    if changed := _changed(corpus, canaries, missing):
        return (changed,)
    if not any(there.values()):
        return (_another_run(others),) if others else ()
    if any(there[name] > expected[name] for name in there):
        return ()
    if all(number == 1 for number in there.values()):
        return ("each canary is there once, so the corpus was probably de-duplicated",)
    copies = plural(sum(expected.values()), "copy", "copies")
    return (
        f"{sum(there.values()):,} of {copies} are there, so the corpus was probably cut, filtered "
        "or split into several files",
    )


def _repeated(there: Mapping[str, int], expected: Mapping[str, int]) -> tuple[str, ...]:
    """The cause where every canary is there the same number of times too often."""
    times = {there[name] / number for name, number in expected.items()}
    if len(times) != 1 or (often := times.pop()) < 2 or not often.is_integer():
        return ()
    return (
        f"every canary is there {often:.0f} times as often as expected, so the set was probably "
        "injected into several files that were joined, or the corpus was repeated",
    )


def _changed(corpus: Corpus, canaries: CanarySet, missing: Sequence[str]) -> str:
    """In which form the missing canaries are there; "" if in none."""
    absent = set(missing)
    lost = [canary for canary in canaries.injected if canary.id in absent]
    finders = [_finder(canaries, lost, fold) for _, fold in _FOLDS]
    seen: list[Counter[str]] = [Counter() for _ in _FOLDS]
    exact = _finder(canaries, lost, str)
    for _, _, slots in corpus.iterate():
        for slot in slots:
            plain = exact.count([slot.text])
            for (_, fold), finder, count in zip(_FOLDS, finders, seen, strict=True):
                count.update(finder.count([fold(slot.text)]) - plain)
    most = max(map(len, seen))
    for (how, _), count in zip(_FOLDS, seen, strict=True):
        if most and len(count) == most:
            are = plural(len(count), "canary is", "canaries are")
            return (
                f"{are} there {how}: something changed the texts after inject, so the model "
                "was trained on other text than an audit would price"
            )
    return ""


def _another_run(others: int) -> str:
    return (
        f"{plural(others, 'text')} of the same format {'is' if others == 1 else 'are'} there with "
        "fills that are not of this set, so this is probably the canary set of another run"
    )


def _finder(canaries: CanarySet, lost: Iterable[Canary], fold: Callable[[str], str]) -> Finder:
    groups: dict[int, dict[str, str]] = {}
    for canary in lost:
        groups.setdefault(canary.format, {})[fold(canaries.text(canary))] = canary.id
    return Finder(groups.values())
