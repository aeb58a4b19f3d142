"""Documents -> windows: a prefix that the model is given, and the suffix that it may repeat."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.language_model import Rows
from canary.records.validation import as_real, brief, some, text, whole_number
from canary.scoring.texts import encode_placed
from canary.statistics.numbers import plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Encoding

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_STANDS = "give for each text how many texts of the training data it stands for, above 0"


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
class Pieces:
    """Pieces of documents, each with one window or several that follow each other.

    Parameters
    ----------
    document, first, stop : int64 array of shape (pieces,)
        Number of the document, and its tokens from `first` to before `stop`.
    windows : int64 array of shape (pieces + 1,)
        Number of the first window of each, and that of all windows.
    """

    document: Ints
    first: Ints
    stop: Ints
    windows: Ints

    def __len__(self) -> int:
        return len(self.document)


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of some documents.

    Parameters
    ----------
    grid : Grid
    before : tuple of int
        Tokens before each window: what training put before a text.
    tokens : list of int32 array
        The tokens of each document, without those that the tokenizer puts around it; none of one
        that repeats an earlier one.
    copies : int64 array of shape (documents,)
        How often the training data have each document; 0 where it repeats an earlier one.
    weights : float64 array of shape (documents,)
        How many texts of the training data each document stands for.
    document, position : int64 array of shape (windows,)
        Number of the document, from 0, and its token with which the window begins.
    digest : str
        SHA-256 of the texts.
    """

    grid: Grid
    before: tuple[int, ...]
    tokens: list[NDArray[np.int32]]
    copies: Ints
    weights: Floats
    document: Ints
    position: Ints
    digest: str

    def __len__(self) -> int:
        return len(self.document)

    @property
    def short(self) -> list[int]:
        """Documents that have no window: they are shorter than that of the longest prefix."""
        found: list[int] = np.setdiff1d(np.flatnonzero(self.copies > 0), self.document).tolist()
        return found

    def after(self, prefix: int) -> Windows:
        """The same suffixes, after another prefix that is not longer."""
        moved = self.position + self.grid.prefix - prefix
        return replace(self, grid=replace(self.grid, prefix=prefix), position=moved)

    def ids(self, window: int) -> NDArray[np.int32]:
        """The tokens of one window."""
        first = int(self.position[window])
        of: NDArray[np.int32] = self.tokens[self.document[window]]
        return of[first : first + self.grid.width]

    def pieces(self, tokens: int | None = None) -> Pieces:
        """A piece for each window; or pieces of at most this length, with all that fit.

        In such a piece the prefix of a window is all of the piece before its suffix.
        """
        first = np.arange(len(self))
        if tokens is not None:
            begins, at = list[int](), 0
            while at < len(self):
                begins.append(at)
                end = int(np.searchsorted(self.document, self.document[at], side="right"))
                last = self.position[at] + tokens - self.grid.width
                at += int(np.searchsorted(self.position[at:end], last, side="right"))
            first = np.array(begins)
        windows = np.append(first, len(self))
        stop = self.position[windows[1:] - 1] + self.grid.width
        return Pieces(self.document[first], self.position[first], stop, windows)

    def rows(self, part: range, pieces: Pieces | None = None) -> Rows:
        """Some pieces, or windows, as rows of which all behind the first prefix is scored."""
        before, of = list(self.before), self.pieces() if pieces is None else pieces
        sequences = [
            before + self.tokens[of.document[at]][of.first[at] : of.stop[at]].tolist()
            for at in part
        ]
        return Rows.of(sequences, len(before) + self.grid.prefix)


def cut(
    encoder: CandidateEncoder,
    texts: Iterable[str],
    grid: Grid,
    *,
    name: str = "texts",
    copies: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> Windows:
    """The windows of texts, cut from the tokens of each whole text; once of those that repeat.

    `copies` says how often the training data have each text; counted in `texts` unless given.
    `weights` says how many texts of the training data each stands for; one unless given.

    Raises
    ------
    InputError
        If `texts` are not texts, none is as long as a window, or `copies` or `weights` are no
        numbers of them.
    ModelError
        If the tokenizer cannot represent a text.
    """
    given = some(texts, name, cure="give a list of texts, such as [text] for one")
    one = name.removesuffix("s")
    for at, each in enumerate(given, 1):
        text(each, f"{one} {at}", cure="give texts that can be written as UTF-8")
    before: tuple[int, ...] = encoder.start
    tokens = [np.zeros(0, np.int32)] * len(given)
    counted = Counter(given)
    times = np.array([counted[each] for each in given], np.int64)
    if copies is not None:
        cure = "give for each text how often the training data have it"
        whole = [whole_number(one, "copies", at_least=1, cure=cure) for one in copies]
        times = np.array(_of_each(given, whole, "copies", cure), np.int64)
    standing = (
        [1.0] * len(given)
        if weights is None
        else _of_each(given, _positive(weights), "weights", _STANDS)
    )
    first = dict[str, int]()
    for at, each in enumerate(given):
        first.setdefault(each, at)
    places = list(first.values())
    encodings = encode_placed(encoder, list(first), lambda at: f"{one} {places[at] + 1}")
    for place, encoding in zip(places, encodings, strict=True):
        around, own = _parted(encoding, len(encoder.start))
        tokens[place] = np.array(own, np.int32)
        before = around if own else before
    counts = [max((len(ids) - grid.width) // grid.stride + 1, 0) for ids in tokens]
    if not sum(counts):
        raise too_short(name, map(len, tokens), f"{grid.width} tokens of a window")
    position = np.concatenate([np.arange(count) * grid.stride for count in counts])
    digest = hashlib.sha256(json.dumps(given).encode()).hexdigest()
    document = np.repeat(np.arange(len(tokens)), counts)
    held = np.where(np.isin(np.arange(len(given)), places), times, 0)
    weight = np.array(standing, np.float64)
    return Windows(grid, before, tokens, held, weight, document, position.astype(np.int64), digest)


def _of_each(
    texts: Sequence[str], numbers: Sequence[float], name: str, cure: str
) -> Sequence[float]:
    """`numbers`, one of each text; equal texts must have the same."""
    kinds = len(set(zip(texts, numbers, strict=False)))
    if len(numbers) != len(texts) or len(set(texts)) < kinds:
        problem = f"{name} are not one number for each text, the same for equal texts"
        raise InputError(problem, cure=cure, where=name)
    return numbers


def _positive(weights: Sequence[float]) -> list[float]:
    found = [as_real(one) for one in weights]
    for given, one in zip(weights, found, strict=True):
        if not 0.0 < one < np.inf:
            problem = f"a weight of {brief(given)} makes no sense"
            raise InputError(problem, cure=_STANDS, where="weights")
    return found


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
                raise in_both(
                    f"{texts.grid.width} tokens of control {controls.document[window] + 1}, from "
                    f"token {controls.position[window]} on, are in text {number + 1}, too, from "
                    f"token {begin // 4} on"
                )


def too_short(name: str, lengths: Iterable[int], passage: str) -> InputError:
    """The error where no text has a passage, from the texts' lengths and what one takes."""
    found = [*lengths]
    most = max(found, default=0)
    which = f", text {found.index(most) + 1}," if len(found) > 1 else ""
    return InputError(
        f"none of {plural(len(found), 'text')} has the {passage} (the longest{which} has {most})",
        cure="give longer texts, or a shorter prefix and suffix",
        where=name,
    )


def in_both(problem: str) -> InputError:
    """The error where a passage of the controls is in the texts, too."""
    cure = "give controls that the model was not trained on, and remove duplicates across the two "
    return InputError(problem, cure=f"{cure}files", where="controls")


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
