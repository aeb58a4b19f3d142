"""Whose a folder of finished pieces is: nothing is deleted in it that no run of ours wrote.

A folder belongs to a run if its manifest says so, as a file of its own (a symbolic link
leads to somebody else's). Any other folder must be empty before a run begins in it.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from canary.errors import OutputError, RecordError
from canary.records.document import kind_of, load_document
from canary.records.files import make_folder

__all__ = [
    "KIND",
    "MANIFEST",
    "RESULT",
    "SCHEMA",
    "SHARD_BEGINS",
    "begun_in",
    "discard_run",
    "is_run",
    "run_folder",
]

KIND = "canary unfinished run"
SCHEMA = 1

MANIFEST = "manifest.json"
"""In the folder of a run: what it is."""

RESULT = ".canary-result"
"""In the folder of a run: the result, before it is moved to its place."""

SHARD_BEGINS = b'{"state": {'
"""The first bytes of each shard: a file that only bears the name of one is not ours."""

_DISCARDED = ".canary-discarded.json"
"""The manifest of a run that is being removed: what is left beside it counts for nothing."""

_SHARD = re.compile(r"[a-z0-9-]+\.\d{8}\.shard")
_PART = re.compile(
    rf"\.({re.escape(MANIFEST)}|{re.escape(RESULT)}|[a-z0-9-]+\.\d{{8}}\.shard"
    r"|[0-9a-f]{32}\.safetensors)\.\w{8}\.part"
)
_BEGUN = re.compile(rf"\.{re.escape(MANIFEST)}\.\w{{8}}\.part")
_NAMED = 3


def run_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder itself, made for the owner only if it is not there; a link is followed once.

    Raises
    ------
    OutputError
        If it cannot be made or written to.
    """
    place = _followed(folder)
    make_folder(place.parent)
    with suppress(OSError, ValueError):  # whatever it is, the next line says it
        place.mkdir(mode=0o700)
    return make_folder(place)


def begun_in(place: Path) -> dict[str, Any] | None:
    """The manifest of the run that began in a folder; None if the folder is free for one.

    What a killed process was writing there is removed, and what is left of a run that was
    being discarded.

    Raises
    ------
    OutputError
        If there is anything else in it, which is named and left alone.
    RecordError
        If the manifest is damaged, too new, or not a run's.
    """
    if _is_file(place / _DISCARDED) and not _is_file(place / MANIFEST):
        _clear(place)
    found = sorted(place.iterdir())
    if not _is_file(place / MANIFEST):
        theirs = [
            path.name for path in found if not (_BEGUN.fullmatch(path.name) and _is_file(path))
        ]
        if theirs:
            more = ", …" if len(theirs) > _NAMED else ""
            raise OutputError(
                "is not empty, and no run of canary began in it (it holds "
                f"{', '.join(theirs[:_NAMED])}{more})",
                cure="name an empty or a new folder (nothing in this one was touched)",
                where=str(place),
            )
        for path in found:
            path.unlink(missing_ok=True)
        return None
    try:
        manifest = load_document(place / MANIFEST, KIND, SCHEMA)
    except RecordError as error:
        if kind_of(place / MANIFEST) != KIND:
            error.cure = f"name another folder, or remove {place} if nothing in it is of use"
        raise
    if not isinstance(manifest.get("identity"), dict):
        raise RecordError(
            "does not say what the run is",
            cure=f"remove {place} to begin anew",
            where=str(place / MANIFEST),
        )
    for path in found:
        if _PART.fullmatch(path.name) and _is_file(path):
            path.unlink(missing_ok=True)
    return manifest


def is_run(place: Path) -> bool:
    """Whether a run began in a folder, by its manifest."""
    return _is_file(place / MANIFEST) and kind_of(place / MANIFEST) == KIND


def discard_run(folder: str | os.PathLike[str]) -> None:
    """Remove what a run wrote into its folder, and the folder if nothing else is in it.

    A folder in which no run began is left as it is, unless it is empty.
    """
    place = _followed(folder)
    if is_run(place):
        # First, and at once: no kill leaves a run of which some shards are missing.
        (place / MANIFEST).replace(place / _DISCARDED)
        _clear(place)
    try:
        place.rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def _clear(place: Path) -> None:
    """Remove the files of a run that is being discarded; last what says that it is."""
    for path in sorted(place.iterdir()):
        if path.name != _DISCARDED and _is_file(path) and _is_ours(path):
            path.unlink(missing_ok=True)
    (place / _DISCARDED).unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    if _SHARD.fullmatch(path.name):
        with path.open("rb") as file:
            return file.read(len(SHARD_BEGINS)) == SHARD_BEGINS
    return path.name == RESULT or _PART.fullmatch(path.name) is not None


def _is_file(path: Path) -> bool:
    """Whether it is a file in this very folder: what a link leads to is not."""
    return path.is_file() and not path.is_symlink()


def _followed(folder: str | os.PathLike[str]) -> Path:
    place = Path(folder)
    with suppress(OSError, ValueError):
        if place.is_symlink():
            return Path(os.path.realpath(place))
    return place
