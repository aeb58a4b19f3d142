"""Where copies went, and what a corpus holds already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from canary.corpus.canaries import CanarySet
from canary.errors import CorpusError, InputError
from canary.records.addresses import Remote, beside
from canary.records.files import kind_there
from canary.records.record import Document
from canary.records.shards import MANIFEST
from canary.records.validation import brief
from canary.records.versioned_json import load_document

KIND = "canary placements"
SCHEMA = 1
ENDING = ".placements.json"
"""Of the name of the file with the places, beside the corpus."""
_TRIAL = 50  # fewer records are no corpus that somebody trains on
_MOST_OF = 100  # one record of so many may hold a canary


@dataclass(frozen=True)
class Placements(
    Document,
    kind=KIND,
    written=(
        "column",
        "seed",
        "mode",
        "separators",
        "total_lines",
        "fingerprint",
        "files",
        "lines",
    ),
):
    """Where the copies went.

    Parameters
    ----------
    lines : mapping of str to tuple of int
        For each injected canary's id the numbers of its records in the new file, from 1,
        ascending: lines of JSON lines and text, records below the header of CSV, rows of
        tables. In many files they are counted on from one file to the next. A record into
        which a canary was spliced twice is there twice.
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
    files : mapping of str to int
        Of a corpus in many files: the number of records of each new file, in order.
    """

    lines: Mapping[str, tuple[int, ...]]
    column: str | tuple[str, ...]
    seed: int
    total_lines: int
    mode: str = "record"
    separators: tuple[str, str] | None = None
    empty: tuple[str, ...] = ()
    fingerprint: str | None = None
    files: Mapping[str, int] = field(default_factory=dict)


def manifest_of(corpus: Path) -> Path:
    """Where `canary inject` says where the copies in a corpus are."""
    return beside(corpus, ENDING)


def injected_by(corpus: Path) -> Path | None:
    """The manifest that says that a corpus holds canaries: its own or that of its folder."""
    beside = (manifest_of(place) for place in (corpus, corpus.parent) if place.name)
    return next((file for file in beside if kind_there(file) == KIND), None)


OF_RECORDS = " of the records are canaries"
"""How a note on the share of canaries goes on after the share."""


def note_on_share(copies: int, records: int) -> str:
    """What the user must know of a corpus of which canaries are more than 1 %; empty if fewer."""
    if _MOST_OF * copies <= records or records < _TRIAL:
        return ""
    share = f"{100 * min(copies / records, 1):.{0 if 10 * copies >= records else 1}f} %"
    told = f"{share}{OF_RECORDS} or hold one: "
    if 2 * copies > records:
        told += "a model that reads little else looks as if it memorized more than it would in a "
        told += "usual corpus"
    else:
        told += "more than about 0.1 % change what the model learns, so exposure may differ from "
        told += "that in a usual corpus"
    return f"{told}; take more records, or fewer copies"


def check_not_injected(corpus: Path) -> None:
    """Refuse a corpus that holds canaries already, of whatever set, by a CorpusError."""
    if manifest := injected_by(corpus):
        raise CorpusError(
            f"canaries were injected into it already ({manifest})",
            cure="inject into the corpus without canaries (canary strip gives it back), one set "
            "with all formats (canary generate FORMAT FORMAT); or remove that file, if it is of "
            "an earlier corpus of this name",
            where=str(corpus),
        )


def check_same_set(corpus: Path, canaries: CanarySet, file: Path) -> None:
    """Refuse a set, of a file, that is not the one that was injected into a corpus.

    Of the corpus only the manifest beside it is read.
    """
    manifest = injected_by(corpus)
    if canaries.natural or manifest is None:
        return
    if load_document(manifest, KIND, SCHEMA).get("fingerprint") != canaries.fingerprint:
        raise CorpusError(
            f"is not the canary set that was injected into {corpus}, as {manifest} says, or was "
            "changed since",
            cure="name the set that was injected, as canary generate wrote it; or remove that "
            "file, if it is of an earlier corpus of this name",
            where=str(file),
        )


def check_whole(corpus: Path) -> None:
    """Refuse a folder that a run has not finished, or lacks a file of, by a CorpusError.

    Of a corpus here only names are read, and the manifest beside it. A file that is missing often
    held no canary: all copies are there, and the rest of the corpus is not.
    """
    if isinstance(corpus, Remote) or not corpus.name:
        return
    for folder in (corpus, corpus.parent):
        if folder.name and kind_there((parts := beside(folder, ".parts")) / MANIFEST):
            raise CorpusError(
                f"the run that writes it is not finished ({parts})",
                cure="start the same command again, and it goes on; or remove "
                f"{parts} and {folder}",
                where=str(folder),
            )
    manifest = manifest_of(corpus)
    if not corpus.is_dir() or kind_there(manifest) != KIND:
        return
    files = load_document(manifest, KIND, SCHEMA).get("files") or {}
    if missing := [name for name in files if not (corpus / name).is_file()]:
        named = ", ".join(map(brief, missing[:3])) + ", …" * (len(missing) > 3)
        raise CorpusError(
            f"{len(missing):,} of the {len(files):,} files that canary inject wrote are missing: "
            f"{named}",
            cure=f"put them back or inject again; or remove {manifest}, if the corpus was written "
            "anew on purpose",
            where=str(corpus),
        )


def check_drawn(canaries: CanarySet) -> None:
    """Refuse a set that was not drawn: natural secrets are not ours to put in or take out."""
    if canaries.natural:
        raise InputError(
            "natural secrets are in the corpus already and are not injected or stripped",
            cure="generate canaries; audit takes natural secrets as they are",
            where="canaries",
        )
