"""Candidates scored along their token tree, below one context, or as whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, RecordError, UnsupportedError
from canary.formats.format import Format
from canary.models.language_model import Context, LanguageModel, Rows, Walker
from canary.records.shards import Series
from canary.scoring.batcher import Batcher, encoding_bits, row_sums
from canary.scoring.served_requests import asking
from canary.search.enumerate import leaf_costs
from canary.search.step import context_nats
from canary.statistics.number_checks import LN2
from canary.tokens.arrays import TokenTree
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.tokenizer import Encoding
from canary.tokens.tree import leaf_numbers, list_tree

Floats = NDArray[np.float64]

FILLS_AT_ONCE = 2**12
"""Fills that are encoded and priced at once."""

FLOATS = np.dtype("<f8")
"""How costs are written to a shard, whatever the machine."""

_CHECKED, _CHECKED_TOKENS, _MOST_TOKENS = 4, 4_096, 8_192
_MOST_STATES = 2**20  # far more than a walk holds that goes depth first


class StatesError(ModelError):
    """A candidate costs something else below cached states than as a whole row."""


@dataclass(frozen=True, eq=False)
class Priced:
    """Canaries with their costs: log-perplexity of each, shape (k,).

    `context_bits` is the part of it that comes before the fill; None if the tokenizer does
    not show it.
    """

    px_bits: Floats
    context_bits: Floats | None


@dataclass(frozen=True, eq=False)
class Pricer:
    """The candidates of one format below one context of a model.

    A context manager: the context is computed when something below it is first asked for, once,
    and its states are freed at the end.

    Parameters
    ----------
    model : LanguageModel
    format : Format
    encoder : CandidateEncoder
    tree : TokenTree, optional
        Of the format under the encoder. Without one, and where the model holds no states below
        its context, candidates are scored as whole rows.
    noise_bits : float
        By so much a walk and a whole row may differ.
    memory_bytes : int, optional
        What a walk may hold; a quarter of what is free, and no more than serves, unless given.
    """

    model: LanguageModel
    format: Format
    encoder: CandidateEncoder
    tree: TokenTree | None = None
    noise_bits: float = 0.0
    memory_bytes: int | None = None
    _open: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    @cached_property
    def walker(self) -> Walker:
        """The model below the context of the tree."""
        assert self.tree is not None
        room = walk_memory(self.model) if self.memory_bytes is None else self.memory_bytes
        context = Context(self.tree.context)
        return self._open.enter_context(self.model.open(context, memory_bytes=room))

    @property
    def context_bits(self) -> float:
        """The cost of the tree's context."""
        return context_nats(self.walker) / LN2

    def leaves(self, fills: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of fills among the leaves of the tree."""
        assert self.tree is not None
        return leaf_numbers(self.tree, self.format, self.encoder, fills)

    @property
    def walks(self) -> bool:
        """Whether candidates are scored along the tree."""
        return self.tree is not None and self.walker.room > 0

    def price(self, batcher: Batcher, fills: Sequence[str]) -> tuple[Priced, int]:
        """Candidates with these fills, and the queries that they take.

        Along the tree one query is spent on each inner node above them.
        """
        if self.tree is None or not self.walks:
            return price_rows(batcher, self.format, self.encoder, fills, alike=True)
        costs, _, queries = leaf_costs(self.tree, self.walker, batcher, self.leaves(fills))
        return Priced(costs / LN2, np.full(len(fills), self.context_bits)), queries

    def canaries(self, batcher: Batcher, fills: Sequence[str]) -> tuple[Priced, int]:
        """`price`, for what is to be ranked; some of those walked are scored as rows, too.

        Raises
        ------
        ModelError
            If a canary has probability 0; or `check_agreement` refuses what was walked.
        """
        with asking(self.model, "canaries and controls"):
            priced, queries = self.price(batcher, fills)
        impossible = np.flatnonzero(~np.isfinite(priced.px_bits))
        if len(impossible):
            raise ModelError(
                f"the model {self.model.facts.name!r} gives probability 0 to {len(impossible)} of "
                f"the {len(fills)} canaries and controls of {self.format.masked!r}, number "
                f"{impossible[0] + 1} among them",
                cure="check which tokens the model forbids, and use a format without them",
            )
        if self.tree is not None and self.walks:
            some = fills[: rows_compared(len(self.tree.context) + 1)]
            rows, spent = price_rows(batcher, self.format, self.encoder, some)
            walked = priced.px_bits[: len(some)]
            check_agreement(batcher, walked, rows.px_bits, self.noise_bits)
            queries += spent
        return priced, queries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Token rows that begin alike, priced along the tree that they make."""

    encodings: Sequence[Encoding]

    @cached_property
    def _tree(self) -> tuple[TokenTree, NDArray[np.int64]] | None:
        """The tree of the rows, and their leaves in it; None if one row continues another."""
        rows = [encoding.ids for encoding in self.encodings]
        different = list(dict.fromkeys(rows))
        try:
            tree = list_tree(different, [""] * len(different))
        except UnsupportedError:
            return None
        return tree, tree.numbers(rows)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return max(len(encoding.ids) for encoding in self.encodings)

    def work(self, model: LanguageModel) -> tuple[int, int]:
        """About as many tokens does a model compute to price them: in a walk, and in whole rows."""
        tree, rows, walked = self._walked_tree(model), self.encodings, 0
        if tree is not None:
            rows, walked = rows[: self._compared(tree)], _walked(tree)
        return walked, sum(len(encoding.ids) for encoding in rows)

    def _compared(self, tree: TokenTree) -> int:
        """Rows that are scored as whole rows too: at most about as many tokens as the walk has."""
        return rows_compared(self.longest, _walked(tree))

    def _walked_tree(self, model: LanguageModel) -> TokenTree | None:
        """The tree, if walking it saves anything beside the rows that are compared with it."""
        if self._tree is None or "reuse" not in model.facts.capabilities:
            return None
        tree, _ = self._tree
        saved = (len(self.encodings) - self._compared(tree)) * self.longest
        return tree if _walked(tree) < saved else None

    def price(self, batcher: Batcher) -> Floats:
        """Log-perplexity of each row in bits.

        Whole rows are scored where the model reuses no states, or does not give from them
        what it gives for some whole rows.
        """
        model = batcher.model
        batcher.check_length(self.longest)
        tree = self._walked_tree(model)
        if tree is None or self._tree is None:
            return encoding_bits(batcher, self.encodings)
        _, leaves = self._tree
        with model.open(Context(tree.context), memory_bytes=walk_memory(model)) as walker:
            if not walker.room:
                return encoding_bits(batcher, self.encodings)
            bits = leaf_costs(tree, walker, batcher, leaves)[0] / LN2
        some = self.encodings[: self._compared(tree)]
        off = _difference(bits[: len(some)], encoding_bits(batcher, some))
        fine = off <= model.facts.noise_bits(self.longest)
        return bits if fine else encoding_bits(batcher, self.encodings)


def walk_memory(model: LanguageModel) -> int:
    """Bytes that the states of one walk may take."""
    memory = model.memory()
    return min(memory.free_bytes // 4, _MOST_STATES * memory.bytes_per_held_token)


def _walked(tree: TokenTree) -> int:
    """Tokens that a walk of a whole tree takes."""
    return len(tree.context) + tree.queries()


def rows_compared(tokens: int, most: int = _CHECKED_TOKENS) -> int:
    """How many candidates of this length that were walked are scored as whole rows, too.

    Four of up to 2,048 tokens, and more of short ones, with `most` tokens in all or 4,096. Of
    longer ones fewer, since each costs what reading the context costs, and one in any case.
    """
    few = min(_CHECKED, max(_MOST_TOKENS // tokens, 1))
    return max(few, min(most, _CHECKED_TOKENS) // tokens)


def price_rows(
    batcher: Batcher,
    format: Format,
    encoder: CandidateEncoder,
    fills: Sequence[str],
    *,
    alike: bool = False,
) -> tuple[Priced, int]:
    """Whole candidates scored as rows, and the tokens below their contexts.

    With `alike`, what all begin with is read once; see `Batcher.score`.
    """
    encodings = encoder.candidates(format, fills)
    rows = Rows.of([encoding.ids for encoding in encodings])
    log_probs = batcher.score(rows, alike=alike)
    px = -row_sums(log_probs, rows) / LN2
    lengths = [encoder.context_length(format, encoding) for encoding in encodings]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        return Priced(px, None), int(rows.scored.sum())
    context = np.array(known, np.int64)
    context_bits = -row_sums(log_probs, rows, at_most=context - 1) / LN2
    return Priced(px, context_bits), int((rows.lengths - context).sum())


def _difference(walked: Floats, rows: Floats) -> float:
    """The largest difference, less 1e-9 of the largest cost for sums in another order."""
    with np.errstate(invalid="ignore"):  # both may be infinite
        worst = float(np.nanmax(np.abs(walked - rows), initial=0.0))
    return worst - 1e-9 * float(np.abs(rows).max(initial=0.0))


def check_agreement(
    batcher: Batcher, walked_bits: Floats, row_bits: Floats, noise_bits: float
) -> None:
    """Refuse costs along a walk that are not those of the same candidates as whole rows.

    Raises
    ------
    StatesError
        If one differs by more: then the model's states do not carry all that came before,
        or the tree is not its tokenizer's.
    """
    worst = _difference(walked_bits, row_bits)
    if worst > noise_bits:
        raise StatesError(
            f"the model {batcher.model.facts.name!r} gives a candidate {worst:.3g} bits more "
            f"or less below cached states than as a whole row, its noise is {noise_bits:.3g}",
            cure='check that its states carry all that came before, or use method="sampling"',
        )


def resumed(
    canaries: Priced, queries: int, shards: Series, *, noise_bits: float
) -> tuple[Priced, int]:
    """The canaries with the costs of the run's beginning, which the first shard keeps.

    All counts of a run refer to the same limits. The costs also say whether the
    canaries are the same: nothing else of a secret may be kept, not even a digest.

    Raises
    ------
    RecordError
        If a cost is another than at the beginning.
    """
    if not len(shards):
        known = [canaries.px_bits]
        if canaries.context_bits is not None:
            known.append(canaries.context_bits)
        state = {"share": 0.0, "queries": queries, "seconds": 0.0}
        shards.append(state, np.concatenate(known).astype(FLOATS).tobytes())
        return canaries, queries
    begun, k = np.frombuffer(shards[0].body, FLOATS), len(canaries.px_bits)
    px, context = begun[:k], begun[k:]
    if len(begun) not in {k, 2 * k} or not np.allclose(
        px, canaries.px_bits, rtol=0.0, atol=noise_bits
    ):
        raise RecordError(
            "an unfinished run in it was begun with other canaries: their log-perplexities differ",
            cure=f"give the canary set it was begun with, or remove {shards.folder} to begin anew",
            where=str(shards.folder),
        )
    return Priced(px, context if len(context) else None), shards[0].state["queries"]
