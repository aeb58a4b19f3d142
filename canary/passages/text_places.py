"""Where passages are, and what a reader calls their texts: numbers, identifiers and no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.records.record import Record
from canary.records.validation import some
from canary.statistics.numbers import clean, count

_LONGEST = 60  # characters of an identifier
_NAMED = 5
_LIST = "give a list of texts, such as [text] for one, or a dict of texts by their identifiers"


@dataclass(frozen=True)
class Places(Record):
    """Where the windows of some documents are.

    Parameters
    ----------
    documents, short : int
        How many were given, and how many of them are shorter than a window.
    digest : str
        SHA-256 of the texts.
    document, position : tuple of int
        For each window the number of its document, from 0, and the token, or word, with which it
        begins.
    first_short : tuple of int
        The first of the documents that are shorter than a window.
    ids : tuple of str
        What each document is called; empty if by its number, which readers see from 1.
    """

    documents: int
    short: int
    digest: str
    document: tuple[int, ...] = field(repr=False)
    position: tuple[int, ...] = field(repr=False)
    first_short: tuple[int, ...] = field(default=(), repr=False, kw_only=True)
    ids: tuple[str, ...] = field(default=(), repr=False, kw_only=True)

    def _check(self) -> None:
        if not self.document or len(self.position) != len(self.document):
            raise ValueError("has no windows, or not all numbers of each")
        if not 0 <= min(self.document) <= max(self.document) < self.documents:
            raise ValueError("names a document that is not there")
        if len(self.ids) not in (0, self.documents):
            raise ValueError("has not the identifier of each document")

    def __len__(self) -> int:
        return len(self.document)

    def counted(self, hits: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Windows that hit, and all windows, of each document that has one."""
        _, place, sizes = np.unique(self.document, return_inverse=True, return_counts=True)
        found = np.bincount(place, weights=np.asarray(hits, np.float64), minlength=len(sizes))
        return found.astype(np.int64), sizes.astype(np.int64)

    def called(self, document: int) -> str:
        """The identifier of a document, or ``text 8`` of the eighth."""
        return self.ids[document] if self.ids else f"text {count(document + 1)}"

    def listed(self, documents: Sequence[int], total: int | None = None) -> str:
        """``texts 3, 7 and 9``, of all of them ``and 4 more``; or their identifiers."""
        shown, more = documents[:_NAMED], (total or len(documents)) - len(documents[:_NAMED])
        names = [self.called(at).removeprefix("text " * (not self.ids)) for at in shown]
        names += [f"{count(more)} more"] if more else []
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        return listed if self.ids else f"text{'s' if len(names) > 1 else ''} {listed}"

    def left_out(self, kind: str, repeated: int, passage: str) -> list[str]:
        """Notes on documents that were not measured."""
        notes, of = [], f"of {count(self.documents)} {kind}"
        if self.short:
            which = f" ({self.listed(self.first_short, self.short)})" if self.first_short else ""
            notes.append(
                f"{count(self.short)} {of} are shorter than {passage} and were not looked at"
                f"{which}: a smaller --prefix or --suffix takes shorter ones"
            )
        if repeated:
            notes.append(f"{count(repeated)} {of} repeat another and were measured once")
        return notes


def identified(
    given: Iterable[str] | Mapping[str, str], name: str
) -> tuple[list[str], tuple[str, ...]]:
    """Texts, and what each is called if they are given by identifiers: cleaned, and not long."""
    if not isinstance(given, Mapping):
        return some(given, name, cure=_LIST), ()
    ids = [clean(str(key)).strip()[:_LONGEST] for key in given]
    times = Counter(ids)
    unique = (
        one if one and times[one] == 1 else f"{at}: {one}"[:_LONGEST]
        for at, one in enumerate(ids, 1)
    )
    return [*given.values()], tuple(unique)
