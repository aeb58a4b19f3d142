"""The results of a fleet on disk: one file for each model, one for each checkpoint."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canary.errors import RecordError
from canary.records.files import atomic_write
from canary.records.shards import Run
from canary.workers.base import Plain

__all__ = ["Kept", "checkpoint_path"]


def checkpoint_path(folder: Path, key: str) -> Path:
    """Where the weights of a model lie."""
    return folder / f"{key}.safetensors"


@dataclass(frozen=True)
class Kept:
    """Results under the keys of their models.

    Parameters
    ----------
    run : Run
        Its folder is held by this process.
    weights : bool
        Whether a result counts only with its checkpoint.
    """

    run: Run
    weights: bool

    def get(self, key: str) -> Plain | None:
        """The result of a model, if it is finished.

        Raises
        ------
        RecordError
            If its file is damaged, or another model's.
        """
        series = self.run.series(key)
        if not len(series):
            return None
        if self.weights and not checkpoint_path(self.run.folder, key).is_file():
            return None
        shard = series[0]
        try:
            if shard.state["key"] != key:
                raise ValueError("of another model")
            with np.load(io.BytesIO(shard.body), allow_pickle=False) as held:
                values = {name: held[name] for name in held.files}
            classes, seconds = int(shard.state["classes"]), float(shard.state["seconds"])
        except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
            raise RecordError(
                f"is no result of this model ({error})",
                cure="remove it, and the model is trained again",
                where=str(self.run.folder / key),
            ) from error
        return {"values": values, "classes": classes, "seconds": seconds}

    def put(self, key: str, result: Plain) -> None:
        """Keep a result; when this returns, no kill undoes it."""
        if self.weights:
            # First: a result stands for a checkpoint that is there.
            atomic_write(checkpoint_path(self.run.folder, key), _tensors(result["weights"]))
        series = self.run.series(key)
        if len(series):  # its checkpoint had been removed
            return
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **result["values"])
        state = {"key": key, "classes": result["classes"], "seconds": result["seconds"]}
        series.append(state, body.getvalue())


def _tensors(weights: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(value) for name, value in weights.items()}))
