"""Small torch classifiers, trained one by one or many at once.

Many at once: the weights of K models lie stacked in one tensor for each parameter, and
`torch.func.vmap` makes one batched product of their K products. Each model has the initial
weights and the batches that it would have alone, so that only rounding tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, stack_module_state, vmap

from canary.errors import InputError, OutOfMemory, UnsupportedError
from canary.models.torch_support import inference, input_device, pick_device, viewed
from canary.models.training import Trained, TrainingTask

__all__ = ["TorchTraining", "trained_module"]

_RANDOM = (torch.nn.modules.dropout._DropoutNd,)
_BY_BATCH = (torch.nn.modules.batchnorm._BatchNorm,)

_ASKED = 256
"""Samples that a trained model is asked for at a time: the activations of a convolutional
network on thousands of images fill hundreds of megabytes, and are slower to write than to
compute."""

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class TorchTraining:
    """Train a torch classifier by stochastic gradients on the cross-entropy.

    Parameters
    ----------
    build : callable
        Gives a new module, from samples of shape (n, ...) to logits of shape (n, classes): a
        function without parameters, at the top of a module. Its initial weights follow from
        the seed of the model.
    epochs : int
    batch_size : int
        The last batch of an epoch may be smaller.
    optimizer : {"sgd", "adam"}
    learning_rate, momentum, weight_decay : float
        As in torch; `momentum` is for SGD only.
    device : str, optional
        The first accelerator there is, else the CPU, without it.

    Notes
    -----
    Samples of any type become float32. Soft labels are learned by their cross-entropy. At
    once, K models take K times the memory of one for weights, gradients and activations; the
    samples are held once.
    """

    build: Callable[[], torch.nn.Module]
    epochs: int = 20
    batch_size: int = 64
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    device: str | None = None

    def __post_init__(self) -> None:
        if self.optimizer not in {"sgd", "adam"} or self.epochs < 1 or self.batch_size < 1:
            raise InputError(
                f"optimizer={self.optimizer!r}, epochs={self.epochs}, batch_size={self.batch_size}",
                cure='use "sgd" or "adam", and at least 1 of the others',
                where="TorchTraining",
            )

    def __call__(self, task: TrainingTask) -> Trained:
        """Train one model.

        Raises
        ------
        OutOfMemory
            If it does not fit on the device.
        """
        data = _Data.of(task, pick_device(self.device))
        module = self._built(task.seed).to(data.x.device).train()
        step = self._optimizer(list(module.parameters()))
        for rows in self._batches(task):
            part = torch.from_numpy(rows).to(data.x.device)
            step.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(module(data.x[part]), data.y[part])
            loss.backward()
            step.step()
        return trained_module(module)

    def together(self, tasks: Sequence[TrainingTask]) -> list[Trained]:
        """Train models of the same samples at once, as they would be one by one.

        Models of unlike numbers of batches are trained one group after the other.

        Raises
        ------
        UnsupportedError
            If the module draws random numbers in training or looks at its batch as a whole.
        OutOfMemory
            If they do not fit on the device together.
        """
        found: dict[int, Trained] = {}
        sizes = [math.ceil(len(task.rows) / self.batch_size) for task in tasks]
        for size in sorted(set(sizes)):
            group = [number for number, own in enumerate(sizes) if own == size]
            trained = self._together([tasks[number] for number in group])
            found.update(zip(group, trained, strict=True))
        return [found[number] for number in range(len(tasks))]

    def _together(self, tasks: list[TrainingTask]) -> list[Trained]:
        try:
            return self._stacked(tasks)
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            raise OutOfMemory(str(error), cure="train fewer models at once") from error

    def _stacked(self, tasks: list[TrainingTask]) -> list[Trained]:
        data = _Data.of(tasks[0], pick_device(self.device))
        modules = [self._built(task.seed).to(data.x.device).train() for task in tasks]
        _check_independent(modules[0])
        skeleton = modules[0]
        weights, buffers = stack_module_state(modules)
        weights = {name: _by_columns(value) for name, value in weights.items()}
        del modules
        forward = vmap(lambda own, kept, x: functional_call(skeleton, (own, kept), (x,)))
        step = self._optimizer(list(weights.values()))
        for parts in zip(*(self._batches(task) for task in tasks), strict=True):
            rows, real = _padded(parts, data.x.device)
            step.zero_grad()
            logits = forward(weights, buffers, data.x[rows])
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), data.y[rows].flatten(0, 1), reduction="none"
            ).view(rows.shape)
            # A sum over models: none has a part in the gradient of another.
            total: Any = (losses * real).sum()
            total.backward()
            step.step()
        everything: Mapping[str, torch.Tensor] = {**weights, **buffers}
        return [
            _predictor(skeleton, {name: value[k].detach() for name, value in everything.items()})
            for k in range(len(tasks))
        ]

    def _built(self, seed: int) -> torch.nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build()

    def _batches(self, task: TrainingTask) -> Any:
        """Rows of each batch, in the order of training."""
        rng = np.random.default_rng([task.seed, 1])
        for _ in range(self.epochs):
            order = rng.permutation(task.rows)
            yield from (
                order[at : at + self.batch_size] for at in range(0, len(order), self.batch_size)
            )

    def _optimizer(self, parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        if self.optimizer == "adam":
            return torch.optim.Adam(
                parameters, lr=self.learning_rate, weight_decay=self.weight_decay
            )
        return torch.optim.SGD(
            parameters,
            lr=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )


@dataclass(frozen=True, eq=False)
class _Data:
    """All samples and labels, on the device."""

    x: torch.Tensor
    y: torch.Tensor

    @classmethod
    def of(cls, task: TrainingTask, device: torch.device) -> _Data:
        kind = np.int64 if task.labels.dtype.kind in "iu" else np.float32
        return cls(
            viewed(np.asarray(task.samples, np.float32)).to(device),
            viewed(np.asarray(task.labels, kind)).to(device),
        )


def trained_module(module: torch.nn.Module) -> Trained:
    """A module as the result of a training: its outputs, and its weights."""
    return _predictor(module, dict(module.state_dict()))


def _predictor(skeleton: torch.nn.Module, weights: Weights) -> Trained:
    device = input_device(skeleton)

    def predict(x: NDArray[Any]) -> NDArray[np.float32]:
        with inference(skeleton):
            given = viewed(np.asarray(x, np.float32)).to(device)
            said = [functional_call(skeleton, weights, (part,)) for part in given.split(_ASKED)]
        return np.asarray(torch.cat(said).float().cpu().numpy(), np.float32)

    arrays = {name: value.detach().cpu().numpy() for name, value in weights.items()}
    return Trained(predict, arrays)


def _by_columns(stacked: torch.Tensor) -> torch.Tensor:
    """Matrices in the order in memory that their gradients have, of which else each is copied."""
    if stacked.ndim != 3:
        return stacked
    return stacked.detach().mT.contiguous().mT.requires_grad_()


def _padded(
    parts: Sequence[NDArray[np.int64]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of shape (models, longest), and what each counts in its model's mean loss."""
    lengths = np.array([len(part) for part in parts])
    rows = np.zeros((len(parts), lengths.max()), np.int64)
    real = np.arange(lengths.max()) < lengths[:, None]
    rows[real] = np.concatenate(parts)
    share = (real / lengths[:, None]).astype(np.float32)
    return torch.from_numpy(rows).to(device), torch.from_numpy(share).to(device)


def _check_independent(module: torch.nn.Module) -> None:
    """Refuse modules that many at once would train otherwise than one by one."""
    for name, part in module.named_modules():
        random = isinstance(part, _RANDOM) and getattr(part, "p", 0) > 0
        if random or isinstance(part, _BY_BATCH):
            why = "draws random numbers" if random else "looks at its batch as a whole"
            raise UnsupportedError(
                f"{type(part).__name__} {why} in training, so models trained at once would not "
                "be those trained one by one",
                cure="train them one by one (leave at_once out), or build the model without it",
                where=f"TorchTraining: {name or 'the module'}",
            )
