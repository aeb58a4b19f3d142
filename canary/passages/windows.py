"""Documents -> windows: a prefix that the model is given, and the suffix that it may repeat."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.language_model import Rows
from canary.records.validation import some, text
from canary.scoring.texts import encode_placed
from canary.statistics.numbers import plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Encoding

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Where windows are cut, in tokens.

    A window is a prefix and the suffix behind it; the next begins `stride` tokens later.
    """

    prefix: int
    suffix: int
    stride: int

    @property
    def width(self) -> int:
        """Tokens of a window."""
        return self.prefix + self.suffix


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of some documents.

    Parameters
    ----------
    grid : Grid
    before : tuple of int
        Tokens before each window: what training put before a text.
    tokens : list of int32 array
        The tokens of each document, without those that the tokenizer puts around it.
    document, position : int64 array of shape (windows,)
        Number of the document, from 0, and its token with which the window begins.
    digest : str
        SHA-256 of the texts.
    """

    grid: Grid
    before: tuple[int, ...]
    tokens: list[NDArray[np.int32]]
    document: Ints
    position: Ints
    digest: str

    def __len__(self) -> int:
        return len(self.document)

    @property
    def short(self) -> int:
        """How many documents are shorter than one window."""
        return sum(len(ids) < self.grid.width for ids in self.tokens)

    def ids(self, window: int) -> NDArray[np.int32]:
        """The tokens of one window."""
        first = int(self.position[window])
        of: NDArray[np.int32] = self.tokens[self.document[window]]
        return of[first : first + self.grid.width]

    def rows(self, part: range) -> Rows:
        """Some windows as rows of which the suffixes are scored."""
        before = list(self.before)
        sequences = [before + self.ids(window).tolist() for window in part]
        return Rows.of(sequences, len(before) + self.grid.prefix)


def cut(
    encoder: CandidateEncoder, texts: Iterable[str], grid: Grid, *, name: str = "texts"
) -> Windows:
    """The windows of texts, cut from the tokens of each whole text.

    Raises
    ------
    InputError
        If `texts` are not texts, or none is as long as a window.
    ModelError
        If the tokenizer cannot represent a text.
    """
    given = some(texts, name, cure="give a list of texts, such as [text] for one")
    for each in given:
        text(each, f"each of {name}", cure="give texts that can be written as UTF-8")
    before: tuple[int, ...] = encoder.start
    tokens = []
    for encoding in encode_placed(encoder, given, lambda number: f"{name}[{number}]"):
        around, own = _parted(encoding, len(encoder.start))
        tokens.append(np.array(own, np.int32))
        before = around if own else before
    counts = [max((len(ids) - grid.width) // grid.stride + 1, 0) for ids in tokens]
    if not sum(counts):
        longest = max(map(len, tokens), default=0)
        raise InputError(
            f"none of {plural(len(given), 'text')} has the {grid.width} tokens of a window (the "
            f"longest has {longest})",
            cure="give longer texts, or a shorter prefix and suffix",
            where=name,
        )
    position = np.concatenate([np.arange(count) * grid.stride for count in counts])
    digest = hashlib.sha256(json.dumps(given).encode()).hexdigest()
    document = np.repeat(np.arange(len(tokens)), counts)
    return Windows(grid, before, tokens, document, position.astype(np.int64), digest)


def refuse_overlap(texts: Windows, controls: Windows) -> None:
    """Refuse controls of which a window is in the texts, wherever it begins there.

    Costs one look-up for each token of the texts.
    """
    width = 4 * texts.grid.width  # bytes of int32
    found = {controls.ids(window).tobytes(): window for window in range(len(controls))}
    for number, ids in enumerate(texts.tokens):
        data = ids.tobytes()
        for begin in range(0, len(data) - width + 1, 4):
            window = found.get(data[begin : begin + width])
            if window is not None:
                raise InputError(
                    f"{texts.grid.width} tokens of controls[{controls.document[window]}], from "
                    f"token {controls.position[window]} on, are in texts[{number}] too, from token "
                    f"{begin // 4} on",
                    cure="give controls that the model was not trained on, and remove duplicates "
                    "across the two files",
                    where="controls",
                )


def _parted(encoding: Encoding, named: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens before a text, and its own; special tokens behind it belong to neither."""
    ids, spans = encoding.ids, encoding.spans
    if spans is None:
        return ids[:named], ids[named:]
    first = next((at for at, (_, stop) in enumerate(spans) if stop > 0), len(ids))
    last = len(ids)
    while last > first and spans[last - 1][0] >= spans[last - 1][1]:
        last -= 1
    return ids[:first], ids[first:last]
