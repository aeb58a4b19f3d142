"""Canaries into a corpus in many files: one draw over all of them, then each file by itself.

The result is that of one file with all records in order of the files' names. It depends on the
seed and the numbers of records alone: not on the order in which files are named or finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import column_names
from canary.corpus.file_formats import FILE_FORMATS, copy_file, file_format_of, new_file
from canary.corpus.many_files import note_strays
from canary.corpus.many_written import content_of, many_written, open_unchanged
from canary.corpus.placements import Placements
from canary.corpus.places import Between, Guests, Homes, by_place, check_separators, choose_homes
from canary.corpus.placing import Placing
from canary.corpus.token_columns import check_pad
from canary.corpus.token_documents import identity_of
from canary.records.addresses import place_of
from canary.workers.jobs import Plain


def inject_files(
    source: Any,
    target: Path,
    canaries: CanarySet,
    given: Mapping[str, Any],
    *,
    seed: int,
    separators: Sequence[str] | None,
    check: bool,
    **running: Any,
) -> Placements:
    """`canary.corpus.injection.inject_file` for a folder, a pattern or a list of files.

    `given` is what opens each file, `running` the number of workers and the progress.
    """
    mode, column = given["mode"], given["column"]
    whole, canaries = canaries, canaries.written
    identity = {
        "command": "inject",
        "canaries": canaries.fingerprint,
        "seed": seed,
        "separators": None if separators is None else list(separators),
        "check": check,
        **given,
        "tokenizer": identity_of(given["tokenizer"]),
    }
    owners = np.repeat(
        np.arange(len(canaries.injected)), [canary.repetitions for canary in canaries.injected]
    )
    with many_written(
        source, target, file_format=given["file_format"], identity=identity, **running
    ) as many:
        between = None
        if mode == "splice":
            kind = FILE_FORMATS[file_format_of(many.sources[0], given["file_format"])]
            between = check_separators(separators, kind.separators)
        shared = {"canaries": canaries, "given": given, "between": between, "check": check}
        files = many.jobs()
        seen = many.each("surveyed", survey, shared, files)
        many.note_empty([number for number, one in enumerate(seen) if not one["rows"]])
        full = [one for one in seen if one["rows"]]
        columns = {str(many.sources[n]): o["columns"] for n, o in enumerate(seen) if o["rows"]}
        note_strays(columns, running.get("progress"))
        if given["pad"] is not None:
            found = [one["specials"] for one in full]
            check_pad(given["pad"], found, str(many.sources[0].parent), running.get("progress"))
        spread = iter((_spliced if between else _between)(full, owners, seed))
        guests: list[Guests] = [next(spread) if one["rows"] else {} for one in seen]
        kept = many.run.series("surveyed")
        for file, one, mine in zip(files, seen, guests, strict=True):
            file["rows"], file["homes"], file["content"] = one["rows"], None, one["content"]
            if between is not None and one["homes"] < one["rows"]:
                file["homes"] = kept[one["kept"]].body
            file["guests"] = [(at, *guest) for at, guests_ in mine.items() for guest in guests_]
        many.each("written", write, shared, files)
        lines: dict[str, list[int]] = {canary.id: [] for canary in whole.injected}
        copies = before = 0
        records: list[int] = []
        for number, one in enumerate(seen):
            homes = _homes(files[number])
            for place, those in guests[number].items():
                for who, _ in those:
                    at = before + int(homes[int(place)]) + 1 + copies
                    lines[whole.owners[who]].append(at)
                    copies += between is None
            before += one["rows"]
            records.append(before + copies - sum(records))
        names = column_names(column)
        return Placements(
            lines={name: tuple(numbers) for name, numbers in lines.items()},
            column=names[0] if len(names) == 1 else names,
            seed=int(seed),
            total_lines=before + copies,
            mode=mode,
            separators=between,
            empty=() if between else tuple(full[0]["empty"]),
            fingerprint=canaries.fingerprint,
            files=dict(zip(many.names, records, strict=True)),
        )


def survey(shared: Plain, jobs: Sequence[Plain]) -> list[Plain]:
    """How many records each file has, and which can take a splice; every record is checked."""
    answers: list[Plain] = []
    for job in jobs:
        opened = open_unchanged(place_of(job["source"]), shared["given"], job["stamp"])
        if opened is None:
            content = content_of(place_of(job["source"]), job["stamp"])
            answers.append({"rows": 0, "homes": 0, "content": content})
            continue
        placing = Placing(opened, shared["canaries"], shared["between"])
        splices = shared["between"] is not None
        pool = (Homes if splices else Between)(opened, 0, [])
        if shared["check"]:
            placing.offer(pool)
        else:
            opened.count()
        answer = {"rows": opened.rows, "last": opened.last, "empty": list(opened.empty())}
        answer["columns"] = list(opened.columns)
        if opened.pad is not None:
            answer["specials"] = dict(opened.specials())
        if isinstance(pool, Homes):
            homes = pool.homes
            answer["homes"] = len(homes)
            if len(homes) < opened.rows:
                there = np.zeros(opened.rows, bool)
                there[homes] = True
                answer["body"] = np.packbits(there).tobytes()
        answer["content"] = content_of(place_of(job["source"]), job["stamp"])
        answers.append(answer)
    return answers


def write(shared: Plain, jobs: Sequence[Plain]) -> list[Plain]:
    """Each file with its canaries."""
    answers: list[Plain] = []
    for job in jobs:
        source, target = place_of(job["source"]), place_of(job["target"])
        if not job["rows"]:
            copy_file(source, target)
            answers.append({"bytes": target.stat().st_size})
            continue
        homes = _homes(job)
        guests: dict[Any, list[tuple[int, float]]] = {}
        for place, who, draw in job["guests"]:
            guests.setdefault(int(homes[place]), []).append((who, draw))
        with new_file(source, target, shared["given"]["file_format"]) as out:
            opened = open_unchanged(source, shared["given"], job["stamp"])
            assert opened is not None
            opened.rows = job["rows"]
            Placing(opened, shared["canaries"], shared["between"]).put_in(guests, out)
        answers.append({"bytes": target.stat().st_size})
    return answers


def _homes(file: Mapping[str, Any]) -> Any:
    """The positions of the records that can take a splice."""
    if file["homes"] is None:
        return range(file["rows"] + 1)
    there = np.frombuffer(file["homes"], np.uint8)
    return np.flatnonzero(np.unpackbits(there, count=file["rows"])).tolist()


def _between(seen: Sequence[Mapping[str, Any]], owners: Any, seed: int) -> list[Guests]:
    """Who goes before which record of each file."""
    rows = [one["rows"] for one in seen]
    # Before the last record of all where that has no end of line.
    whole: Any = SimpleNamespace(last=sum(rows) - rows[-1] + seen[-1]["last"])
    pool = Between(whole, seed, [])
    pool.owners = owners
    return _shared_out(rows, pool.guests())


def _spliced(seen: Sequence[Mapping[str, Any]], owners: Any, seed: int) -> list[Guests]:
    """Who goes into which of the records of each file that can take a splice."""
    homes = [one["homes"] for one in seen]
    chosen, mixed, draws = choose_homes(sum(homes), owners, seed)
    return _shared_out(homes, by_place(chosen.tolist(), mixed, draws))


def _shared_out(sizes: Sequence[int], guests: Guests) -> list[Guests]:
    """Guests by place in all files, as those of each file by place in it."""
    ends = np.array([*accumulate(sizes)])
    parts: list[dict[Any, list[tuple[int, float]]]] = [{} for _ in sizes]
    for place, mine in guests.items():
        file = min(int(np.searchsorted(ends, place, "right")), len(sizes) - 1)
        parts[file][int(place) - int(ends[file]) + sizes[file]] = mine
    return list(parts)
