"""Next-token distributions on a torch device, read a few tokens at a time.

Logits are taken to float32 and normalised there over the whole vocabulary; only the
asked log-probabilities leave the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from canary.models.language_model import Children, IntArray, Ints, Moments
from canary.models.torch_support import computing

__all__ = ["Distributions", "context_read", "token_log_probs", "token_moments"]

_FAR = -1e6
"""Nats of a probability that is 0 in float32, and whose square is not infinite."""

_AT_ONCE = 1 << 22
"""Log-probabilities of whole distributions that are held at a time."""


@dataclass(frozen=True, eq=False)
class Distributions:
    """Rows of logits with their normalisers; see `canary.models.state_cache.NextTokens`.

    Parameters
    ----------
    logits : float32 tensor of shape (n, vocabulary)
    normalisers : float32 tensor of shape (n,)
        Logarithm of the sum of exponentials of each row.
    """

    logits: torch.Tensor
    normalisers: torch.Tensor

    @classmethod
    def of(cls, logits: torch.Tensor) -> Distributions:
        """Distributions from logits of shape (n, vocabulary) and any float type."""
        logits = logits.float()
        return cls(logits, torch.logsumexp(logits, dim=-1))

    def gather(self, rows: Ints, tokens: Ints) -> NDArray[np.float64]:
        """Log-probability of one token in each of the named rows, in nats."""
        return self._picked(rows, tokens).double().cpu().numpy()

    def children(self, rows: Ints | None, children: Children) -> NDArray[np.float32]:
        """Log-probabilities of children in the named rows (None: all), in nats."""
        named = np.arange(len(self.logits)) if rows is None else rows
        return self._picked(*children.index(named)).cpu().numpy()

    def _picked(self, rows: Ints, tokens: IntArray) -> torch.Tensor:
        """Of rows and tokens that are broadcast against each other."""
        with computing():
            device = self.logits.device
            at = torch.from_numpy(rows).to(device)
            of = torch.from_numpy(np.asarray(tokens, np.int64)).to(device)
            return self.logits[at, of] - self.normalisers[at]


def context_read(
    logits: torch.Tensor, ids: torch.Tensor
) -> tuple[NDArray[np.float32], Distributions]:
    """Log-probabilities of a context's tokens after its first, and what follows its last.

    Both tensors are of one row; `ids` has the shape (1, p).
    """
    targets = ids[:, 1:].to(logits.device)
    everything = torch.ones_like(targets, dtype=torch.bool)
    return token_log_probs(logits[:, :-1], targets, everything), Distributions.of(logits[:, -1])


def token_log_probs(
    logits: torch.Tensor, targets: torch.Tensor, wanted: torch.Tensor
) -> NDArray[np.float32]:
    """Log-probabilities of the wanted targets, row by row, flat.

    Parameters
    ----------
    logits : tensor of shape (n, t, vocabulary)
        ``logits[:, j]`` is the distribution of ``targets[:, j]``.
    targets : int64 tensor of shape (n, t)
    wanted : bool tensor of shape (n, t)
        Which of them are scored.
    """
    flat = logits[wanted].float()
    picked = flat.gather(1, targets[wanted].unsqueeze(1)).squeeze(1)
    return (picked - torch.logsumexp(flat, dim=-1)).cpu().numpy()


def token_moments(logits: torch.Tensor, targets: torch.Tensor, wanted: torch.Tensor) -> Moments:
    """`token_log_probs`, with mean and standard deviation of each distribution.

    Distributions are worked on a few at a time; beside the logits two copies of 4 million
    numbers are held.
    """
    flat, asked = logits[wanted], targets[wanted].unsqueeze(1)
    size = max(_AT_ONCE // logits.shape[-1], 1)
    parts = [
        _moments(flat[at : at + size].float().log_softmax(-1), asked[at : at + size])
        for at in range(0, len(flat), size)
    ]
    values = torch.cat([torch.zeros(3, 0, device=logits.device), *parts], dim=1).cpu().numpy()
    return Moments(values[0], values[1], values[2])


def _moments(log_probs: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
    """Log-probability, mean and deviation of each row; shape (3, rows)."""
    probs = log_probs.exp()
    finite = log_probs.clamp(min=_FAR)  # 0 log 0 is 0
    mean = (probs * finite).sum(-1)
    # Of the distances, not of the squares: their difference would lose small deviations.
    deviation = (probs * (finite - mean[:, None]).square()).sum(-1).sqrt()
    return torch.stack([log_probs.gather(1, asked).squeeze(1), mean, deviation])
