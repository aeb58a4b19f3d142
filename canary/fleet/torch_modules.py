"""Trained modules as functions; and what modules trained at once must have for themselves: dropout.

They run as one of them, with the weights and buffers of each. What else they hold is that of this
one, so it has to be the same in all. Masks of dropout follow from a seed for each model: torch
draws those of all models from one generator, in the order in which it comes to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call
from torch.nn.modules.dropout import _DropoutNd

from canary.errors import InputError, UnsupportedError
from canary.models.torch_support import inference, input_device, viewed
from canary.workers.digests import digest

_ASKED = 256  # samples a trained model is asked for at a time: all activations would fill memory

Weights = dict[str, torch.Tensor]

_CHANNELS: dict[type[_DropoutNd], bool] = {
    torch.nn.Dropout: False,
    torch.nn.Dropout1d: True,
    torch.nn.Dropout2d: True,
    torch.nn.Dropout3d: True,
}
"""Kinds of dropout, and whether they drop whole channels."""

_OF_WEIGHTS = frozenset({"_parameters", "_buffers", "_modules", "_flat_weights"})
"""Attributes of modules that hold weights, buffers and modules, which are compared as such."""


class Draws:
    """Masks of the models that are trained together, each from a generator of its own.

    Nothing is dropped outside of `begun`.
    """

    def __init__(self) -> None:
        self._models: list[tuple[np.random.Generator, int]] = []
        self._which: torch.Tensor | None = None

    @contextmanager
    def begun(
        self, generators: Sequence[np.random.Generator], rows: Sequence[int]
    ) -> Iterator[None]:
        """Draw masks for one forward pass, with the number of samples of each model's batch."""
        self._models = list(zip(generators, rows, strict=True))
        try:
            yield
        finally:
            self._models, self._which = [], None

    def at(self, which: torch.Tensor) -> None:
        """Say which of several models is at work: a whole number, inside of `torch.func.vmap`."""
        self._which = which

    def mask(self, x: torch.Tensor, share: float, *, channels: bool) -> torch.Tensor | None:
        """What `x` is multiplied with, so that its mean stays; None for nothing."""
        if not self._models:
            return None
        longest = max(rows for _, rows in self._models)
        shape = tuple(x.shape[:2]) + (1,) * (x.ndim - 2) if channels else tuple(x.shape)
        if not shape or shape[0] != longest:
            raise UnsupportedError(
                f"dropout of an activation of shape {tuple(x.shape)}, of {longest} samples",
                cure="keep the samples in the first dimension where torch.nn.Dropout is applied, "
                "or train by a function of your own",
                where="TorchTraining",
            )
        kept = np.zeros((len(self._models), *shape), np.float32)
        for own, (rng, rows) in zip(kept, self._models, strict=True):
            own[:rows] = rng.random((rows, *shape[1:]), np.float32) >= share
        kept *= 1 / (1 - share) if share < 1 else 0
        masks = torch.from_numpy(kept).to(x.device, x.dtype)
        if self._which is None:
            return masks[0]
        return masks.index_select(0, self._which.reshape(1)).squeeze(0)


class _Dropout(torch.nn.Module):
    def __init__(self, share: float, draws: Draws, *, channels: bool) -> None:
        super().__init__()
        self._share, self._draws, self._channels = share, draws, channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self._draws.mask(x, self._share, channels=self._channels) if self.training else None
        return x if mask is None else x * mask


def with_own_dropout(module: torch.nn.Module) -> Draws:
    """Put dropout that draws its masks from `Draws` in the place of torch's, for good.

    Kinds of dropout that are no plain ones (`torch.nn.AlphaDropout`, your own) stay there.
    """
    draws = Draws()
    made: dict[torch.nn.Module, _Dropout] = {}
    for parent in list(module.modules()):
        for name, part in list(parent._modules.items()):
            if isinstance(part, _DropoutNd) and type(part) in _CHANNELS:
                own = _Dropout(part.p, draws, channels=_CHANNELS[type(part)])
                setattr(parent, name, made.setdefault(part, own))
    return draws


def difference(first: torch.nn.Module, second: torch.nn.Module) -> str:
    """The path of the first thing that differs beside the values of weights and buffers, or "".

    Attributes are compared by value, functions by what they do. What has no value that could be
    compared, such as a lock, counts as the same.
    """
    mine, other = _contents(first), _contents(second)
    return next((name for name in {**mine, **other} if mine.get(name) != other.get(name)), "")


def _contents(module: torch.nn.Module) -> dict[str, object]:
    named: list[tuple[str, object]] = [*module.named_modules()]
    named += [*module.named_parameters(), *module.named_buffers()]
    places = {id(part): name for name, part in named}
    contents: dict[str, object] = {}
    for name, part in module.named_modules():
        contents[name or "the class"] = _mark(type(part), {})
        held = {**part._parameters, **part._buffers}
        about: dict[str, object] = {
            key: value is not None and (value.dtype, value.shape, value.requires_grad, value.device)
            for key, value in held.items()
        }
        for key, value in vars(part).items():
            if key not in _OF_WEIGHTS:
                # Keys of hooks count all hooks that were ever made.
                about[key] = _mark([*value.values()] if "_hooks" in key else value, places)
        contents |= {f"{name}.{key}".lstrip("."): value for key, value in about.items()}
    return contents


def _mark(value: Any, places: dict[int, str]) -> object:
    if value is None or isinstance(value, bool | int | str):
        return type(value), value
    try:
        return digest(value, "build", known=places)
    except InputError:
        return type(value).__qualname__


def predictor(
    skeleton: torch.nn.Module, weights: Weights
) -> tuple[Callable[[NDArray[Any]], NDArray[np.float32]], dict[str, NDArray[Any]]]:
    """A trained module as a function of samples, and what `load_state_dict` asks for.

    Weights that are tied are kept under each of their names.
    """
    named: Weights = dict(skeleton.named_parameters(remove_duplicate=False))
    named.update(skeleton.named_buffers(remove_duplicate=False))
    first: dict[int, str] = {}
    names = {name: first.setdefault(id(value), name) for name, value in named.items()}
    once = {name: value for name, value in weights.items() if names.get(name, name) == name}

    def predict(x: NDArray[Any]) -> NDArray[np.float32]:
        with inference(skeleton):
            samples = viewed(np.asarray(x, np.float32)).to(input_device(skeleton))
            logits = [functional_call(skeleton, once, (part,)) for part in samples.split(_ASKED)]
            return torch.cat(logits).float().cpu().numpy()

    kept = {name: once[names[name]] for name in skeleton.state_dict() if name in names}
    return predict, {name: value.detach().cpu().numpy() for name, value in kept.items()}
