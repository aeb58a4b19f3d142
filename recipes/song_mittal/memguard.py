"""MemGuard (Jia et al. 2019): noise on the outputs that leaves an attacker at a coin toss."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch.nn import functional

STEPS = 300
LENGTH = 0.1
WEIGHTS = tuple(10.0**power for power in range(-1, 6))
"""Of the distortion; the largest that still succeeds is kept."""


def train_defender(
    logits: torch.Tensor, member: torch.Tensor, *, seed: int, epochs: int = 40
) -> torch.nn.Module:
    """The attacker that the defender imagines: it sees the sorted probabilities."""
    torch.manual_seed(seed)
    widths = (logits.shape[1], 256, 128, 64, 1)
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(widths):
        layer = torch.nn.Linear(before, after)
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        layers += [layer, torch.nn.ReLU()]
    defender = torch.nn.Sequential(*layers[:-1])
    step = torch.optim.SGD(defender.parameters(), lr=0.001, momentum=0.9)
    seen = logits.softmax(1).sort(1).values
    for _ in range(epochs):
        for part in torch.randperm(len(seen)).split(64):
            step.zero_grad()
            functional.binary_cross_entropy_with_logits(
                defender(seen[part])[:, 0], member[part].float()
            ).backward()
            step.step()
    return defender.requires_grad_(requires_grad=False)


def guard(logits: torch.Tensor, defender: torch.nn.Module) -> torch.Tensor:
    """Logits whose probabilities cross the defender's boundary, with the same likeliest class.

    For each sample gradient steps of one length go down the defender's certainty, a penalty
    if another class became the likeliest, and the L1 distortion of the probabilities; it
    stops where the defender changes its mind. This is tried with growing weights of the
    distortion, and the last success is kept. Samples without any success keep their logits.
    """
    kept = logits.clone()
    alive = (_certainty(logits, defender) != 0).nonzero()[:, 0]
    for weight in WEIGHTS:
        if not len(alive):
            break
        moved, done = _crossed(logits[alive], defender, weight)
        kept[alive[done]] = moved[done]
        alive = alive[done]
    return kept


def _certainty(z: torch.Tensor, defender: torch.nn.Module) -> torch.Tensor:
    return defender(z.softmax(1).sort(1).values)[:, 0]


def _crossed(
    logits: torch.Tensor, defender: torch.nn.Module, weight: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples after their steps, and which of them succeeded."""
    top, before = logits.argmax(1), logits.softmax(1)
    side = _certainty(logits, defender).sign()
    z, done = logits.clone(), torch.zeros(len(logits), dtype=torch.bool)
    for _ in range(STEPS - 1):
        at = (~done).nonzero()[:, 0]
        if not len(at):
            break
        moved = z[at].requires_grad_()
        others = moved.scatter(1, top[at, None], -1e8).max(1).values
        mine = moved.gather(1, top[at, None])[:, 0]
        loss = (
            _certainty(moved, defender).abs()
            + 10 * functional.relu(others - mine)
            + weight * (moved.softmax(1) - before[at]).abs().sum(1)
        )
        slope = torch.autograd.grad(loss.sum(), moved)[0]
        z[at] = moved.detach() - LENGTH * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-12)
        crossed = _certainty(z[at], defender) * side[at] <= 0
        done[at] = crossed & (z[at].argmax(1) == top[at])
    return z, done
