"""Long runs: finished pieces in a folder, with a manifest that says whose they are.

A run that is killed at any moment and started again goes on after the last whole piece.
The folder holds a manifest and, for each series of the run, shards numbered from 0 without
a gap. Each file is written whole or not at all, and only its owner may read it::

    OUT.parts/
        manifest.json           identity of the run: model, input, settings, versions
        scores.00000000.shard   a line of JSON (state, length and checksum), then the body
        scores.00000001.shard

A run with another identity is refused, so that no result is ever a mixture of two. A folder
belongs to a run if its manifest says so, as a file of its own: any other folder must be empty
before a run begins in it, and nothing is deleted that no run wrote.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canary.errors import OutputError, RecordError
from canary.records.files import (
    atomic_write,
    atomic_writer,
    check_replaceable,
    folder_made,
    make_folder,
)
from canary.records.versioned_json import dump_document, kind_of, load_document

MANIFEST = "manifest.json"
"""In the folder of a run: what it is."""

KIND, SCHEMA = "canary unfinished run", 1
# The result, before it is moved to its place.
_RESULT = ".canary-result"
# The manifest of a run that is being removed: what is left beside it counts for nothing.
_DISCARDED = ".canary-discarded.json"
# What it wrote, and what a killed process was writing.
_OURS = re.compile(rf"[a-z0-9-]+\.\d{{8}}\.shard|{re.escape(_RESULT)}|\..+\.underway\.part")
_LAYOUT = "layout"  # in an identity
_NAMED, _SHOWN = 3, 40  # files that are named, characters of a value


@dataclass(frozen=True)
class Shard:
    """One finished piece: where it ends and what it adds as plain JSON, and its bytes."""

    state: dict[str, Any] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


class Series:
    """The shards of one kind in a run, in their order."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._name = name
        shards = folder.glob(f"{name}.{'[0-9]' * 8}.shard")
        numbers = sorted(int(path.name.split(".")[1]) for path in shards)
        self._count = len(numbers)
        for expected, number in enumerate(numbers):
            if number != expected:
                raise RecordError(
                    "is missing, while a later one is there",
                    cure=f"restore it, or remove {folder} to begin anew",
                    where=str(self.path(expected)),
                )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Shard]:
        return (self[number] for number in range(self._count))

    def __getitem__(self, number: int) -> Shard:
        """The shard of that number; a RecordError if its file is damaged."""
        path = self.path(number)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            about = json.loads(head)
            state = dict(about["state"])
            if (len(body), _checksum(state, body)) != (about["bytes"], about["crc32"]):
                raise ValueError("other bytes than were written")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RecordError(
                "is damaged",
                cure="remove it and those numbered after it, and the run goes on from there; or "
                f"remove {self.folder} to begin anew",
                where=str(path),
            ) from error
        return Shard(state, body)

    def append(self, state: Mapping[str, Any], body: bytes = b"") -> None:
        """Add a finished piece, which no kill undoes; an OutputError if the disk is full."""
        state = dict(state)
        about = {"state": state, "bytes": len(body), "crc32": _checksum(state, body)}
        head = json.dumps(about, allow_nan=False) + "\n"
        path = self.path(self._count)
        with _resumable(path):
            atomic_write(path, head.encode() + body, private=True)
        self._count += 1

    def path(self, number: int) -> Path:
        """Where the shard of that number is, or would be."""
        return self.folder / f"{self._name}.{number:08d}.shard"


def _checksum(state: Mapping[str, Any], body: bytes) -> int:
    # JSON gives the numbers back to the last bit, and an object in its order.
    return zlib.crc32(body, zlib.crc32(json.dumps(state).encode()))


@dataclass(frozen=True)
class Run:
    """An unfinished run whose folder this process holds."""

    folder: Path
    prefix: str = ""  # of the names of all its series

    def series(self, name: str) -> Series:
        """The shards under `name` (lower-case letters, digits, hyphens) so far."""
        return Series(self.folder, self.prefix + name)

    def merge(self, series: Series, target: Path, *, replaces: Collection[str] = ()) -> None:
        """Write the bodies of a series end to end as `target`, for its owner; see `publish`."""

        def write(path: Path) -> None:
            with atomic_writer(path, private=True) as out:
                out.writelines(shard.body for shard in series)

        publish(self.folder, target, write, replaces=replaces)

    def discard(self) -> None:
        """Remove the folder; see `discard_run`."""
        discard_run(self.folder)


