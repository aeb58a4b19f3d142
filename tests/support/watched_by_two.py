"""Two processes that train one model: a Trainer that is watched, and one that is not."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from two_processes import two
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


def both(folder: Path) -> dict[str, object]:
    return {name: train(folder / name, stops=name == "stop") for name in ("go-on", "stop")}


if __name__ == "__main__":
    sys.exit(two(both, Path(sys.argv[1])))
