"""Next-token distributions on a torch device, read a few tokens at a time.

Logits are taken to float32 and normalised there over the whole vocabulary; only the
asked log-probabilities leave the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from canary.models.base import Children

__all__ = ["Distributions", "token_log_probs"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Distributions:
    """Rows of logits with their normalisers.

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
        at = torch.from_numpy(rows).to(self.logits.device)
        picked = self.logits[at, torch.from_numpy(tokens).to(self.logits.device)]
        return (picked - self.normalisers[at]).double().cpu().numpy()

    def children(self, rows: Ints | None, children: Children) -> NDArray[np.float32]:
        """Log-probabilities of children in the named rows (None: all), in nats."""
        device = self.logits.device
        tokens = torch.from_numpy(np.asarray(children.tokens, np.int64)).to(device)
        logits, normalisers = self.logits, self.normalisers
        if children.offsets is not None:
            counts = np.diff(children.offsets)
            of = np.repeat(np.arange(len(counts)) if rows is None else rows, counts)
            at = torch.from_numpy(of).to(device)
            return (logits[at, tokens] - normalisers[at]).cpu().numpy()
        if rows is not None:
            at = torch.from_numpy(rows).to(device)
            logits, normalisers = logits[at], normalisers[at]
        return (logits[:, tokens] - normalisers[:, None]).cpu().numpy()


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
