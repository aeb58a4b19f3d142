"""Canaries and other fills priced as whole rows, and held against other prices of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, RecordError
from canary.formats.format import Format
from canary.records.shards import Series
from canary.scoring.batcher import Batcher, row_sums
from canary.scoring.texts import score_encodings
from canary.statistics.units import LN2
from canary.tokens.candidates import CandidateEncoder

__all__ = [
    "FLOATS",
    "ROWS_AT_ONCE",
    "Priced",
    "check_agreement",
    "price",
    "price_canaries",
    "resumed",
]

ROWS_AT_ONCE = 2**12
"""Fills that are encoded and priced at once."""

FLOATS = np.dtype("<f8")
"""How costs stand in a shard, whatever the machine."""


@dataclass(frozen=True, eq=False)
class Priced:
    """Canaries with their costs.

    Parameters
    ----------
    px_bits : float64 array of shape (k,)
        Log-perplexity of each.
    context_bits : float64 array of shape (k,), or None
        The part of it that comes before the fill; None if the tokenizer cannot tell.
    """

    px_bits: NDArray[np.float64]
    context_bits: NDArray[np.float64] | None


def price(
    batcher: Batcher, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> tuple[Priced, int]:
    """Whole candidates scored as rows, and the queries that this took."""
    encodings = encoder.candidates(format, fills)
    log_probs, rows = score_encodings(batcher, encodings)
    px = -row_sums(log_probs, rows) / LN2
    lengths = [encoder.context_length(format, e) for e in encodings]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths):
        return Priced(px, None), int(rows.scored.sum())
    context = np.array(known, np.int64)
    context_bits = -row_sums(log_probs, rows, at_most=context - 1) / LN2
    return Priced(px, context_bits), int((rows.lengths - context).sum())


def price_canaries(
    batcher: Batcher, format: Format, encoder: CandidateEncoder, fills: Sequence[str]
) -> tuple[Priced, int]:
    """`price`, refusing what no rank can be given: a canary of probability 0."""
    priced, queries = price(batcher, format, encoder, fills)
    impossible = np.flatnonzero(~np.isfinite(priced.px_bits))
    if len(impossible):
        raise ModelError(
            f"the model {batcher.model.facts.name!r} gives probability 0 to {len(impossible)} of "
            f"the {len(fills)} canaries and controls of {format.masked!r}, number "
            f"{impossible[0] + 1} among them",
            cure="check which tokens the model forbids, and use a format without them",
        )
    return priced, queries


def check_agreement(batcher: Batcher, walked: Priced, rows: Priced, noise_bits: float) -> None:
    """Refuse costs along a walk that are not those of whole rows.

    Parameters
    ----------
    batcher : Batcher
        Of the model, which is named in the error.
    walked, rows : Priced
        The same fills in the same order, k of them, priced both ways.
    noise_bits : float
        They may differ by this much, and by 1e-9 of the largest cost for sums in another
        order.

    Raises
    ------
    ModelError
        If one differs by more: then the model's states do not carry all that came before,
        or the tree is not its tokenizer's.
    """
    difference = np.abs(walked.px_bits - rows.px_bits)
    worst = float(np.nanmax(difference, initial=0.0))  # both may be infinite
    if worst > noise_bits + 1e-9 * float(np.abs(rows.px_bits).max(initial=0.0)):
        raise ModelError(
            f"the model {batcher.model.facts.name!r} gives a candidate {worst:.3g} bits more "
            f"or less below held states than as a whole row, its noise is {noise_bits:.3g}",
            cure="check that its states carry all that came before, or use --method sampling",
        )


def resumed(
    canaries: Priced, queries: int, shards: Series, *, noise_bits: float
) -> tuple[Priced, int]:
    """The canaries with the costs of the run's beginning, which the first shard keeps.

    All counts of a run refer to the same limits. The costs also tell whether the
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
            cure="give the canary set it was begun with, or remove the folder to begin anew",
            where=str(shards.folder),
        )
    return Priced(px, context if len(context) else None), shards[0].state["queries"]
