"""What every torch adapter needs: devices, dtypes, modes of computing, memory, fingerprints."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from canary.errors import InputError, ModelError, OutOfMemory
from canary.records.clocks import alike
from canary.records.validation import one_of

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_PLAIN = (type(None), bool, int, float, str, torch.dtype)
# Where a model is kept, who wrote it and how it is run; results say those that matter themselves.
_INCIDENTAL = {
    *("architectures", "dtype", "gradient_checkpointing", "max_seq_len_cached", "name_or_path"),
    *("torch_dtype", "training", "transformers_version", "use_cache"),
}


_OF_PADDING = "warn_if_padding_and_no_attention_mask"
"""The method of models of `transformers` that warns where a row ends with the padding token."""

_QUANTISED = ("torch.ao.nn.quantized", "torchao.", "bitsandbytes.", "auto_gptq.", "awq.")
"""Modules of which layers and tensors are quantised."""


def dtype_named(name: str) -> torch.dtype:
    """The torch dtype of one of the names that the command line takes."""
    one_of(name, "dtype", _DTYPES)
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


def devices_of(module: torch.nn.Module) -> list[torch.device]:
    """Every device on which a part of a module computes, that of its input first.

    Parameters may be spread over devices, or offloaded.
    """
    hooks = (hook for part in module.modules() for hook in _hooks(part))
    named = (getattr(hook, "execution_device", None) for hook in hooks)
    hooked = [torch.device(device) for device in named if device is not None]
    own = [part.device for part in module.parameters()] or [torch.device("cpu")]
    first = hooked[:1] if own[0].type == "meta" else []
    devices = dict.fromkeys([*first, *own, *hooked])
    return [device for device in devices if device.type not in ("meta", "disk")] or own[:1]


def input_device(module: torch.nn.Module) -> torch.device:
    """Where a module takes its input."""
    return devices_of(module)[0]


def quantised(module: torch.nn.Module) -> str | None:
    """What the weights of a module were quantised to, or by which method; None if they were not."""
    config = getattr(getattr(module, "config", None), "quantization_config", None)
    method = config.get("quant_method") if isinstance(config, dict) else config
    method = getattr(method, "quant_method", method)
    if method is not None:
        return str(getattr(method, "value", method))
    for part in module.modules():
        if type(part).__module__.startswith(_QUANTISED):
            weight = getattr(part, "weight", None)
            packed = weight() if callable(weight) else weight
            return str(getattr(packed, "dtype", "quantised")).removeprefix("torch.")
    for weight in module.parameters():
        if type(weight.data).__module__.startswith(_QUANTISED) or not weight.is_floating_point():
            return type(weight.data).__name__.replace("Tensor", "") or str(weight.dtype)
    return None


def dtype_at_work(module: torch.nn.Module, forward: Callable[[], object]) -> torch.dtype:
    """The dtype that `forward` computes in: the parameters', or autocast's where it is on.

    Autocast may be switched on around a call or, as accelerate does it, inside of the
    module's own forward; so its parts are asked while they run.
    """
    floating = (part.dtype for part in module.parameters() if part.is_floating_point())
    dtype, kind = next(floating, torch.float32), input_device(module).type

    def ask(_part: torch.nn.Module, _inputs: object) -> None:
        nonlocal dtype
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)

    hooks = [part.register_forward_pre_hook(ask) for part in module.modules()]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    return dtype


@contextmanager
def inference(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, the mode before restored; memory errors named.

    What `transformers` says of rows that may be padded is left unsaid: none of ours is.
    """
    # Of each part by itself: a frozen layer may be in evaluation mode within a model in training.
    # And without eval() and train(), by which some adapters merge their weights and part them
    # again, not to the last bit.
    training = [part for part in module.modules() if part.training]
    # Each part is kept from it, not the logger: it says so once, and what the user runs may be.
    warning = [part for part in module.modules() if hasattr(type(part), _OF_PADDING)]
    warning = [part for part in warning if _OF_PADDING not in part.__dict__]
    for part in training:
        part.training = False
    for part in warning:
        part.__dict__[_OF_PADDING] = lambda *_: None
    try:
        with computing():
            yield
    finally:
        for part in training:
            part.training = True
        for part in warning:
            del part.__dict__[_OF_PADDING]


@contextmanager
def computing() -> Iterator[None]:
    """No gradients, and memory errors named."""
    try:
        # Not inference_mode: what a module keeps for later, it may need for training.
        with torch.no_grad():
            yield
    except (MemoryError, RuntimeError) as error:  # the CPU allocator has no exception of its own
        named = isinstance(error, torch.cuda.OutOfMemoryError | MemoryError)
        if named or "allocate memory" in str(error) or "out of memory" in str(error):
            raise OutOfMemory(str(error), cure="use a smaller batch") from error
        raise


