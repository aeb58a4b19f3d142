"""Canaries into a corpus: exact numbers of copies at seeded, uniformly random places."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column
from canary.corpus.corpora import Corpus, FileCorpus
from canary.corpus.dataset_rows import StreamRows
from canary.corpus.file_formats import SPLIT, new_file, open_corpus, replace_split
from canary.corpus.lines import regular_size
from canary.corpus.many_files import is_sharded
from canary.corpus.many_injected import inject_files
from canary.corpus.placements import Placements, check_drawn
from canary.corpus.places import (
    Between,
    Guests,
    Homes,
    Hosts,
    check_mode,
    check_separators,
)
from canary.corpus.placing import Placing
from canary.corpus.shard_jobs import note_undivided, workers_of
from canary.corpus.token_columns import check_pad
from canary.errors import InputError
from canary.records.addresses import Remote, place_of
from canary.records.progress import Progress, shows_progress
from canary.records.sealing import sealed
from canary.records.validation import whole_number
from canary.workers.jobs import Workers

D = TypeVar("D")
"""Whatever is injected into; it comes back as what it was."""


@sealed
def inject(
    corpus: D,
    canaries: CanarySet,
    *,
    out: D | None = None,
    column: Column = "text",
    seed: int = 0,
    split: str = SPLIT,
    file_format: str | None = None,
    mode: str = "record",
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    tokenizer: Any = None,
    pad: str | None = None,
    hosts: Sequence[Any] | None = None,
) -> D:
    r"""Put canaries into a corpus, as records of their own or within its texts.

    Parameters
    ----------
    corpus : path-like, list of str, Dataset, DatasetDict, IterableDataset or IterableDatasetDict
        Not modified.
    canaries : CanarySet
        Each canary is copied as often as it says; controls are left out.
    column : str or pair of str
        The column that receives the canaries: texts, or chats (lists of messages with
        role and content); or the two columns of a parallel pair, which both do.
    seed : int
        Decides the places; in a file and a `Dataset` every arrangement is equally likely.
    split : str
        Which split of a dictionary of splits; the others stay as they are.
    mode : {"record", "splice"}
        Records of their own, empty in all other columns; or spliced into records, at the
        boundary of a sentence: into an answer of a chat, into both texts of a pair.
    separators : (str, str), optional
        What is before and after a spliced canary: ``("\n", " ")``, and spaces in CSV and
        text, unless given.
    beside : mapping of str to str, optional
        Other columns of records of their own, and the text there: what a
        sequence-to-sequence model reads, say, when it is to give the canary.
    hosts : sequence, optional
        For a stream: rows, by what they hold in `column`, after or in which the canaries
        go. Each must occur exactly once, which is taken on trust; `verify` checks it. Without
        them the stream is read once to find such rows, and must give the same rows again.
    out, file_format, tokenizer, pad
        For a file, as for `inject_file`.

    Returns
    -------
    the type of `corpus`
        The rows in their order with the copies among them, or `out`.

    Raises
    ------
    CorpusError
        If the corpus is empty, has no such column or split, or holds a canary already.
    InputError
        If an option does not serve.
    UnsupportedError
        If `corpus` is something else.

    Notes
    -----
    A stream can be shuffled, split by node and read by several workers afterwards, not
    before: each copy is beside a row whose content occurs once, and is read as often.

    Examples
    --------
    >>> from canary import generate
    >>> canaries = generate("my pin is {digit:4}", repetitions=[2], per_repetition=3, seed=0)
    >>> len(inject(["one", "two"], canaries))
    8
    """
    check_mode(mode, separators)
    check_drawn(canaries)
    if isinstance(corpus, str | os.PathLike) or is_sharded(corpus):
        if hosts is not None or not isinstance(out, str | os.PathLike):
            raise InputError(
                "a file is injected into another one, and has no hosts",
                cure="name the file to write with out, and leave hosts out",
                where="out",
            )
        inject_file(
            corpus,
            out,
            canaries,
            column=column,
            seed=seed,
            file_format=file_format,
            mode=mode,
            separators=separators,
            beside=beside,
            tokenizer=tokenizer,
            pad=pad,
        )
        return out
    opened = open_corpus(corpus, column, split=split, beside=beside, mode=mode)
    between = check_separators(separators, opened.separators) if mode == "splice" else None
    mixed, _ = _put_in(opened, canaries.written, between, seed=seed, hosts=hosts)
    result: D = replace_split(corpus, split, mixed)
    return result


@sealed
@shows_progress
def inject_file(
    source: Any,
    target: str | os.PathLike[str],
    canaries: CanarySet,
    *,
    column: Column = "text",
    seed: int = 0,
    file_format: str | None = None,
    mode: str = "record",
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    tokenizer: Any = None,
    pad: str | None = None,
    check: bool = True,
    workers: int | Workers = 1,
    progress: Progress = None,
) -> Placements:
    """Put canaries into a file, as records of their own or within its texts.

    What is not touched comes through as it was: byte for byte after decompression, or as
    equal rows under an equal schema for tables. A last line without an end stays last.

    Parameters
    ----------
    source : path-like or list of Path
        Of any format in `FILE_FORMATS`; compressed, unless it is a table. A folder, a pattern
        such as ``"train/*.jsonl"`` or a list of files is one corpus, in order of their names.
    target : path-like
        The file to write, in the same format, compressed as its own name says; it
        appears when all is done, or not at all. Who may read `source` may read it. For many
        files the folder for files of the same names; each appears when it is done. At an address
        of fsspec, files are made here first and then copied there.
    canaries, column, mode, separators, beside, seed
        As for `inject`. A text file has one column, ``"text"``. In CSV, canaries that need
        quotes go into fields that have them already.
    file_format : str, optional
        A name in `FILE_FORMATS`; by the ending of the file's name unless given.
    tokenizer : tokenizer or path, optional
        Of a corpus of token ids: the one that made it, a fast one.
    pad : str, optional
        Of a corpus whose rows are blocks of token ids of one length: the special token that fills
        up the block of a canary, such as the one at the end of each text.
    check : bool
        Whether every record is checked, and searched for canaries that are there
        already. Without it the records pass through unread, much faster; splicing needs
        it.
    workers : int or Workers
        Processes that work at a time, each on one of many files; or a cluster, such as
        `canary.workers.cluster.RayWorkers`, whose machines must all have the files at the same
        paths. They change no result.
    progress : callable or bool, optional
        Called with bytes, over both passes; see `canary.records.progress.Progress`.

    Returns
    -------
    Placements
        Where each copy went.

    Raises
    ------
    CorpusError
        If a record is damaged or has no text in `column`, if a canary is there already,
        if there is no record at all, or if the file changes meanwhile; it names file and
        line.
    InputError
        If an option does not serve.
    OutputError
        If `target` is `source`, promises another format, or cannot be written.

    Notes
    -----
    Many files: a call that was stopped goes on after the last finished file when it is made
    again; until then ``TARGET.parts`` notes what is finished. Processes import the running
    script, which needs ``if __name__ == "__main__":``.

    Two passes. Memory holds one record of the corpus (32 MiB of rows of a table), some
    hundred bytes for each copy, and eight for each record where canaries are spliced.
    """
    check_mode(mode, separators)
    check_drawn(canaries)
    if mode == "splice" and not check:
        raise InputError("splicing reads every record", cure="leave check on")
    if is_sharded(source):
        return inject_files(
            source,
            place_of(target),
            canaries,
            {
                "column": column,
                "file_format": file_format,
                "mode": mode,
                "beside": dict(beside or {}),
                "tokenizer": tokenizer,
                "pad": pad,
            },
            seed=whole_number(seed, "inject: seed", at_least=0),
            separators=separators,
            check=check,
            workers=workers,
            progress=progress,
        )
    source, target = place_of(source), place_of(target)
    regular_size(source)
    note_undivided([source], workers_of(workers), progress)
    if isinstance(target, Remote):  # before hours of work
        target.check_writable()
    with new_file(source, target, file_format) as out:
        opened = open_corpus(
            source,
            column,
            file_format=file_format,
            beside=beside,
            tokenizer=tokenizer,
            pad=pad,
            mode=mode,
            progress=progress,
            passes=2,
        )
        between = check_separators(separators, opened.separators) if mode == "splice" else None
        if isinstance(opened, FileCorpus) and pad is not None:
            check_pad(pad, [opened.specials()], opened.source, progress)
        _, guests = _put_in(opened, canaries.written, between, seed=seed, check=check, out=out)
    lines: dict[str, list[int]] = {canary.id: [] for canary in canaries.injected}
    copies = 0
    for position, mine in guests.items():
        for who, _ in mine:
            lines[canaries.owners[who]].append(int(position) + 1 + copies)
            copies += between is None
    names = opened.shape.names
    return Placements(
        lines={name: tuple(numbers) for name, numbers in lines.items()},
        column=names[0] if len(names) == 1 else names,
        seed=int(seed),
        total_lines=opened.rows + copies,
        mode=mode,
        separators=between,
        empty=() if between else opened.empty(),
        fingerprint=canaries.fingerprint,
    )


def _put_in(
    corpus: Corpus,
    canaries: CanarySet,
    separators: tuple[str, str] | None,
    *,
    seed: int,
    check: bool = True,
    hosts: Sequence[Any] | None = None,
    out: Any = None,
) -> tuple[Any, Guests]:
    """The corpus with canaries, which are spliced if there are separators; and who went where."""
    copies = [canary.repetitions for canary in canaries.injected]
    placing = Placing(corpus, canaries, separators)
    seed = whole_number(seed, "inject: seed", at_least=0)
    if isinstance(corpus, StreamRows):
        pool: Between = Hosts(corpus, seed, copies)
    else:
        pool = (Between if separators is None else Homes)(corpus, seed, copies)
    if hosts is not None:
        guests = pool.named(hosts)
    else:
        if check:
            placing.offer(pool)
        else:
            corpus.count()
        guests = pool.guests()
    return placing.put_in(guests, out), guests
