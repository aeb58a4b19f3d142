"""Long runs: finished pieces in a folder, with a manifest that says whose they are.

A run that is killed at any moment and started again goes on after the last whole piece.
The folder holds a manifest and, for each series of the run, shards numbered from 0 without
a gap. Each file is written whole or not at all, and only its owner may read it::

    OUT.parts/
        manifest.json           identity of the run: model, input, settings, versions
        scores.00000000.shard   a line of JSON (state, length and checksum), then the body
        scores.00000001.shard

A run with another identity is refused, so that no result is ever a mixture of two.
"""

from __future__ import annotations

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
from canary.records.document import dump_document
from canary.records.files import atomic_write, atomic_writer, check_kind, folder_made
from canary.records.run_folder import (
    KIND,
    MANIFEST,
    RESULT,
    SCHEMA,
    begun_in,
    discard_run,
    is_run,
    run_folder,
)

__all__ = [
    "KIND",
    "MANIFEST",
    "SCHEMA",
    "Difference",
    "Pace",
    "Run",
    "Series",
    "Shard",
    "differences",
    "discard_run",
    "finished_pieces",
    "open_run",
    "publish",
]

_SHOWN = 40


@dataclass(frozen=True)
class Shard:
    """One finished piece.

    Parameters
    ----------
    state : dict
        Plain JSON: where the piece ends, and what it adds.
    body : bytes
        Its part of the result.
    """

    state: dict[str, Any] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


class Series:
    """The shards of one kind in a run, in their order."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._name = name
        numbers = sorted(
            int(path.name.split(".")[1]) for path in folder.glob(f"{name}.{'[0-9]' * 8}.shard")
        )
        if numbers != list(range(len(numbers))):
            gap = next(i for i, number in enumerate(numbers) if i != number)
            raise RecordError(
                "is missing, while a later one is there",
                cure=f"restore it, or remove {folder} to begin anew",
                where=str(self.path(gap)),
            )
        self._count = len(numbers)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Shard]:
        return (self[number] for number in range(self._count))

    def __getitem__(self, number: int) -> Shard:
        """The shard of that number, checked.

        Raises
        ------
        RecordError
            If the file is damaged.
        """
        path = self.path(number)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            about = json.loads(head)
            state = dict(about["state"])
            whole = (len(body), _checksum(state, body)) == (about["bytes"], about["crc32"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged(path) from error
        if not whole:
            raise self._damaged(path)
        return Shard(state, body)

    def append(self, state: Mapping[str, Any], body: bytes = b"") -> None:
        """Add a finished piece; when this returns, no kill undoes it.

        Raises
        ------
        OutputError
            If there is no room; the pieces before it stay.
        """
        state = dict(state)
        about = {"state": state, "bytes": len(body), "crc32": _checksum(state, body)}
        head = json.dumps(about, allow_nan=False) + "\n"
        path = self.path(self._count)
        try:
            atomic_write(path, head.encode() + body, private=True)
        except OutputError as error:
            raise _resumable(error, path) from error
        self._count += 1

    def path(self, number: int) -> Path:
        """Where the shard of that number lies, or would."""
        return self.folder / f"{self._name}.{number:08d}.shard"

    def _damaged(self, path: Path) -> RecordError:
        return RecordError(
            "is damaged",
            cure="remove it and those numbered after it, and the run goes on from there; or "
            f"remove {self.folder} to begin anew",
            where=str(path),
        )


def _checksum(state: Mapping[str, Any], body: bytes) -> int:
    # JSON gives the numbers back to the last bit, and an object in its order.
    return zlib.crc32(body, zlib.crc32(json.dumps(state).encode()))


@dataclass(frozen=True)
class Run:
    """An unfinished run whose folder this process holds.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    def series(self, name: str) -> Series:
        """The shards under `name` (lower-case letters, digits, hyphens) so far."""
        return Series(self.folder, name)

    def merge(self, series: Series, target: Path, *, replaces: Collection[str] = ()) -> None:
        """Write the bodies of a series end to end as `target`; see `publish`.

        The file is readable by its owner only.
        """

        def write(path: Path) -> None:
            with atomic_writer(path, private=True) as out:
                for shard in series:
                    out.write(shard.body)

        publish(self.folder, target, write, replaces=replaces)

    def discard(self) -> None:
        """Remove the folder; see `discard_run`."""
        discard_run(self.folder)


def publish(
    folder: str | os.PathLike[str],
    target: Path,
    write: Callable[[Path], object],
    *,
    replaces: Collection[str],
) -> None:
    """Let `write` make a run's result in the run's folder, and move it to `target`.

    What a kill leaves of a file that was being written lies in the folder then, not
    beside the target, and is removed with it. Both are on one file system. A file that
    holds none of the kinds in `replaces` is not replaced.

    Raises
    ------
    OutputError
        If the result cannot be written or there is no room; the shards stay.
    """
    result = Path(folder) / RESULT
    check_kind(Path(target), replaces)
    try:
        write(result)
        result.replace(target)
    except OSError as error:
        raise _resumable(error, target) from error


