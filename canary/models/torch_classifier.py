"""Classifiers that are torch modules, and the gradients of their losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional

from canary.errors import InputError, ModelError
from canary.models.torch_support import fingerprint, free_bytes, inference, input_device
from canary.statistics.number_checks import softmaxed

_SUM_TOLERANCE = 1e-3
_SHARE = 8  # of the free memory, gradients of a batch take one such part: vmap holds copies
_MOST_BYTES = 1 << 28


class TorchClassifier:
    """A torch module that maps a batch of samples to (samples, classes).

    Parameters
    ----------
    module : torch.nn.Module
        It is called in evaluation mode; which mode it was in is restored.
    outputs : {"logits", "probs"}
        What it gives.

    Notes
    -----
    Log-softmax in float32 whatever the module computes in. numpy's floats come to the module in
    the dtype and on the device of its parameters, whole numbers as they are.
    """

    def __init__(self, module: torch.nn.Module, outputs: str | None) -> None:
        self.name = type(module).__name__
        if outputs not in {"logits", "probs"}:
            cure = 'say what it gives: outputs="logits", or "probs" if it ends in a softmax'
            raise InputError(f"outputs={outputs!r} for a torch module", cure=cure, where=self.name)
        self._module, self._logits = module, outputs == "logits"
        self._device = input_device(module)
        self.device = self._device.type
        self._floats = {
            name: part.detach()
            for name, part in module.named_parameters()
            if part.is_floating_point()
        }
        self.parameters = tuple(self._floats)
        self._dtype = next((part.dtype for part in self._floats.values()), torch.float32)

    @cached_property
    def fingerprint(self) -> str | None:
        """SHA-256 over the parameters and buffers."""
        return fingerprint(self._module)

    def log_probs(self, inputs: Any) -> NDArray[np.float32]:
        """Log-probability of each class, of shape (samples, classes) and float32, in nats.

        A ModelError if the module cannot take the inputs, gives another shape, or gives
        something else than it is said to give.
        """
        with inference(self._module):
            given = self._called(inputs)
            if self._logits and softmaxed(given.float().cpu().numpy()):
                problem = "what the module gave are probabilities, and it is said to give logits"
                cure = 'say outputs="probs", or take the softmax out of the module'
                raise ModelError(problem, cure=cure, where=self.name)
            if not self._logits and len(given):
                worst = float((given.float().sum(1) - 1).abs().max())
                # NaN is not at most anything, and is left for the engine to name.
                if float(given.min()) < 0 or worst > _SUM_TOLERANCE:
                    problem = "what the module gave is negative or does not sum to one"
                    cure = 'say outputs="logits", or end the module in a softmax'
                    raise ModelError(problem, cure=cure, where=self.name)
            values: NDArray[np.float32] = self._logged(given).cpu().numpy()
        return values

    @property
    def gradient_batch(self) -> int:
        """How many samples' gradients are held at a time, at least 1."""
        size = 4 * sum(part.numel() for part in self._floats.values())
        return max(min(free_bytes(self._device) // _SHARE, _MOST_BYTES) // max(size, 1), 1)

    def gradients(self, inputs: Any, labels: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """What the gradient of the loss of each sample by the `parameters` comes to.

        The arrays of `canary.models.classifier.GradientFeatures`, in its order.

        One backward pass, vectorised over samples (`torch.func`); memory is samples x
        parameters. The last weight matrix is the last parameter of two dimensions with as
        many rows as there are classes; a ModelError if there is none.
        """
        buffers = dict(self._module.named_buffers())
        with inference(self._module):
            with self._taking(inputs):
                x = self._tensor(inputs)
            y = torch.from_numpy(labels).to(self._device)
            classes = self._called(x[:1]).shape[1]
            of_classes = (n for n, p in self._floats.items() if p.ndim > 1 and len(p) == classes)
            last = next(reversed([*of_classes]), None)
            if last is None:
                raise ModelError(
                    f"the module has no weight matrix with a row for each of {classes} classes",
                    cure="attack its outputs instead",
                    where=self.name,
                )
            if not 0 <= int(labels.min()) <= int(labels.max()) < classes:
                problem = f"labels from {labels.min()} to {labels.max()} for {classes} classes"
                raise ModelError(problem, cure="number the classes from 0", where=self.name)

            def loss(chosen: Mapping[str, torch.Tensor], sample: torch.Tensor, label: Any) -> Any:
                given = functional_call(self._module, ({**buffers, **chosen},), (sample[None],))
                return functional.nll_loss(self._logged(given), label[None])

            with self._taking(inputs), torch.enable_grad():
                gradients, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(
                    self._floats, x, y
                )
            norms = torch.stack([g.flatten(1).float().norm(dim=1) for g in gradients.values()], 1)
            matrix = gradients[last].flatten(2).float()
            rows = torch.arange(len(matrix), device=matrix.device)
            return (
                norms.double().cpu().numpy(),
                losses.double().cpu().numpy(),
                matrix.norm(dim=2).cpu().numpy(),
                matrix[rows, y].cpu().numpy(),
            )

    def _tensor(self, inputs: Any) -> torch.Tensor:
        x = torch.as_tensor(inputs)
        return x.to(self._device, self._dtype if x.is_floating_point() else None)

    def _called(self, inputs: Any) -> torch.Tensor:
        with self._taking(inputs):
            given = self._module(self._tensor(inputs))
        tensor = isinstance(given, torch.Tensor)
        if not tensor or given.ndim != 2 or given.shape[1] < 2:
            shown = f"shape {tuple(given.shape)}" if tensor else "no tensor"
            raise ModelError(
                f"the module gave {shown}, expected (samples, classes) with at least 2 classes",
                cure="wrap it in a module that returns this alone",
                where=self.name,
            )
        logits: torch.Tensor = given
        return logits

    @contextmanager
    def _taking(self, inputs: Any) -> Iterator[None]:
        """What the module cannot do with its inputs is a ModelError."""
        try:
            yield
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            if "memory" in str(error):  # `inference` names it
                raise
            reason = str(error).partition("\n")[0]
            raise ModelError(
                f"the module cannot take samples of shape {np.shape(inputs)[1:]} and type "
                f"{getattr(inputs, 'dtype', type(inputs).__name__)} ({reason})",
                cure="give samples as the module was trained on them",
                where=self.name,
            ) from error

    def _logged(self, given: torch.Tensor) -> torch.Tensor:
        return functional.log_softmax(given.float(), 1) if self._logits else given.float().log()
