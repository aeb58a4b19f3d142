"""A model in the midst of its training: what wraps it, who else holds it, what must not move."""

from __future__ import annotations

import operator
import random
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from typing import Any

import numpy as np
import torch

from canary.errors import UnsupportedError

_PARTS = ("_parameters", "_buffers", "_modules")  # of a module, in its dict of names


def unwrapped(module: Any) -> Any:
    """The module within data parallelism and compilation, its parameters whole.

    A forward of it needs no other process; and a compiled module, given rows of other
    shapes, would be compiled anew, and train with other rounding.

    Raises
    ------
    UnsupportedError
        If the parameters are parted over processes (FSDP, ZeRO 3, tensor parallelism): one
        process alone would wait for the others. If it is an average of weights.
    """
    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        if isinstance(module, parallel):
            module = module.module
        elif hasattr(module, "_orig_mod"):
            module = module._orig_mod
        else:
            break
    if not isinstance(module, torch.nn.Module):
        return module
    if isinstance(module, torch.optim.swa_utils.AveragedModel):
        raise UnsupportedError(
            "an average of the weights was given, and not the model that is trained",
            cure="give the model that is trained; audit the average when the training is over",
        )
    parted = any(type(part).__name__ == "FullyShardedDataParallel" for part in module.modules())
    if parted or any(_is_parted(parameter) for parameter in module.parameters()):
        raise UnsupportedError(
            "the model's parameters are parted over several processes (FSDP, ZeRO 3 or tensor "
            "parallelism), and one process alone cannot compute with a part",
            cure="train with plain data parallelism, or audit the saved checkpoints instead",
        )
    devices = sorted({str(parameter.device) for parameter in module.parameters()})
    if len(devices) > 1 and not any(hasattr(part, "_hf_hook") for part in module.modules()):
        raise UnsupportedError(
            f"the model's parameters lie on {' and '.join(devices)}, and nothing in it moves what "
            "goes from one to the other",
            cure="keep it on one device, or spread it with device_map when it is loaded",
        )
    return module


def _is_parted(parameter: torch.nn.Parameter) -> bool:
    return hasattr(parameter, "ds_id") or hasattr(parameter, "placements")


def first_process() -> bool:
    """Whether this process is the one that measures: the first of several, or the only one."""
    return not _several() or torch.distributed.get_rank() == 0


def any_process(flag: bool) -> bool:  # noqa: FBT001 - the one thing that it is about
    """Whether the flag is up in any process. All must ask at the same steps."""
    if not _several():
        return flag
    on_gpu = torch.distributed.get_backend() == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    raised = torch.tensor([int(flag)], device=device)
    torch.distributed.all_reduce(raised, op=torch.distributed.ReduceOp.MAX)
    return bool(raised.item())


def _several() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def finish_queued() -> None:
    """Wait for what the training has queued on a GPU: it is the training's time."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Listener:
    """Hears what a module is given, as long as it is not removed.

    Parameters
    ----------
    module : torch.nn.Module
        The one that the training calls.
    hear : bound method
        Told the inputs by name (an unnamed first one as ``input_ids``), and whether gradients
        are computed.

    Notes
    -----
    It computes nothing and changes nothing. A copy of the module, or the module in a file,
    has a listener that hears nothing. A module that is compiled in place is not listened to:
    the hook would be compiled with it.
    """

    def __init__(self, module: Any, hear: Callable[[dict[str, Any], bool], None]) -> None:
        self._module, self._hear = module, weakref.WeakMethod(hear)
        self._handle: Any = None
        if isinstance(module, torch.nn.Module) and not _compiled_in_place(module):
            self._handle = module.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Hear the inputs of a forward."""
        hear = self._hear()
        if hear is None:  # whoever listened is gone
            self.remove()
            return
        hear({**({"input_ids": args[0]} if args else {}), **named}, torch.is_grad_enabled())

    def __reduce__(self) -> tuple[Any, ...]:
        return _deaf, ()

    def hears(self, module: Any) -> bool:
        """Whether it is this module that it was made for."""
        return module is self._module

    def remove(self) -> None:
        """Hear nothing more."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


class _Deaf:
    def __call__(self, module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        pass


def _deaf() -> _Deaf:
    return _Deaf()


def _compiled_in_place(module: torch.nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


@contextmanager
def undisturbed(module: Any) -> Iterator[None]:
    """Afterwards all is as before, whatever happens within, and bit for bit.

    The global random states; the module's buffers, which a forward may write (counters,
    observers of quantization), replace or make; the plain attributes of its parts (the longest
    row that rotary embeddings saw), with what lists, dicts and sets among them hold; and
    autocast keeps no weights of ours. What was compiled, the module or parts of it, runs as it
    was before it was compiled. The modes of the modules are kept by `canary.models` itself.
    Costs a copy of the buffers and of tensors kept as attributes.
    """
    python, arrays, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    kind = "cuda" if gpus else "cpu"
    # Weights that autocast casts once and keeps might be kept without their gradients.
    uncached = torch.autocast(
        kind,
        enabled=torch.is_autocast_enabled(kind),
        dtype=torch.get_autocast_dtype(kind),
        cache_enabled=False,
    )
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    try:
        with uncached, _as_written(parts), _state_lent(parts):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)


def _as_written(parts: list[torch.nn.Module]) -> AbstractContextManager[Any]:
    """Nothing that was compiled is run, or compiled anew for rows of other shapes."""
    compiled = any(
        getattr(part, name, None) is not None
        for part in parts
        for name in ("_orig_mod", "_compiled_call_impl")
    )
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


@contextmanager
def _state_lent(parts: list[torch.nn.Module]) -> Iterator[None]:
    """Copies stand in for the buffers and tensors of modules; what is replaced is put back.

    Writing the old values back would be seen by autograd, in whose graph a buffer may be.
    Parameters, submodules and hooks are left alone.
    """
    kept: list[tuple[dict[str, Any], dict[str, Any]]] = []
    held: list[tuple[Any, Any]] = []  # lists, dicts and sets, and what was in them
    copies: dict[int, torch.Tensor] = {}  # one for each tensor that several names share
    for part in parts:
        kept += [(names, dict(names)) for names in (part._buffers, vars(part))]
        held += [
            (value, copy(value))
            for name, value in vars(part).items()
            if type(value) in (list, dict, set) and name not in _PARTS
        ]
    try:
        for names, before in kept:
            for name, value in before.items():
                if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                    if id(value) not in copies:
                        copies[id(value)] = value.detach().clone()
                    names[name] = copies[id(value)]
        yield
    finally:
        for names, before in kept:
            for name in names.keys() - before.keys():
                del names[name]
            for name, value in before.items():
                if name not in names or names[name] is not value:
                    names[name] = value
        for value, before in held:
            _put_back(value, before)


def _put_back(value: Any, before: Any) -> None:
    """What a list, dict or set held; one that nothing was done to is not written."""
    if isinstance(value, set):
        if value != before:
            value.clear()
            value.update(before)
        return
    same = len(value) == len(before) and all(map(operator.is_, value, before))
    if isinstance(value, list):
        if not same:
            value[:] = before
    elif not (same and all(map(operator.is_, value.values(), before.values()))):
        value.clear()
        value.update(before)
