"""Decoding: how a text is drawn from a model, and the probability of tokens that are so drawn.

Ties at a limit fall as they do in `generate`: the processors of `transformers` themselves take
tokens away, or what finds the same limit sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.language_model import FloatArray, Rows
from canary.records.record import Record
from canary.records.validation import as_real, brief, text, whole_number

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]

_LETTERS = {"t": "temperature", "k": "top_k", "p": "top_p", "m": "min_p"}
_CACHED, _ON_GPU = 1 << 19, 1 << 22  # logits that are worked on at a time
_NEVER: np.float32 = np.float32(-np.inf)
_BINS, _PER_NAT = 512, np.float32(32.0)
_TYPICAL = 3e-6  # relative rounding of float32 sums: thrice the most measured without ties
_WORST = 2.0**-26  # the same for each probability, if all are equal and four are summed at a time
_CURE = "write it as in t=0.8,k=40,p=0.95,m=0.05: temperature, top-k, top-p and min-p"


@dataclass(frozen=True, kw_only=True)
class Scheme(Record):
    """How the next token is drawn; as the options of the same names in `generate`.

    They are applied in this order, and what is left is normalised again.

    Parameters
    ----------
    temperature : float
        Above 0; the logits are divided by it.
    top_k : int, optional
        Only tokens whose logit is among the highest `top_k` are drawn; all that tie with the
        last of these are kept.
    top_p : float, optional
        Above 0, at most 1: only the most probable tokens are drawn, as many as have this
        probability together.
    min_p : float, optional
        From 0 to 1: only tokens are drawn that have this share of the highest probability.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        self._ranged("temperature", above=0.0, most=1e6)
        if self.top_k is not None:
            try:
                value = whole_number(self.top_k, "top-k", at_least=1, cure="")
            except InputError:
                raise InputError(
                    f"a top-k of {brief(self.top_k)} makes no sense in a decoding scheme",
                    cure="give a number of tokens, 1 or more, or leave it out",
                    where="scheme",
                ) from None
            object.__setattr__(self, "top_k", value)
        if self.top_p is not None:
            self._ranged("top_p", above=0.0, most=1.0)
        if self.min_p is not None:
            self._ranged("min_p", above=-1e-300, most=1.0)

    def _ranged(self, name: str, *, above: float, most: float) -> None:
        value = as_real(getattr(self, name))
        if not above < value <= most:
            least = "above 0" if above >= 0.0 else "from 0"
            raise InputError(
                f"{name}={brief(getattr(self, name))} makes no sense in a decoding scheme",
                cure=f"give a number {least} to {most:g}, or leave it out",
                where="scheme",
            )
        object.__setattr__(self, name, value)

    @classmethod
    def parsed(cls, written: str) -> Self:
        """A scheme as `str` writes it, such as ``t=1,k=40``."""
        values: dict[str, Any] = {}
        for part in text(written, "scheme", cure=_CURE).split(","):
            letter, _, number = part.strip().partition("=")
            name = _LETTERS.get(letter, letter)
            try:
                if name not in _LETTERS.values() or name in values:
                    raise ValueError
                values[name] = int(number) if name == "top_k" else float(number)
            except ValueError:
                problem = f"{brief(written)} is no decoding scheme"
                raise InputError(problem, cure=_CURE, where="scheme") from None
        return cls(**values)

    def __str__(self) -> str:
        given = ((letter, getattr(self, name)) for letter, name in _LETTERS.items())
        return ",".join(
            f"{letter}={str(value).removesuffix('.0')}"
            for letter, value in given
            if value is not None
        )


@dataclass(frozen=True, eq=False)
class Decoded:
    """Scored tokens as decoding would give them.

    Parameters
    ----------
    log_probs : float32 array of shape (sum of scored, schemes)
        Nats; minus infinity where a scheme never draws the token.
    greedy : bool array of shape (sum of scored,)
        Whether greedy decoding gives the token after those before it.
    """

    log_probs: FloatArray
    greedy: NDArray[np.bool_]


@runtime_checkable
class TellsDecoding(Protocol):
    """A model that has the whole distribution at each place, and so knows what is drawn there."""

    def decoded(self, rows: Rows, schemes: Sequence[Scheme]) -> Decoded:
        """What decoding makes of each scored token."""


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


def drawn_probabilities(log_probs: FloatArray, scheme: Scheme) -> Floats:
    """The probability with which a scheme draws each token, of shape (n, vocabulary).

    `log_probs` are of the model itself, in nats and of the same shape. They are logits up to a
    constant, but rounded once more: tokens whose logits differ in the last bit may tie here.
    """
    import torch

    scores = _warped(torch.from_numpy(np.array(log_probs, np.float32)), scheme)
    drawn: Floats = torch.softmax(scores.double(), -1).numpy()
    return drawn


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
            decides = (off < _TYPICAL) | ((off < worst) & (highest == chosen))
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

    if scheme.min_p is not None or logits.device.type != "cpu":
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
    if scheme.top_p is not None and scheme.top_p < 1.0:
        whole |= size <= 2 * _BINS
        if whole:
            highest = np.sort(np.where(rows.scores < limit, _NEVER, rows.scores), axis=-1)
        limit, total, unclear = rows.nucleus(scheme.top_p, chosen, highest, whole=whole)
    logs = np.where(chosen < limit, _NEVER, chosen - rows.highest - np.log(total))
    found = torch.from_numpy(logs[:, 0].astype(np.float32))
    if unclear.any():
        these = torch.from_numpy(unclear[:, 0])
        again = logits[these], wanted[these], scheme
        found[these] = _exactly(*again) if whole else _log_probs(*again, {}, whole=True)
    return found


def _exactly(logits: torch.Tensor, wanted: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """As `_log_probs`, by the processors themselves."""
    scores = _warped(logits, scheme)
    # Not log_softmax: of the whole vocabulary only one number is wanted.
    return scores.gather(1, wanted)[:, 0] - scores.logsumexp(-1)


def _warped(scores: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Logits of which `generate` draws, minus infinity for tokens that it does not."""
    import torch

    nothing = torch.zeros((0, 0), dtype=torch.int64)  # the processors ask for tokens before
    for processor in _processors(scheme):
        scores = processor(nothing, scores)
    return scores


def _processors(scheme: Scheme) -> list[Any]:
    """What `generate` passes its logits through, in its order."""
    if scheme == Scheme():
        return []
    from transformers.generation import logits_process as of

    found: list[Any] = []
    if scheme.temperature != 1.0:
        found.append(of.TemperatureLogitsWarper(scheme.temperature))
    if scheme.top_k is not None:
        found.append(of.TopKLogitsWarper(scheme.top_k))
    if scheme.top_p is not None and scheme.top_p < 1.0:
        found.append(of.TopPLogitsWarper(scheme.top_p))
    if scheme.min_p is not None:
        found.append(of.MinPLogitsWarper(scheme.min_p))
    return found
