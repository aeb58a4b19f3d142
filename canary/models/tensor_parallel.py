"""A model whose layers are parted over processes: each process runs the same audit.

`torchrun` starts the processes, and `from_pretrained(..., tp_plan="auto")` gives each its part.
"""

from __future__ import annotations

import weakref

import torch

from canary.records.clocks import agree

_ALIKE: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


def is_parted(module: torch.nn.Module) -> bool:
    """Whether other processes hold a part of its parameters, and must run whenever it runs."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return any(isinstance(part, DTensor) for part in module.parameters())


def decide_alike(module: torch.nn.Module) -> None:
    """As long as a parted module exists, all processes take the first one's clock and memory."""
    if module in _ALIKE or not is_parted(module):
        return
    device = next(module.parameters()).device

    def of_first(value: float) -> float:
        told = torch.tensor([value], dtype=torch.float64, device=device)
        torch.distributed.broadcast(told, 0)
        return float(told.item())

    _ALIKE.add(module)
    weakref.finalize(module, agree(of_first))
