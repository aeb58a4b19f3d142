"""A model in the midst of its training: what wraps it, who else holds it, what must not move."""

from __future__ import annotations

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

    A compiled module, given rows of other shapes, would be compiled anew, and train with other
    rounding. An `UnsupportedError` if it is an average of weights, or its parameters are parted
    over processes, where one alone would wait for the others.
    """
    parallel = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while isinstance(module, parallel) or hasattr(module, "_orig_mod"):
        module = module.module if isinstance(module, parallel) else module._orig_mod
    if not isinstance(module, torch.nn.Module):
        return module
    if isinstance(module, torch.optim.swa_utils.AveragedModel):
        raise UnsupportedError(
            "an average of the weights was given, and not the model that is trained",
            cure="give the model that is trained; audit the average when the training is over",
        )
    kinds = {type(part).__name__ for part in module.modules()}
    marks = ("ds_id", "placements")
    parted = any(hasattr(part, name) for part in module.parameters() for name in marks)
    if parted or "FullyShardedDataParallel" in kinds:
        raise UnsupportedError(
            "the model's parameters are parted over several processes (FSDP, ZeRO 3 or tensor "
            "parallelism), and one process alone cannot compute with a part",
            cure="train with plain data parallelism, or audit the saved checkpoints instead",
        )
    devices = sorted({str(parameter.device) for parameter in module.parameters()})
    if len(devices) > 1 and not any(hasattr(part, "_hf_hook") for part in module.modules()):
        raise UnsupportedError(
            f"the model's parameters are on {' and '.join(devices)}, and nothing in it moves what "
            "goes from one to the other",
            cure="keep it on one device, or spread it with device_map when it is loaded",
        )
    return module


def first_process() -> bool:
    """Whether this process is the one that measures: the first of several, or the only one."""
    return not several() or torch.distributed.get_rank() == 0


def any_process(flag: bool) -> bool:  # noqa: FBT001 - the one thing that it is about
    """Whether the flag is up in any process. All must ask at the same steps."""
    if not several():
        return flag
    on_gpu = torch.distributed.get_backend() == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    raised = torch.tensor([int(flag)], device=device)
    torch.distributed.all_reduce(raised, op=torch.distributed.ReduceOp.MAX)
    return bool(raised.item())


def several() -> bool:
    """Whether several processes train one model."""
    parallel = torch.distributed
    return parallel.is_available() and parallel.is_initialized() and parallel.get_world_size() > 1


def finish_queued() -> None:
    """Wait for what the training has queued on a GPU: it is the training's time."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Listener:
    """Hears what a module is given by the training that calls it.

    `hear` is a bound method; it is told the inputs by name (an unnamed first one as
    ``input_ids``), and whether gradients are computed. What is copied or saved with the module
    hears nothing, and neither does a module compiled in place: the hook would be compiled with it.
    """

    def __init__(self, hear: Callable[[dict[str, Any], bool], None] | None = None) -> None:
        self._hear = weakref.WeakMethod(hear) if hear is not None else lambda: None
        self._module: Any = None
        self._handle: Any = None

    def listen(self, module: Any) -> None:
        """Hear this module, unless it is the one that was heard last."""
        if module is self._module:
            return
        self.stop()
        self._module = module
        compiled = getattr(module, "_compiled_call_impl", None) is not None
        if isinstance(module, torch.nn.Module) and not compiled:
            self._handle = module.register_forward_pre_hook(self, with_kwargs=True)

    @property
    def shifts(self) -> bool:
        """Whether the loss of the module shifts labels, as causal models of `transformers` do."""
        module = self._module
        if not hasattr(type(module), "loss_function"):  # to read it may warn
            return False
        if (own := getattr(module, "_loss_function", None)) is not None:
            return getattr(own, "__name__", "") == "ForCausalLMLoss"
        encodes = getattr(getattr(module, "config", None), "is_encoder_decoder", False)
        return not encodes and getattr(module, "loss_type", None) in (None, "ForCausalLM")

    def stop(self, *, let_go: bool = False) -> None:
        """Hear nothing more; `let_go` of the module, which may be heard again then."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if let_go:
            self._module = None

    def __call__(self, module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Hear the inputs of a forward."""
        hear = self._hear()
        if hear is None:  # a copy, or whoever listened is gone
            self.stop()
        else:
            hear({**({"input_ids": args[0]} if args else {}), **named}, torch.is_grad_enabled())

    def __reduce__(self) -> tuple[Any, ...]:
        return Listener, ()


@contextmanager
def undisturbed(module: Any) -> Iterator[None]:
    """Afterwards all is as before, whatever happens within, and bit for bit.

    Kept are the global random states; the module's buffers, which a forward may write (observers
    of quantization), replace or make; the plain attributes of its parts (the longest row that
    rotary embeddings saw), with what lists, dicts and sets among them hold. What was compiled runs
    uncompiled, and autocast caches nothing. The modes of modules are kept by `canary.models`.
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
    compiled = ("_orig_mod", "_compiled_call_impl")
    as_written: AbstractContextManager[Any] = nullcontext()
    if any(getattr(part, name, None) is not None for part in parts for name in compiled):
        as_written = torch.compiler.set_stance("force_eager")
    try:
        with uncached, as_written, _state_lent(parts):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)


@contextmanager
def _state_lent(parts: list[torch.nn.Module]) -> Iterator[None]:
    """Copies stand in for the buffers and tensors of modules; what is replaced is put back.

    Writing the old values back would be seen by autograd, in whose graph a buffer may be.
    Parameters, submodules and hooks are left alone.
    """
    before: list[tuple[dict[str, Any], dict[str, Any]]] = []  # names of a part, and a copy
    held: list[tuple[Any, Any]] = []  # lists, dicts and sets, and what was in them
    lent: dict[int, torch.Tensor] = {}  # one for each tensor that several names share
    for part in parts:
        before += [(names, dict(names)) for names in (part._buffers, vars(part))]
        held += [
            (value, copy(value))
            for name, value in vars(part).items()
            if type(value) in (list, dict, set) and name not in _PARTS
        ]
    try:
        for names, values in before:
            for name, value in values.items():
                if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                    if id(value) not in lent:
                        lent[id(value)] = value.detach().clone()
                    names[name] = lent[id(value)]
        yield
    finally:
        for names, values in before:
            for name in names.keys() - values.keys():
                del names[name]
            lost = object()
            names.update({n: v for n, v in values.items() if names.get(n, lost) is not v})
        for value, content in held:
            if isinstance(value, list):
                value[:] = content
            elif _changed(value, content):  # what is compiled may ask whether a dict was written
                value.clear()
                value.update(content)


def _changed(value: Any, content: Any) -> bool:
    """Whether a set, or a dict with its order, holds something else than it did."""
    if isinstance(value, set):
        return bool(value != content)
    if len(value) != len(content):
        return True
    pairs = zip([*value, *value.values()], [*content, *content.values()], strict=True)
    return not all(now is before for now, before in pairs)
