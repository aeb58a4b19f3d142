"""Are the canaries in a corpus, each as often as it should be?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from canary.corpus.canaries import Canary, CanarySet
from canary.corpus.causes import Found, Placed, likely_cause
from canary.corpus.columns import Column, column_names, copies_in
from canary.corpus.file_formats import SPLIT
from canary.corpus.many_files import by_format, in_files, open_shards, read_in_parts, shards_of
from canary.corpus.placements import note_on_share
from canary.corpus.surroundings import MOST_OTHERS, Changed, Others, Surroundings
from canary.errors import InputError
from canary.records.progress import Progress, shows_progress
from canary.records.record import Document, Record
from canary.records.sealing import sealed
from canary.records.validation import AUTO
from canary.statistics.numbers import Shown, clean, plural
from canary.tokens.chat_context import context_before
from canary.tokens.chats import role_asked
from canary.tokens.fast import as_tokenizer
from canary.workers.jobs import Workers

KIND = "canary verify"
SCHEMA = 1

_SHOWN = 20
"""Departures that a summary lists."""


@dataclass(frozen=True)
class Count(Record, sparse=True):
    """How often one canary occurs.

    Parameters
    ----------
    expected : int
        Copies that were to be injected; 0 for a control.
    found : int
        Occurrences of the candidate's text on its own: 1234 is not in 12345.
    longer : int
        Occurrences within longer runs of letters or digits, which are no copies.
    intact : int or None
        Those that have the canary's own tokens; None if no tokenizer was given.
    """

    id: str
    expected: int
    found: int
    longer: int
    intact: int | None = None

    @classmethod
    def _upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {"longer": 0, **data}

    @property
    def ok(self) -> bool:
        """Whether it was found as often as expected, and every copy with its own tokens."""
        return self.found == self.expected and self.intact in (None, self.found)


@dataclass(frozen=True, repr=False)
class Verification(
    Shown,
    Document,
    kind=KIND,
    schema=SCHEMA,
    written=("ok", ...),
    sparse=("files",),
    cure="run canary verify --json again",
):
    """Occurrences of every canary of a set in a corpus.

    Parameters
    ----------
    canaries : tuple of Count
        In the order of the canary set.
    column, records : str, int
        What was searched.
    causes : tuple of str
        What has probably happened to the corpus, where there are departures that point to it.
    fingerprint : str
        Which set it was (`CanarySet.fingerprint`).
    before : str
        What comes before the copies, in a sentence without a person's text.
    follows : str
        What nearly all copies have before them at the beginning of their text; an audit must
        have it as its context.
    messages : bool
        Whether nearly all copies begin a chat message; an audit must have as its context what the
        chat template puts before it.
    others : int
        Different texts of the same formats that are not of this set; counted up to 1,000.
    files : mapping of str to int
        Of a corpus in many files: how many of each format were read.
    """

    canaries: tuple[Count, ...]
    column: str
    records: int
    formats: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    fingerprint: str = ""
    before: str = ""
    follows: str = ""
    messages: bool = False
    others: int = 0
    files: Mapping[str, int] = field(default_factory=dict, compare=False)
    file: str = field(default="", compare=False)

    def _table(self) -> list[dict[str, Any]]:
        return [vars(count) for count in self.canaries]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield "verification/canaries", len(self.canaries)
        yield "verification/departures", len(self.departures)

    @property
    def ok(self) -> bool:
        """Whether every canary was found as expected, whole, and no control at all."""
        return not self.departures

    def __bool__(self) -> bool:
        return self.ok

    @property
    def departures(self) -> tuple[Count, ...]:
        """The canaries that were not found as often as expected, or not with their tokens."""
        return tuple(count for count in self.canaries if not count.ok)

    @property
    def begins_texts(self) -> bool:
        """Whether all copies begin their text, so that only a start token may come before them."""
        begun = re.match(r"all \S+ copies begin their text|\S+ copy begins its text", self.before)
        return begun is not None and not self.follows and not self.messages

    def summary(self) -> str:
        """A few lines for a terminal, with ids and no secrets."""
        if self.ok:
            where = plural(self.records, "record") + in_files(self.files)
            return "\n".join([f"{where}: {self._found()}", *self._notes()])
        departures = self.departures
        what = "not found as often as expected"
        if all(count.found == count.expected for count in departures):
            what = "found with other tokens than their own"
        lines = [
            f"{len(self.canaries):,} canaries and controls in {self.records:,} records"
            f"{in_files(self.files)}: "
            f"{len(departures):,} {what}"
        ]
        shown = departures[:_SHOWN]
        width = max(len(clean(count.id)) for count in shown)
        lines += [
            f"  {clean(count.id):<{width}}  expected {count.expected:,}, found {count.found:,}"
            + ("" if count.intact is None else f", {count.intact:,} with its own tokens")
            + (f", {count.longer:,} within longer runs of characters" if count.longer else "")
            for count in shown
        ]
        if len(departures) > _SHOWN:
            lines.append(f"  and {len(departures) - _SHOWN:,} more")
        lost = any(count.found != count.expected for count in departures)
        named = self.causes or ("unknown",) * lost
        causes = (f"likely cause: {clean(cause)}" for cause in named)
        return "\n".join([*lines, *self._notes(), *causes])

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why exposures of these canaries may differ from those in a usual corpus, if so."""
        share = note_on_share(sum(count.found for count in self.canaries), self.records)
        if not self.others or self.causes:
            return (share,) if share else ()
        least = "at least " if self.others == MOST_OTHERS else ""
        are = "is" if self.others == 1 else "are"
        others = (
            f"{least}{plural(self.others, 'other text')} of these formats {are} in the corpus, "
            "perhaps of another canary set: a model that memorized such texts ranks them before "
            "these canaries, whose exposure comes out too low"
        )
        return (others, share) if share else (others,)

    def _found(self) -> str:
        """What was found where everything is as it should be."""
        injected = [count for count in self.canaries if count.expected]
        absent = len(self.canaries) - len(injected)
        parts = []
        if injected:
            copies = plural(sum(count.found for count in injected), "copy", "copies")
            whole = ", each with its own tokens" if injected[0].intact is not None else ""
            canaries = plural(len(injected), "canary", "canaries")
            parts.append(f"{canaries} ({copies}) found{whole}")
        if absent:
            parts.append(f"{plural(absent, 'control')} absent")
        return "; ".join(parts)

    def _notes(self) -> Iterator[str]:
        """What else the reader must know, a line each."""
        if self.before:
            yield clean(self.before)
        if longer := sum(count.longer for count in self.canaries):
            yield (
                f"{plural(longer, 'occurrence')} within longer runs of characters (1234 in 12345) "
                f"{'is' if longer == 1 else 'are'} not counted"
            )
        yield from (f"note: {doubt}" for doubt in self.doubts)


