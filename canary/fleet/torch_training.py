"""Small torch classifiers, trained one by one or many at once.

At once, the weights of K models are stacked in one tensor for each parameter, and
`torch.func.vmap` makes one batched product of their K products. Each model has the initial
weights, the batches and the dropout that it would have alone: only rounding differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.modules.dropout import _DropoutNd

from canary.errors import InputError, OutOfMemory, UnsupportedError
from canary.fleet.torch_modules import Weights, difference, predictor, with_own_dropout
from canary.fleet.training import Trained, TrainingTask
from canary.models.torch_support import pick_device, viewed

_PROBED = 8  # samples by which it is seen whether a module looks at its batch as a whole

Schedule = Callable[[int, int], float]


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
    optimizer, learning_rate, momentum, weight_decay : {"sgd", "adam"}, float
        As in torch; `momentum` is for SGD only.
    device : str, optional
        The first accelerator there is, else the CPU, without it.
    schedule : callable, optional
        From the number of a step, from 0, and how many there are, to what the learning rate is
        multiplied with: a function at the top of a module.
    clip : float, optional
        The largest norm of a batch's mean gradient, over all weights of a model: a longer one is
        shortened before the step, as by `torch.nn.utils.clip_grad_norm_`.

    Notes
    -----
    Samples of any type become float32. Soft labels are learned by their cross-entropy. At
    once, K models take K times the memory of one, but for the samples, which are held once.
    The masks of `torch.nn.Dropout` are drawn by numpy, for one model as for many. On a CPU, the
    training thread takes numbers below 1e-38 for zero: steps with many of them are slow.
    """

    build: Callable[[], torch.nn.Module]
    epochs: int = 20
    batch_size: int = 64
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    device: str | None = None
    schedule: Schedule | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(
                f"clip={self.clip}",
                cure="give a finite norm above 0, or leave clip out",
                where="TorchTraining",
            )
        if self.optimizer not in {"sgd", "adam"} or self.epochs < 1 or self.batch_size < 1:
            raise InputError(
                f"optimizer={self.optimizer!r}, epochs={self.epochs}, batch_size={self.batch_size}",
                cure='use "sgd" or "adam", and at least 1 of the others',
                where="TorchTraining",
            )

    def __call__(self, task: TrainingTask) -> Trained:
        """Train one model."""
        device = pick_device(self.device)
        x, y = _data(task, device)
        with _seeded(task.seed, device), _no_denormals():
            module = self.build().to(device).train()
            draws = with_own_dropout(module)
            step, rng = self._optimizer(list(module.parameters())), _masks_of(task)
            for number, rows in enumerate(self._batches(task)):
                self._paced(step, number, task)
                part = torch.from_numpy(rows).to(device)
                step.zero_grad()
                with draws.begun([rng], [len(rows)]):
                    logits = module(x[part])
                loss: Any = torch.nn.functional.cross_entropy(logits, y[part])
                loss.backward()
                if self.clip is not None:
                    torch.nn.utils.clip_grad_norm_(module.parameters(), self.clip)
                step.step()
        return Trained(*predictor(module, dict(module.state_dict())))

    def together(self, tasks: Sequence[TrainingTask]) -> list[Trained]:
        """Train models of the same samples at once, as they would be one by one.

        Models of unlike numbers of batches are trained one group after the other; if the
        module looks at its batch as a whole, as batch norm does, those of unlike numbers of
        samples.

        Raises
        ------
        UnsupportedError
            If the module draws random numbers otherwise than by `torch.nn.Dropout`, or does what
            `torch.func.vmap` cannot do; or modules differ in more than weights and buffers.
        OutOfMemory
            If they do not fit on the device together.
        """
        device = pick_device(self.device)
        whole = self._by_batch(tasks[0], device)
        sizes = [len(task.rows) if whole else self._steps(task) for task in tasks]
        results: dict[int, Trained] = {}
        for size in sorted(set(sizes)):
            group = [number for number, own in enumerate(sizes) if own == size]
            try:
                with _no_denormals():
                    trained = self._stacked([tasks[number] for number in group], device)
            except (torch.cuda.OutOfMemoryError, MemoryError) as error:
                raise OutOfMemory(str(error), cure="train fewer models at once") from error
            except RuntimeError as error:
                if not str(error).startswith("vmap:"):
                    raise
                raise _alone(str(error).partition(". ")[0], "the module") from error
            results.update(zip(group, trained, strict=True))
        return [results[number] for number in range(len(tasks))]

    def _stacked(self, tasks: list[TrainingTask], device: torch.device) -> list[Trained]:
        x, y = _data(tasks[0], device)
        modules = [self._built(task.seed).to(device).train() for task in tasks]
        skeleton = modules[0]
        for other in modules[1:]:
            if part := difference(skeleton, other):
                raise UnsupportedError(
                    f"{part} differs from model to model and is neither weight nor buffer, so "
                    "models trained at once would all have that of the first",
                    cure="give a tensor to register_buffer, and build everything else alike for "
                    "all models; or train them one by one (leave at_once out)",
                    where="TorchTraining: build",
                )
        draws = with_own_dropout(skeleton)
        weights, buffers = stack_module_state(modules)
        for name, value in weights.items():
            if value.ndim == 3:
                # Matrices in the order in memory of their gradients, which else are all copied.
                ordered = value.detach().mT.contiguous().mT
                weights[name] = ordered.requires_grad_(value.requires_grad)
        del modules
        rngs, numbers = [_masks_of(task) for task in tasks], torch.arange(len(tasks), device=device)
        step = self._optimizer(list(weights.values()))

        def forward(own: Weights, held: Weights, part: torch.Tensor, which: torch.Tensor) -> Any:
            draws.at(which)
            state = {**own, **held}
            logits = functional_call(skeleton, state, (part,))
            return logits, {name: state[name] for name in held}  # as the module left them

        batches = zip(*(self._batches(task) for task in tasks), strict=True)
        for number, parts in enumerate(batches):
            self._paced(step, number, tasks[0])
            rows, real = _padded(parts, device)
            step.zero_grad()
            with draws.begun(rngs, [len(part) for part in parts]):
                logits, buffers = vmap(forward)(weights, buffers, x[rows], numbers)
            buffers = {name: value.detach() for name, value in buffers.items()}
            losses = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), y[rows].flatten(0, 1), reduction="none"
            ).view(rows.shape)
            # A sum over models: none has a part in the gradient of another.
            total: Any = (losses * real).sum()
            total.backward()
            if self.clip is not None:
                _clip_each(weights.values(), self.clip)
            step.step()
        held = {**weights, **buffers}
        return [
            Trained(*predictor(skeleton, {n: v[k].detach() for n, v in held.items()}))
            for k in range(len(tasks))
        ]

    def _by_batch(self, task: TrainingTask, device: torch.device) -> bool:
        """Whether what a module in training says of a sample depends on the others: it is asked."""
        module = self._built(task.seed).to(device).train()
        with_own_dropout(module)
        for name, inner in module.named_modules():
            if isinstance(inner, _DropoutNd) and inner.p > 0:
                raise _alone(f"{type(inner).__name__} draws random numbers", name or "the module")
        places = np.linspace(0, len(task.samples) - 1, _PROBED).astype(np.int64)
        x = viewed(np.asarray(task.samples[places], np.float32)).to(device)
        state: Weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}

        def ask(given: torch.Tensor) -> torch.Tensor:
            own = {name: value.clone() for name, value in state.items()}
            return torch.as_tensor(functional_call(module, own, (given,)))

        near = partial(torch.allclose, rtol=1e-4, atol=1e-5, equal_nan=True)
        with _seeded(task.seed, device), torch.no_grad():
            logits, again, part = ask(x), ask(x), ask(x[: _PROBED // 2])
        if not near(logits, again):
            raise _alone("it draws random numbers", "the module")
        return not near(logits[: len(part)], part)

    def _built(self, seed: int) -> torch.nn.Module:
        with _seeded(seed, torch.device("cpu")):
            return self.build()

    def _batches(self, task: TrainingTask) -> Any:
        """Rows of each batch, in the order of training."""
        rng = np.random.default_rng([task.seed, 1])
        for _ in range(self.epochs):
            order = rng.permutation(task.rows)
            for begin in range(0, len(order), self.batch_size):
                yield order[begin : begin + self.batch_size]

    def _steps(self, task: TrainingTask) -> int:
        return self.epochs * math.ceil(len(task.rows) / self.batch_size)

    def _paced(self, step: torch.optim.Optimizer, number: int, task: TrainingTask) -> None:
        if self.schedule is None:
            return
        steps = self._steps(task)
        factor = float(self.schedule(number, steps))
        if not 0 <= factor < math.inf:
            problem = f"the schedule gave {factor} at step {number} of {steps}"
            cure = "let it give a factor of 0 or more for each step"
            raise InputError(problem, cure=cure, where="TorchTraining")
        for group in step.param_groups:
            group["lr"] = self.learning_rate * factor

    def _optimizer(self, parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
        about: dict[str, Any] = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.optimizer == "adam":
            return torch.optim.Adam(parameters, **about)
        return torch.optim.SGD(parameters, momentum=self.momentum, **about)


def _data(task: TrainingTask, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All samples and labels, on the device."""
    kind = np.int64 if task.labels.dtype.kind in "iu" else np.float32
    x, y = np.asarray(task.samples, np.float32), np.asarray(task.labels, kind)
    return viewed(x).to(device), viewed(y).to(device)


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


def _clip_each(weights: Iterable[torch.Tensor], most: float) -> None:
    """What `clip_grad_norm_` does, for each of the stacked models."""
    gradients = [one.grad for one in weights if one.grad is not None]
    norms = torch.stack([one.reshape(len(one), -1).norm(dim=1) for one in gradients]).norm(dim=0)
    factors = (most / (norms + 1e-6)).clamp(max=1)
    for one in gradients:
        one.mul_(factors.view(-1, *[1] * (one.ndim - 1)))


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """The random numbers of torch from a seed; those outside go on as if nothing had been."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _no_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as zero: weights decay to there, and a CPU is slow with them."""
    torch.ones(1 << 20).exp_()  # begins torch's other threads, which else inherit this mode
    flushed = not bool(torch.tensor(torch.finfo(torch.float32).tiny) / 2 > 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


def _masks_of(task: TrainingTask) -> np.random.Generator:
    return np.random.default_rng([task.seed, 2])


def _alone(why: str, part: str) -> UnsupportedError:
    return UnsupportedError(
        f"{why} in training, so models trained at once would not be those trained one by one",
        cure="train them one by one (leave at_once out); or build the model without it, and with "
        "torch.nn.Dropout where it is to drop",
        where=f"TorchTraining: {part}",
    )
