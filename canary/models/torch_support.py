"""What every torch adapter needs: devices, dtypes, memory, padding, fingerprints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from canary.errors import InputError, ModelError, OutOfMemory
from canary.models.language_model import Rows
from canary.statistics.softmaxed import softmaxed

__all__ = [
    "computing",
    "devices_of",
    "dtype_at_work",
    "dtype_name",
    "dtype_named",
    "free_bytes",
    "inference",
    "input_device",
    "pad",
    "pick_device",
    "refuse_softmax",
    "scored_positions",
    "slab_capacity",
    "viewed",
]

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


def input_device(module: torch.nn.Module) -> torch.device:
    """Where a module takes its input, whose parameters may be spread or offloaded."""
    parameter = next(module.parameters(), torch.empty(0))
    if parameter.device.type != "meta":
        return parameter.device
    for part in module.modules():  # accelerate's hooks bring offloaded parameters there
        device = getattr(getattr(part, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device(device)
    return parameter.device


def dtype_at_work(
    module: torch.nn.Module, plain: torch.dtype, forward: Callable[[], object]
) -> torch.dtype:
    """The dtype that `forward` computes in: `plain`, or autocast's where that is at work.

    Autocast may be switched on around a call or, as accelerate does it, inside of the
    module's own forward; so its parts are asked while they run.
    """
    found, kind = plain, input_device(module).type

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


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype, as results give it."""
    return str(dtype).removeprefix("torch.")


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
    if device.type != "cuda":
        return _available_ram()
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + kept)


def devices_of(module: torch.nn.Module) -> list[torch.device]:
    """Every device on which a part of a module computes, that of its input first."""
    found = [input_device(module)]
    hooks = [getattr(part, "_hf_hook", None) for part in module.modules()]
    found += [part.device for part in module.parameters()]
    for hook in hooks:
        for one in getattr(hook, "hooks", (hook,)):  # hooks come alone or in a sequence
            device = getattr(one, "execution_device", None)
            if device is not None:
                found.append(torch.device(device))
    return [device for device in dict.fromkeys(found) if device.type not in ("meta", "disk")]


def _available_ram() -> int:
    # MemAvailable counts the page cache that the kernel would give back; sysconf does not.
    with (
        Path("/proc/meminfo").open()
        if Path("/proc/meminfo").exists()
        else Path(os.devnull).open() as file
    ):
        for line in file:
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


def pad(rows: Rows, device: torch.device) -> torch.Tensor:
    """Token ids of shape (n, longest), right-padded with zeros.

    Causal models never see what stands to the right, so right padding is exact.
    """
    lengths = rows.lengths
    width = int(lengths.max(initial=0))
    ids = np.zeros((len(rows), width), np.int64)
    ids[np.arange(width) < lengths[:, None]] = rows.ids
    return torch.from_numpy(ids).to(device)


def scored_positions(rows: Rows, device: torch.device) -> torch.Tensor:
    """Which targets are scored, bool of shape (n, longest - 1).

    Target ``j`` is token ``j + 1`` of the row.
    """
    lengths = rows.lengths
    at = np.arange(1, int(lengths.max(initial=1)))
    wanted: NDArray[np.bool_] = (at >= rows.start[:, None]) & (at < lengths[:, None])
    return torch.from_numpy(wanted).to(device)


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
