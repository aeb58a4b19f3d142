"""A corpus in many files, written anew file by file into a folder; a run that stopped goes on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from canary.corpus.corpora import FileCorpus
from canary.corpus.file_formats import file_format_of, files_of
from canary.corpus.lines import compression_of, regular_size
from canary.corpus.many_files import (
    add_cure,
    is_sharded,
    named,
    note_empty,
    open_shards,
    shards_of,
)
from canary.corpus.shard_jobs import as_seen, check_here, on_machines, results_of, workers_of
from canary.errors import CorpusError, EmptyCorpusError, InputError, OutputError, RecordError
from canary.records.addresses import Remote, as_names, beside, place_of
from canary.records.files import folder_made
from canary.records.progress import Progress, note, remark, stage
from canary.records.shards import Difference, Run, discard_run, open_run
from canary.statistics.numbers import plural
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
    stamps : tuple of tuple of int
        Size and time of change of each source when this run began or went on.
    """

    names: tuple[str, ...]
    sources: tuple[Path, ...]
    targets: tuple[Path, ...]
    stamps: tuple[tuple[int, ...], ...]
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

        It was if the job was the same, and so is the file: its ``content`` in what the task gave,
        or what it wrote. Notes name files that changed, in content or in time alone.

        Bytes in ``body`` are kept in the run's folder: ``kept`` is their number in the series.
        Raises what a task raises, and a ServerError if its processes die again and again.
        """
        kept = self.run.series(series)
        advance = stage(self.progress, series, sum(stamp[0] for stamp in self.stamps), "B")
        last = {state["file"]: (at, state) for at in range(len(kept)) for state in [kept[at].state]}
        keys = [_key(job) for job in jobs]
        results: dict[int, dict[str, Any]] = {}
        changed: list[str] = []
        touched: list[str] = []
        for number, name in enumerate(self.names):
            at, state = last.get(name, (0, {}))
            if state.get("job") != keys[number] or not self._is_there(number, state):
                continue
            stamp = [*self.stamps[number]]
            if state.get("stamp", stamp) != stamp:
                same = state["content"] == content_of(self.sources[number], stamp)
                (touched if same else changed).append(str(self.sources[number]))
                if not same:
                    continue
            results[number] = {**state, "kept": at}
        self._note_changed(changed, touched)
        if results and series in _WRITE:
            whole = plural(len(jobs), "file")
            remark(self.progress, f"note: {len(results):,} of {whole} were finished already")
        todo = [number for number in range(len(jobs)) if number not in results]
        advance(sum(self.stamps[number][0] for number in results))
        read = [[self.sources[number]] for number in todo]
        mine = [jobs[number] for number in todo]
        for done, (at, result) in enumerate(results_of(self.workers, task, shared, mine, read)):
            if not done:
                self._keep_names()
            number = todo[at]
            state = {name: value for name, value in result.items() if name != "body"}
            if "bytes" in state and on_machines(self.workers):
                check_here(self.targets[number], state["bytes"])
            if "content" in state:
                state["stamp"] = [*self.stamps[number]]
            about = {"file": self.names[number], "job": keys[number]}
            kept.append({**about, **state}, result.get("body", b""))
            results[number] = {**state, "kept": len(kept) - 1}
            advance(self.stamps[number][0])
        return [results[number] for number in range(len(jobs))]

    def _keep_names(self) -> None:
        """Keep which files there are, for a run that goes on (`_check_same_files`)."""
        kept = self.run.series("files")
        if not len(kept) or kept[len(kept) - 1].state["names"] != [*self.names]:
            kept.append({"names": [*self.names]}, b"")

    def _note_changed(self, changed: Sequence[str], touched: Sequence[str]) -> None:
        if changed:
            note(
                self.progress,
                f"note: {named(changed)} changed since the run began, in content: what is "
                "finished of it begins anew, and so do files whose canaries go to other places now",
            )
        if touched:
            has = "has" if len(touched) == 1 else "have"
            note(
                self.progress,
                f"note: {named(touched)} {has} another time than when the run began, and the "
                "same content: the run goes on",
            )

    def note_empty(self, numbers: Sequence[int]) -> None:
        """Name the files without a record; if all are, the run ends by an EmptyCorpusError."""
        try:
            note_empty([str(self.sources[n]) for n in numbers], self.sources, self.progress)
        except EmptyCorpusError:
            self.run.discard()
            raise

    def _is_there(self, number: int, state: Mapping[str, Any]) -> bool:
        """Whether what a finished job wrote, if it did, is still there."""
        target = self.targets[number]
        written = state.get("bytes")
        return written is None or (target.is_file() and target.stat().st_size == written)


def _key(job: Plain) -> str:
    """What a job depends on beside its file."""
    named = sorted((name, job[name]) for name in job if name not in ("source", "target", "stamp"))
    return sha256(repr(named).encode()).hexdigest()


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
        If the run that was stopped had other options, and has written a file.
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
    _check_one_format(sources, root, file_format)
    given = source if isinstance(source, list | tuple) else [source]
    read = [root] if any(map(_names_more, given)) else []
    read += [place for place in map(place_of, given) if place.is_dir()]
    _check_apart(read, sources, target)
    stamps = []
    for file in sources:
        regular_size(file)
        stamps.append(_stamp(file))
    whole = {**identity}
    if isinstance(target, Remote):
        whole["out"] = target.resolve().address
    with ExitStack() as made:
        run = _begun(made, target, whole, progress)
        made.enter_context(folder_made(target))
        written = [target / name for name in names]
        known = {_name_in(target, other) for one in written for other in files_of(one)}
        _check_free(target, known)
        if not isinstance(target, Remote):
            for folder in {one.parent for one in written}:
                made.enter_context(folder_made(folder))
        _check_same_files(run, names, root, progress)
        many = ManyWritten(names, sources, tuple(written), tuple(stamps), run, crew, progress)
        try:
            yield many
        except CorpusError as error:
            add_cure(error, sources)
            raise
        except InputError:  # the right call is another one, and must not find this one begun
            if not _has_written(run.folder):
                run.discard()
            raise
        run.discard()


def _begun(made: ExitStack, target: Path, identity: Mapping[str, Any], progress: Progress) -> Run:
    """The run that writes into a folder; one of other options that wrote nothing begins anew."""
    parts = beside(target, ".parts")
    differ: list[str] = []

    def refusal(found: Sequence[Difference]) -> tuple[str, str]:
        differ.extend(
            str(one) if one.path[0] == "command" else f"--{str(one).replace('_', '-', 1)}"
            for one in found
        )
        return (
            f"an unfinished run in it has other options: {', '.join(differ)}",
            f"give those of then and it goes on; or remove {parts} and {target} to begin anew",
        )

    try:
        return made.enter_context(open_run(parts, identity, refusal=refusal))
    except RecordError:
        if not differ or _has_written(parts):
            raise
    note(
        progress,
        f"note: an unfinished run in {parts} has other options ({', '.join(differ)}) and wrote no "
        "file: this run begins anew",
    )
    discard_run(parts)
    return made.enter_context(open_run(parts, identity))


def _check_same_files(run: Run, names: Sequence[str], root: Path, progress: Progress) -> None:
    """Refuse to go on without a file that was there when the run began; name those that are new."""
    kept = run.series("files")
    before = kept[len(kept) - 1].state["names"] if len(kept) else [*names]
    if gone := sorted({*before} - {*names}):
        raise InputError(
            f"{named(gone)} {'is' if len(gone) == 1 else 'are'} gone since the run began",
            cure=f"put what is gone back, and the run goes on; or remove {run.folder} and what it "
            "has written, and begin anew without it",
            where=str(root),
        )
    if new := sorted({*names} - {*before}):
        are = "are" if len(new) > 1 else "is"
        note(progress, f"note: {named(new)} came since the run began, and {are} read too")


def _has_written(parts: Path) -> bool:
    return any(name for series in _WRITE for name in parts.glob(f"{series}.*.shard"))


def content_of(file: Path, stamp: Sequence[int]) -> str:
    """What tells the content of a file from another: size and checksum, or a version elsewhere.

    A CorpusError if size or time are not those of `stamp`.
    """
    total = 0
    for one in [] if isinstance(file, Remote) else files_of(file):
        with one.open("rb") as opened:
            while part := opened.read(1 << 20):
                total = crc32(part, total)
    _check_stamp(file, stamp)
    return "-".join(map(str, stamp if isinstance(file, Remote) else [*stamp[::2], total]))


def open_unchanged(file: Path, given: Mapping[str, Any], stamp: Sequence[int]) -> FileCorpus | None:
    """A file as `open_corpus` opens it, None if it has no record.

    A CorpusError if size or time are not those of `stamp`.
    """
    ((opened,), _) = open_shards([file], given)
    assert opened is None or isinstance(opened, FileCorpus)
    _check_stamp(file, stamp)
    return opened


def _check_stamp(file: Path, stamp: Sequence[int]) -> None:
    if (now := _stamp(file)) != tuple(stamp):
        what = "its size" if now[::2] != tuple(stamp[::2]) else "its time"
        raise CorpusError(
            f"changed while the run read it ({what})",
            cure="start the same command again when nothing else writes to it, and it goes on",
            where=str(file),
        )


def _check_one_format(sources: Sequence[Path], root: Path, file_format: str | None) -> None:
    named = [(file_format_of(file, file_format), file) for file in sources]
    formats = Counter(name for name, _ in named)
    if len(formats) < 2:
        return
    each = ", ".join(f"{number:,} {name}" for name, number in sorted(formats.items()))
    most = next(file for name, file in named if name == formats.most_common(1)[0][0])
    pattern = root / f"*{''.join(most.suffixes[-2 if compression_of(most) else -1 :])}"
    raise InputError(
        f"its files are of different formats ({each})",
        cure=f"inject into those of one format, by a pattern such as '{pattern}', and copy the "
        "others into the new folder if they belong to the corpus: all copies are then in those "
        "files, and canary verify reads the folder as a whole; strip takes the pattern, too",
        where=str(root),
    )


def _at_home(file: str | os.PathLike[str]) -> Path:
    """A path here as it is, an address as its storage writes it."""
    place = place_of(file)
    return place.resolve() if isinstance(place, Remote) else place


def _stamp(file: Path) -> tuple[int, ...]:
    """Its size, and what else changes when it is changed; and those of what goes with it."""
    if isinstance(file, Remote):
        status = file.stat()
        return status.st_size, status.st_ino
    there = [one.stat() for one in files_of(file) if one.exists()]
    # A copy that keeps the time (cp -p, rsync -t) has a new time of change of its entry.
    return tuple(n for one in there for n in (one.st_size, max(one.st_mtime_ns, one.st_ctime_ns)))


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
