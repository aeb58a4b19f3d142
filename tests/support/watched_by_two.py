"""Two processes that train one model: a Trainer that is watched, and one that is not.

As torchrun starts them, but forked from one process that has imported torch already.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
from pathlib import Path

import torch
from watched import build_trainer, causal, rows, small_set, weights_of

from canary.plugins.callback import ExposureCallback


def digest(module) -> str:
    found = hashlib.sha256()
    for name, value in sorted(weights_of(module).items()):
        found.update(name.encode() + value.tobytes())
    return found.hexdigest()


def train(folder: Path, *, stops: bool) -> dict[str, object]:
    """Train with the callback, and without it where nothing stops the training."""
    _, tokenizer = causal()
    data = rows(tokenizer, small_set() if stops else None, count=4 if stops else 48)
    options = {"steps": 40 if stops else 4, "data": data, "learning_rate": 2e-2}
    trainer = build_trainer(folder / "watched", **options)
    callback = ExposureCallback(
        small_set(),
        every=2,
        draws=60,
        share=None,
        stop_above_bits=2.0 if stops else None,
        preflight=stops,
    )
    callback.attach(trainer)
    trainer.train()
    result = {
        "weights": digest(trainer.model),
        "steps": trainer.state.global_step,
        "measured": [m.step for m in callback.history.measured],
        "stopped_at": callback.history.stopped_at,
    }
    if not stops:
        plain = build_trainer(folder / "plain", **options)
        plain.train()
        result["unwatched"] = digest(plain.model)
    return result


def work(rank: int, folder: Path) -> None:
    """One of the two: both trainings, and their results in a file of its own."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    found = {name: train(folder / name, stops=name == "stop") for name in ("go-on", "stop")}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def main() -> int:
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
                work(rank, Path(sys.argv[1]))
                status = 0
            except BaseException:
                traceback.print_exc()
            # Without the interpreter's exit: there torch's own threads of two gloo processes
            # abort one run in thirty, with a plain Trainer as well.
            os._exit(status)
        children.append(child)
    return max(os.waitpid(child, 0)[1] for child in children) and 1


if __name__ == "__main__":
    sys.exit(main())
