"""Two files of texts, members and non-members, as one list with the place of each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.line_formats import JsonLines
from canary.corpus.lines import place
from canary.errors import CorpusError
from canary.scoring.texts import file_digest, read_blocks
from canary.statistics.numbers import plural


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts of known membership.

    Parameters
    ----------
    texts : list of str
    member, lines : ndarray of bool and of int64 of shape (texts,)
        Which are members; the line of each in its file, from 1.
    sources, digests : tuple of Path, tuple of str
        The files of members and of non-members, and the SHA-256 of each.
    notes : tuple of str
    """

    texts: list[str] = field(repr=False)
    member: NDArray[np.bool_]
    lines: NDArray[np.int64]
    sources: tuple[Path, Path]
    digests: tuple[str, str]
    notes: tuple[str, ...]

    def place(self, at: int) -> str:
        """File and line of a text."""
        return place(self.sources[0 if self.member[at] else 1], int(self.lines[at]))

    def facts(self) -> dict[str, Any]:
        """The files as plain data."""
        named = zip(("members_file", "nonmembers_file"), self.sources, self.digests, strict=True)
        return {name: {"file": file.name, "sha256": digest} for name, file, digest in named}


def read_texts(
    members: str | os.PathLike[str], nonmembers: str | os.PathLike[str], *, column: str = "text"
) -> Texts:
    """The texts of two JSONL files, one JSON object on each line.

    Parameters
    ----------
    members, nonmembers : path-like
        A text in both files is a member and is omitted from the non-members.
    column : str
        The column of the texts.

    Returns
    -------
    Texts
        With notes that count texts in both files, and repeated ones.

    Raises
    ------
    CorpusError
        If a line is not a JSON object in UTF-8 with text in `column`, if a file holds no
        record, or no non-member is left. It names file and line, never the text.
    """
    sources = Path(members), Path(nonmembers)
    (inside, first), (others, second) = (read_rows(source, column) for source in sources)
    known = {text for text, _ in inside}
    outside = [(text, line) for text, line in others if text not in known]
    both = len(others) - len(outside)
    if not outside:
        problem = "each of its texts is also in the members' file"
        cure = "give texts that the model was not trained on"
        raise CorpusError(problem, cure=cure, where=str(sources[1]))
    notes = []
    if both:
        said = "is the same text as a member" if both == 1 else "are the same texts as members"
        notes.append(f"{plural(both, 'non-member')} {said}, and left out")
    for name, rows in (("members", inside), ("non-members", outside)):
        again = len(rows) - len({text for text, _ in rows})
        if again:
            notes.append(
                f"{plural(again, 'text')} of the {name} {'repeats' if again == 1 else 'repeat'} "
                "another: intervals take them for different texts"
            )
    rows = inside + outside
    return Texts(
        texts=[text for text, _ in rows],
        member=np.arange(len(rows)) < len(inside),
        lines=np.array([line for _, line in rows], np.int64),
        sources=sources,
        digests=(first, second),
        notes=tuple(notes),
    )


def read_rows(source: Path, column: str) -> tuple[list[tuple[str, int]], str]:
    """The texts of a JSONL file with their lines, and its SHA-256; errors as `read_texts`."""
    corpus = JsonLines(source)
    _ = corpus.stamp
    digest = file_digest(source)
    rows = [
        (text, line)
        for block in read_blocks(source, column)
        for text, line in zip(block.texts, block.lines, strict=True)
    ]
    corpus.check_unchanged()
    if not rows:
        raise CorpusError(
            "holds no record", cure="name a file with at least one", where=str(source)
        )
    return rows, digest
