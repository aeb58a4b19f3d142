"""The paper's classifiers: trained, asked, made to unlearn; each answer in a file of its own."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from images import Images
from torch import nn

BATCH = 50
RATE = 1e-3
TUNED = 5
"""Epochs of fine-tuning after which the model is asked, before the end."""
ASCENT = {"rate": 3e-5, "steps": 400, "beyond": 2.0}


def plain() -> nn.Module:
    """Of table 1: one block of convolution, one of 1,024 units."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 7, padding=3),
        nn.ReLU(),
        nn.BatchNorm2d(32),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(1024),
        nn.ReLU(),
        nn.Linear(1024, 10),
    )


def deep() -> nn.Module:
    """Of table 2: four blocks of convolution."""
    blocks: list[nn.Module] = []
    for before, after, kernel, stride in ((1, 32, 7, 1), (32, 64, 4, 2), (64, 128, 4, 2)):
        blocks += _block(before, after, kernel, stride)
    return nn.Sequential(*blocks, *_block(128, 128, 4, 2), nn.Flatten(), nn.LazyLinear(10))


def _block(before: int, after: int, kernel: int, stride: int) -> list[nn.Module]:
    padding = 3 if kernel == 7 else 1
    convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=padding)
    return [convolution, nn.ReLU(), nn.BatchNorm2d(after)]


def train(design: Callable[[], nn.Module], images: Images, *, name: str, epochs: int) -> nn.Module:
    """Adam as in the paper; first weights and order by the model's name."""
    torch.manual_seed(zlib.crc32(name.encode()))
    model = design()
    model(torch.from_numpy(images.x[:2]))  # tells the lazy layer its width
    return descend(model, images, epochs=epochs)


def descend(model: nn.Module, images: Images, *, epochs: int) -> nn.Module:
    """Some more epochs on these images."""
    x, y = torch.from_numpy(images.x), torch.from_numpy(images.y)
    step = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.5, 0.999), fused=True)
    model.train()
    for _ in range(epochs):
        for part in torch.randperm(len(y)).split(BATCH):
            if len(part) == 1:  # has no variance for the normalization
                continue
            step.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            step.step()
    return model.eval()


def ascend(model: nn.Module, images: Images, until: float) -> int:
    """Gradient ascent on these images until their mean loss is `until`; how many steps it took."""
    x, y = torch.from_numpy(images.x), torch.from_numpy(images.y)
    step = torch.optim.Adam(
        model.parameters(), lr=ASCENT["rate"], betas=(0.5, 0.999), maximize=True, fused=True
    )
    steps = 0
    while mean_loss(model, images) < until and steps < ASCENT["steps"]:
        part = torch.randint(len(y), (BATCH,))
        step.zero_grad()
        nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        step.step()
        steps += 1
    return steps


def logits(model: nn.Module, images: Images) -> np.ndarray:
    with torch.no_grad():
        parts = [model(part) for part in torch.from_numpy(images.x).split(200)]
    return torch.cat(parts).numpy()


def mean_loss(model: nn.Module, images: Images) -> float:
    said = torch.from_numpy(logits(model, images))
    return float(nn.functional.cross_entropy(said, torch.from_numpy(images.y)))


def keep(model: nn.Module, asked: dict[str, Images], folder: Path, name: str) -> None:
    """What the model says of each set, as ``canary forgotten`` reads it."""
    for of, images in asked.items():
        path = answers(folder, name, of)
        whole = path.with_suffix(".part.npz")
        np.savez(whole, logits=logits(model, images), labels=images.y)
        whole.replace(path)


def answers(folder: Path, name: str, of: str) -> Path:
    return folder / f"{name}.on-{of}.npz"
