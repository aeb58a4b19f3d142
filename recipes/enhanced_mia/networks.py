"""The networks of the recipe: the paper's by data set, a small one for Location30.

Pooling comes before the ReLU, and channels lie last in memory: the same numbers as the other way
round, in half the time on a CPU.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn


def for_mnist() -> nn.Module:
    """28 x 28 grey values to 10 logits: two convolutions of 32 and 64 filters with pooling."""
    network = nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        *(nn.Conv2d(1, 32, 3), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU()),
        nn.Flatten(),
        nn.Linear(1600, 10),
    )
    return network.to(memory_format=torch.channels_last)


def for_cifar10() -> nn.Module:
    """32 x 32 x 3 values to 10 logits: AlexNet's five convolutions at the size of small images."""
    network = nn.Sequential(
        _Images(),
        *(nn.Conv2d(3, 64, 11, stride=4, padding=5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    return network.to(memory_format=torch.channels_last)


def vgg_for_cifar10() -> nn.Module:
    """32 x 32 x 3 values to 10 logits: three blocks of two convolutions each, as in VGG."""
    channels = (3, 32, 64, 128)
    blocks = [
        layer
        for before, after in pairwise(channels)
        for layer in (
            *(nn.Conv2d(before, after, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(after, after, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        )
    ]
    network = nn.Sequential(
        _Images(), *blocks, nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    return network.to(memory_format=torch.channels_last)


def for_location30() -> nn.Module:
    """446 zeros and ones to 30 logits."""
    return nn.Sequential(nn.Linear(446, 64), nn.ReLU(), nn.Linear(64, 30))


def for_purchase100() -> nn.Module:
    """600 zeros and ones to 100 logits: four layers of 512, 256, 128 and 64 units."""
    sizes = (600, 512, 256, 128, 64)
    layers = [
        layer for width, units in pairwise(sizes) for layer in (nn.Linear(width, units), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Linear(64, 100))


class _Images(nn.Module):
    """Channels first, as convolutions take them, and values around 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x.permute(0, 3, 1, 2) - 1


def probabilities(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a network says of samples, of shape (samples, classes)."""
    with torch.inference_mode():
        return torch.cat([network.eval()(part).softmax(dim=1) for part in x.split(256)])
