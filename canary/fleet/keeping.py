"""The results of a fleet on disk: one file for each model, one for each checkpoint."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import RecordError
from canary.records.files import atomic_write
from canary.records.shards import Run, Series, Shard
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
    weights, outputs : bool
        Whether a result counts only with its checkpoint, and with its outputs.
    """

    run: Run
    weights: bool
    outputs: bool = False

    def get(self, key: str) -> Plain | None:
        """The result of a model, if it is finished.

        Raises
        ------
        RecordError
            If its file is damaged, or another model's.
        """
        series, beside = self.run.series(key), self.run.series(_beside(key))
        if not len(series) or (self.outputs and not len(beside)):
            return None
        if self.weights and not checkpoint_path(self.run.folder, key).is_file():
            return None
        try:
            values = _arrays(series[0], key)
            outputs = _arrays(beside[0], key)["outputs"] if self.outputs else None
            state = series[0].state
            classes, seconds = int(state["classes"]), float(state["seconds"])
        except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
            raise RecordError(
                f"is no result of this model ({error})",
                cure="remove it, and the model is trained again",
                where=str(self.run.folder / key),
            ) from error
        return {"values": values, "outputs": outputs, "classes": classes, "seconds": seconds}

    def put(self, key: str, result: Plain) -> None:
        """Keep a result; when this returns, no kill undoes it."""
        if self.weights:
            # First: a result stands for a checkpoint that is there.
            atomic_write(checkpoint_path(self.run.folder, key), _tensors(result["weights"]))
        about = {"key": key, "classes": result["classes"], "seconds": result["seconds"]}
        if self.outputs:
            _add(self.run.series(_beside(key)), about, {"outputs": result["outputs"]})
        _add(self.run.series(key), about, result["values"])


def _beside(key: str) -> str:
    return f"{key}-outputs"


def _arrays(shard: Shard, key: str) -> dict[str, NDArray[Any]]:
    if shard.state["key"] != key:
        raise ValueError("of another model")
    with np.load(io.BytesIO(shard.body), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _add(series: Series, about: Plain, arrays: Mapping[str, NDArray[Any]]) -> None:
    if len(series):  # something beside it was missing, and the model was trained again
        return
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    series.append(about, body.getvalue())


def _tensors(weights: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(value) for name, value in weights.items()}))
