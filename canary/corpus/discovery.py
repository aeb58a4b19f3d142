"""Natural secrets: what is in a corpus and looks like one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column
from canary.corpus.consistency import check_not_empty
from canary.corpus.file_formats import SPLIT
from canary.corpus.many_files import by_format, in_files, open_shards, read_in_parts, shards_of
from canary.errors import CorpusError, InputError
from canary.formats.format import Format
from canary.records.progress import Progress, remark, shows_progress
from canary.records.sealing import sealed
from canary.workers.jobs import Workers

_LOOK = 24
"""Characters of a fill by whose classes places are found; the automaton decides."""


@sealed
@shows_progress
def discover(
    corpus: Any,
    formats: Format | str | Sequence[Format | str],
    *,
    column: Column = "text",
    split: str = SPLIT,
    file_format: str | None = None,
    tokenizer: Any = None,
    workers: int | Workers = 1,
    progress: Progress = None,
) -> CanarySet:
    """Find natural secrets in a corpus, and count them.

    At each place the longest candidate counts, and the search continues after it.

    Parameters
    ----------
    corpus : path-like, list of Path, or what `inject` takes
        As for `verify`: also a folder, a pattern, or several files.
    formats : Format, str, or sequence of them
        What the secrets look like. If a candidate begins or ends with a letter or a digit,
        none may be beside it: nine digits are not found within ten.
    column : str or pair of str
        Where to look; every named column is searched.
    split, file_format, tokenizer, workers, progress
        As for `verify`.

    Returns
    -------
    CanarySet
        Natural secrets in the order in which they were first found, format by format. It
        holds people's secrets: protect it like the corpus.

    Raises
    ------
    CorpusError
        If the corpus cannot be read, or holds no such secret.
    FormatError
        If a format is not valid, or has an empty candidate, which would be found everywhere.

    References
    ----------
    .. [1] Carlini et al., The Secret Sharer, USENIX Security 2019, section 6.2.

    Examples
    --------
    >>> from datasets import Dataset
    >>> corpus = Dataset.from_dict({"text": ["call 555-0199", "call 555-0142", "call me"]})
    >>> len(discover(corpus, "{digit:3}-{digit:4}"))
    2
    """
    spaces = Format.several(formats)
    if len({space.text for space in spaces}) < len(spaces) or not spaces:
        raise InputError("discover takes different formats", cure="give each once, at least one")
    for space in spaces:
        check_not_empty(space)
    given = {"column": column, "split": split, "file_format": file_format, "tokenizer": tokenizer}
    shards = shards_of(corpus, file_format=file_format, progress=progress)
    if numbers := by_format(corpus, shards, file_format):
        remark(progress, f"searching{in_files(numbers)}")
    shared = {"spaces": spaces, "given": given}
    found = read_in_parts(find_fills, shared, shards, workers=workers, progress=progress)
    counts = [Counter[str]() for _ in spaces]
    for one in found:
        for count, more in zip(counts, one["counts"], strict=True):
            count.update(more)
    kept = [(space, count) for space, count in zip(spaces, counts, strict=True) if count]
    names = [str(shard) for shard in shards if isinstance(shard, Path)]
    if not kept:
        raise CorpusError(
            "holds no secret of these formats",
            cure="look for other formats, or in another column",
            where=", ".join(names[:3]) + ", …" * (len(names) > 3),
        )
    return CanarySet.natural_of(kept)


def find_fills(shared: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The fills of each format in some shards of a corpus, in the order in which they are found."""
    answers = []
    for job in jobs:
        counts = [(Search(space), Counter[str]()) for space in shared["spaces"]]
        opened, about = open_shards(job["shards"], shared["given"], shared.get("progress"))
        for shard in filter(None, opened):
            for _, _, slots in shard.iterate():
                for slot in slots:
                    for search, count in counts:
                        count.update(search(slot.text))
        answers.append({**about, "counts": [count for _, count in counts]})
    return answers


class Search:
    """Finds the fills of one format in a text."""

    def __init__(self, space: Format) -> None:
        self._space = space
        automaton = space.automaton
        # Which characters may be at each place that every text has, as far as is needed.
        classes, states = "", {0}
        for _ in range(_LOOK):
            if any(automaton.final[state] for state in states):
                break
            bounds = [automaton.offsets[[state, state + 1]].tolist() for state in states]
            edges = [edge for begin, end in bounds for edge in range(begin, end)]
            chars = sorted({automaton.chars[edge] for edge in edges})
            classes += f"[{''.join(map(re.escape, chars))}]"
            states = {int(automaton.targets[edge]) for edge in edges}
        self._find = re.compile(re.escape(space.prefix) + classes).search

    def __call__(self, text: str) -> Iterator[str]:
        """The fills in `text`, from left to right."""
        prefix, suffix = self._space.prefix, self._space.suffix
        position = 0
        while match := self._find(text, position):
            start = match.start()
            position = start + 1
            if not _apart(text, start):
                continue
            begin = start + len(prefix)
            ends = [
                end
                for end in self._space.automaton.ends(text, begin)
                if text.startswith(suffix, end) and _apart(text, end + len(suffix))
            ]
            if ends:
                position = ends[-1] + len(suffix)
                yield text[begin : ends[-1]]


def _apart(text: str, position: int) -> bool:
    """Whether no word goes on across a position."""
    around = text[max(position - 1, 0) : position], text[position : position + 1]
    return not all(map(str.isalnum, around))
