"""Two processes that train together: as torchrun starts them, but forked from one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent


def in_two_processes(script: str, folder: Path) -> list[Any]:
    """What each of the two returned, of a script beside this one that calls `two`."""
    paths = [str(HERE.parent.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, str(HERE / script), str(folder)],
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


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