class Pace:
    """How much to do between two shards, so that a kill costs about `seconds` of work.

    `first` are the items of the first piece, while the speed is not known.
    """

    def __init__(self, first: int = 4096, seconds: float = 10.0) -> None:
        self.items = first
        self._seconds = seconds

    def observe(self, items: int, seconds: float) -> None:
        """Learn that a piece of `items` took so long."""
        wanted = int(items * self._seconds / max(seconds, 1e-3))
        self.items = max(min(wanted, 4 * self.items), self.items // 4, 1)


@dataclass(frozen=True)
class Difference:
    """Where two identities of a run differ: names from the outermost in, and plain JSON."""

    path: tuple[str, ...]
    before: object
    now: object

    def __str__(self) -> str:
        name = ".".join(self.path)
        then, now = _shown(self.before), _shown(self.now)
        return name if "" in (then, now) or then == now else f"{name} ({then} then, {now} now)"


def _shown(value: object) -> str:
    """A value in an error; "" if it is too long."""
    if value is None:
        return "none"
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return f"{value[:12]}…"
    short = isinstance(value, str | int | float) and len(repr(value)) <= _SHOWN
    return repr(value) if short else ""


def differences(before: object, now: object, path: tuple[str, ...] = ()) -> list[Difference]:
    """Where two pieces of plain JSON differ; mappings are looked into, lists are not."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            difference
            for name in {**before, **now}
            for difference in differences(before.get(name), now.get(name), (*path, name))
        ]
    return [] if before == now else [Difference(path, before, now)]


@contextmanager
def open_run(
    folder: str | os.PathLike[str],
    identity: Mapping[str, Any],
    *,
    layout: int | None = None,
    refusal: Callable[[Sequence[Difference]], tuple[str, str]] | None = None,
) -> Iterator[Run]:
    """Begin a run in `folder`, or go on with the one that was begun there.

    The folder is made for the owner only. A run that raises before its first piece is finished
    leaves nothing behind. `identity` is plain JSON under names for people, all of which must be
    what it was when the run was begun; `refusal` gives problem and cure from what differs.
    `layout` numbers what the shards hold: another number whenever that changes, so that those of
    an earlier version are refused.

    Raises
    ------
    RecordError
        If the run was begun with something else, which is named.
    OutputError
        If the folder holds anything and no run began in it, if it cannot be written to, or
        if another process is at work in it. Nothing in it was touched.
    """
    place = _followed(folder)
    with folder_made(Path(folder).parent):  # a full disk leaves not even an empty folder
        with suppress(OSError, ValueError):  # the next line says what is wrong
            place.mkdir(mode=0o700, parents=True)
        with _held(make_folder(place)):
            begun = _identity_in(place)
            identity = {**identity, **({} if layout is None else {_LAYOUT: layout})}
            if begun is None:
                try:
                    about = {"identity": identity}
                    dump_document(place / MANIFEST, KIND, SCHEMA, about, private=True)
                except OutputError:
                    with suppress(OSError):
                        place.rmdir()
                    raise
            # Tuples become lists, as they did in the file.
            elif found := differences(begun, json.loads(json.dumps(identity))):
                differ = ", ".join(map(str, found))
                problem = f"an unfinished run in it was begun with another {differ}"
                cure = f"start it as it was begun and it goes on, or remove {place} to begin anew "
                cure += "(--force replaces only results that are finished)"
                if any(one.path == (_LAYOUT,) for one in found):
                    problem = "another version of canary began an unfinished run in it"
                    cure = f"finish it with that version, or remove {place} to begin anew"
                elif refusal is not None:
                    problem, cure = refusal(found)
                raise RecordError(problem, cure=cure, where=str(place))
            try:
                yield Run(place)
            except BaseException:
                if place.exists() and not any(place.glob("*.shard")):
                    discard_run(place)
                raise


def publish(
    folder: str | os.PathLike[str],
    target: Path,
    write: Callable[[Path], object],
    *,
    replaces: Collection[str],
) -> None:
    """Let `write` make a run's result in the run's folder, and move it to `target`.

    A kill leaves nothing beside the target then. An OutputError if the result cannot be written,
    or the target is of none of the kinds in `replaces`; the shards stay.
    """
    result = Path(folder) / _RESULT
    check_replaceable(target, replaces)
    with _resumable(target):
        write(result)
        result.replace(target)


def finished_pieces(folder: str | os.PathLike[str]) -> int:
    """How many pieces of an unfinished run are in a folder; 0 if there is none."""
    place = Path(folder)
    return sum(1 for _ in place.glob("*.shard")) if _is_run(place) else 0


def discard_run(folder: str | os.PathLike[str]) -> None:
    """Remove what a run wrote into its folder, and the folder if nothing else is in it.

    A folder in which no run began is left as it is, unless it is empty.
    """
    place = _followed(folder)
    if _is_run(place):
        # First, and at once: no kill leaves a run of which some shards are missing.
        (place / MANIFEST).replace(place / _DISCARDED)
        _clear(place)
    try:
        place.rmdir()
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def _identity_in(place: Path) -> dict[str, Any] | None:
    """The identity of the run that began in a folder; None if the folder is free for one.

    What a killed process was writing there is removed, and what is left of a run that was
    being discarded. Anything else is named in an OutputError and left alone.
    """
    manifest = place / MANIFEST
    if _is_file(place / _DISCARDED) and not _is_file(manifest):
        _clear(place)
    parts = {path for path in place.glob(".*.underway.part") if _is_file(path)}
    identity = None
    if _is_file(manifest):
        try:
            identity = load_document(manifest, KIND, SCHEMA).get("identity")
        except RecordError as error:
            if kind_of(manifest) != KIND:
                error.cure = f"name another folder, or remove {place} if nothing in it is of use"
            raise
        if not isinstance(identity, dict):
            raise RecordError(
                "does not say what the run is",
                cure=f"remove {place} to begin anew",
                where=str(manifest),
            )
    elif theirs := sorted({*place.iterdir()} - parts):
        more = ", …" if len(theirs) > _NAMED else ""
        raise OutputError(
            "is not empty, and no run of canary began in it (it holds "
            f"{', '.join(path.name for path in theirs[:_NAMED])}{more})",
            cure="name an empty or a new folder (nothing in this one was touched)",
            where=str(place),
        )
    for path in parts:
        path.unlink(missing_ok=True)
    return identity


def _clear(place: Path) -> None:
    """Remove the files of a run that is being discarded; last what says that it is."""
    for path in filter(_is_file, sorted(place.iterdir())):
        if _OURS.fullmatch(path.name):
            path.unlink(missing_ok=True)
    (place / _DISCARDED).unlink(missing_ok=True)


def _is_run(place: Path) -> bool:
    return _is_file(place / MANIFEST) and kind_of(place / MANIFEST) == KIND


def _is_file(path: Path) -> bool:
    """Whether it is a file in this very folder: what a link leads to is not."""
    return path.is_file() and not path.is_symlink()


def _followed(folder: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(folder) if os.path.islink(folder) else folder)  # noqa: PTH114


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep other processes out of the folder; a lock that a kill cannot leave behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(
                "another process is at work in it",
                cure="wait until it has ended, or give one of them another output (two runs on one "
                "server: --answers FOLDER)",
                where=str(folder),
            ) from error
        except OSError:
            pass  # some network file systems cannot lock a folder
        yield
    finally:
        os.close(handle)


@contextmanager
def _resumable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = error.problem if isinstance(error, OutputError) else str(error.strerror or error)
        raise OutputError(
            problem,
            cure="mend that (is there room?) and start again: what is finished is kept",
            where=str(path),
        ) from error
