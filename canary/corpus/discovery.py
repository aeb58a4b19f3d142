"""Natural secrets: what stands in a corpus and looks like one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column
from canary.corpus.consistency import check_not_empty
from canary.corpus.file_formats import SPLIT, open_corpus
from canary.corpus.lines import Progress
from canary.errors import CorpusError, InputError
from canary.formats.automaton import Automaton
from canary.formats.format import Format
from canary.records.sealing import sealed

_LOOK = 24
"""Characters of a fill by whose classes places are found; the automaton decides."""


@sealed
def discover(
    corpus: Any,
    formats: Format | str | Sequence[Format | str],
    *,
    column: Column = "text",
    split: str = SPLIT,
    file_format: str | None = None,
    progress: Progress | None = None,
) -> CanarySet:
    """Find natural secrets in a corpus, with their counts.

    Parameters
    ----------
    corpus : path-like, or what `inject` takes
    formats : Format, str, or sequence of them
        What secrets look like. Where a candidate begins or ends with a letter or digit,
        none may stand beside it: nine digits are not found among ten.
    column : str or pair of str
        Where to look; every column that is named is searched.
    split, file_format, progress
        As for `verify`.

    Returns
    -------
    CanarySet
        A set of natural secrets, in the order in which they were first found, format by
        format. It holds people's secrets: keep it as you keep the corpus.

    Raises
    ------
    CorpusError
        If the corpus cannot be read, or holds no such secret.
    FormatError
        If a format is not valid, or has an empty candidate: that would be found
        everywhere, and is no secret.

    Notes
    -----
    At each place the longest candidate counts, and the search goes on behind it.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, section 6.2.
    """
    given = [formats] if isinstance(formats, Format | str) else list(formats)
    spaces = [item if isinstance(item, Format) else Format(item) for item in given]
    if len({space.text for space in spaces}) < len(spaces) or not spaces:
        raise InputError("discover takes different formats", cure="give each once, at least one")
    for space in spaces:
        check_not_empty(space)
    searches = [Search(space) for space in spaces]
    counts: list[Counter[str]] = [Counter() for _ in spaces]
    opened = open_corpus(corpus, column, split=split, file_format=file_format, progress=progress)
    for _, _, slots in opened.iterate():
        for slot in slots:
            for search, found in zip(searches, counts, strict=True):
                found.update(search(slot.text))
    kept = [(space, found) for space, found in zip(spaces, counts, strict=True) if found]
    if not kept:
        raise CorpusError(
            "holds no secret of these formats",
            cure="look for other formats, or in another column",
            where=opened.source,
        )
    return CanarySet.natural_of(kept)


class Search:
    """Finds the fills of one format in a text."""

    def __init__(self, space: Format) -> None:
        self._space = space
        classes = "".join(
            "[" + "".join(map(re.escape, sorted(some))) + "]" for some in _depths(space.automaton)
        )
        self._find = re.compile(re.escape(space.prefix) + classes).search

    def __call__(self, text: str) -> Iterator[str]:
        """The fills in `text`, from left to right."""
        at = 0
        while match := self._find(text, at):
            start = match.start()
            fill = self._longest(text, start)
            at = start + 1
            if fill is not None:
                at = start + len(self._space.prefix) + len(fill) + len(self._space.suffix)
                yield fill

    def _longest(self, text: str, start: int) -> str | None:
        """The longest fill whose candidate begins at `start` and stands alone."""
        space, automaton = self._space, self._space.automaton
        begin = start + len(space.prefix)
        if not _apart(text, start):
            return None
        found = None
        for stop in automaton.ends(text, begin):
            end = stop + len(space.suffix)
            if text.startswith(space.suffix, stop) and _apart(text, end):
                found = text[begin:stop]
        return found


def _apart(text: str, at: int) -> bool:
    """Whether no word goes on across `at`."""
    return not (0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum())


def _depths(automaton: Automaton) -> list[set[str]]:
    """Which characters may stand at each place that every text has, as far as is needed."""
    states: set[int] = {0}
    found: list[set[str]] = []
    while len(found) < _LOOK and not any(automaton.final[state] for state in states):
        edges = [
            edge
            for state in states
            for edge in range(int(automaton.offsets[state]), int(automaton.offsets[state + 1]))
        ]
        found.append({automaton.chars[edge] for edge in edges})
        states = {int(automaton.targets[edge]) for edge in edges}
    return found
