"""Which files a corpus is: one, several, those of a folder, or those that a pattern names."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from canary.corpus.corpora import Corpus, FileCorpus
from canary.corpus.file_formats import ending_of, files_of, open_corpus
from canary.corpus.lines import compression_of, unreadable
from canary.corpus.placements import ENDING, check_whole
from canary.corpus.shard_jobs import as_seen, note_undivided, results_of, workers_of
from canary.errors import CorpusError, EmptyCorpusError, InputError
from canary.records.addresses import Remote, address_of, as_names, place_of
from canary.records.progress import Progress, note, remark, stage
from canary.records.validation import brief
from canary.statistics.numbers import plural
from canary.workers.jobs import Plain, Task, Workers
from canary.workers.processes import Processes

_USUAL = 0.7
"""Share of the files that have the columns by which others are judged."""
_PARTS = 4
"""Of a corpus for each worker, so that they end at about the same time."""


def shards_of(
    *corpora: Any, file_format: str | None = None, progress: Progress = None
) -> list[Any]:
    """The corpora with the files of each folder, pattern and list in its place, in order of name.

    A list is several paths, or ``@FILE``, a text file with a path on each line.

    Of a folder those of a known format count, in folders within it as well, and all if
    `file_format` is said; names that begin with a dot or an underscore do not. What is no path,
    such as a dataset, stays as it is. Notes say which files are left out, beside those of a pattern
    or in a folder.

    Raises
    ------
    CorpusError
        If a folder or a pattern has no such file, or a folder is not whole (`check_whole`).
    InputError
        If there is no corpus, or a file is listed twice: its texts would count twice.
    """
    shards = _shards_of(corpora, file_format)
    if not shards:
        raise InputError("there is no corpus", cure="name at least one file", where="corpora")
    paths = [shard for shard in shards if isinstance(shard, Path)]
    known = set()
    for path in paths:
        place = path
        with suppress(OSError, RuntimeError, ValueError):  # who opens it says what is wrong
            place = path.resolve()
        if place in known:
            raise InputError("is listed twice", cure="name each file once", where=str(path))
        known.add(place)
    _note_left_out(corpora, paths, file_format, progress)
    _note_twins(paths, progress)
    return shards


def _shards_of(corpora: Sequence[Any], file_format: str | None) -> list[Any]:
    shards: list[Any] = []
    for corpus in corpora:
        if isinstance(corpus, list | tuple) and corpus and isinstance(corpus[0], os.PathLike):
            shards += _shards_of(corpus, file_format)
        elif is_list(corpus):
            for place in listed_in(corpus):
                shards += _files(place, file_format)
        elif isinstance(corpus, str | os.PathLike):
            shards += _files(place_of(corpus), file_format)
        else:
            # Not by pathlib, which takes no long text.
            texts = isinstance(corpus, list | tuple) and corpus and isinstance(corpus[0], str)
            if texts and (address_of(corpus[0]) or os.path.isfile(corpus[0])):  # noqa: PTH113
                cure = "give each file as a pathlib.Path, or name their folder"
                raise InputError("a list holds texts, and this one files", cure=cure)
            shards.append(corpus)
    return shards


def by_format(corpus: Any, shards: Sequence[Any], file_format: str | None = None) -> dict[str, int]:
    """How many files of each format are read; none of a single file that was named as one."""
    paths = [shard for shard in shards if isinstance(shard, Path)]
    given = corpus[0] if isinstance(corpus, list | tuple) and len(corpus) == 1 else corpus
    if len(paths) < len(shards) or (len(paths) == 1 and not is_sharded(given)):
        return {}
    return dict(Counter(sorted(file_format or str(ending_of(path)) for path in paths)))


def in_files(numbers: Mapping[str, int]) -> str:
    """What `by_format` found, as a sentence ends with it."""
    each = ", ".join(f"{number:,} {name}" for name, number in numbers.items())
    each = f" ({each})" if len(numbers) > 1 else ""
    return f" in {plural(sum(numbers.values()), 'file')}{each}" if numbers else ""


def _note_left_out(
    corpora: Sequence[Any], read: Sequence[Path], file_format: str | None, progress: Progress
) -> None:
    """Name in notes what is beside the files of a pattern or list, or in a folder, and not read."""
    given = [one for c in corpora for one in (c if isinstance(c, list | tuple) else [c])]
    places = [place_of(one) for one in given if isinstance(one, str | os.PathLike)]
    if not read or (len(given) == 1 and (not is_sharded(given[0]) or is_list(given[0]))):
        return  # one file, and a list that somebody wrote, are what they say
    whole = len(places) == len(given) and all(place.is_dir() for place in places)
    known = {as_names(file) for path in read for file in files_of(path)}
    formats = {file_format or ending_of(path) for path in read}
    stems, endings = {_stem(path) for path in read}, {path.suffix for path in read}
    alike, others = [], []
    for folder in sorted({path.parent for path in read}):
        for file in sorted(folder.iterdir()):
            if as_names(file) in known or file.name[0] in "._" or not file.is_file():
                continue
            if file.name.endswith(ENDING):
                continue
            within = {ending_of(Path(part)) for part in accumulate(file.name.split("."), _joined)}
            if formats & (within - {None}) or (file_format and file.suffix in endings):
                # Other numbers, or compressed in another way: no other corpus in this folder.
                if _stem(file) in stems or file.suffix not in endings | {".json"}:
                    alike.append(file)
            elif whole:
                others.append(file)
    if alike:
        note(
            progress,
            f"note: {_left(alike, 'of the same format beside those that are read')}, name their "
            "folder or a pattern",
        )
    if others:  # such as a README: no warning where nobody sees progress
        remark(
            progress,
            f"note: {_left(others, 'of no known format')}, say with file_format (--file-format) "
            "what they are",
        )


def _left(files: Sequence[Path], what: str) -> str:
    number, are = plural(len(files), "file"), "is" if len(files) == 1 else "are"
    return (
        f"{number} {what} {are} left out, such as {files[0]}; if the corpus has more files than "
        "those read"
    )


def _note_twins(read: Sequence[Path], progress: Progress) -> None:
    """Name a file that is there compressed and as it is: its texts probably count twice."""
    plain: dict[Any, list[Path]] = {}
    for path in read:
        name = as_names(path)
        plain.setdefault(name.with_suffix("") if compression_of(path) else name, []).append(path)
    twins = [files for files in plain.values() if len(files) > 1]
    if twins:
        which = " and ".join(str(file) for file in twins[0])
        more = f" (and {plural(len(twins) - 1, 'more pair')})" if twins[1:] else ""
        note(
            progress,
            f"note: {which}{more} are one file by their names, compressed in different ways: if "
            "they have the same texts, these count twice",
        )


def _stem(file: Path) -> str:
    """What the names of the files of one corpus share."""
    return re.sub(r"\d+", "0", file.name.partition(".")[0])


def _joined(name: str, more: str) -> str:
    return f"{name}.{more}"


def is_sharded(corpus: Any) -> bool:
    """Whether a corpus is named as a folder, a pattern or a list of files, and not as one file."""
    if isinstance(corpus, str | os.PathLike):
        place = place_of(corpus)
        if isinstance(place, Remote):
            try:
                return place.is_dir() or place.is_pattern()
            except OSError as error:
                raise unreadable(place, error) from error
        # Not by pathlib, which takes no NUL.
        return os.path.isdir(place) or _is_pattern(place) or is_list(corpus)  # noqa: PTH112
    return isinstance(corpus, list | tuple) and bool(corpus) and isinstance(corpus[0], os.PathLike)


def is_list(corpus: Any) -> bool:
    """Whether a corpus is named as a list of its files: ``@FILE``."""
    if not isinstance(corpus, str | os.PathLike):
        return False
    return os.fspath(corpus).startswith("@") and not os.path.lexists(corpus)


def listed_in(corpus: str | os.PathLike[str]) -> list[Path]:
    """What the lines of a list name, but for comments (#); paths are relative to the list."""
    if not is_list(corpus):
        return [place_of(corpus)]
    file = Path(os.fspath(corpus)[1:])
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        cure = "after @ name a text file with a path on each line"
        raise CorpusError(f"cannot be read ({reason})", cure=cure, where=str(file)) from error
    written = (line for line in map(str.strip, lines) if line and not line.startswith("#"))
    named = [place_of(line) for line in written]
    if not named:
        raise CorpusError("names no file", cure="write a path on each line", where=str(file))
    return [place if isinstance(place, Remote) else file.parent / place for place in named]


def _is_pattern(path: str | os.PathLike[str]) -> bool:
    return glob.has_magic(os.fspath(path)) and not os.path.exists(path)  # noqa: PTH110


def _files(path: Path, file_format: str | None) -> Iterator[Path]:
    found: Iterable[Path]
    base: Path
    check_whole(path)
    if isinstance(path, Remote):
        try:
            found, base, pattern = path.found()
        except OSError as error:
            raise unreadable(path, error) from error
        if found == [path]:
            yield path
            return
    else:
        pattern = _is_pattern(path)
        if not pattern and not path.is_dir():
            yield path  # who opens it says whether it is there
            return
        found = map(Path, glob.glob(str(path), recursive=True)) if pattern else _within(path)  # noqa: PTH207
        base = Path() if pattern else path
    base_names = as_names(base)
    files = sorted(
        (
            file
            for file in found
            if (
                pattern
                or not any(part[0] in "._" for part in as_names(file).relative_to(base_names).parts)
            )
            and (pattern or file_format is not None or ending_of(file) is not None)
            and not file.name.endswith(ENDING)
            and file.is_file()
        ),
        key=lambda file: file.as_posix(),
    )
    if not files:
        problem, cure = "is a folder without a corpus of a known format", "name another folder"
        if pattern:
            problem, cure = "no file has such a name", "check the pattern"
        raise CorpusError(problem, cure=cure, where=str(path))
    yield from files


def _within(folder: Path) -> Iterator[Path]:
    """All files below a folder, in linked folders too, but not in one that leads back above it."""

    def refuse(error: OSError) -> None:
        raise unreadable(Path(error.filename or folder), error) from error

    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        here = Path(root).resolve()
        folders[:] = [
            one
            for one in folders
            if not (Path(root) / one).is_symlink()
            or (Path(root) / one).resolve() not in {here, *here.parents}
        ]
        yield from (Path(root) / name for name in names)


def read_in_parts(
    task: Task,
    shared: Plain,
    shards: Sequence[Any],
    *,
    workers: int | Workers,
    progress: Progress,
    again: bool = False,
) -> list[Plain]:
    """What `task` gives for each part of a corpus, in their order.

    A part is of files that follow one another; on a cluster it is one file. What is not in files
    is one part, which this process reads. What `open_shards` says of them is in each answer, and
    notes name shards without a record, and those of other columns, unless they are read `again`.

    An EmptyCorpusError if no shard has a record, a ServerError if a part is lost.
    """
    try:
        answers = _read_in_parts(task, shared, shards, workers_of(workers), progress)
    except CorpusError as error:
        add_cure(error, shards)
        raise
    if not again:
        note_empty([name for one in answers for name in one["empty"]], shards, progress)
        note_strays({name: c for one in answers for name, c in one["columns"].items()}, progress)
    return answers


def _read_in_parts(
    task: Task, shared: Plain, shards: Sequence[Any], crew: Workers, progress: Progress
) -> list[Plain]:
    if note_undivided(shards, crew, progress):
        shared = {**shared, "progress": progress}  # of each file
        return [*task(shared, [{"shards": shards}])]
    number = len(shards)
    if isinstance(crew, Processes):
        number = min(number, _PARTS * crew.count)
    ends = [len(shards) * part // number for part in range(number + 1)]
    parts = [[as_seen(s, crew) for s in shards[begin:end]] for begin, end in pairwise(ends)]
    advance = stage(progress, "corpus", len(shards), "files")
    results: dict[int, Plain] = {}
    jobs = [{"shards": part} for part in parts]
    for at, result in results_of(crew, task, shared, jobs, parts):
        results[at] = result
        advance(len(parts[at]))
    return [results[at] for at in range(number)]


def open_shards(
    shards: Iterable[Any], given: Mapping[str, Any], progress: Progress = None
) -> tuple[list[Corpus | None], dict[str, Any]]:
    """Each shard as `open_corpus` opens it, None if it has no record; and what is said of them.

    That is the names of those without one (``empty``), and the ``columns`` of the others.
    """
    opened: list[Corpus | None] = []
    empty: list[str] = []
    columns: dict[str, tuple[str, ...]] = {}
    for shard in shards:
        try:
            corpus = open_corpus(shard, progress=progress, **given)
            opened.append(corpus)
            if isinstance(corpus, FileCorpus):
                columns[corpus.source] = corpus.columns
        except EmptyCorpusError as error:
            opened.append(None)
            empty.append(error.where)
    return opened, {"empty": empty, "columns": columns}


def add_cure(error: CorpusError, shards: Sequence[Any]) -> None:
    """Add to the cure of an error in the first record of a file: is it of this corpus at all?"""
    many = {str(shard) for shard in shards if isinstance(shard, Path)}
    if len(many) > 1 and error.where.removesuffix(":1") in many:
        error.cure += "; or, if this file does not belong to the corpus, leave it out by a "
        error.cure += "pattern or a list (@FILE)"


def note_strays(columns: Mapping[str, Sequence[str]], progress: Progress) -> None:
    """Name files whose columns are others than most files have: they may be none of the corpus.

    One that shares a second column with most is not named: records may lack some.
    """
    kinds = Counter(frozenset(names) for names in columns.values())
    usual, number = (kinds.most_common(1) or [(frozenset[str](), 0)])[0]
    if number < _USUAL * len(columns):
        return
    others = [name for name, names in columns.items() if _is_other({*names}, usual)]
    if others:
        one = len(others) == 1
        note(
            progress,
            f"note: {named(others)} {'has' if one else 'have'} other columns "
            f"({', '.join(map(brief, columns[others[0]]))}) than the {number:,} files with "
            f"{', '.join(map(brief, sorted(usual)))}; if {'it does' if one else 'they do'} not "
            f"belong to the corpus, leave {'it' if one else 'them'} out by a pattern or a list "
            "(@FILE)",
        )


def _is_other(names: Set[str], usual: Set[str]) -> bool:
    return names != usual and (len(names & usual) < 2 or len(usual) == 1)


def named(files: Sequence[object]) -> str:
    """The first three files of some, as messages name them."""
    return ", ".join(map(str, files[:3])) + ", …" * (len(files) > 3)


def note_empty(empty: Sequence[str], shards: Sequence[Any], progress: Progress) -> None:
    """Name the shards without a record in a note; an EmptyCorpusError if none has one."""
    if len(empty) == len(shards):
        raise EmptyCorpusError.of(named(empty))
    if empty:
        hold = "holds" if len(empty) == 1 else "hold"
        note(
            progress,
            f"note: {len(empty):,} of {len(shards):,} files {hold} no record: {named(empty)}",
        )
