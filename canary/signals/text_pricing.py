"""Texts -> the prices of their tokens: long texts in windows, and further passes over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, RecordError, UnsupportedError
from canary.models.language_model import LanguageModel, Rows
from canary.records.progress import Progress, stage
from canary.records.shards import Run, Series
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import ScoreOptions
from canary.scoring.served_requests import announce
from canary.scoring.texts import encode_placed, windows
from canary.signals.text import TokenPrices
from canary.tokens.tokenizer import Encoding

"""With what the names of stages begin that count texts, and not tokens."""

_BLOCK = 1 << 16  # tokens that are scored between two shards
_FLOATS, _LOSSES = np.dtype("<f4"), np.dtype("<f8")


class Rewriter(Protocol):
    """What replaces words of texts by others that fit, such as a masked language model."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Its name and its fingerprint."""
        ...

    def rewrite(self, texts: Sequence[str], *, share: float, rng: np.random.Generator) -> list[str]:
        """Each text with `share` of its words replaced; one that has none is as it was."""
        ...


class Pricer:
    """Prices texts with one model, in windows; tokens of the context are not priced.

    `window` are the most tokens that the model is given at once, what it takes unless given;
    `overlap` those that a window shares with the one before, half a window unless given. Both
    are None where the model takes any text.
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
        self.encoder, self._batch_size = options.encoder(model), options.batch_size
        limit = model.facts.length_limit
        if window is not None and window < 2:
            raise InputError(
                f"window={window} scores no token", cure="give at least 2 tokens", where="window"
            )
        self.window = limit if window is None else min(window, limit or window)
        self.overlap = overlap
        if self.window is None:
            if overlap is not None:
                problem = f"overlap={overlap} without windows: the model takes texts of any length"
                cure = "leave it out, or give a window (--window)"
                raise InputError(problem, cure=cure, where="overlap")
            return
        self.overlap = max(self.window // 2, 1) if overlap is None else overlap
        if not 1 <= self.overlap < self.window:
            problem = f"overlap={self.overlap} does not fit windows of {self.window} tokens"
            cure = f"give 1 to {self.window - 1}; half a window is usual"
            raise InputError(problem, cure=cure, where="overlap")

    def price(
        self,
        encodings: Sequence[Encoding],
        *,
        progress: Progress,
        name: str,
        moments: bool = False,
        shards: Series | None = None,
    ) -> tuple[TokenPrices, int]:
        """The prices of the tokens of each text, and how many texts have more than one window.

        `moments` says whether the distributions are wanted as well. In `shards` finished blocks are
        kept; those that are there are not priced again.
        """
        parts: list[tuple[int, ...]] = []
        starts: list[int] = []
        first = np.zeros(len(encodings) + 1, np.int64)
        for number, encoding in enumerate(encodings, 1):
            for part, start in self._windows(encoding):
                parts.append(part)
                starts.append(start)
            first[number] = len(parts)
        rows = Rows.of(parts, starts)
        counts = np.add.reduceat(rows.scored, first[:-1])
        ends = _ends(counts)
        known = [] if shards is None else _known(shards, ends)
        done = int(first[ends[len(known) - 1]]) if known else 0
        advance = stage(progress, name, int(rows.scored[done:].sum()))
        batcher = Batcher(self.model, batch_size=self._batch_size, progress=advance)
        announce(self.model, lambda: len(rows) - done, what="texts")
        for begin, end in list(zip([0, *ends], ends, strict=False))[len(known) :]:
            block = rows.take(np.arange(first[begin], first[end]))
            if moments:
                said = batcher.moments(block)
                columns = (said.log_probs, said.means, said.deviations)
                known.append(np.stack(columns, axis=1, dtype=np.float32).ravel())
            else:
                known.append(batcher.score(block))
            if shards is not None:
                shards.append({"texts": end}, known[-1].astype(_FLOATS).tobytes())
        values = np.concatenate(known)
        prices = TokenPrices(values, counts)
        if moments:
            log_probs, means, deviations = values.reshape(-1, 3).T
            prices = TokenPrices(log_probs, counts, means, deviations)
        return prices, int((np.diff(first) > 1).sum())

    def _windows(self, encoding: Encoding) -> list[tuple[tuple[int, ...], int]]:
        """Parts of a text, the tokens of a context before it not priced."""
        start = 1
        if self.encoder.context:
            if encoding.spans is None:
                raise UnsupportedError(
                    "the tokenizer does not say where a context ends and the text begins",
                    cure="leave the context out",
                )
            start = max(next((i for i, (_, stop) in enumerate(encoding.spans) if stop > 0), 0), 1)
        if self.window is None or self.overlap is None or len(encoding.ids) <= self.window:
            return [(encoding.ids, start)]
        if start >= self.window:
            raise InputError(
                f"the context has {start} tokens, a window takes {self.window}",
                cure="give a shorter context, or a larger window (--window)",
            )
        return list(windows(encoding.ids, limit=self.window, overlap=self.overlap, start=start))


def _ends(counts: NDArray[np.int64]) -> list[int]:
    """Where blocks of texts end: after so many tokens, or one longer text."""
    ends, tokens = [], 0
    for number, count in enumerate(counts.tolist(), 1):
        tokens += count
        if tokens >= _BLOCK:
            ends.append(number)
            tokens = 0
    return ends if ends and ends[-1] == len(counts) else [*ends, len(counts)]


def _known(shards: Series, ends: list[int]) -> list[NDArray[np.float32]]:
    """What an earlier run has finished, of the same blocks."""
    earlier = list(shards)
    if [shard.state.get("texts") for shard in earlier] != ends[: len(earlier)]:
        problem = "holds other blocks of texts than this run has"
        raise RecordError(
            problem, cure=f"remove {shards.folder} to begin anew", where=str(shards.folder)
        )
    return [np.frombuffer(shard.body, _FLOATS).astype(np.float32) for shard in earlier]


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
    ours: Pricer, encodings: list[Encoding], theirs: Pricer, others: list[Encoding]
) -> list[str]:
    """Refuse a reference that prices other parts of the texts; say so if it has other tokens."""
    if all(mine.ids == other.ids for mine, other in zip(encodings, others, strict=True)):
        return []
    both = {
        "target": ours.encoder.starts_bare(encodings),
        "reference model": theirs.encoder.starts_bare(others),
    }
    bare = [name for name, starts_bare in both.items() if starts_bare]
    if bare:
        raise InputError(
            f"the reference model has another tokenizer, and the {bare[0]} has no score for the "
            "first token of a text: the two would be compared on different parts of it",
            cure="name what came before each text in training, with start_token (--start-token) "
            "and reference_start_token (--reference-start-token)",
            where="reference",
        )
    return [
        "The reference model has another tokenizer: what is compared is the loss of each whole "
        "text, per token of the attacked model"
    ]


@dataclass(frozen=True, eq=False)
class Passes:
    """Further passes over the texts that are kept: in lower case, by others, over copies."""

    texts: list[str] = field(repr=False)
    place: Callable[[int], str]
    progress: Progress
    run: Run | None
    pricer: Pricer
    theirs: Pricer | None
    rewriter: Rewriter | None
    settings: Mapping[str, Any]

    def ask(self, name: str) -> TokenPrices:
        """The prices of the texts in lower case, or by the reference model."""
        texts, pricer = self.texts, self.theirs
        if name == "lower case":
            texts, pricer = [text.lower() for text in texts], self.pricer
        assert pricer is not None
        shards = self.run.series(name.replace(" ", "-")) if self.run else None
        return self._price(texts, pricer, name, shards)

    def rewrite(self) -> list[NDArray[np.float64]]:
        """The losses of the rewritten copies of each text.

        They are kept pass by pass: a copy that is rewritten again need not be the same to the
        last word on every device, and no text is kept.
        """
        assert self.rewriter is not None
        shards = None if self.run is None else self.run.series("copies")
        losses = [np.frombuffer(shard.body, _LOSSES) for shard in shards or ()]
        for number in range(len(losses), self.settings["neighbours"]):
            done = stage(self.progress, f"rewriting {number + 1}", len(self.texts), "texts")
            rng = np.random.default_rng((self.settings["seed"], number))
            share = self.settings["masked_share"]
            copies = self.rewriter.rewrite(self.texts, share=share, rng=rng)
            done(len(self.texts))
            losses.append(self._price(copies, self.pricer, f"copies {number + 1}").losses)
            if shards is not None:
                shards.append({"copies": number + 1}, losses[-1].astype(_LOSSES).tobytes())
        return losses

    def _price(
        self, versions: list[str], by: Pricer, name: str, shards: Series | None = None
    ) -> TokenPrices:
        encodings = encode_placed(by.encoder, versions, self.place)
        return by.price(encodings, progress=self.progress, name=name, shards=shards)[0]
