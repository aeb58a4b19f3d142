"""What is known of a model, as results keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from canary.records.record import Record
from canary.statistics.number_checks import LN2

ROUNDING_NATS = 1e-4
"""Most that rounding brings a log-probability, or the log of a sum of probabilities, above 0.

A log-softmax in float32 rounds its normaliser: by 6e-5 nats at most for logits of up to 2,048.
"""


@dataclass(frozen=True)
class ModelFacts(Record):
    """What is needed to read, defend and recompute a model's numbers.

    Parameters
    ----------
    name : str
        What the model was loaded from, without the folders above it.
    vocabulary : int
        Number of tokens over which the model normalises.
    length_limit : int or None
        Longest sequence that it takes; None if it has none.
    dtype, attention, device : str
        How it computes.
    fingerprint : str
        SHA-256 of its parameters.
    noise_bits_per_token : float
        Measured at load: how far the log-probability of a token moves with the batch
        size and between cached and whole-row computation, as `noise_bits` uses it.
    capabilities : tuple of str
        ``"score"``, ``"expand"``, ``"reuse"`` (states are reused below a context),
        ``"share"`` (all rows attend to one copy of the context's).
    revision : str or None
        The commit of a model from the hub; None of others, and then not written.
    weights : str or None
        What the weights were quantised to or by, such as ``"int8"``; None, and then not written,
        where they are as coarse as `dtype`.
    """

    name: str
    vocabulary: int
    length_limit: int | None
    dtype: str
    attention: str
    device: str
    fingerprint: str
    noise_bits_per_token: float
    capabilities: tuple[str, ...] = ("score", "expand")
    revision: str | None = None
    weights: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain data; revision and weights only where there are such."""
        plain = super().to_dict()
        for name in ("revision", "weights"):
            if plain[name] is None:
                del plain[name]
        return plain

    @property
    def note(self) -> str | None:
        """That the weights are coarser than those that were trained may have been."""
        if self.weights is None:
            return None
        return (
            f"The weights of the model {self.name!r} are quantised ({self.weights}), and the "
            "numbers are of these weights. Those that were trained may show more: if they exist, "
            "audit them as well."
        )

    def noise_bits(self, tokens: int) -> float:
        """Noise of the log-perplexity of a whole candidate of `tokens` tokens, in bits.

        It is measured on sums over 24 tokens; shorter candidates are given the noise of 24.
        """
        return self.noise_bits_per_token * max(tokens, 24)

    def __str__(self) -> str:
        return f"{self.name}: {self.vocabulary:,} tokens, {self.dtype} on {self.device}"

    @property
    def excess_nats(self) -> float:
        """By how much the log of the sum of a node's next-token probabilities may exceed 0."""
        return self.excess_bits(1) * LN2

    def excess_bits(self, tokens: int) -> float:
        """The same of all candidates below a node, of at most `tokens` tokens each, in bits.

        Rounding, and noise where no states are reused: each child may then be a row of its own.
        """
        noise = 0.0 if "reuse" in self.capabilities else self.noise_bits(tokens)
        return tokens * ROUNDING_NATS / LN2 + noise
