"""What a model hashes to, wherever and in whatever form its parameters lie.

Quantised weights, weights offloaded to disk, adapters that are switched off, buffers that
no checkpoint holds and numbers that are no tensors are all part of which model it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import torch

from canary.models.torch_support import offloaded

_PLAIN = (type(None), bool, int, float, str, torch.dtype)

# Where a model lies, who wrote it and how it is run; results say those that matter themselves.
_INCIDENTAL = frozenset(
    {
        "architectures",
        "dtype",
        "gradient_checkpointing",
        "max_seq_len_cached",
        "name_or_path",
        "torch_dtype",
        "training",
        "transformers_version",
        "use_cache",
    }
)


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
        if isinstance(value, torch.Tensor) and value.device.type == "meta":
            value = offloaded(module, name)  # noqa: PLW2901
        for part, plain in _plain_parts(name, value):
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
        plain = {key: kept for key, kept in vars(layer).items() if isinstance(kept, _PLAIN)}
        digest.update(f"{name}\0{type(layer).__qualname__}\0{_settled(plain)}\0".encode())
        if isinstance(getattr(layer, "scaling", None), dict):
            state = (layer.scaling, layer.active_adapters, layer.disable_adapters)
            digest.update(f"{name}\0{state}\0".encode())
    return digest.hexdigest()


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
