"""Run by torchrun in two processes: a Trainer that is watched, and one that is not."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
from watched import build_trainer, causal, rows, small_set, weights_of

from canary.plugins.callback import ExposureCallback


def digest(module) -> str:
    found = hashlib.sha256()
    for name, value in sorted(weights_of(module).items()):
        found.update(name.encode() + value.tobytes())
    return found.hexdigest()


def main() -> None:
    folder, stops = Path(sys.argv[1]), sys.argv[2] == "stop"
    _, tokenizer = causal()
    data = rows(tokenizer, small_set() if stops else None, count=4 if stops else 48)
    options = {"steps": 40 if stops else 6, "data": data, "learning_rate": 2e-2}
    trainer = build_trainer(folder / "watched", **options)
    callback = ExposureCallback(
        small_set(),
        every=2,
        draws=60,
        share=None,
        stop_above_bits=2.0 if stops else None,
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
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    # Without the interpreter's exit: there torch's own threads of two gloo processes abort
    # one run in thirty, with a plain Trainer as well.
    os._exit(0)
