"""What every torch adapter needs: devices, dtypes, modes of computing, memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from canary.errors import InputError, ModelError, OutOfMemory
from canary.models.language_model import Ints
from canary.statistics.number_checks import softmaxed

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def dtype_named(name: str) -> torch.dtype:
    """The torch dtype of one of the names that the command line takes."""
    if name not in _DTYPES:
        raise InputError(f"unknown dtype {name!r}", cure=f"use one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def pick_device(name: str | None) -> torch.device:
    """The named device, or the first accelerator there is, or the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {name!r} cannot be used here ({str(error).splitlines()[0]})",
            cure="use cpu, or a device that torch sees on this machine",
        ) from error
    if device.type == "meta":
        raise InputError(
            f"device {name!r} holds shapes and computes no numbers", cure="use cpu, or leave it out"
        )
    return device


def viewed(array: NDArray[Any]) -> torch.Tensor:
    """A tensor on the memory of an array that may be read-only: for what is only read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def _hooks(part: torch.nn.Module) -> tuple[Any, ...]:
    """The hooks by which accelerate brings a part's parameters to where it computes."""
    hook = getattr(part, "_hf_hook", None)
    return tuple(getattr(hook, "hooks", (hook,)))  # hooks come alone or in a sequence


def _hooked_devices(module: torch.nn.Module) -> list[torch.device]:
    hooks = (hook for part in module.modules() for hook in _hooks(part))
    devices = (getattr(hook, "execution_device", None) for hook in hooks)
    return [torch.device(device) for device in devices if device is not None]


def input_device(module: torch.nn.Module) -> torch.device:
    """Where a module takes its input, whose parameters may be spread or offloaded."""
    device = next(module.parameters(), torch.empty(0)).device
    return next(iter(_hooked_devices(module)), device) if device.type == "meta" else device


def devices_of(module: torch.nn.Module) -> list[torch.device]:
    """Every device on which a part of a module computes, that of its input first."""
    devices = [input_device(module), *(part.device for part in module.parameters())]
    unique = dict.fromkeys([*devices, *_hooked_devices(module)])
    return [device for device in unique if device.type not in ("meta", "disk")]


def offloaded(module: torch.nn.Module, name: str) -> Any:
    """A parameter that accelerate keeps elsewhere; None where there is no such."""
    owner, _, leaf = name.rpartition(".")
    kept = (getattr(hook, "weights_map", None) for hook in _hooks(module.get_submodule(owner)))
    return next((values[leaf] for values in kept if values is not None), None)


def dtype_at_work(module: torch.nn.Module, forward: Callable[[], object]) -> torch.dtype:
    """The dtype that `forward` computes in: the parameters', or autocast's where it is on.

    Autocast may be switched on around a call or, as accelerate does it, inside of the
    module's own forward; so its parts are asked while they run.
    """
    floating = (part.dtype for part in module.parameters() if part.is_floating_point())
    found, kind = next(floating, torch.float32), input_device(module).type

    def ask(_part: torch.nn.Module, _inputs: object) -> None:
        nonlocal found
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            found = torch.get_autocast_dtype(kind)

    hooks = [part.register_forward_pre_hook(ask) for part in module.modules()]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    return found


@contextmanager
def inference(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, the mode before restored; memory errors named."""
    # Of each part by itself: a frozen layer may be in evaluation mode within a model in training.
    # And without eval() and train(), by which some adapters merge their weights and part them
    # again, not to the last bit.
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        with computing():
            yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def computing() -> Iterator[None]:
    """No gradients, and memory errors named."""
    try:
        # Not inference_mode: what a module keeps for later, it may need for training.
        with torch.no_grad():
            yield
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(str(error), cure="use a smaller batch") from error
    except RuntimeError as error:
        # The CPU allocator has no exception of its own.
        if "allocate memory" in str(error) or "out of memory" in str(error):
            raise OutOfMemory(str(error), cure="use a smaller batch") from error
        raise


def free_bytes(*devices: torch.device) -> int:
    """Memory that may be taken on the tightest of some devices: what is free now, less a tenth.

    What torch keeps of memory that it no longer uses is free to it.
    """
    return int(0.9 * min(map(_free, devices)))


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + kept)
    # MemAvailable counts the page cache that the kernel would give back; sysconf does not.
    memory = Path("/proc/meminfo")
    for line in memory.read_text().splitlines() if memory.exists() else ():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def refuse_softmax(logits: torch.Tensor, name: str) -> None:
    """Refuse a model whose logits, of shape (..., vocabulary), are probabilities.

    A log-softmax of them would be taken for the model's, nearly flat and without an error.
    """
    rows = logits.detach().reshape(-1, logits.shape[-1])
    coarse = rows.dtype in (torch.bfloat16, torch.float16)
    if softmaxed(rows.float().cpu().numpy(), coarse=coarse):
        raise ModelError(
            f"the model {name!r} gives probabilities where logits are expected: every row is "
            "within 0 and 1 and sums to 1",
            cure="leave the softmax out of its forward, or take the logarithm",
        )


class SlabPlaces:
    """Places in slabs of states; they are sent once to each device that holds some.

    Parameters
    ----------
    places : int64 array of shape (n,)
    """

    def __init__(self, places: Ints) -> None:
        self._places = torch.from_numpy(places)
        self._on: dict[torch.device, torch.Tensor] = {}

    def read(self, slab: torch.Tensor, dimension: int = 0) -> torch.Tensor:
        """The states at the places, along a dimension of the slab."""
        return slab.index_select(dimension, self._sent(slab.device))

    def write(self, slab: torch.Tensor, states: torch.Tensor, dimension: int = 0) -> None:
        """Put states, n along that dimension, at the places."""
        slab.index_copy_(dimension, self._sent(slab.device), states)

    def _sent(self, device: torch.device) -> torch.Tensor:
        if device not in self._on:
            self._on[device] = self._places.to(device)
        return self._on[device]


def slab_capacity(memory_bytes: int, bytes_per_state: int) -> int:
    """Number of states that fit into `memory_bytes`.

    Raises
    ------
    ModelError
        If not even a handful does.
    """
    capacity = memory_bytes // max(bytes_per_state, 1)
    if capacity < 4:
        raise ModelError(
            f"memory_bytes={memory_bytes} holds {capacity} states of {bytes_per_state} bytes, "
            "at least 4 are needed",
            cure=f"give the walk at least {4 * bytes_per_state} bytes",
        )
    return capacity
