"""Two processes that train together: as torchrun starts them, but forked from one process."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path

import torch


def two(train: Callable[[Path], object], folder: Path) -> int:
    """The exit status; what `train` returned in each is in ``0.json`` and ``1.json``."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ |= {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    children = []
    for rank in (0, 1):
        child = os.fork()
        if not child:
            status = 1
            try:
                os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                (folder / f"{rank}.json").write_text(json.dumps(train(folder)))
                torch.distributed.destroy_process_group()
                status = 0
            except BaseException:
                traceback.print_exc()
            # Without the interpreter's exit: there torch's own threads of two gloo processes
            # abort one run in thirty, with a plain Trainer as well.
            os._exit(status)
        children.append(child)
    return max(os.waitpid(child, 0)[1] for child in children) and 1
