"""The networks of the recipe: the paper's for MNIST, a small one for Location30."""

from __future__ import annotations

import torch
from torch import nn


def for_mnist() -> nn.Module:
    """28 x 28 grey values to 10 logits: two convolutions of 32 and 64 filters with pooling."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Linear(1600, 10),
    )


def for_location30() -> nn.Module:
    """446 zeros and ones to 30 logits."""
    return nn.Sequential(nn.Linear(446, 64), nn.ReLU(), nn.Linear(64, 30))


def probabilities(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a network says of samples, of shape (samples, classes)."""
    with torch.inference_mode():
        return torch.cat([network.eval()(part).softmax(dim=1) for part in x.split(1000)])
