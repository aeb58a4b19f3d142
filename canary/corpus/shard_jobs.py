"""Who works on the shards of a corpus: this process, others of this machine, or a cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from canary.corpus.file_formats import files_of
from canary.errors import CorpusError, OutputError, ServerError
from canary.records.addresses import Remote
from canary.records.progress import Progress, note
from canary.records.validation import whole_number
from canary.workers.jobs import Lost, Plain, Task, Workers
from canary.workers.local import Here
from canary.workers.processes import Processes

_CURE = "give a path or an address that all machines of the cluster share, or use no cluster"


def workers_of(workers: int | Workers) -> Workers:
    """The workers that a number means; an InputError if it is none of 1 or more."""
    if isinstance(workers, int) or not hasattr(workers, "run"):
        count = whole_number(workers, "workers", at_least=1)
        return Here() if count == 1 else Processes(count=count)
    return workers


def on_machines(workers: Workers) -> bool:
    """Whether they may be on other machines."""
    return not isinstance(workers, Here | Processes)


def note_undivided(shards: Sequence[Any], workers: Workers, progress: Progress) -> bool:
    """Whether this process reads a corpus, with a note if workers were asked for in vain."""
    alone = len(shards) == 1
    if alone or not all(isinstance(shard, Path) for shard in shards):
        if not isinstance(workers, Here):
            what = "is one file" if alone and isinstance(shards[0], Path) else "is not in files"
            note(
                progress,
                f"note: the corpus {what}, so this process works on it, and no worker does. "
                "Workers take a file each: name several, their folder or a pattern",
            )
        return True
    return isinstance(workers, Here)


def as_seen(path: Path, workers: Workers) -> Path:
    """A path as workers find it, whatever folder they are in."""
    return path if isinstance(path, Remote) or not on_machines(workers) else path.absolute()


def results_of(
    workers: Workers,
    task: Task,
    shared: Plain,
    jobs: Sequence[Plain],
    read: Sequence[Sequence[Path]],
) -> Iterator[tuple[int, Plain]]:
    """The number of each job and its result, as they are finished.

    `read` are the files that each job reads. Workers of a cluster must find them as they are
    here.

    Raises what a task raises, a CorpusError or OutputError if a worker's machine does not have
    the same files, and a ServerError if a job ended its workers again and again.
    """
    if on_machines(workers):
        task, shared = _with_same_files, {"task": task, "shared": _found_anywhere(shared)}
        jobs = [
            {
                "job": job,
                "files": [(file, file.stat().st_size) for one in files for file in files_of(one)],
            }
            for job, files in zip(jobs, read, strict=True)
        ]
    for at, result in workers.run(task, shared, jobs):
        if isinstance(result, Lost):
            raise ServerError(
                result.reason,
                cure="look for what ends them, mostly too little memory, and use fewer workers; "
                "inject and strip go on with what is finished",
                where=str(read[at][0]),
            )
        yield at, result


def check_here(written: Path, size: int) -> None:
    """An OutputError unless a file of `size` bytes that a worker wrote is here, too."""
    with suppress(OSError):
        if written.stat().st_size == size:
            return
        [*written.parent.iterdir()]  # shared file systems look for new files then
        if written.stat().st_size == size:
            return
    raise OutputError(
        "was written by a worker, and this machine does not see it", cure=_CURE, where=str(written)
    )


def _with_same_files(shared: Plain, jobs: Sequence[Plain]) -> Sequence[Plain]:
    """Runs in a worker: the task, if its machine has the files that the command saw."""
    there = socket.gethostname()
    for file, size in (pair for job in jobs for pair in job["files"]):
        try:
            found = file.stat().st_size
        except OSError as error:
            reason = error.strerror or error
            raise CorpusError(
                f"cannot be read by a worker on {there} ({reason})", cure=_CURE, where=str(file)
            ) from error
        if found != size:
            raise CorpusError(
                f"is another file for a worker on {there} ({found:,} bytes in place of {size:,})",
                cure=_CURE,
                where=str(file),
            )
    try:
        answers: Sequence[Plain] = shared["task"](shared["shared"], [job["job"] for job in jobs])
    except OutputError as error:
        error.cure = f"{error.cure}; or, as a worker on {there} could not write it, {_CURE}"
        raise
    return answers


def _found_anywhere(shared: Plain) -> dict[str, Any]:
    """What all jobs share, with the path of a tokenizer that is found from any folder."""
    made = dict(shared)
    for name, value in shared.items():
        if isinstance(value, Mapping) and name == "given":
            made[name] = _found_anywhere(value)
        elif name == "tokenizer" and isinstance(value, str | os.PathLike):
            made[name] = str(Path(value).absolute()) if os.path.exists(value) else value  # noqa: PTH110
    return made