def finished_pieces(folder: str | os.PathLike[str]) -> int:
    """How many pieces of an unfinished run lie in a folder; 0 if there is none."""
    place = Path(folder)
    return sum(1 for _ in place.glob("*.shard")) if is_run(place) else 0


@dataclass(frozen=True)
class Difference:
    """Where two identities differ.

    Parameters
    ----------
    path : tuple of str
        Names that lead to it, from the outermost in.
    before, now : object
        Plain JSON; None where there is nothing.
    """

    path: tuple[str, ...]
    before: object
    now: object


def differences(before: object, now: object, path: tuple[str, ...] = ()) -> list[Difference]:
    """Where two pieces of plain JSON differ; mappings are looked into, lists are not.

    >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    [Difference(path=('a', 'c'), before=2, now=3)]
    """
    if isinstance(before, dict) and isinstance(now, dict):
        inside = (
            differences(before.get(name), now.get(name), (*path, name))
            for name in {**before, **now}
        )
        return [one for some in inside for one in some]
    return [] if before == now else [Difference(path, before, now)]


def _unfinished(found: Sequence[Difference]) -> tuple[str, str]:
    """Problem and cure, where a run cannot go on."""
    told = ", ".join(map(_told, found))
    return (
        f"an unfinished run in it was begun with another {told}",
        "start it as it was begun and it goes on, or remove the folder to begin anew",
    )


@contextmanager
def open_run(
    folder: str | os.PathLike[str],
    identity: Mapping[str, Any],
    *,
    refusal: Callable[[Sequence[Difference]], tuple[str, str]] = _unfinished,
) -> Iterator[Run]:
    """Begin a run in `folder`, or go on with the one that was begun there.

    A run that raises before its first piece is finished leaves nothing behind.

    Parameters
    ----------
    folder : path-like
        Made if it is not there, for the owner only.
    identity : mapping
        Plain JSON under names for people. All of it must be what it was when the run
        was begun.
    refusal : callable
        From what differs to problem and cure, for a folder that is more than one run.

    Raises
    ------
    RecordError
        If the run was begun with something else, which is named.
    OutputError
        If the folder holds anything and no run began in it, if it cannot be written to, or
        if another process is at work in it. Nothing in it was touched.
    """
    # A full disk leaves not even an empty folder.
    with folder_made(Path(folder).parent), _opened(run_folder(folder), identity, refusal) as run:
        yield run


@contextmanager
def _opened(
    place: Path,
    identity: Mapping[str, Any],
    refusal: Callable[[Sequence[Difference]], tuple[str, str]],
) -> Iterator[Run]:
    """`open_run`, in a folder that is there."""
    with _held(place):
        begun = begun_in(place)
        if begun is None:
            about = {"identity": dict(identity)}
            try:
                dump_document(place / MANIFEST, KIND, SCHEMA, about, private=True)
            except OutputError:
                with suppress(OSError):
                    place.rmdir()
                raise
        else:
            _check(begun["identity"], identity, place, refusal)
        try:
            yield Run(place)
        except BaseException:
            if place.exists() and not any(place.glob("*.shard")):
                discard_run(place)
            raise


class Pace:
    """How much to do between two shards, so that a kill costs about `seconds` of work.

    Parameters
    ----------
    first : int
        Items of the first piece, while the speed is not known.
    seconds : float
    """

    def __init__(self, first: int = 4096, seconds: float = 10.0) -> None:
        self.items = first
        self._seconds = seconds

    def observe(self, items: int, seconds: float) -> None:
        """Learn that a piece of `items` took so long."""
        wanted = int(items * self._seconds / max(seconds, 1e-3))
        self.items = max(min(wanted, 4 * self.items), self.items // 4, 1)


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
                cure="wait until it has ended, or name another output",
                where=str(folder),
            ) from error
        except OSError:
            pass  # some network file systems cannot lock a folder
        yield
    finally:
        os.close(handle)


def _check(
    begun: Mapping[str, Any],
    identity: Mapping[str, Any],
    folder: Path,
    refusal: Callable[[Sequence[Difference]], tuple[str, str]],
) -> None:
    now = json.loads(json.dumps(identity))  # tuples become lists, as they did in the file
    if found := differences(begun, now):
        problem, cure = refusal(found)
        raise RecordError(problem, cure=cure, where=str(folder))


def _told(found: Difference) -> str:
    name = ".".join(found.path)
    shown = (_shown(found.before), _shown(found.now))
    if None in shown or shown[0] == shown[1]:
        return name
    return f"{name} ({shown[0]} then, {shown[1]} now)"


def _shown(value: object) -> str | None:
    if value is None:
        return "none"
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return f"{value[:12]}…"
    if isinstance(value, str | int | float) and len(repr(value)) <= _SHOWN:
        return repr(value)
    return None


def _resumable(error: OSError, path: Path) -> OutputError:
    problem = error.problem if isinstance(error, OutputError) else str(error.strerror or error)
    return OutputError(
        problem,
        cure="mend that (is there room?) and start again: what is finished is kept",
        where=str(path),
    )