@sealed
@shows_progress
def verify(
    corpus: Any,
    canaries: CanarySet,
    *,
    column: Column = "text",
    split: str = SPLIT,
    file_format: str | None = None,
    tokenizer: Any = None,
    context: str | None = "",
    chat_template: str | None = AUTO,
    workers: int | Workers = 1,
    progress: Progress = None,
) -> Verification:
    """Count how often each canary's text occurs in a column of a corpus.

    Parameters
    ----------
    corpus : path-like, list of Path, or what `inject` takes
        A file; all files of a folder or of a pattern such as ``"train/*.jsonl"``; or those of a
        list, also of a text file ``@FILE`` with a path on each line. They are counted as one
        corpus. Addresses of fsspec name files and folders elsewhere.
    canaries : CanarySet
        What to look for.
    column : str or pair of str
        The column to search; occurrences within longer texts count. In a parallel pair a
        copy counts that is in both columns.
    split, file_format : str
        As for `inject`.
    tokenizer : tokenizer or path, optional
        That of the training. With it each copy is tokenized in the text around it, and
        compared with the tokens under which the canary will be scored. A corpus of token ids
        (``.bin``) needs it, and its own tokens are compared.
    context : str, optional
        What the audit will be given as context. For spliced canaries the separator
        before them.
    chat_template : str, optional
        As for `canary.audit`. With the template of `tokenizer` each chat is rendered, and its
        copies must come right after the context of the audit.
    workers : int or Workers
        Processes that count at a time, or a cluster, as for `inject_file`; they change no result.
    progress : callable or bool, optional
        Called with the bytes of a file; see `canary.records.progress.Progress`.

    Raises
    ------
    CorpusError
        If the corpus cannot be read, is empty or has no such text column.
    ModelError
        If a text with a canary in it cannot be tokenized.

    Examples
    --------
    >>> from datasets import Dataset
    >>> from canary import generate, inject
    >>> canaries = generate("my pin is {digit:4}", repetitions=[2], per_repetition=3, seed=0)
    >>> print(verify(inject(Dataset.from_dict({"text": ["one", "two"]}), canaries), canaries))
    8 records: 3 canaries (6 copies) found; 16 controls absent
    all 6 copies begin their text
    """
    if canaries.natural:
        raise InputError(
            "these secrets were found, not injected: no number of copies is expected",
            cure="count them with discover",
            where="canaries",
        )
    context, role = context or "", role_asked(chat_template, canaries.role)
    if chats := bool(role) and tokenizer is not None and not context:
        context = context_before(as_tokenizer(tokenizer), canaries.formats, role)
    shards = shards_of(corpus, file_format=file_format, progress=progress)
    given: dict[str, Any] = {"column": column, "split": split, "file_format": file_format}
    given["tokenizer"] = tokenizer
    whole, canaries = canaries, canaries.written
    shared = {"canaries": canaries, "tokenizer": tokenizer, "context": context, "given": given}
    shared["chats"] = chats
    counted = read_in_parts(count_copies, shared, shards, workers=workers, progress=progress)
    around, others = Surroundings(canaries), set[str]()
    counts: Counter[tuple[str, str]] = Counter()
    for one in counted:
        counts.update(one["counts"])
        around.add(one["around"])
        others |= one["others"]
    records = sum(one["records"] for one in counted)
    seen = min(len(others), MOST_OTHERS)
    found, intact = ({c.id: counts[c.id, kind] for c in canaries} for kind in ("found", "intact"))
    changed: dict[str, set[str]] = {}
    if lost := {c.id for c in canaries.injected if found[c.id] < c.repetitions}:
        shared = {"canaries": canaries, "lost": lost, "given": given}
        if len(counted) == 1:  # this process did, which was said
            workers = 1
        how_read: dict[str, Any] = {"workers": workers, "progress": progress, "again": True}
        for one in read_in_parts(find_changed, shared, shards, **how_read):
            for how, names in one["changed"].items():
                changed.setdefault(how, set()).update(names)
    files = {name: placed for one in counted for name, placed in one["placed"].items()}
    cause = likely_cause(canaries, Found(found, seen, changed, records, files, shards))
    return Verification(
        canaries=tuple(
            Count(
                canary.id,
                canary.repetitions,
                _in_all(found, whole, canary),
                _in_all(around.longer, whole, canary),
                None if tokenizer is None else _in_all(intact, whole, canary),
            )
            for canary in whole
        ),
        column=", ".join(column_names(column)),
        records=records,
        files=by_format(corpus, shards, file_format),
        formats=tuple(format.text for format in whole.formats),
        causes=(cause,) if cause else (),
        fingerprint=canaries.fingerprint or "",
        before=around.preceded(context),
        follows=around.beginning(),
        messages=around.in_messages(),
        others=seen,
    )


