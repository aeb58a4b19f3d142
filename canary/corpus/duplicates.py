"""How often a corpus has each of its texts: equal in every character, over all of its shards."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from canary.corpus.columns import Column
from canary.corpus.file_formats import SPLIT
from canary.corpus.many_files import open_shards, read_in_parts, shards_of
from canary.errors import CorpusError, InputError
from canary.records.progress import Progress, shows_progress
from canary.records.record import Document
from canary.records.sealing import sealed
from canary.records.validation import some, text
from canary.statistics.numbers import Shown, clean, plural
from canary.workers.jobs import Workers

KIND, SCHEMA = "canary duplicates", 1

_BYTES = 16
"""Of a digest: by chance two of 10**12 texts agree in it with a probability of 1e-15."""


@dataclass(frozen=True, repr=False)
class Duplicates(Shown, Document, kind=KIND, schema=SCHEMA):
    """What `duplicates` found: numbers, places and digests, and no text.

    Parameters
    ----------
    files : tuple of str
        The names of the files.
    texts : int
        How many texts there are, equal ones included.
    by_copies : tuple of (int, int)
        Numbers of copies, and how many different texts have each of them.
    asked : bool
        Whether texts were asked for.
    digest : tuple of str
        Of each text that was asked for, or of those with two copies or more if none was, the first
        32 digits of the SHA-256 of its UTF-8.
    copies : tuple of int
        How often the corpus has it.
    source, row : tuple of int
        Where it is first: the number of the file, from 0, and of its line or row, from 1.
    """

    files: tuple[str, ...]
    texts: int
    by_copies: tuple[tuple[int, int], ...]
    asked: bool
    digest: tuple[str, ...] = field(repr=False)
    copies: tuple[int, ...] = field(repr=False)
    source: tuple[int, ...] = field(repr=False)
    row: tuple[int, ...] = field(repr=False)
    file: str = field(default="", compare=False)

    def _check(self) -> None:
        if sum(copies * texts for copies, texts in self.by_copies) != self.texts:
            raise ValueError("has not the copies of each text")
        if len({len(column) for column in (self.digest, self.copies, self.source, self.row)}) > 1:
            raise ValueError("has not all numbers of each text")
        if any(each < 1 for each in self.copies):
            raise ValueError("has a text without copies")
        if not {*self.source} <= {*range(len(self.files))}:
            raise ValueError("names a file that is not there")

    @property
    def different(self) -> int:
        """How many different texts there are."""
        return sum(texts for _, texts in self.by_copies)

    def of(self, texts: Iterable[str]) -> list[int]:
        """How often the corpus has each of these texts.

        Raises
        ------
        InputError
            If one was not counted.
        """
        known = dict(zip(self.digest, self.copies, strict=True))
        found = [known.get(_digest(each).hex(), 0) for each in texts]
        if 0 in found:
            raise InputError(
                f"{self.file or 'the count of duplicates'} does not have texts[{found.index(0)}]",
                cure="count the copies of these texts (canary duplicates --texts)",
                where="copies",
            )
        return found

    def weights(self, texts: Iterable[str]) -> list[float]:
        """How many different texts of the corpus each of these stands for.

        Groups are those with 1 copy, 2 to 3, 4 to 7 and so on; within a group the texts must have
        been drawn with the same chance.

        Raises
        ------
        InputError
            If a text was not counted, or a group of the corpus has none of these texts.
        """
        given = list(texts)
        groups = [copies.bit_length() for copies in self.of(given)]
        drawn = Counter(dict(zip(given, groups, strict=True)).values())
        there = Counter[int]()
        for times, different in self.by_copies:
            there[times.bit_length()] += different
        if missing := sorted(there.keys() - drawn.keys()):
            least = 1 << missing[0] - 1
            copies = "one copy" if least == 1 else f"{least:,} to {2 * least - 1:,} copies"
            raise InputError(
                f"the corpus has {plural(there[missing[0]], 'different text')} with {copies}, and "
                "none of these texts has as many",
                cure="measure texts of each number of copies, or give weights of your own",
                where="weights",
            )
        return [there[group] / drawn[group] for group in groups]

    def summary(self) -> str:
        """A few lines for a terminal."""
        again = sum(texts for copies, texts in self.by_copies if copies > 1)
        lines = [
            f"{plural(self.texts, 'text')} in {plural(len(self.files), 'file')}: "
            f"{self.different:,} different, {again:,} of them with two copies or more"
        ]
        if self.copies:
            at = self.copies.index(most := max(self.copies))
            of = "a text asked for" if self.asked else "one text"
            place = f"{clean(self.files[self.source[at]])}, row {self.row[at]:,}"
            lines.append(f"most copies of {of}: {most:,} (first in {place})")
        return "\n".join(lines)

    def _table(self) -> list[dict[str, Any]]:
        columns = zip(self.digest, self.copies, self.source, self.row, strict=True)
        return [
            {"digest": digest, "copies": copies, "file": self.files[source], "row": row}
            for digest, copies, source, row in columns
        ]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield "duplicates/texts", self.texts
        yield "duplicates/different", self.different


@sealed
@shows_progress
def duplicates(
    *corpora: Any,
    texts: Iterable[str] | None = None,
    column: Column = "text",
    split: str = SPLIT,
    file_format: str | None = None,
    tokenizer: Any = None,
    workers: int | Workers = 1,
    progress: Progress = None,
) -> Duplicates:
    """Count how often a corpus has each text.

    Texts are equal if they agree in every character. Near duplicates, and texts within longer
    texts, are different texts.

    Parameters
    ----------
    *corpora : path-like, or what `inject` takes
        All shards of the training data: files, folders with files, or patterns such as
        ``"train/*.jsonl.gz"``.
    texts : iterable of str, optional
        Texts of the corpus whose copies are wanted, for `canary.verbatim`; those that are there
        twice or more unless given.
    column : str or pair of str
        Where the texts are. Each message of a chat is a text, and each column of a pair.
    split, file_format, tokenizer, workers, progress
        As for `verify`.

    Raises
    ------
    CorpusError
        If the corpus cannot be read, is empty or has no such text column.
    InputError
        If a file is listed twice, a list of files is given, or a text is not in the corpus.

    Notes
    -----
    One pass. Memory holds a digest of 128 bits and a place for each text, about 70 bytes in all,
    and never the corpus.

    Examples
    --------
    >>> from datasets import Dataset
    >>> found = duplicates(Dataset.from_dict({"text": ["a b", "c", "a b"]}))
    >>> found.by_copies
    ((1, 1), (2, 1))
    >>> found.of(["a b"])
    [2]
    """
    shards = shards_of(*corpora, file_format=file_format, progress=progress)
    wanted = None if texts is None else _wanted(texts)
    given = {"column": column, "split": split, "file_format": file_format, "tokenizer": tokenizer}
    parts = read_in_parts(
        digest_texts, {"given": given}, shards, workers=workers, progress=progress
    )
    digests, rows = bytearray(), array("q")
    ends = np.cumsum([size for part in parts for size in part["sizes"]])
    while parts:  # memory holds no part twice
        digests += parts[0]["digests"]
        rows.extend(parts.pop(0)["rows"])
    names = [s.name if isinstance(s, Path) else f"dataset {n}" for n, s in enumerate(shards)]
    if not rows:
        raise CorpusError("holds no text", cure="name another column", where=", ".join(names))
    keys = np.frombuffer(digests, "<u8").reshape(-1, 2)
    order = np.lexsort(keys.T)  # stable: the first of equal ones stays first
    differs = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    begins = np.flatnonzero(np.concatenate([[True], differs]))
    copies, first = np.diff(begins, append=len(keys)), order[begins]
    if wanted is None:
        chosen = np.flatnonzero(copies > 1)
    else:
        halves = np.frombuffer(b"".join(wanted), "<u8")[::2]
        some_of = np.flatnonzero(np.isin(keys[first, 0], halves))
        found = {keys[first[at]].tobytes(): at for at in some_of.tolist()}
        absent = [at for digest, at in wanted.items() if digest not in found]
        if absent:
            raise InputError(
                f"{plural(len(absent), 'different text')} of {len(wanted):,} not in the corpus, "
                f"texts[{absent[0]}] the first",
                cure="give texts as the corpus has them, equal in every character",
                where="texts",
            )
        chosen = np.array([found[digest] for digest in wanted], np.int64)
    chosen = chosen[np.argsort(first[chosen])]
    return Duplicates(
        files=tuple(names),
        texts=len(rows),
        by_copies=tuple(zip(*(a.tolist() for a in np.unique_counts(copies)), strict=True)),
        asked=wanted is not None,
        digest=tuple(keys[at].tobytes().hex() for at in first[chosen].tolist()),
        copies=tuple(copies[chosen].tolist()),
        source=tuple(np.searchsorted(ends, first[chosen], "right").tolist()),
        row=tuple(np.asarray(rows)[first[chosen]].tolist()),
    )


def digest_texts(shared: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The digest and the row of each text in some shards of a corpus, and how many each has."""
    answers = []
    for job in jobs:
        digests, rows, sizes = bytearray(), array("q"), []
        opened, about = open_shards(job["shards"], shared["given"], shared.get("progress"))
        for shard in opened:
            before = len(rows)
            for _, row, slots in shard.iterate() if shard else ():
                for slot in slots:
                    digests += _digest(slot.text)
                    rows.append(row)
            sizes.append(len(rows) - before)
        answers.append({"digests": digests, "rows": rows, "sizes": sizes, **about})
    return answers


def _digest(of: str) -> bytes:
    # A lone surrogate, which JSON may hold, is no UTF-8.
    return sha256(of.encode(errors="surrogatepass")).digest()[:_BYTES]


def _wanted(texts: Iterable[str]) -> dict[bytes, int]:
    """The digests of the texts asked for, and where each is first."""
    found: dict[bytes, int] = {}
    for at, each in enumerate(some(texts, "texts", cure="give a list of texts")):
        found.setdefault(_digest(text(each, "each of texts", cure="give texts")), at)
    return found
