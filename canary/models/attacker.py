"""Small networks that learn to tell members from non-members, many of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

_HIDDEN = (64, 32)
_RATE, _DECAY, _BATCH = 1e-3, 1e-2, 64
_EPOCHS, _PATIENCE = 200, 15
_STEPS = 200  # of an epoch at most, so that early stopping looks often enough
_CONSTANT = 1e-5
_FARTHEST = 8.0  # standard deviations; a target may be far outside of what its shadow taught
_ROWS = 1 << 16

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Weights of shape (networks, inputs, outputs) and biases of (networks, 1, outputs)."""


@dataclass(frozen=True, eq=False)
class Attackers:
    """Trained networks.

    Parameters
    ----------
    layers : list of pairs of tensors
    mean, scale : ndarray of float32 of shape (features,)
        Of the samples that they were trained on; the scale of what was constant there is
        infinite.
    epochs : int
        Until the last of them was stopped.
    """

    layers: Layers
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    epochs: int

    def logits(self, features: NDArray[np.float32], nets: slice) -> NDArray[np.float64]:
        """Mean over the networks `nets` of the log-odds of being a member, shape (samples,)."""
        chosen = [(weights[nets], biases[nets]) for weights, biases in self.layers]
        out = np.empty(len(features))
        with torch.no_grad():
            for at in range(0, len(features), _ROWS):
                part = _standard(features[at : at + _ROWS], self.mean, self.scale)
                x = torch.from_numpy(part).expand(len(chosen[0][0]), -1, -1)
                out[at : at + _ROWS] = _forward(chosen, x).double().mean(0).numpy()
        return out


def train_attackers(
    features: NDArray[np.float32],
    member: NDArray[np.bool_],
    *,
    learn: Sequence[NDArray[np.int64]],
    held_out: Sequence[NDArray[np.int64]],
    seed: int,
) -> Attackers:
    """Train a network for each list of samples, and stop each where its held-out loss is least.

    Parameters
    ----------
    features : ndarray of float32 of shape (samples, features)
    member : ndarray of bool of shape (samples,)
    learn, held_out : sequences of ndarray of int64
        For each network the samples that it learns from, and those that say when to stop;
        members and non-members in each.
    seed : int
        Of the first weights and of the batches.

    Returns
    -------
    Attackers
        The weights of each network after the epoch of its least held-out loss.

    Notes
    -----
    Two hidden layers of 64 and 32 ReLU, AdamW, batches of 64, at most 200 epochs, stopped
    after 15 without gain. Members and non-members weigh the same in every network, however
    many there are of each. All networks take each step together, as one batched product.
    torch's global generator is not touched.
    """
    generator = torch.Generator().manual_seed(seed)
    used = np.unique(np.concatenate(list(learn)))
    mean, spread = features[used].mean(0), features[used].std(0)
    scale = np.where(spread > _CONSTANT, spread, np.inf).astype(np.float32)
    x = torch.from_numpy(_standard(features, mean, scale))
    truth = torch.from_numpy(member.astype(np.float32))

    def loss_of(at: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Weighted cross-entropy of each network on its own samples, shape (networks,)."""
        each = functional.binary_cross_entropy_with_logits(
            _forward(layers, x[at]), truth[at], weight=weights, reduction="none"
        )
        loss: torch.Tensor = each.sum(1) / weights.sum(1).clamp_min(1e-12)
        return loss

    layers = _start(len(learn), features.shape[1], generator)
    pool, sizes, weights = _padded(learn, member)
    checks, _, check_weights = _padded(held_out, member)
    flat = [part for layer in layers for part in layer]
    step = torch.optim.AdamW(flat, lr=_RATE, weight_decay=_DECAY)
    steps = min(max(int(sizes.max()) // _BATCH, 1), _STEPS)
    best = [part.detach().clone() for part in flat]
    least = torch.full((len(learn),), torch.inf)
    since = torch.zeros(len(learn), dtype=torch.long)
    epoch = 0
    while epoch < _EPOCHS and bool((since < _PATIENCE).any()):
        epoch += 1
        for _ in range(steps):
            share = torch.rand((len(learn), _BATCH), generator=generator)
            at = (share * sizes[:, None]).long().minimum(sizes[:, None] - 1)
            loss = loss_of(pool.gather(1, at), weights.gather(1, at)).sum()
            step.zero_grad()
            loss.backward()
            step.step()
        with torch.no_grad():
            now = loss_of(checks, check_weights)
        better = (now < least) & (since < _PATIENCE)
        least = torch.where(better, now, least)
        since = torch.where(better, 0, since + 1)
        for kept, part in zip(best, flat, strict=True):
            kept[better] = part.detach()[better]
    return Attackers(list(zip(best[::2], best[1::2], strict=True)), mean, scale, epoch)


def _standard(
    features: NDArray[np.float32], mean: NDArray[np.float32], scale: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Features in standard deviations; what was constant in training says nothing."""
    cut: NDArray[np.float32] = np.clip((features - mean) / scale, -_FARTHEST, _FARTHEST)
    return cut


def _start(nets: int, inputs: int, generator: torch.Generator) -> Layers:
    """Glorot's uniform weights, biases of 0."""
    layers = []
    for width in (*_HIDDEN, 1):
        bound = (6 / (inputs + width)) ** 0.5
        drawn = torch.rand((nets, inputs, width), generator=generator)
        weights = ((2 * drawn - 1) * bound).requires_grad_()
        layers.append((weights, torch.zeros((nets, 1, width), requires_grad=True)))
        inputs = width
    return layers


def _forward(layers: Layers, x: torch.Tensor) -> torch.Tensor:
    """Log-odds of shape (networks, samples) of x of shape (networks, samples, features)."""
    for weights, biases in layers[:-1]:
        x = torch.baddbmm(biases, x, weights).relu()
    weights, biases = layers[-1]
    return torch.baddbmm(biases, x, weights)[..., 0]


def _padded(
    lists: Sequence[NDArray[np.int64]], member: NDArray[np.bool_]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The lists as one tensor, their lengths, and weights by which both kinds count the same."""
    sizes = np.array([len(part) for part in lists])
    pool = np.zeros((len(lists), int(sizes.max())), np.int64)
    weights = np.zeros(pool.shape, np.float32)
    for row, part in enumerate(lists):
        inside = member[part]
        pool[row, : len(part)] = part
        members, others = 2 * inside.sum(), 2 * (~inside).sum()
        weights[row, : len(part)] = np.where(inside, len(part) / members, len(part) / others)
    return torch.from_numpy(pool), torch.from_numpy(sizes), torch.from_numpy(weights)
