"""Canaries in pipelines of records: one pass finds the places, then a function of each record.

A step depends on nothing but the content of a record. So it gives the same corpus in whatever
order, by however many workers and after however many restarts the records pass through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import Column, Shape, Slot, check_beside, column_names, is_chat, slots_of
from canary.corpus.corpora import Corpus, Edits, Position
from canary.corpus.dataset_rows import RowChange, digest_of
from canary.corpus.placements import check_drawn
from canary.corpus.places import Hosts, check_mode, check_separators
from canary.corpus.placing import Placing
from canary.errors import CorpusError
from canary.records.sealing import sealed
from canary.records.validation import whole_number


class Records(Corpus):
    """Records of a pipeline, as mappings or as objects with a `text`, which are read once."""

    key = b""

    def __init__(self, records: Iterable[Any], shape: Shape) -> None:
        self._records, self.shape = records, shape

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        names, number = self.shape.names, 0
        for number, record in enumerate(self._records, 1):
            row = record if isinstance(record, Mapping) else {"text": record.text}
            if not {*names} <= {*row}:
                raise CorpusError(
                    f"has no column {names!r}",
                    cure="name the one with the text with column",
                    where=self.place(number),
                )
            if number == 1:
                self.shape = Shape(names, is_chat(row[names[0]]), self.shape.beside)
            yield digest_of(row, names, self.key), number, slots_of(row, names)
        if not number:
            raise CorpusError("there is no record", cure="give the records of the corpus")

    def rewrite(self, edits: Edits, out: Any = None) -> RowChange:
        return RowChange(self.shape, self.key, edits)


class InjectionStep:
    """A step that puts canaries into the records of a pipeline; `injection_step` makes it.

    It is a step of a datatrove pipeline as it is. It can be pickled, and then holds the secrets.
    """

    # No dataclass: datatrove writes the fields of one into its log of the pipeline.
    def __init__(self, change: RowChange) -> None:
        self._change = change

    def __repr__(self) -> str:
        return "InjectionStep()"

    @sealed
    def record(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What a record becomes: itself, and canaries after it or within it.

        As ``flat_map`` of Ray Data takes it.
        """
        found = self._change({name: [value] for name, value in record.items()})
        return [
            dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)
        ]

    @sealed
    def batch(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """What columns of records become, as ``map(…, batched=True)`` of `datasets` takes it."""
        return self._change({name: list(values) for name, values in batch.items()})

    @sealed
    def __call__(self, data: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """The documents of a datatrove pipeline; a canary's own has an id and no metadata."""
        for document in data:
            whole, *own = self.record({"text": document.text})
            document.text = whole["text"]
            yield document
            for number, new in enumerate(own, 1):
                yield type(document)(
                    text=new["text"],
                    id=f"{document.id}/{number}",
                    metadata=dict.fromkeys(document.metadata),
                )


@sealed
def injection_step(
    records: Iterable[Any],
    canaries: CanarySet,
    *,
    column: Column = "text",
    seed: int = 0,
    mode: str = "record",
    separators: Sequence[str] | None = None,
    beside: Mapping[str, str] | None = None,
    hosts: Sequence[Any] | None = None,
) -> InjectionStep:
    """Find places for canaries in a corpus, for a pipeline that reads it again.

    Parameters
    ----------
    records : iterable of mapping, or of documents of datatrove
        The whole corpus, read once, in any order. Not read if `hosts` are given.
    canaries, column, seed, mode, separators, beside, hosts
        As for `canary.inject`, for a stream.

    Returns
    -------
    InjectionStep
        Each copy follows, or is within, a record whose content occurs once.

    Raises
    ------
    CorpusError
        If there is no record, one lacks the column or holds a canary, or none occurs once.
    InputError
        If an option does not serve.

    Examples
    --------
    >>> import canary
    >>> from canary.corpus.record_steps import injection_step
    >>> canaries = canary.generate("my pin is {digit:4}", repetitions=[2], per_repetition=3, seed=0)
    >>> rows = [{"text": "one"}, {"text": "two"}]
    >>> step = injection_step(rows, canaries)
    >>> sum(len(step.record(row)) for row in rows)
    8
    """
    check_mode(mode, separators)
    check_drawn(canaries)
    names = column_names(column)
    written = canaries.written
    corpus = Records(records, Shape(names, beside=check_beside(beside, names, mode)))
    between = check_separators(separators, corpus.separators) if mode == "splice" else None
    copies = [canary.repetitions for canary in written.injected]
    pool = Hosts(corpus, whole_number(seed, "injection_step: seed", at_least=0), copies)
    if hosts is None:
        Placing(corpus, written, between).offer(pool)
    guests = pool.guests() if hosts is None else pool.named(hosts)
    change: RowChange = Placing(corpus, written, between).put_in(guests)
    return InjectionStep(change)