def free_bytes(*devices: torch.device) -> int:
    """Memory that may be taken on the tightest of some devices: what is free now, less a tenth.

    What torch keeps of memory that it no longer uses is free to it.
    """
    return int(alike(0.9 * min(map(_free, devices))))


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


def peak_bytes(device: torch.device) -> int:
    """The most memory that tensors took on a GPU so far; 0 for what is none."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def slab_capacity(memory_bytes: int, bytes_per_state: int) -> int:
    """Number of states that fit into `memory_bytes`; a ModelError if not even a handful does."""
    capacity = memory_bytes // max(bytes_per_state, 1)
    if capacity < 4:
        raise ModelError(
            f"memory_bytes={memory_bytes} holds {capacity} states of {bytes_per_state} bytes, "
            "at least 4 are needed",
            cure=f"give the walk at least {4 * bytes_per_state} bytes",
        )
    return capacity


def fingerprint(module: torch.nn.Module) -> str:
    """SHA-256 over names, dtypes, shapes and bytes of parameters and buffers, and over settings.

    Buffers count whether a checkpoint would hold them or not. Settings are the config, the
    class of each part and its attributes that are plain numbers, texts or flags; of adapters,
    their scales and which of them are at work. Costs one pass over the parameters; those that
    are offloaded are read one at a time.
    """
    digest = hashlib.sha256()
    tensors = {**dict(module.named_buffers(remove_duplicate=False)), **module.state_dict()}
    for name, value in sorted(tensors.items()):
        for part, plain in _plain_parts(name, _at_hand(module, name, value)):
            if isinstance(plain, torch.Tensor):
                digest.update(f"{part}\0{plain.dtype}\0{tuple(plain.shape)}\0".encode())
                contiguous = plain.detach().cpu().contiguous()
                digest.update(contiguous.reshape(-1).view(torch.uint8).numpy().data)
            else:
                digest.update(f"{part}\0{plain}\0".encode())
    config = getattr(module, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        digest.update(f"config\0{_settled(config.to_dict())}\0".encode())
    for name, layer in module.named_modules():
        attributes = {key: kept for key, kept in vars(layer).items() if isinstance(kept, _PLAIN)}
        digest.update(f"{name}\0{type(layer).__qualname__}\0{_settled(attributes)}\0".encode())
        if isinstance(getattr(layer, "scaling", None), dict):
            state = (layer.scaling, layer.active_adapters, layer.disable_adapters)
            digest.update(f"{name}\0{state}\0".encode())
    return digest.hexdigest()


def _at_hand(module: torch.nn.Module, name: str, value: Any) -> Any:
    """An entry of a state dict, which accelerate may keep elsewhere."""
    if not isinstance(value, torch.Tensor) or value.device.type != "meta":
        return value
    owner, _, leaf = name.rpartition(".")
    kept = (getattr(hook, "weights_map", None) for hook in _hooks(module.get_submodule(owner)))
    return next((values[leaf] for values in kept if values is not None), None)


def _settled(settings: dict[str, Any]) -> str:
    """Settings as text, in one order and without those that change no probability."""
    kept = {
        key: value
        for key, value in settings.items()
        if key not in _INCIDENTAL and not key.startswith("_")
    }
    # Of an object only its class: its own text might hold its address.
    return json.dumps(
        kept,
        sort_keys=True,
        default=lambda value: str(value) if isinstance(value, _PLAIN) else type(value).__name__,
    )


def _plain_parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Ordinary tensors and scalars that make up an entry of a state dict."""
    if isinstance(value, tuple | list):
        for i, part in enumerate(value):
            yield from _plain_parts(f"{name}.{i}", part)
    elif not isinstance(value, torch.Tensor):
        if isinstance(value, _PLAIN):
            yield name, value
    elif hasattr(value, "full_tensor"):  # parted over processes
        yield name, value.full_tensor()
    elif hasattr(value, "__tensor_flatten__"):  # a subclass that wraps others
        for part in value.__tensor_flatten__()[0]:
            yield from _plain_parts(f"{name}.{part}", getattr(value, part))
    elif value.is_quantized:
        yield f"{name}.int", value.int_repr()
        if value.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
            yield f"{name}.scales", value.q_per_channel_scales()
            yield f"{name}.zeros", value.q_per_channel_zero_points()
        else:
            yield f"{name}.scale", (value.q_scale(), value.q_zero_point()).__repr__()
    else:
        yield name, value
