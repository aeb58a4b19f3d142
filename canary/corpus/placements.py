"""Where copies went, and what a corpus holds already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from canary.corpus.canaries import CanarySet
from canary.errors import CorpusError, InputError
from canary.records.files import kind_there
from canary.records.record import Document
from canary.records.versioned_json import load_document

KIND = "canary placements"
SCHEMA = 1


@dataclass(frozen=True)
class Placements(
    Document,
    kind=KIND,
    written=("column", "seed", "mode", "separators", "total_lines", "fingerprint", "lines"),
):
    """Where the copies went.

    Parameters
    ----------
    lines : mapping of str to tuple of int
        For each injected canary's id the numbers of its records in the new file, from 1,
        ascending: lines of JSON lines and text, records below the header of CSV, rows of
        Parquet. A record into which a canary was spliced twice is there twice.
    column : str or tuple of str
        What holds the canaries' texts.
    seed : int
        The seed of the places.
    total_lines : int
        Records of the new file, counted likewise.
    mode : {"record", "splice"}
        Whether the canaries are records of their own.
    separators : (str, str) or None
        What is before and after a spliced canary; scoring should put the one before
        into its context, as the model saw it.
    empty : tuple of str
        Columns in which the corpus has text and the canaries' own records have none.
    fingerprint : str or None
        Which set it was (`CanarySet.fingerprint`).
    """

    lines: Mapping[str, tuple[int, ...]]
    column: str | tuple[str, ...]
    seed: int
    total_lines: int
    mode: str = "record"
    separators: tuple[str, str] | None = None
    empty: tuple[str, ...] = ()
    fingerprint: str | None = None


def manifest_of(corpus: Path) -> Path:
    """Where `canary inject` says where the copies in a corpus are."""
    return corpus.parent / f"{corpus.name}.placements.json"


def is_injected(corpus: Path) -> bool:
    """Whether a manifest beside a corpus says that it holds canaries."""
    return kind_there(manifest_of(corpus)) == KIND


def check_not_injected(corpus: Path) -> None:
    """Refuse a corpus that holds canaries already, of whatever set, by a CorpusError."""
    if is_injected(corpus):
        raise CorpusError(
            f"canaries were injected into it already ({manifest_of(corpus)})",
            cure="inject into the corpus without canaries (canary strip gives it back), one set "
            "with all formats (canary generate FORMAT FORMAT); or remove that file, if it is of "
            "an earlier corpus of this name",
            where=str(corpus),
        )


def check_same_set(corpus: Path, canaries: CanarySet, file: Path) -> None:
    """Refuse a set, of a file, that is not the one that was injected into a corpus.

    Of the corpus only the manifest beside it is read.
    """
    if canaries.natural or not is_injected(corpus):
        return
    manifest = manifest_of(corpus)
    if load_document(manifest, KIND, SCHEMA).get("fingerprint") != canaries.fingerprint:
        raise CorpusError(
            f"is not the canary set that was injected into {corpus}, as {manifest} says, or was "
            "changed since",
            cure="name the set that was injected, as canary generate wrote it; or remove that "
            "file, if it is of an earlier corpus of this name",
            where=str(file),
        )


def check_drawn(canaries: CanarySet) -> None:
    """Refuse a set that was not drawn: natural secrets are not ours to put in or take out."""
    if canaries.natural:
        raise InputError(
            "natural secrets are in the corpus already and are not injected or stripped",
            cure="generate canaries; audit takes natural secrets as they are",
            where="canaries",
        )
