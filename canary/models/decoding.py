"""Decoding: how a text is drawn from a model.

Ties at a limit fall as they do in `generate`: the processors of `transformers` take tokens away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError
from canary.models.language_model import FloatArray, Rows
from canary.records.record import Record
from canary.records.validation import as_real, brief, text

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Option:
    """How an option of `generate` is written, what it may be, and what it is called for people."""

    short: str
    spoken: str
    above: float
    most: float
    processor: str
    nothing: float | None = None  # the value that changes nothing


_OPTIONS = {
    "temperature": _Option("t", "temperature", 0.0, 1e6, "TemperatureLogitsWarper", 1.0),
    "top_k": _Option("k", "top-k", 0, math.inf, "TopKLogitsWarper"),
    "top_p": _Option("p", "top-p", 0.0, 1.0, "TopPLogitsWarper", 1.0),
    "min_p": _Option("m", "min-p", -1e-300, 1.0, "MinPLogitsWarper", 0.0),
}
"""In the order of `generate`. `canary.models.decoded_tokens` may know a faster way."""

NAMED = ", ".join(f"{option.short} ({option.spoken})" for option in _OPTIONS.values())
"""How options are written, for errors, reports and ``--help``."""

_CURE = f"write it as in t=0.8,k=40: {NAMED}"


@dataclass(frozen=True, kw_only=True)
class Scheme(Record, sparse=True):
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
        for name, option in _OPTIONS.items():
            given, whole = getattr(self, name), name == "top_k"
            if given is None and name != "temperature":
                continue
            value = as_real(given)
            if not option.above < value <= option.most or (whole and value % 1):
                least = "above 0" if option.above >= 0.0 else "from 0"
                number = "of tokens, 1 or more" if whole else f"{least} to {option.most:g}"
                greedy = "; greedy decoding is measured without it" * (value == 0.0 and not whole)
                raise InputError(
                    f"a {option.spoken} of {brief(given)} makes no sense in a decoding scheme",
                    cure=f"give a number {number}, or leave it out{greedy}",
                    where="scheme",
                )
            object.__setattr__(self, name, int(value) if whole else value)

    @classmethod
    def parsed(cls, written: str) -> Self:
        """A scheme as `str` writes it, such as ``t=1,k=40``."""
        values: dict[str, Any] = {}
        for part in text(written, "scheme", cure=_CURE).split(","):
            written_name, _, number = part.strip().partition("=")
            short = {option.short: name for name, option in _OPTIONS.items()}
            name = short.get(written_name, written_name)
            try:
                if name not in _OPTIONS or name in values:
                    raise ValueError
                values[name] = int(number) if name == "top_k" else float(number)
            except ValueError:
                problem = f"{brief(written)} is no decoding scheme"
                raise InputError(problem, cure=_CURE, where="scheme") from None
        return cls(**values)

    def __str__(self) -> str:
        return ",".join(
            f"{_OPTIONS[name].short}={str(value).removesuffix('.0')}"
            for name, value in self.given().items()
        )

    def given(self) -> dict[str, float]:
        """The options that were given, as `generate` takes them."""
        values = {name: getattr(self, name) for name in _OPTIONS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def limits(self) -> dict[str, float]:
        """Those of them that change something."""
        return {n: v for n, v in self.given().items() if v != _OPTIONS[n].nothing}


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


def drawn_probabilities(log_probs: FloatArray, scheme: Scheme) -> Floats:
    """The probability with which a scheme draws each token, of shape (n, vocabulary).

    `log_probs` are of the model itself, in nats and of the same shape. They are logits up to a
    constant, but rounded once more: tokens whose logits differ in the last bit may tie here.
    """
    import torch

    scores = warped(torch.from_numpy(np.array(log_probs, np.float32)), scheme)
    drawn: Floats = torch.softmax(scores.double(), -1).numpy()
    return drawn


def warped(scores: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Logits of which `generate` draws, minus infinity for tokens that it does not."""
    import torch

    nothing = torch.zeros((0, 0), dtype=torch.int64)  # the processors ask for tokens before
    for processor in _processors(scheme):
        scores = processor(nothing, scores)
    return scores


def _processors(scheme: Scheme) -> list[Any]:
    """What `generate` passes its logits through, in its order."""
    if not scheme.limits:
        return []
    from transformers.generation import logits_process

    return [
        getattr(logits_process, _OPTIONS[name].processor)(value)
        for name, value in scheme.limits.items()
    ]
