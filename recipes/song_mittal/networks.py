"""The classifiers, and training them: undefended, or with a defence in the training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

HIDDEN = (1024, 512, 256, 128)
BLOCKS = (16, 32)
EPOCHS = 20
BATCH = 64
RATE, MOMENTUM = 0.01, 0.9

ACTIVATIONS: dict[str, type[torch.nn.Module]] = {
    "relu": torch.nn.ReLU,
    "tanh": torch.nn.Tanh,
    "sigmoid": torch.nn.Sigmoid,
}


@dataclass(frozen=True)
class Architecture:
    """Of a network for records that are no images (section 4.2.1 of the paper).

    A depth of 3 has no layer of 128, one of 5 a layer of 2,048 before the others.
    """

    activation: str = "relu"
    width: float = 1.0
    depth: int = 4

    def widths(self) -> list[int]:
        hidden = ((2048,) if self.depth == 5 else ()) + HIDDEN[: self.depth]
        return [round(self.width * one) for one in hidden]


OWN = Architecture()

Each = Callable[[float, torch.nn.Module], None]
"""Told how many epochs are done; the network is in evaluation mode."""


def network(
    inputs: tuple[int, ...], outputs: int, *, dropout: float = 0.0, architecture: Architecture = OWN
) -> torch.nn.Sequential:
    """For records of shape `inputs`: (features,), or (channels, height, width) of images.

    1024-512-256-128 between inputs and outputs, ReLU; before it, for images, two blocks of
    a convolution and pooling, and then one layer of 128. Glorot's initial weights.
    """
    layers: list[torch.nn.Module] = []
    widths = architecture.widths()
    if len(inputs) > 1:
        channels, *sides = inputs
        for filters in BLOCKS:
            convolution = torch.nn.Conv2d(channels, filters, 3, padding=1)
            layers += [convolution, torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
            channels = filters
        layers.append(torch.nn.Flatten())
        inputs = (channels * math.prod(side // 2 ** len(BLOCKS) for side in sides),)
        widths = widths[-1:]
    before = math.prod(inputs)
    for width in (*widths, outputs):
        layer = torch.nn.Linear(before, width)
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        activation = ACTIVATIONS[architecture.activation]()
        layers += [layer, activation, *([torch.nn.Dropout(dropout)] if dropout else [])]
        before = width
    return torch.nn.Sequential(*layers[: layers.index(layer) + 1])


def batches(records: int) -> Iterator[tuple[float, torch.Tensor]]:
    """The batches of an epoch, each with the share of the epoch that is done after it."""
    parts = torch.randperm(records).split(BATCH)
    for number, part in enumerate(parts, 1):
        yield number / len(parts), part


def schedule(optimizer: torch.optim.Optimizer, epochs: int) -> torch.optim.lr_scheduler.LRScheduler:
    """A tenth of the rate after three quarters of the epochs."""
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, [epochs * 3 // 4], gamma=0.1)


def train(
    x: np.ndarray,
    y: np.ndarray,
    *,
    classes: int,
    seed: int,
    epochs: int = EPOCHS,
    momentum: float = MOMENTUM,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    smoothing: float = 0.0,
    architecture: Architecture = OWN,
    every: float = 1.0,
    each: Each = lambda epochs, model: None,
) -> torch.nn.Sequential:
    """SGD of the cross-entropy, undefended or with one of three regularizers.

    `each` is told after every `every` epochs: whole ones, or halves, quarters and so on.
    """
    torch.manual_seed(seed)
    model = network(x.shape[1:], classes, dropout=dropout, architecture=architecture)
    step = torch.optim.SGD(
        model.parameters(), lr=RATE, momentum=momentum, weight_decay=weight_decay
    )
    decay = schedule(step, epochs)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    for epoch in range(epochs):
        for done, part in batches(len(x)):
            model.train()
            step.zero_grad()
            functional.cross_entropy(
                model(inputs[part]), labels[part], label_smoothing=smoothing
            ).backward()
            step.step()
            if (epoch + done) % every == 0:
                each(epoch + done, model.eval())
        decay.step()
    return model.eval()


def train_against_attacker(
    x: np.ndarray,
    y: np.ndarray,
    others_x: np.ndarray,
    others_y: np.ndarray,
    *,
    classes: int,
    seed: int,
    strength: float,
    epochs: int = EPOCHS,
    architecture: Architecture = OWN,
    every: float = 1.0,
    each: Each = lambda epochs, model: None,
) -> torch.nn.Sequential:
    """Adversarial regularization (Nasr, Shokri and Houmansadr 2018): equations 2 and 3.

    At each step the attacker learns to tell a batch of training records from a batch of
    `others`; then the classifier lowers its loss plus `strength` times the logarithm of the
    probability by which the attacker calls its batch members.
    """
    torch.manual_seed(seed)
    model = network(x.shape[1:], classes, architecture=architecture)
    attacker = torch.nn.Sequential(
        torch.nn.Linear(2 * classes, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 1),
    )
    step = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    learn = torch.optim.Adam(attacker.parameters(), lr=1e-3)
    decay = schedule(step, epochs)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    outside, outside_labels = torch.from_numpy(others_x), torch.from_numpy(others_y)

    def called_member(logits: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        one_hot = functional.one_hot(own, classes).float()
        return attacker(torch.cat([logits.softmax(1), one_hot], 1))[:, 0]

    for epoch in range(epochs):
        for done, part in batches(len(x)):
            model.train()
            other = torch.randint(len(outside), (len(part),))
            logits = model(torch.cat([inputs[part], outside[other]]))
            both = torch.cat([labels[part], outside_labels[other]])
            truth = torch.cat([torch.ones(len(part)), torch.zeros(len(part))])
            learn.zero_grad()
            functional.binary_cross_entropy_with_logits(
                called_member(logits.detach(), both), truth
            ).backward()
            learn.step()
            step.zero_grad()
            mine = logits[: len(part)]
            gain = functional.logsigmoid(called_member(mine, labels[part])).mean()
            (functional.cross_entropy(mine, labels[part]) + strength * gain).backward()
            step.step()
            if (epoch + done) % every == 0:
                each(epoch + done, model.eval())
        decay.step()
    return model.eval()


def train_privately(
    x: np.ndarray,
    y: np.ndarray,
    *,
    classes: int,
    seed: int,
    noise: float,
    clip: float,
    rate: float,
    delta: float,
    epochs: int,
    each: Each = lambda epochs, model: None,
) -> tuple[torch.nn.Sequential, float]:
    """DP-SGD by Opacus with Poisson batches; also the epsilon at `delta` that was spent."""
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    model = network(x.shape[1:], classes)
    data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    engine = PrivacyEngine(accountant="rdp")
    # Norms of single gradients without the gradients: ten times as fast here.
    private, step, loss, batches = engine.make_private(
        module=model.train(),
        optimizer=torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM),
        criterion=torch.nn.CrossEntropyLoss(),
        data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH),
        noise_multiplier=noise,
        max_grad_norm=clip,
        noise_generator=torch.Generator().manual_seed(seed),
        grad_sample_mode="ghost",
    )
    for epoch in range(1, epochs + 1):
        private.train()
        for inputs, labels in batches:
            step.zero_grad()
            loss(private(inputs), labels).backward()
            step.step()
        each(epoch, model.eval())
    epsilon = float(engine.get_epsilon(delta))
    private.remove_hooks()
    return model.eval(), epsilon
