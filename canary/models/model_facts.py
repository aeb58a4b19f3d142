"""What is known about a model before it is asked anything."""

from __future__ import annotations

from dataclasses import dataclass, field

from canary.records.record import Record
from canary.statistics.number_checks import LN2

ROUNDING_NATS = 1e-4
"""So far above 0 may rounding bring a log-probability, or the log of a sum of probabilities.

A log-softmax in float32 rounds its normaliser: by 6e-5 nats at most for logits of up to 2,048.
"""

_MEASURED_TOKENS = 24


@dataclass(frozen=True)
class Memory:
    """What the batcher plans with.

    Parameters
    ----------
    free_bytes : int
        Memory that a batch or a walk may take.
    bytes_per_held_token : int
        Size of the state that a walker keeps for one held node.
    """

    free_bytes: int
    bytes_per_held_token: int


@dataclass(frozen=True)
class ModelFacts(Record):
    """What must be known about a model to read, defend and recompute its numbers.

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
    """

    name: str
    vocabulary: int
    length_limit: int | None
    dtype: str
    attention: str
    device: str
    fingerprint: str
    noise_bits_per_token: float
    capabilities: tuple[str, ...] = field(default=("score", "expand"))

    def noise_bits(self, tokens: int) -> float:
        """Noise of the log-perplexity of a whole candidate of `tokens` tokens, in bits.

        It is measured on sums over 24 tokens, whose errors partly cancel; shorter candidates
        are given the noise of 24.
        """
        return self.noise_bits_per_token * max(tokens, _MEASURED_TOKENS)

    @property
    def excess_nats(self) -> float:
        """By how much the log of the sum of a node's next-token probabilities may exceed 0.

        Rounding, and noise where no states are reused: each child may then be a row of its own.
        """
        return ROUNDING_NATS + self._noise_of_rows(1) * LN2

    def excess_bits(self, tokens: int) -> float:
        """The same of all candidates below a node, of at most `tokens` tokens each, in bits."""
        return tokens * ROUNDING_NATS / LN2 + self._noise_of_rows(tokens)

    def _noise_of_rows(self, tokens: int) -> float:
        return 0.0 if "reuse" in self.capabilities else self.noise_bits(tokens)
