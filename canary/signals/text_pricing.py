"""Texts -> the prices of their tokens, long texts in windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, RecordError, UnsupportedError
from canary.models.language_model import LanguageModel, Rows
from canary.records.shards import Series
from canary.scoring.batcher import Batcher, Stage
from canary.scoring.requests import announce
from canary.scoring.run_options import ScoreOptions
from canary.scoring.windows import encode_placed, windows
from canary.signals.text import TokenPrices
from canary.tokens.tokenizer import Encoding

_BLOCK = 1 << 16
"""Tokens that are priced between two shards."""

_FLOATS = np.dtype("<f4")


@dataclass(frozen=True, eq=False)
class Priced:
    """Texts with the prices of their tokens.

    Parameters
    ----------
    prices : TokenPrices
    windowed : int
        Texts of more than one window.
    """

    prices: TokenPrices
    windowed: int


class Pricer:
    """Prices texts with one model.

    Parameters
    ----------
    model : LanguageModel
    options : ScoreOptions
        Tokens of the context are not priced.
    window : int, optional
        Most tokens that the model is given at once; what it takes, unless given. A model
        that takes more is given windows of this size all the same.
    overlap : int, optional
        Tokens that a window shares with the one before; half a window unless given.
    """

    def __init__(
        self,
        model: LanguageModel,
        options: ScoreOptions,
        *,
        window: int | None = None,
        overlap: int | None = None,
    ) -> None:
        self.model = model
        self.window, self.overlap = _sizes(model, window, overlap)
        self._encoder, self._batch_size = options.encoder(model), options.batch_size

    def encode(self, texts: Sequence[str], place: Callable[[int], str]) -> list[Encoding]:
        """Each text as tokens; `place` says where a text stands, for messages.

        Raises
        ------
        CorpusError, ModelError
            If a text cannot be represented.
        """
        return encode_placed(self._encoder, texts, place)

    def bare(self, encodings: Sequence[Encoding]) -> bool:
        """Whether nothing stands before the texts, so that their first tokens have no price."""
        return self._encoder.starts_bare(encodings)

    def price(
        self,
        encodings: Sequence[Encoding],
        *,
        stage: Stage,
        name: str,
        moments: bool = False,
        shards: Series | None = None,
    ) -> Priced:
        """The prices of the tokens of each text, block by block.

        `moments` says whether the distributions are wanted as well. In `shards` finished blocks are
        kept; those that are there are not priced again.

        Raises
        ------
        UnsupportedError
            If the model gives no log-probabilities of texts, or no moments.
        """
        parts: list[tuple[int, ...]] = []
        starts: list[int] = []
        first = np.zeros(len(encodings) + 1, np.int64)
        for at, encoding in enumerate(encodings):
            for part, start in self._windows(encoding):
                parts.append(part)
                starts.append(start)
            first[at + 1] = len(parts)
        rows = Rows.of(parts, starts)
        counts = np.add.reduceat(rows.scored, first[:-1])
        ends = _ends(counts)
        known = [] if shards is None else _known(shards, ends)
        done = int(first[ends[len(known) - 1]]) if known else 0
        batcher = Batcher(
            self.model,
            batch_size=self._batch_size,
            progress=stage(name, int(rows.scored[done:].sum())),
        )
        announce(self.model, lambda: len(rows) - done)
        for begin, end in zip([0, *ends], ends, strict=False):
            if first[begin] < done:
                continue
            block = rows.take(np.arange(first[begin], first[end]))
            known.append(_told(batcher, block, moments=moments))
            if shards is not None:
                shards.append({"texts": end}, known[-1].astype(_FLOATS).tobytes())
        values = np.concatenate(known)
        windowed = int((np.diff(first) > 1).sum())
        if not moments:
            return Priced(TokenPrices(values, counts), windowed)
        prices, means, deviations = values.reshape(-1, 3).T
        return Priced(TokenPrices(prices, counts, means, deviations), windowed)

    def _windows(self, encoding: Encoding) -> list[tuple[tuple[int, ...], int]]:
        """Parts of a text, the tokens of a context before it not priced."""
        start = max(self._before(encoding), 1)
        if self.window is None or self.overlap is None or len(encoding.ids) <= self.window:
            return [(encoding.ids, start)]
        if start >= self.window:
            raise InputError(
                f"the context has {start} tokens, a window takes {self.window}",
                cure="give a shorter context, or a larger window (--window)",
            )
        return list(windows(encoding.ids, limit=self.window, overlap=self.overlap, start=start))

    def _before(self, encoding: Encoding) -> int:
        if not self._encoder.context:
            return 0
        if encoding.spans is None:
            raise UnsupportedError(
                "the tokenizer does not tell where a context ends and the text begins",
                cure="leave the context out",
            )
        return next((i for i, (_, stop) in enumerate(encoding.spans) if stop > 0), 0)


def _ends(counts: NDArray[np.int64]) -> list[int]:
    """Where blocks of texts end: after so many tokens, or one longer text."""
    ends, tokens = [], 0
    for at, count in enumerate(counts.tolist(), 1):
        tokens += count
        if tokens >= _BLOCK:
            ends.append(at)
            tokens = 0
    return ends if ends and ends[-1] == len(counts) else [*ends, len(counts)]


def _told(batcher: Batcher, rows: Rows, *, moments: bool) -> NDArray[np.float32]:
    """Log-probabilities of the tokens of some rows, with mean and deviation beside each."""
    if not moments:
        return batcher.score(rows)
    told = batcher.moments(rows)
    columns = (told.log_probs, told.means, told.deviations)
    return np.stack(columns, axis=1, dtype=np.float32).ravel()


def _known(shards: Series, ends: list[int]) -> list[NDArray[np.float32]]:
    """What an earlier run has finished, of the same blocks."""
    found = list(shards)
    if [shard.state.get("texts") for shard in found] != ends[: len(found)]:
        raise RecordError(
            "holds other blocks of texts than this run has",
            cure="remove the folder to begin anew",
            where=str(shards.folder),
        )
    return [np.frombuffer(shard.body, _FLOATS).astype(np.float32) for shard in found]


def _sizes(
    model: LanguageModel, window: int | None, overlap: int | None
) -> tuple[int | None, int | None]:
    """Tokens of a window and of an overlap, checked; None where the model takes any text."""
    limit = model.facts.length_limit
    if window is not None and window < 2:
        raise InputError(
            f"window={window} prices no token", cure="give at least 2 tokens", where="window"
        )
    size = limit if window is None else min(window, limit or window)
    if size is None:
        if overlap is not None:
            raise InputError(
                f"overlap={overlap} without windows: the model takes texts of any length",
                cure="leave it out, or give a window (--window)",
                where="overlap",
            )
        return None, None
    shared = max(size // 2, 1) if overlap is None else overlap
    if not 1 <= shared < size:
        raise InputError(
            f"overlap={shared} does not fit windows of {size} tokens",
            cure=f"give 1 to {size - 1}; half a window is usual",
            where="overlap",
        )
    return size, shared


def pricer_beside(reference: LanguageModel, options: ScoreOptions, **sizes: Any) -> Pricer:
    """The pricer of the reference model; what is wrong with its start token is said to be its."""
    try:
        return Pricer(reference, options, **sizes)
    except InputError as error:
        if options.start_token is None:
            raise
        raise InputError(
            error.problem,
            cure=f"{error.cure}; that of the reference model is named by reference_start_token "
            "(--reference-start-token), '' for none",
            where="reference",
        ) from error


def compared_beside(
    ours: Pricer,
    encodings: list[Encoding],
    theirs: Pricer,
    others: list[Encoding],
) -> list[str]:
    """Refuse a reference that prices other parts of the texts; say so if it has other tokens."""
    if all(one.ids == other.ids for one, other in zip(encodings, others, strict=True)):
        return []
    bare = [
        name
        for name, pricer, given in (
            ("target", ours, encodings),
            ("reference model", theirs, others),
        )
        if pricer.bare(given)
    ]
    if bare:
        raise InputError(
            f"the reference model has another tokenizer, and the {bare[0]} has no price for the "
            "first token of a text: the two would be compared on different parts of it",
            cure="name what stood before each text in training, with start_token (--start-token) "
            "and reference_start_token (--reference-start-token)",
            where="reference",
        )
    return [
        "The reference model has another tokenizer: what is compared is the loss of each whole "
        "text, per token of the attacked model"
    ]
