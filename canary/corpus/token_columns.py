"""Columns of token ids in tables: as texts, and as the rows that such a corpus has for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from canary.corpus.columns import Edit, Slot
from canary.corpus.corpora import Specials
from canary.corpus.token_documents import ALIKE, TokenTexts
from canary.errors import CorpusError, InputError
from canary.records.progress import Progress, note


def is_token_column(schema: Any, names: Sequence[str]) -> bool:
    """Whether the text of an Arrow schema is one column of lists of integers."""
    return len(names) == 1 and names[0] in schema.names and _holds_ids(schema.field(names[0]).type)


def _holds_ids(kind: Any) -> bool:
    from pyarrow import types

    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(is_one(kind) for is_one in lists) and types.is_integer(kind.value_type)


class TokenColumn:
    """The token ids of a table, one document a row or blocks of one length.

    Columns that follow from the ids, such as ``attention_mask`` and ``labels``, follow from those
    of canaries as well.

    Parameters
    ----------
    sample : pyarrow.Table
        Some rows, by which the corpus is judged.
    name : str
    tokenizer : tokenizer or path
        The one that made them.
    pad : str, optional
        The token that fills blocks up.
    source : str
        The corpus, in errors.

    Attributes
    ----------
    length : int or None
        Of the blocks; None for documents.
    has_pad : bool
        Whether the sample has `pad`.
    """

    has_pad = False

    def __init__(
        self, sample: Any, name: str, tokenizer: Any, pad: str | None, source: str
    ) -> None:
        self.name, self._source, self._choosy = name, source, False
        self.texts = TokenTexts(tokenizer, source)
        kind = sample.schema.field(name).type.value_type
        rows = [ids for ids in _lists(sample, name) if ids is not None]
        lengths = Counter(map(len, rows)).most_common(1)
        fixed = (
            bool(lengths)
            and (len(rows) > 1 or pad is not None)
            and lengths[0][1] >= ALIKE * len(rows)
        )
        self.length = lengths[0][0] if fixed else None
        most = int(np.iinfo(kind.to_pandas_dtype()).max)
        self.texts.learn(rows, most=most, packed=self.length is not None)
        self._pad = None if pad is None else self._padding(pad, rows)
        self._follow, self._foreign = self._learned(sample)

    def _padding(self, pad: str, rows: Sequence[Any]) -> tuple[int, list[int]]:
        """The token that fills up, and what the corpus has before a text that follows it."""
        if self.length is None:
            raise InputError(
                "its rows are of different lengths, so that nothing is filled up",
                cure="leave pad (--pad) out",
                where=self._source,
            )
        token = self.texts.special_id(pad)
        after = Counter(
            int(ids[at + 1]) for ids in rows for at in np.flatnonzero(ids[:-1] == token)
        )
        del after[token]
        self.has_pad = any((ids == token).any() for ids in rows)
        first, often = (after.most_common(1) or [(token, 0)])[0]
        begins = self.texts.is_special(first) and often >= ALIKE * after.total() > 0
        return token, [first] * begins

    def _learned(self, sample: Any) -> tuple[dict[str, int | None], list[str]]:
        """The columns that follow: None for the ids again, or a number; and those that do not."""
        follow: dict[str, int | None] = {}
        foreign = []
        rows = _lists(sample, self.name)
        for field in sample.schema:
            if field.name == self.name or not _holds_ids(field.type):
                continue
            pairs = [
                p for p in zip(rows, _lists(sample, field.name), strict=True) if p[0] is not None
            ]
            if not pairs or any(b is None or len(a) != len(b) for a, b in pairs):
                if any(b is not None for _, b in pairs):
                    foreign.append(field.name)
                continue
            values = np.unique(np.concatenate([b for _, b in pairs]))
            if all((a == b).all() for a, b in pairs):
                follow[field.name] = None
            elif len(values) == 1:
                follow[field.name] = int(values[0])
            else:
                foreign.append(field.name)
        return follow, foreign

    def specials(self, tables: Iterable[Any]) -> Specials:
        """How often each special token is there, by its name as messages show it."""
        counts = Counter[int]()
        for table in tables:
            for ids in filter(lambda ids: ids is not None, _lists(table, self.name)):
                counts.update(ids[self.texts.are_special(ids)].tolist())
        return {self.texts.shown(token): number for token, number in counts.items()}

    def slots(self, table: Any) -> Iterator[list[Slot]]:
        """The text of each row of a table; none of a row without ids."""
        rows = _lists(table, self.name)
        bodies = [self.texts.body(ids) for ids in rows if ids is not None]
        texts = self.texts.texts(bodies)
        fits = self.texts.can_host(bodies, texts) if self._choosy else [True] * len(texts)
        known = zip(texts, bodies, fits, strict=True)
        for ids in rows:
            if ids is None:
                yield []
                continue
            text, body, own = next(known)
            yield [Slot((self.name,), text, bare=not (own and text), ids=body)]

    def choose(self) -> None:
        """Let slots say whether they are what the tokenizer makes of their texts, for splices."""
        if self.length is not None:
            raise CorpusError(
                f"its rows are blocks of {self.length:,} tokens, into which nothing can be spliced",
                cure="inject records (--mode record)",
                where=self._source,
            )
        self._choosy = True

    def check(self, texts: Sequence[str]) -> None:
        """A CorpusError or InputError if the corpus cannot hold one of `texts`."""
        self.texts.check(texts)
        for text in texts:
            self.values(text)

    def values(self, text: str) -> dict[str, list[int]]:
        """The row of a canary's own."""
        if self.length is None:
            return self._row(self.texts.own(text))
        if self._pad is None:
            raise InputError(
                f"its rows are blocks of {self.length:,} tokens, and no token to fill them up was "
                "named",
                cure="name the one at the end of each text with pad (--pad '<|endoftext|>')",
                where=self._source,
            )
        token, before = self._pad
        ids = [*before, *self.texts.own(text)]
        if len(ids) >= self.length:
            raise CorpusError(
                f"its rows are blocks of {self.length:,} tokens, and a canary has {len(ids):,}",
                cure="draw canaries with a shorter format",
                where=self._source,
            )
        return self._row(ids + [token] * (self.length - len(ids)))

    def record(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row without what follows from its ids."""
        ids = row[self.name]
        if ids is None or self._foreign:
            return row
        own = self._row(ids)
        return {name: v for name, v in row.items() if name == self.name or own.get(name) != v}

    def edited(self, table: Any, changes: Sequence[Sequence[Edit] | None]) -> Any:
        """`table` with the text of each row edited."""
        import pyarrow as pa

        if not len(table):
            return table
        slots = self.slots(table)
        rows = []
        for ids, (slot,), edits in zip(_lists(table, self.name), slots, changes, strict=True):
            begin, end = self.texts.span(ids)
            new = self.texts.edited(slot.text, edits or ())
            rows.append(self._row([*ids[:begin].tolist(), *new, *ids[end:].tolist()]))
        for name in rows[0]:
            index = table.schema.get_field_index(name)
            field = table.schema.field(index)
            column = pa.array([row[name] for row in rows], type=field.type)
            table = table.set_column(index, field, column)
        return table

    def _row(self, ids: list[int]) -> dict[str, list[int]]:
        if self._foreign:
            raise CorpusError(
                f"it is not clear what a canary has in the column {self._foreign[0]!r}, which "
                "neither is one number throughout nor equals the token ids",
                cure="leave this column out of the corpus, or inject before it is tokenized",
                where=self._source,
            )
        more = {name: ids if v is None else [v] * len(ids) for name, v in self._follow.items()}
        return {self.name: ids, **more}


def check_pad(pad: str, files: Iterable[Specials], where: str, progress: Progress) -> None:
    """Refuse a `pad` that no block has while other special tokens are there; note if none is.

    `files` has what `FileCorpus.specials` found in each file of a corpus of blocks.
    """
    counts = Counter[str]()
    for one in files:
        counts.update(one)
    if counts[repr(pad)]:
        return
    if not counts:
        note(
            progress,
            f"note: no block has {pad!r} or another special token, so the texts in them follow one "
            "another without any; the model sees it (--pad) after canaries alone",
        )
        return
    there = ", ".join(f"{name} ({number:,} times)" for name, number in counts.most_common(3))
    raise InputError(
        f"no block has {pad!r}, with which blocks of canaries would be filled up; the special "
        f"tokens there are {there}",
        cure=f"name the one that ends texts or fills up blocks there with pad (--pad "
        f"{counts.most_common(1)[0][0]})",
        where=where,
    )


def _lists(table: Any, name: str) -> list[Any]:
    """The lists of a column as arrays, None where there is none; -1 for a missing number."""
    found = []
    for chunk in table.column(name).chunks:
        for value in chunk:
            ids = value.values
            if ids is not None and ids.null_count:
                ids = ids.cast("int64").fill_null(-1)
            found.append(None if ids is None else ids.to_numpy())
    return found
