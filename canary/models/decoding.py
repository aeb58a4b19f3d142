"""Decoding: how a text is drawn from a model, and the probability of tokens that are so drawn.

Ties at a limit fall as they do in `generate`: the processors of `transformers` themselves take
tokens away, or what finds the same limit sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.language_model import FloatArray, Rows
from canary.records.record import Record
from canary.records.validation import as_real, brief, text, whole_number

if TYPE_CHECKING:
    import torch

_LETTERS = {"t": "temperature", "k": "top_k", "p": "top_p", "m": "min_p"}
_CACHED, _ON_GPU = 1 << 19, 1 << 22  # logits that are worked on at a time
_ROUNDING = 1e-5  # a hundred times that of sums of float32 probabilities
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
        greedy[at : at + size] = (part.argmax(-1, keepdim=True) == wanted)[:, 0].cpu().numpy()
        for column, scheme in enumerate(schemes):
            log_probs[at : at + size, column] = _log_probs(part, wanted, scheme).cpu().numpy()
    return Decoded(log_probs, greedy)


def drawn_probabilities(log_probs: FloatArray, scheme: Scheme) -> NDArray[np.float64]:
    """The probability with which a scheme draws each token, of shape (n, vocabulary).

    `log_probs` are of the model itself, in nats and of the same shape. They are logits up to a
    constant, but rounded once more: tokens whose logits differ in the last bit may tie here.
    """
    import torch

    scores = _warped(torch.from_numpy(np.array(log_probs, np.float32)), scheme)
    drawn: NDArray[np.float64] = torch.softmax(scores.double(), -1).numpy()
    return drawn


def _log_probs(logits: torch.Tensor, wanted: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Log-probability, of shape (n,), of the token `wanted`, (n, 1), of each row of logits.

    For top-k and top-p the processors of `transformers` order tokens, and go through the vocabulary
    several times. Here numpy orders the logits alone, from which the limit and the sum of what is
    kept follow. Where a tie or rounding at the limit may decide, the processors do.
    """
    import torch

    top_p = None if scheme.top_p == 1.0 else scheme.top_p
    size = logits.shape[-1]
    kept = min(scheme.top_k or size, size)
    if (kept == size and top_p is None) or scheme.min_p is not None or logits.device.type != "cpu":
        return _exactly(logits, wanted, scheme)
    scores = logits if scheme.temperature == 1.0 else logits / scheme.temperature
    chosen, unclear = scores.gather(1, wanted), torch.zeros(len(scores), dtype=torch.bool)
    highest = scores
    if kept < size:
        highest = torch.from_numpy(np.partition(scores.numpy(), -kept, axis=-1)[:, -kept:])
    limit = highest[:, :1]
    if top_p is None:
        more = (scores == limit).sum(-1) - (highest == limit).sum(-1)  # all that tie are kept
        total = torch.logaddexp(highest.logsumexp(-1), limit[:, 0] + more.log())
    else:
        ordered = torch.from_numpy(np.sort(highest.numpy(), axis=-1))
        probs = ordered.softmax(-1)
        below = probs.cumsum(-1)
        if kept < size:  # sums of fewer numbers are rounded otherwise
            unclear = ((below - (1 - top_p)).abs() < _ROUNDING).any(-1)
            unclear |= (scores >= limit).sum(-1) > kept
        away = below <= 1 - top_p
        away[:, -1] = False
        first = away.sum(-1, keepdim=True)
        limit = ordered.gather(1, first)
        total = ordered[:, -1] + (probs.masked_fill(away, 0.0).sum(-1) / probs[:, -1]).log()
        last_away = ordered.gather(1, (first - 1).clamp(min=0))
        unclear |= ((first > 0) & (last_away == limit) & (chosen == limit))[:, 0]
    found = chosen.masked_fill(chosen < limit, -np.inf)[:, 0] - total
    if unclear.any():
        found[unclear] = _exactly(logits[unclear], wanted[unclear], scheme)
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
