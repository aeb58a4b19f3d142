"""A corpus in many files, written anew file by file into a folder; a run that stopped goes on."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from canary.corpus.corpora import FileCorpus
from canary.corpus.file_formats import file_format_of, files_of
from canary.corpus.lines import regular_size
from canary.corpus.many_files import is_sharded, note_empty, open_shards, shards_of
from canary.corpus.shard_jobs import as_seen, check_here, on_machines, results_of, workers_of
from canary.errors import CorpusError, EmptyCorpusError, InputError, OutputError
from canary.records.addresses import Remote, as_names, beside, place_of
from canary.records.files import folder_made
from canary.records.progress import Progress, stage
from canary.records.shards import Run, open_run
from canary.workers.jobs import Plain, Task, Workers

_WRITE = ("written", "stripped")
"""The series whose tasks write files."""
_TOGETHER = "name files of one storage, and those of another in a run of their own"


@dataclass(frozen=True)
class ManyWritten:
    """The files of a corpus in order of their names, and where each goes.

    Parameters
    ----------
    names : tuple of str
        Relative to the folder that they are read from and to the one that they go to.
    sources, targets : tuple of Path
    stamps : tuple of (int, int)
        Size and time of change of each source when the run began.
    """

    names: tuple[str, ...]
    sources: tuple[Path, ...]
    targets: tuple[Path, ...]
    stamps: tuple[tuple[int, int], ...]
    run: Run
    workers: Workers
    progress: Progress = field(default=None, repr=False)

    def jobs(self) -> list[dict[str, Any]]:
        """What says to a task which file it reads and writes."""
        return [
            {"source": str(source), "target": str(target), "stamp": list(stamp)}
            for source, target, stamp in zip(self.sources, self.targets, self.stamps, strict=True)
        ]

    def each(
        self, series: str, task: Task, shared: Plain, jobs: Sequence[Plain]
    ) -> list[dict[str, Any]]:
        """What `task` gives for the job of each file, in order; what was done before is not again.

        Bytes in ``body`` are kept in the run's folder: ``kept`` is their number in the series.
        Raises what a task raises, and a ServerError if its processes die again and again.
        """
        kept = self.run.series(series)
        advance = stage(self.progress, series, sum(size for size, _ in self.stamps), "B")
        results: dict[int, dict[str, Any]] = {}
        for at in range(len(kept)):
            state = kept[at].state
            if self._is_there(state):
                results[state["file"]] = {**state, "kept": at}
        todo = [number for number in range(len(jobs)) if number not in results]
        advance(sum(self.stamps[number][0] for number in results))
        read = [[self.sources[number]] for number in todo]
        mine = [jobs[number] for number in todo]
        for at, result in results_of(self.workers, task, shared, mine, read):
            number = todo[at]
            state = {name: value for name, value in result.items() if name != "body"}
            if "bytes" in state and on_machines(self.workers):
                check_here(self.targets[number], state["bytes"])
            kept.append({"file": number, **state}, result.get("body", b""))
            results[number] = {"file": number, **state, "kept": len(kept) - 1}
            advance(self.stamps[number][0])
        return [results[number] for number in range(len(jobs))]

    def note_empty(self, numbers: Sequence[int]) -> None:
        """Name the files without a record; if all are, the run ends by an EmptyCorpusError."""
        try:
            note_empty([str(self.sources[n]) for n in numbers], self.sources, self.progress)
        except EmptyCorpusError:
            self.run.discard()
            raise

    def _is_there(self, state: Mapping[str, Any]) -> bool:
        """Whether what a finished job wrote, if it did, is still there."""
        target = self.targets[state["file"]]
        written = state.get("bytes")
        return written is None or (target.is_file() and target.stat().st_size == written)


@contextmanager
def many_written(
    source: Any,
    target: Path,
    *,
    file_format: str | None,
    identity: Mapping[str, Any],
    workers: int | Workers,
    progress: Progress = None,
) -> Iterator[ManyWritten]:
    """Write the files of a corpus anew into the folder `target`.

    What is finished is noted in ``TARGET.parts``, of an address in the folder at work, so that
    the same call goes on where an earlier one of the same `identity` was stopped; the folder is
    removed when the block ends well.

    Raises
    ------
    CorpusError, InputError
        As `shards_of`; or the files are of different formats, or there are no workers.
    OutputError
        If `target` has a file that is none of those to be written, or is among what is read.
    RecordError
        If the run that was stopped was another, or the corpus has changed since.
    """
    crew = workers_of(workers)
    target = as_seen(target, crew)
    shards = shards_of(source, file_format=file_format, progress=progress)
    files = [as_seen(_at_home(file), crew) for file in shards]
    root = Path() if isinstance(source, list | tuple) else as_seen(_at_home(source), crew)
    if isinstance(source, list | tuple) or not root.is_dir():
        if any(".." in file.parts for file in files) or len({f.is_absolute() for f in files}) > 1:
            files = [file.parent.resolve() / file.name for file in files]
        root = place_of(_common(files))
    if not isinstance(root, Remote) and (elsewhere := [f for f in files if isinstance(f, Remote)]):
        raise InputError(
            "is elsewhere than the other files", cure=_TOGETHER, where=str(elsewhere[0])
        )
    base = as_names(root)
    pairs = sorted((as_names(file).relative_to(base).as_posix(), file) for file in files)
    names, sources = tuple(name for name, _ in pairs), tuple(file for _, file in pairs)
    formats = sorted({file_format_of(file, file_format) for file in sources})
    if len(formats) > 1:
        raise InputError(
            f"its files are of different formats ({', '.join(formats)})",
            cure="name those of one format, by a pattern such as 'FOLDER/*.jsonl'",
            where=str(root),
        )
    given = source if isinstance(source, list | tuple) else [source]
    read = [root] if any(map(_names_more, given)) else []
    read += [place for place in map(place_of, given) if place.is_dir()]
    _check_apart(read, sources, target)
    stamps = []
    for file in sources:
        regular_size(file)
        stamps.append(_stamp(file))
    listed = repr(list(zip(names, stamps, strict=True))).encode()
    whole = {**identity, "files": len(names), "corpus": sha256(listed).hexdigest()}
    if isinstance(target, Remote):
        whole["output"] = target.resolve().address
    with ExitStack() as made, open_run(beside(target, ".parts"), whole) as run:
        made.enter_context(folder_made(target))
        written = [target / name for name in names]
        known = {_name_in(target, other) for one in written for other in files_of(one)}
        _check_free(target, known)
        if not isinstance(target, Remote):
            for folder in {one.parent for one in written}:
                made.enter_context(folder_made(folder))
        many = ManyWritten(names, sources, tuple(written), tuple(stamps), run, crew, progress)
        try:
            yield many
        except InputError:  # the right call is another one, and must not find this one begun
            if not any(len(run.series(name)) for name in _WRITE):
                run.discard()
            raise
        run.discard()


def open_unchanged(file: Path, given: Mapping[str, Any], stamp: Sequence[int]) -> FileCorpus | None:
    """A file as `open_corpus` opens it, None if it has no record.

    A CorpusError if size or time are not those of `stamp`.
    """
    ((opened,), _) = open_shards([file], given)
    assert opened is None or isinstance(opened, FileCorpus)
    if _stamp(file) != tuple(stamp):
        raise CorpusError(
            "changed since the run began",
            cure="start again with a new folder to write",
            where=str(file),
        )
    return opened


def _at_home(file: str | os.PathLike[str]) -> Path:
    """A path here as it is, an address as its storage writes it."""
    place = place_of(file)
    return place.resolve() if isinstance(place, Remote) else place


def _stamp(file: Path) -> tuple[int, int]:
    """Its size, and what else changes when it is changed."""
    status = file.stat()
    return status.st_size, status.st_ino if isinstance(file, Remote) else status.st_mtime_ns


def _name_in(folder: Path, file: Path) -> str:
    return as_names(file).relative_to(as_names(folder)).as_posix()


def _common(files: Sequence[Path]) -> Path:
    first, *others = (list(as_names(file).parent.parts) for file in files)
    shared = 0
    while shared < len(first) and all(o[shared : shared + 1] == [first[shared]] for o in others):
        shared += 1
    return Path(*first[:shared])


def _names_more(given: Any) -> bool:
    """Whether a path is a pattern or a list, which may name what is written later, too."""
    return is_sharded(given) and not place_of(given).is_dir()


def _check_apart(folders: Sequence[Path], sources: Sequence[Path], target: Path) -> None:
    """Refuse to write into a folder that is read, and to read what was written."""
    place = as_names(target.resolve())
    read = {as_names(folder.resolve()) for folder in folders}
    inside = (place in as_names(source.resolve()).parents for source in sources)
    if place in read or read & {*place.parents} or any(inside):
        raise OutputError(
            "is in the folder that is read, or the other way round",
            cure="name a folder beside it",
            where=str(target),
        )


def _check_free(target: Path, known: Collection[str]) -> None:
    for path in sorted(target.rglob("*")):
        name = _name_in(target, path)
        if path.is_file() and name not in known and not path.name.endswith(".underway.part"):
            raise OutputError(
                f"has a file that this run does not write ({name}), and would be a mixture",
                cure="name a new folder",
                where=str(target),
            )
