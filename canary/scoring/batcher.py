"""The batching engine: the only caller of a model's `score` and `expand`.

It sorts rows by length, finds the batch size, halves it when memory runs out, reports
progress, refuses numbers that are not numbers, and gives results in the order of the
input, the same to within the model's noise whatever the batch size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError, ModelError, UnsupportedError
from canary.models.answered import (
    checked_decoded,
    checked_expansion,
    checked_moments,
    checked_scores,
    no_log_probs,
    not_normalised,
)
from canary.models.decoding import Decoded, Scheme, TellsDecoding
from canary.models.facts import ROUNDING_NATS
from canary.models.language_model import (
    Children,
    Expansion,
    FloatArray,
    IntArray,
    LanguageModel,
    Moments,
    Nodes,
    Rows,
    Spread,
    TellsMoments,
    Walker,
)
from canary.records.progress import Advance
from canary.records.validation import whole_number
from canary.scoring.batch_loop import BatchLoop
from canary.scoring.shared_rows import scored_below
from canary.statistics.number_checks import LN2
from canary.tokens.tokenizer import Encoding

_DEEP = 64  # tokens below the context for which a batch leaves room
_PER_WORKER = 2  # batches that are asked for together: each worker has the next at hand
_BYTES_PER_LOGIT = 12  # a logit, its float32 copy and room for the normaliser


class Batcher:
    """Runs rows and nodes through one model.

    Parameters
    ----------
    model : LanguageModel
        One that is kept several times (`Spread`) has a batch of rows in each copy, and divides
        a batch of nodes.
    batch_size : int, optional
        Rows or nodes per batch; found by trial unless given. Numbers depend on it only
        within ``model.facts.noise_bits``.
    progress : callable, optional
        Called after each batch with the number of tokens that it took; see `Progress`. In a walk
        these are its queries. In rows they are all scored tokens, also those of the context.

    Attributes
    ----------
    batch_size : int or None
        As given.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        batch_size: int | None = None,
        progress: Advance | None = None,
    ) -> None:
        if batch_size is not None:
            batch_size = whole_number(batch_size, "batch_size", at_least=1, cure="leave it out")
        self.model, self.batch_size = model, batch_size
        self._spread = model if isinstance(model, Spread) else None
        self._progress = progress or (lambda tokens: None)
        workers = self._spread.workers if self._spread else 1
        memory = model.memory()
        logits = memory.free_bytes // (_BYTES_PER_LOGIT * model.facts.vocabulary)
        waited_for = model.facts.device != "cpu" or self._spread is not None
        self._tokens = BatchLoop(
            batch_size,
            start=2048,
            limit=logits // workers,
            waited_for=waited_for,
            at_once=_PER_WORKER * workers if self._spread else 1,
        )
        self._nodes = BatchLoop(batch_size, start=64 * workers, limit=logits, waited_for=waited_for)
        self._most_probable = math.exp(model.facts.excess_nats)
        self._held_tokens = memory.free_bytes // (4 * max(memory.bytes_per_held_token, 1))

    def node_batch(self, walker: Walker) -> int:
        """How many nodes the next `expand` of `walker` should have.

        Adapters may copy the context's states for every node of a batch, so a long
        context leaves room for fewer.
        """
        context = len(walker.context_log_probs) + 1
        return max(1, min(self._nodes.size, self._held_tokens // (context + _DEEP)))

    def check_length(self, tokens: int) -> None:
        """Refuse a sequence of more tokens than the model takes."""
        limit = self.model.facts.length_limit
        if limit is not None and tokens > limit:
            raise ModelError(
                f"a candidate of {tokens} tokens is longer than the {limit} that the model takes",
                cure="use a shorter format or context",
            )

    def score(self, rows: Rows, *, alike: bool = False) -> NDArray[np.float32]:
        """Log-probability of each scored token, flat, in the order of the rows, in nats.

        With `alike`, what all rows begin with is read once, if that is much of them and the model
        can; numbers then differ within its noise. One row is scored as a whole as well, and if it
        differs by more, so are all.

        Raises
        ------
        ModelError
            If a row is longer than the model takes, or the model gives NaN, or more than
            probability 1.
        OutOfMemory
            If not even one row fits.
        """

        def read(values: Any, batch: Rows) -> FloatArray:
            return checked_scores(values, batch, self.model)[:, None]

        if alike and (found := scored_below(self, rows)) is not None:
            return found
        return self.run(rows, "score", read, 1)[:, 0]

    def moments(self, rows: Rows) -> Moments:
        """`score`, with the moments of the distribution at each place.

        Raises
        ------
        ModelError, OutOfMemory
            As `score`.
        UnsupportedError
            If the model returns nothing for tokens that were not asked for.
        """
        model = self.model
        if not isinstance(model, TellsMoments):
            raise UnsupportedError(
                f"the model {model.facts.name!r} returns log-probabilities of the tokens of a text "
                "only, not how the whole vocabulary is distributed at each",
                cure="use signals that need no distributions (all but min-k++), or load the model "
                "here instead of asking its server",
            )

        def read(moments: Any, batch: Rows) -> FloatArray:
            told = checked_moments(moments, batch, model)
            # Neither is ever above 0: a mean of log-probabilities, and minus a square root.
            columns = told.log_probs, told.means, -told.deviations
            return np.stack(columns, axis=1, dtype=np.float32)

        values = self.run(rows, "moments", read, 3)
        return Moments(values[:, 0], values[:, 1], -values[:, 2])

    def decoded(self, rows: Rows, schemes: Sequence[Scheme]) -> Decoded:
        """`score` under each decoding scheme, and whether greedy decoding gives each token.

        Raises
        ------
        ModelError, OutOfMemory
            As `score`.
        UnsupportedError
            If the model gives no whole distributions.
        """
        model = self.model
        if not isinstance(model, TellsDecoding):
            raise UnsupportedError(
                f"the model {model.facts.name!r} does not give the distribution of the next token "
                "over its whole vocabulary, which decoding needs",
                cure="load the model here, instead of asking its server or spreading it over "
                "workers",
            )

        def read(answer: Any, batch: Rows) -> FloatArray:
            found = checked_decoded(answer, batch, len(schemes), model)
            # A column that is never above 0, as log-probabilities are.
            return np.column_stack([found.log_probs, found.greedy - 1.0]).astype(np.float32)

        def ask(batch: Rows) -> Decoded:
            return model.decoded(batch, schemes)

        values = self.run(rows, ask, read, len(schemes) + 1)
        return Decoded(values[:, :-1], values[:, -1] == 0.0)

    def run(
        self,
        rows: Rows,
        method: str | Callable[[Rows], Any],
        read: Callable[[Any, Rows], FloatArray],
        numbers: int,
    ) -> NDArray[np.float32]:
        """`numbers` that a method gives for each scored token, in the order of the rows."""
        top = self.model.facts.vocabulary - 1
        _check_whole("rows.ids", rows.ids, low=0, high=top)
        _check_whole("rows.start", rows.start, low=1)
        _check_spans("rows.offsets", rows.offsets, len(rows.start), len(rows.ids))
        self.check_length(int(rows.lengths.max(initial=0)))
        lengths, scored = rows.lengths, rows.scored
        first = np.append(0, np.cumsum(scored))
        out = np.empty((int(first[-1]), numbers), np.float32)
        order = np.argsort(-lengths, kind="stable")  # longest first: trouble comes early

        def ask(parts: Sequence[slice]) -> list[FloatArray]:
            batches = [rows.take(order[part]) for part in parts]
            if callable(method):
                answers = map(method, batches)
            elif self._spread:
                answers = getattr(self._spread, f"{method}_each")(batches)
            else:
                answers = map(getattr(self.model, method), batches)
            return [read(answer, batch) for answer, batch in zip(answers, batches, strict=True)]

        for part, values in self._tokens.run(len(rows), ask, weights=lengths[order]):
            self.check_numbers(values)
            counts = scored[order[part]]
            within = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
            out[np.repeat(first[order[part]], counts) + within] = values
            self._progress(int(counts.sum()))
        return out

    def expand(
        self, walker: Walker, nodes: Nodes, tokens: Children, *, keep: bool = True
    ) -> Expansion:
        """`walker.expand`, in halves where the whole does not fit into memory.

        Raises
        ------
        ModelError
            If the model gives NaN, more than probability 1, or the children of a node more
            than that together.
        OutOfMemory
            If not even one node fits.
        """
        _check_nodes(nodes, tokens, self.model.facts.vocabulary - 1)

        def ask(parts: Sequence[slice]) -> list[Expansion]:
            (part,) = parts
            some, children = nodes[part], tokens.part(part.start, part.stop)
            answer = walker.expand(some, children, keep=keep)
            return [checked_expansion(answer, some, children, walker)]

        if not len(nodes):
            return ask([slice(0, 0)])[0]
        expansions = []
        depth = nodes.paths.shape[1]
        for part, expansion in self._nodes.run(len(nodes), ask, whole=True, kind=depth):
            self.check_numbers(expansion.log_probs)
            self.check_numbers(expansion.path_log_probs)
            self._check_sums(expansion, tokens.part(part.start, part.stop).offsets)
            self._progress(expansion.queries)
            expansions.append(expansion)
        return expansions[0] if len(expansions) == 1 else Expansion.joined(expansions)

    def check_numbers(self, values: FloatArray) -> None:
        """Refuse log-probabilities that are NaN or above 0; -infinity is probability 0."""
        if not (values <= ROUNDING_NATS).all():  # NaN is not at most anything
            raise no_log_probs(self.model.facts.name, values)

    def _check_sums(self, expansion: Expansion, offsets: IntArray | None) -> None:
        """Refuse probabilities of a node's children that sum to more than 1; bounds may."""
        shares = np.exp(expansion.log_probs)
        if expansion.exact is not None:
            shares[~expansion.exact] = 0.0
        if offsets is None:
            sums = shares.sum(axis=1)
        else:
            starts = offsets[:-1][np.diff(offsets) > 0]  # reduceat gives no empty sums
            sums = np.add.reduceat(shares, starts, dtype=np.float64) if len(starts) else shares
        most = float(sums.max(initial=0.0))
        if most > self._most_probable:
            raise not_normalised(self.model.facts.name, most)


def row_sums(
    log_probs: NDArray[np.float32], rows: Rows, *, at_most: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Sum over the scored tokens of each row, shape (n,) and float64, first token first.

    The order of the additions is that of a walk, so that on a model without noise a
    row's sum equals the walk's cost to the last bit.

    Parameters
    ----------
    log_probs : array of shape (sum of scored,)
    rows : Rows
    at_most : int64 array of shape (n,), optional
        Sum at most this number of the first scored tokens of each row.
    """
    scored = rows.scored
    first = np.cumsum(scored) - scored
    wanted = scored if at_most is None else np.minimum(scored, at_most)
    sums = np.zeros(len(rows))
    for position in range(int(wanted.max(initial=0))):
        here = np.flatnonzero(position < wanted)
        sums[here] += log_probs[first[here] + position]
    return sums


def encoding_bits(
    batcher: Batcher, encodings: Sequence[Encoding], *, alike: bool = False
) -> NDArray[np.float64]:
    """Log-perplexity of each encoding in bits, of all its tokens but the first; shape (n,).

    With `alike`, what all begin with is read once; see `Batcher.score`.
    """
    rows = Rows.of([encoding.ids for encoding in encodings])
    bits: NDArray[np.float64] = -row_sums(batcher.score(rows, alike=alike), rows) / LN2
    return bits


def _check_nodes(nodes: Nodes, children: Children, top: int) -> None:
    """Refuse nodes whose arrays do not fit together, or that hold no token up to `top`."""
    _check_whole("nodes.paths", nodes.paths, low=0, high=top, dimensions=2)
    count, depth = nodes.paths.shape
    _check_whole("nodes.lengths", nodes.lengths, low=0, high=depth, count=count)
    _check_whole("nodes.priced", nodes.priced, low=0, count=count)
    _check_whole("nodes.handles", nodes.handles, count=count)
    if (nodes.priced > nodes.lengths).any():
        raise _misfit("nodes.priced", "is beyond nodes.lengths")
    _check_whole("children.tokens", children.tokens, low=0, high=top)
    if children.offsets is not None:
        _check_spans("children.offsets", children.offsets, count, len(children.tokens))


def _check_spans(name: str, offsets: Any, count: int, total: int) -> None:
    _check_whole(name, offsets, count=count + 1)
    if offsets[0] != 0 or offsets[-1] != total or (offsets[1:] < offsets[:-1]).any():
        raise _misfit(name, f"does not part {total} tokens into {count}")


def _check_whole(
    name: str,
    array: Any,
    *,
    low: int | None = None,
    high: int | None = None,
    count: int | None = None,
    dimensions: int = 1,
) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
        raise _misfit(name, f"is {getattr(array, 'dtype', type(array).__name__)}, not integers")
    if array.ndim != dimensions:
        raise _misfit(name, f"has the shape {array.shape}, not {dimensions} dimensions")
    if count is not None and len(array) != count:
        raise _misfit(name, f"has {len(array)} numbers for {count}")
    if not array.size or low is None:
        return
    least, most = int(array.min()), int(array.max())
    if least < low or (high is not None and most > high):
        expected = f"{low} or more" if high is None else f"{low} to {high}"
        raise _misfit(name, f"holds {least if least < low else most}, expected {expected}")


def _misfit(name: str, problem: str) -> InputError:
    cure = "see canary.models.language_model for what rows, nodes and children are"
    return InputError(f"{name} {problem}", cure=cure)
