"""Corpora of token ids for Megatron-LM: a ``.bin`` of tokens and the ``.idx`` that divides it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.columns import Edit, Shape, Slot
from canary.corpus.corpora import Edits, FileCorpus, Position
from canary.corpus.lines import unreadable
from canary.corpus.megatron_index import pieces_of, read_index, write_index
from canary.corpus.token_documents import Ids, TokenTexts, spread
from canary.errors import CorpusError, EmptyCorpusError

_PART = 1 << 22
"""Bytes of tokens that are read at a time."""


class MegatronRows(FileCorpus):
    """The documents of a ``.bin`` with its ``.idx``; all that is not touched keeps its bytes.

    A text that changes gets the tokens that the tokenizer makes of the whole new text, as a
    training would that tokenizes it. So canaries are spliced only into documents that are what
    the tokenizer makes of their texts.
    """

    endings = (".bin",)
    compressible = False
    companion = ".idx"
    _choosy = False  # whether slots say if they are what the tokenizer makes of their texts

    def look(self) -> None:
        if self.path.suffix.lower() not in self.endings or self.names != ("text",) or self.beside:
            raise CorpusError(
                "a corpus of token ids ends with .bin and has one column, 'text'",
                cure="leave column and beside out, and name the .bin",
                where=self.source,
            )
        self.index = read_index(self.path.with_suffix(self.companion), self.stamp[0])
        self.shape = Shape(self.names)
        self.rows = self.last = self.index.documents
        if not self.rows:
            raise EmptyCorpusError.of(self.source)
        self.tokens = TokenTexts(self.tokenizer, self.source)
        chosen = spread(self.rows)
        samples = [ids for _, ids in self._documents((at, at + 1) for at in chosen)]
        whole = [np.concatenate(ids) for ids in samples if ids]
        self.tokens.learn(whole, most=int(np.iinfo(self.index.dtype).max))

    def _stamp(self) -> tuple[int, ...]:
        with suppress(OSError):  # who reads the index says what is wrong
            index = self.path.with_suffix(self.companion).stat()
            return (*super()._stamp(), index.st_size, index.st_mtime_ns, index.st_ino)
        return super()._stamp()

    def count(self) -> None:
        self._pass += 1
        self.report(1, 1)

    def check_texts(self, texts: Sequence[str]) -> None:
        self.tokens.check(texts)

    def needs_quotes(self, texts: Sequence[str]) -> bool:
        self._choosy = True  # as texts without quotes cannot take some canaries
        return True

    def place(self, number: int) -> str:
        return f"{self.source}: document {number}"

    def iterate(self) -> Iterator[tuple[Position, int, list[Slot]]]:
        self._pass += 1
        for batch in self._batches():
            for at, slots in self._slots(batch):
                yield at, at + 1, slots
            self.report(self.index.where(batch[-1][0] + 1), max(self.stamp[0], 1))
        self.report(1, 1)

    def rewrite(self, edits: Edits, out: Any = None) -> None:
        tokens, index = out
        own = {text: self.tokens.own(text) for text in edits.texts}
        if edits.decide is None:
            asked: Iterator[tuple[int, list[Slot]]] = iter(())
        elif edits.at is None:
            asked = (one for batch in self._batches() for one in self._slots(batch))
        else:
            chosen = [*self._documents((int(at), int(at) + 1) for at in sorted(edits.at))]
            asked = iter(self._slots(chosen))
        self._pass += 1
        changed: dict[int, list[list[int]] | None] = {}
        for at, slots in asked:
            record = lambda _, slots=slots: {"text": slots[0].text}  # noqa: E731
            decision = self.decided(edits, at, at + 1, slots, record)
            if decision is None:
                changed[at] = None
            elif decision:
                changed[at] = self._edited(at, slots[0], decision)
        pieces = [*pieces_of(self.rows, edits.inserts, changed)]
        made = {text: np.array(ids, self.index.dtype) for text, ids in own.items()}
        with self._opened() as file:
            for piece in pieces:
                if isinstance(piece, str):
                    tokens.write(made[piece].tobytes())
                elif isinstance(piece, tuple):
                    self._copy(file, tokens, *piece)
                else:
                    for ids in changed[piece] or ():
                        tokens.write(np.array(ids, self.index.dtype).tobytes())
        write_index(
            self.index, index, pieces, {text: len(ids) for text, ids in own.items()}, changed
        )
        self.report(1, 1)
        self.check_unchanged()

    def _edited(self, at: int, slot: Slot, edits: Sequence[Edit]) -> list[list[int]]:
        """The sequences of a document after edits of its text."""
        ((_, before),) = self._documents([(at, at + 1)])
        after = [ids.tolist() for ids in before]
        begin = 0
        left = list(edits)
        for number, text, (first, last) in self._parts(at, before):
            end = begin + len(text)
            mine = [e for e in left if begin <= e.start <= e.stop <= end]
            left = [e for e in left if e not in mine]
            if mine:
                moved = [Edit(e.path, e.start - begin, e.stop - begin, e.new) for e in mine]
                ids = after[number]
                after[number] = [*ids[:first], *self.tokens.edited(text, moved), *ids[last:]]
            begin = end + 1
        if left:
            raise CorpusError(
                "a canary is across two sequences of a document",
                cure="this was not done by canary inject: remove the document yourself",
                where=self.place(at + 1),
            )
        return after

    def parts(self, at: int) -> list[tuple[int, str, tuple[int, int]]]:
        """Of each sequence of text in a document: its number in the corpus, its text, its place."""
        ((_, sequences),) = self._documents([(at, at + 1)])
        first = int(self.index.starts[at])
        return [(first + n, text, span) for n, text, span in self._parts(at, sequences)]

    def _parts(self, at: int, sequences: Sequence[Ids]) -> list[tuple[int, str, tuple[int, int]]]:
        """Of each sequence of text in a document its number, its text, and which tokens are it."""
        modes, head, tail = self._modes(at), self.tokens.head, self.tokens.tail
        spans = {}
        for number, ids in enumerate(sequences):
            if modes is not None and modes[number] != 0:
                continue
            begin, end = 0, len(ids)
            if number == 0 and head and tuple(ids[: len(head)].tolist()) == head:
                begin = len(head)
            last = number == len(sequences) - 1 and tail
            if last and tuple(ids[begin:][-len(tail) :].tolist()) == tail:
                end -= len(tail)
            spans[number] = begin, end
        texts = self.tokens.texts([sequences[n][a:b] for n, (a, b) in spans.items()])
        return [(n, text, spans[n]) for n, text in zip(spans, texts, strict=True)]

    def _modes(self, at: int) -> NDArray[np.int8] | None:
        index = self.index
        if index.modes is None:
            return None
        return index.modes[int(index.starts[at]) : int(index.starts[at + 1])]

    def _slots(self, batch: Sequence[tuple[int, list[Ids]]]) -> Iterator[tuple[int, list[Slot]]]:
        """Documents with their texts; that of several sequences has a line for each."""
        simple = [(at, ids) for at, ids in batch if len(ids) == 1 and self.index.modes is None]
        bodies = [self.tokens.body(ids[0]) for _, ids in simple]
        texts = self.tokens.texts(bodies)
        fits = self.tokens.can_host(bodies, texts) if self._choosy else [True] * len(texts)
        known = {
            at: (text, body, own)
            for (at, _), text, body, own in zip(simple, texts, bodies, fits, strict=True)
        }
        for at, sequences in batch:
            if at in known:
                text, ids, own = known[at]
            else:
                parts = self._parts(at, sequences)
                text = "\n".join(part for _, part, _ in parts)
                bodies = [sequences[n][a:b] for n, _, (a, b) in parts]
                ids = np.concatenate(bodies) if bodies else np.zeros(0, self.index.dtype)
                own = bool(text) and (
                    not self._choosy or all(self.tokens.is_own(bodies, [t for _, t, _ in parts]))
                )
            yield at, [Slot(self.names, text, bare=not own, ids=ids)]

    def _batches(self) -> Iterator[list[tuple[int, list[Ids]]]]:
        """All documents, some at a time."""
        begin = 0
        while begin < self.rows:
            stop = self.index.where(begin) + _PART
            end = begin + 1
            while end < self.rows and self.index.where(end + 1) <= stop and end - begin < 4096:
                end += 1
            yield [*self._documents([(begin, end)])]
            begin = end

    def _documents(self, runs: Any) -> Iterator[tuple[int, list[Ids]]]:
        """The sequences of each document of some runs of them, by number."""
        index, width = self.index, self.index.dtype.itemsize
        with self._opened() as file:
            for begin, end in runs:
                first = index.where(begin)
                file.seek(first)
                data = file.read(index.where(end) - first)
                if len(data) != index.where(end) - first:
                    self.check_unchanged()
                ids = np.frombuffer(data, index.dtype)
                for at in range(begin, end):
                    a, b = int(index.starts[at]), int(index.starts[at + 1])
                    places = [
                        ((int(index.offsets[s]) - first) // width, int(index.lengths[s]))
                        for s in range(a, b)
                    ]
                    yield at, [ids[p : p + n] for p, n in places]

    def _opened(self) -> IO[bytes]:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _copy(self, file: IO[bytes], out: IO[bytes], begin: int, end: int) -> None:
        at, stop = self.index.where(begin), self.index.where(end)
        file.seek(at)
        while at < stop:
            data = file.read(min(_PART, stop - at))
            if not data:
                self.check_unchanged()
                raise unreadable(self.path, EOFError("it ends too early"))
            out.write(data)
            at += len(data)
            self.report(at, self.stamp[0])