def _in_all(counts: Mapping[str, int], canaries: CanarySet, canary: Canary) -> int:
    """The copies of a canary of which each has words of its own, or of one that has not."""
    each = [counts[name] for name in canaries.names(canary)]
    # A copy that is there twice stands for none that is missing.
    return sum(each) if all(each) else sum(map(bool, each))


def count_copies(shared: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The copies in some shards of a corpus, and what is around them."""
    answers = []
    for job in jobs:
        opened, about = open_shards(job["shards"], shared["given"], shared.get("progress"))
        around = Surroundings(
            shared["canaries"], shared["tokenizer"], shared["context"], chats=shared["chats"]
        )
        others = Others(shared["canaries"])
        counts: Counter[tuple[str, str]] = Counter()
        records = 0
        names = column_names(shared["given"]["column"])
        placed: dict[str, Placed] = {}
        for shard in filter(None, opened):
            before, copies, digest = records, 0, sha256()
            for _, _, slots in shard.iterate():
                records += 1
                others.look(slots)
                if around.may_be_in(slots):
                    hits = copies_in(slots, names, around.count)
                    counts.update(hits)
                    mine = [(name, n) for (name, kind), n in hits.items() if kind == "found" and n]
                    copies += sum(n for _, n in mine)
                    digest.update(repr((records - before, sorted(mine))).encode() * bool(mine))
            placed[shard.source] = (records - before, copies, digest.hexdigest())
        answer = {"records": records, **about, "counts": counts, "others": others.texts}
        answers.append({**answer, "around": around.counted(), "placed": placed})
    return answers


def find_changed(shared: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The lost canaries that are in some shards in another form."""
    answers = []
    for job in jobs:
        opened, about = open_shards(job["shards"], shared["given"], shared.get("progress"))
        changed = Changed(shared["canaries"], shared["lost"])
        for shard in filter(None, opened):
            for _, _, slots in shard.iterate():
                changed.look(slots)
        answers.append({**about, "changed": changed.found})
    return answers
