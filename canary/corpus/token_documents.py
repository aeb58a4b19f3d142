"""Documents of token ids as texts, and texts as the token ids that such a corpus has for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.columns import Edit, edit_text
from canary.errors import CorpusError, InputError, UnsupportedError
from canary.tokens.fast import FastTokenizer, as_tokenizer

Ids = NDArray[Any]
"""The token ids of a document or a part of one."""

SAMPLE = 256
"""Documents by which a corpus is judged, from its beginning to its end."""
_LONG = 8  # tokens; fewer are the same under many tokenizers
_SAME = 0.9  # of the documents must be what the tokenizer makes of their texts
ALIKE = 0.99
"""Share of the documents that must be alike, in how they begin and end or in their length."""


class TokenTexts:
    """What texts the documents of a corpus of token ids have, under the tokenizer that made it.

    Parameters
    ----------
    tokenizer : tokenizer or path
        A fast one, as `verify` takes it.
    source : str
        The corpus, in errors.

    Attributes
    ----------
    head, tail : tuple of int
        Special tokens with which every document begins and ends; `learn` finds them.
    """

    def __init__(self, tokenizer: Any, source: str) -> None:
        if tokenizer is None:
            raise InputError(
                "holds token ids, and no tokenizer was named",
                cure="name the one that made it with tokenizer (--tokenizer): a folder or a "
                "tokenizer.json",
                where=source,
            )
        found = as_tokenizer(tokenizer)
        if not isinstance(found, FastTokenizer):
            raise UnsupportedError(
                "a corpus of token ids needs a fast tokenizer, which has a tokenizer.json",
                cure="convert it (AutoTokenizer.from_pretrained(…, use_fast=True))",
                where=source,
            )
        self._tokenizer, self._source = found, source
        added = found.spec.get("added_tokens") or ()
        self._special = {token["id"] for token in added if token.get("special")}
        self._packed = False
        self.head: tuple[int, ...] = ()
        self.tail: tuple[int, ...] = ()

    def learn(self, documents: Sequence[Ids], *, most: int, packed: bool = False) -> None:
        """Find `head` and `tail` in some documents; `most` is the largest id that fits.

        Packed ones are cut anywhere, and have all special tokens at both ends as head and tail.

        A CorpusError or InputError if the tokenizer is not the one that made them.
        """
        if self._tokenizer.size - 1 > most:
            raise InputError(
                f"its token ids are at most {most:,}, and the tokenizer has "
                f"{self._tokenizer.size:,} tokens",
                cure="name the tokenizer that made the corpus",
                where=self._source,
            )
        wordy = [ids for ids in documents if not self._special.issuperset(ids.tolist())]
        self._packed = packed
        if not packed:
            self.head = self._shared(wordy, 1)
            self.tail = self._shared(wordy, -1)
        bodies = [self.body(ids) for ids in documents]
        longer = [ids for ids in bodies if len(ids) >= _LONG] or [ids for ids in bodies if len(ids)]
        same = sum((self._is_within if packed else self.is_own)(longer, self.texts(longer)))
        if same < _SAME * len(longer):
            raise CorpusError(
                f"only {same} of {len(longer)} sample documents are what this tokenizer makes of "
                "their texts",
                cure="name the tokenizer that made the corpus, of the same version",
                where=self._source,
            )

    def body(self, ids: Ids) -> Ids:
        """A document without head and tail, as far as it has them."""
        begin, end = self.span(ids)
        return ids[begin:end]

    def span(self, ids: Ids) -> tuple[int, int]:
        """Where the text of a document begins and ends."""
        if self._packed:
            words = np.flatnonzero(~self.are_special(ids))
            return (int(words[0]), int(words[-1]) + 1) if len(words) else (0, 0)
        head, tail, begin, end = len(self.head), len(self.tail), 0, len(ids)
        if head and tuple(ids[:head].tolist()) == self.head:
            begin = head
        if tail and tuple(ids[begin:][-tail:].tolist()) == self.tail:
            end -= tail
        return begin, end

    def is_special(self, token: int) -> bool:
        """Whether no text has this token."""
        return token in self._special

    def are_special(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of some tokens no text has."""
        return np.isin(ids, [*self._special])

    def special_id(self, name: str) -> int:
        """The id of a special token; an InputError if there is none of this name."""
        token = self._tokenizer.token_id(name)
        if token is None or token not in self._special:
            known = ", ".join(map(self.shown, sorted(self._special)[:8])) or "none"
            raise InputError(
                f"{name!r:.40} is no special token of the tokenizer",
                cure=f"name one of its special tokens: {known}",
                where=self._source,
            )
        return token

    def texts(self, rows: Sequence[Ids]) -> list[str]:
        """The text of each row of ids; a CorpusError if the tokenizer has no such id."""
        size = self._tokenizer.size
        for ids in rows:
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < size:
                wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
                raise CorpusError(
                    f"holds the token {wrong:,}, and the tokenizer has tokens 0 to {size - 1:,}",
                    cure="name the tokenizer that made the corpus; or the file is damaged",
                    where=self._source,
                )
        return self._tokenizer.texts([ids.tolist() for ids in rows])

    def is_own(self, rows: Sequence[Ids], texts: Sequence[str]) -> list[bool]:
        """Whether each row is what the tokenizer makes of its text."""
        made = self._tokenizer.parts(texts)
        return [tuple(ids.tolist()) == own for ids, own in zip(rows, made, strict=True)]

    def can_host(self, rows: Sequence[Ids], texts: Sequence[str]) -> list[bool]:
        """Whether a canary can be spliced into each row: own, and not of special tokens alone."""
        own = self.is_own(rows, texts)
        return [
            o and not self._special.issuperset(r.tolist()) for o, r in zip(own, rows, strict=True)
        ]

    def _is_within(self, rows: Sequence[Ids], texts: Sequence[str]) -> list[bool]:
        """Whether what the tokenizer makes of each text has the middle of the row."""
        made = self._tokenizer.parts(texts)
        middles = (ids[len(ids) // 4 : len(ids) - len(ids) // 4] for ids in rows)
        wide = (
            (np.array(own, "<i8"), np.asarray(ids, "<i8"))
            for own, ids in zip(made, middles, strict=True)
        )
        return [ids.tobytes() in own.tobytes() for own, ids in wide]

    def own(self, text: str) -> list[int]:
        """A document of its own for a text, as this corpus has documents."""
        return [*self.head, *self._parts(text), *self.tail]

    def edited(self, text: str, edits: Iterable[Edit]) -> list[int]:
        """The ids of a text after edits: those of a training that tokenizes the edited text."""
        return self._parts(edit_text(text, edits))

    def _parts(self, text: str) -> list[int]:
        ids = list(self._tokenizer.parts([text])[0])
        if self._tokenizer.texts([ids]) != [text]:
            raise CorpusError(
                "the tokenizer changes the text of a canary or of the text around it (its case, "
                "its spaces or its characters), so that it could not be found again",
                cure="write the format as the tokenizer gives it back: tokenizer.decode("
                "tokenizer.encode(text))",
                where=self._source,
            )
        return ids

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of a text that each of its tokens stands for."""
        (encoding,) = self._tokenizer.encode([text])
        before, after = self._tokenizer.template(text)
        return list(encoding.spans or ())[len(before) : len(encoding.ids) - len(after)]

    def check(self, texts: Iterable[str]) -> None:
        """A CorpusError or ModelError if the tokenizer cannot hold one of `texts`."""
        for text in texts:
            self._tokenizer.encode([text])
            self._parts(text)

    def _shared(self, documents: Sequence[Ids], step: int) -> tuple[int, ...]:
        """The special tokens with which the documents begin (`step` 1) or end (-1)."""
        runs = Counter[tuple[int, ...]]()
        for ids in documents:
            run = takewhile(self._special.__contains__, ids[::step][:_LONG].tolist())
            runs[tuple(run)[::step]] += 1
        if not runs:
            return ()
        (most, number), *others = runs.most_common()
        if number < ALIKE * len(documents):
            end = "end" if step < 0 else "begin"
            shown = [
                f"{count} with {' '.join(map(self.shown, run)) or 'no special token'}"
                for run, count in [(most, number), *others][:3]
            ]
            raise CorpusError(
                f"its documents {end} in different ways, so that it is not clear how a canary's "
                f"must {end}: of {len(documents)}, {', '.join(shown)}",
                cure="tokenize the corpus again, with the same special tokens around every "
                "document; or inject into the texts before they are tokenized",
                where=self._source,
            )
        return most

    def shown(self, token: int) -> str:
        """A token as a message names it."""
        return repr(self._tokenizer.decode([token], special=True))


def identity_of(tokenizer: Any) -> str | None:
    """What tells one tokenizer from another in a run that goes on; None for none."""
    return None if tokenizer is None else str(getattr(as_tokenizer(tokenizer), "fingerprint", ""))


def spread(number: int, most: int = SAMPLE) -> list[int]:
    """At most `most` of the numbers from 0, evenly from the first to the last."""
    places = np.linspace(0, number - 1, min(number, most)).astype(np.int64)
    return [int(place) for place in np.unique(places)]
