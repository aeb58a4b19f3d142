"""The probability of tokens that are drawn by decoding schemes.

On a processor, the limits of top-k and top-p are found without a sort of the vocabulary. All others
are found by the processors of `transformers`, and so are ties at a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from canary.models.decoding import Decoded, Scheme, warped

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]

_CACHED, _ON_GPU = 1 << 19, 1 << 22  # logits that are worked on at a time
_KNOWN = {"temperature", "top_k", "top_p"}  # of which the limit is found here
_NEVER: np.float32 = np.float32(-np.inf)
_BINS, _PER_NAT = 512, np.float32(32.0)
_USUAL = 3e-6  # relative rounding of float32 sums: thrice the most measured without ties
_WORST = 2.0**-26  # the same for each probability, if all are equal and four are summed at a time


def decoded_tokens(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    schemes: Sequence[Scheme],
    *,
    places: torch.Tensor | None = None,
    at_once: int | None = None,
) -> Decoded:
    """Tokens of shape (n,) as drawn from logits of shape (n, vocabulary).

    `places` are the numbers of those rows of the logits that belong to the tokens; all unless
    given. About `at_once` logits are worked on at a time, as many as a processor's cache holds
    unless given (on a GPU more); a few copies of these are held.
    """
    at_once = at_once or (_CACHED if logits.device.type == "cpu" else _ON_GPU)
    size = max(at_once // logits.shape[-1], 1)
    log_probs = np.empty((len(tokens), len(schemes)), np.float32)
    greedy = np.empty(len(tokens), np.bool_)
    for at in range(0, len(tokens), size):
        chosen = slice(at, at + size) if places is None else places[at : at + size]
        part, wanted = logits[chosen].float(), tokens[at : at + size].unsqueeze(1)
        on_cpu = part.device.type == "cpu"  # numpy's argmax takes a tenth of the time of torch's
        first = part.numpy().argmax(-1) if on_cpu else part.argmax(-1).cpu().numpy()
        greedy[at : at + size] = first == wanted[:, 0].cpu().numpy()
        held: dict[float, _Scores] = {}
        for column, scheme in enumerate(schemes):
            log_probs[at : at + size, column] = _log_probs(part, wanted, scheme, held).cpu().numpy()
    return Decoded(log_probs, greedy)


class _Scores:
    """Rows of logits at one temperature: whatever schemes ask of their order, on a processor.

    The processors of `transformers` sort the vocabulary for top-p. Here only those tokens are
    sorted among which a limit is. All that is exponential is relative to the highest logit.
    """

    def __init__(self, logits: torch.Tensor, temperature: float) -> None:
        self.scores: Singles = (logits if temperature == 1.0 else logits / temperature).numpy()
        self.highest = self.scores.max(-1, keepdims=True)

    @cached_property
    def away(self) -> Singles:
        away: Singles = self.scores - self.highest
        return away

    @cached_property
    def shares(self) -> Singles:
        shares: Singles = np.exp(self.away)
        return shares

    @cached_property
    def total(self) -> Floats:
        total: Floats = self.shares.sum(-1, keepdims=True).astype(np.float64)
        return total

    @cached_property
    def bins(self) -> tuple[NDArray[np.int32], Floats]:
        """The bin of each logit, higher for higher ones, and the sums of shares up to each bin."""
        import torch

        place = self.away * _PER_NAT
        place += _BINS - 1
        bins = np.maximum(place, 0, out=place).astype(np.int32)
        bins += np.arange(len(bins), dtype=np.int32)[:, None] * _BINS
        flat, shares = torch.from_numpy(bins).flatten(), torch.from_numpy(self.shares).flatten()
        sums = torch.bincount(flat, shares.double(), len(bins) * _BINS)
        return bins, sums.reshape(-1, _BINS).cumsum(-1).numpy()

    def highest_of(self, count: int) -> Singles:
        """The `count` highest logits of each row, all that tie with the last, and some more."""
        size = self.scores.shape[-1]
        groups = min(max(2 * count, 256), size)
        whole = self.scores[:, : size // groups * groups].reshape(len(self.scores), -1, groups)
        least = np.partition(whole.max(1), groups - count, axis=-1)[:, groups - count, None]
        return self._ascending(self.scores >= least)

    def around(self, sum_below: Floats) -> tuple[Singles, Floats, Floats]:
        """The logits of the bin in which the sum of shares passes this, and the sums beside it."""
        bins, sums = self.bins
        rows = np.arange(len(sums), dtype=np.int32)
        at = np.minimum((sums <= sum_below).sum(-1), _BINS - 1).astype(np.int32)
        below, upto = np.where(at > 0, sums[rows, at - 1], 0.0), sums[rows, at]
        inside = bins == (rows * _BINS + at)[:, None]
        return self._ascending(inside), below[:, None], (sums[:, -1] - upto)[:, None]

    def nucleus(
        self, top_p: float, chosen: Singles, highest: Singles | None, *, whole: bool
    ) -> tuple[Singles, Floats, Bools]:
        """The lowest logit that top-p keeps, the sum of kept shares, and whether both are unclear.

        They are where the token `chosen` ties with one that is taken away, and where rounding may
        decide. Of the `highest` logits if those are all, such as those of top-k, else of all. With
        `whole`, sums are rounded as those of `transformers`, if all logits are given.
        """
        import torch

        below = above = np.zeros_like(chosen, np.float64)
        total = self.total if highest is None else self.sum_of(highest)
        most = (1.0 - top_p) * total
        if highest is None:
            highest, below, above = self.around(most)
        shares = np.exp(highest - self.highest)
        if whole:
            away = torch.from_numpy(highest).softmax(-1).cumsum(-1).numpy() <= 1.0 - top_p
            unclear: Bools = np.zeros(chosen.shape, np.bool_)
        else:
            sums = below + shares.cumsum(-1, dtype=np.float64)
            away = sums <= most
            off, worst = np.abs(sums / most - 1.0), self.scores.shape[-1] * _WORST
            decides = (off < _USUAL) | ((off < worst) & (highest == chosen))
            unclear = decides.any(-1, keepdims=True) | (off[:, -1:] < worst)
            unclear |= np.abs(below / most - 1.0) < worst
        away[:, -1] = False
        first = away.sum(-1, keepdims=True)
        limit: Singles = np.take_along_axis(highest, first, -1)
        last_away = np.take_along_axis(highest, np.maximum(first - 1, 0), -1)
        unclear |= (first > 0) & (last_away == limit) & (chosen == limit)
        kept = above + (shares * ~away).sum(-1, keepdims=True, dtype=np.float64)
        return limit, kept, unclear

    def sum_of(self, logits: Singles) -> Floats:
        """The shares of some logits together."""
        total: Floats = np.exp(logits - self.highest).sum(-1, keepdims=True, dtype=np.float64)
        return total

    def _ascending(self, chosen: Bools) -> Singles:
        """Chosen logits of each row in order; minus infinity before them where they are fewer."""
        places = np.flatnonzero(chosen)
        counts = np.bincount(places // chosen.shape[-1], minlength=len(chosen))
        found = np.full((len(chosen), counts.max()), -np.inf, np.float32)
        found[np.arange(found.shape[-1]) < counts[:, None]] = self.scores.ravel()[places]
        found.sort(axis=-1)
        return found


def _log_probs(
    logits: torch.Tensor,
    wanted: torch.Tensor,
    scheme: Scheme,
    held: dict[float, _Scores],
    *,
    whole: bool = False,
) -> torch.Tensor:
    """Log-probability, of shape (n,), of the token `wanted`, (n, 1), of each row of logits.

    What is `held` serves all schemes of one temperature. Where rounding at the limit may decide,
    the `whole` vocabulary is sorted and summed as in `transformers`, and where a tie may, its
    processors do.
    """
    import torch

    if not scheme.limits.keys() <= _KNOWN or logits.device.type != "cpu":
        return _exactly(logits, wanted, scheme)
    if scheme.temperature not in held:
        held[scheme.temperature] = _Scores(logits, scheme.temperature)
    rows = held[scheme.temperature]
    if not np.isfinite(rows.highest).all():
        return _exactly(logits, wanted, scheme)
    size = logits.shape[-1]
    chosen: Singles = np.take_along_axis(rows.scores, wanted.numpy(), -1)
    total, unclear = rows.total, np.zeros(chosen.shape, np.bool_)
    limit: Singles = np.full(chosen.shape, _NEVER)
    highest: Singles | None = None
    if scheme.top_k is not None and scheme.top_k < size:
        some = rows.highest_of(scheme.top_k)
        limit = some[:, -scheme.top_k, None]
        highest = np.where(some < limit, _NEVER, some)
        total = rows.sum_of(highest)
    if (top_p := scheme.limits.get("top_p")) is not None:
        whole |= size <= 2 * _BINS
        if whole:
            highest = np.sort(np.where(rows.scores < limit, _NEVER, rows.scores), axis=-1)
        limit, total, unclear = rows.nucleus(top_p, chosen, highest, whole=whole)
    logs = np.where(chosen < limit, _NEVER, chosen - rows.highest - np.log(total))
    found = torch.from_numpy(logs[:, 0].astype(np.float32))
    if unclear.any():
        these = torch.from_numpy(unclear[:, 0])
        again = logits[these], wanted[these], scheme
        found[these] = _exactly(*again) if whole else _log_probs(*again, {}, whole=True)
    return found


def _exactly(logits: torch.Tensor, wanted: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """As `_log_probs`, by the processors themselves."""
    scores = warped(logits, scheme)
    # Not log_softmax: of the whole vocabulary only one number is wanted.
    return scores.gather(1, wanted)[:, 0] - scores.logsumexp(-1)
