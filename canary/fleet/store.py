"""The results of a fleet on disk: a file for each model, one for each checkpoint, one for all."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import RecordError
from canary.fleet.configuration import print_of
from canary.records.document import load_document
from canary.records.files import atomic_write
from canary.records.overwrite_guard import WEIGHTS
from canary.records.shards import KIND, MANIFEST, SCHEMA, Run, Series, Shard
from canary.signals.signal_table import Origin, SignalTable, numbers_there
from canary.workers.jobs import Plain

__all__ = ["Kept", "checkpoint_path", "table_of_folder"]

_FLEET = "fleet"
_BROKEN = (KeyError, TypeError, ValueError, OSError, EOFError)
"""Raised by a file that is damaged (RecordError is a ValueError), or holds something else."""


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
        with _told(series):
            state, values = _held(series, key)
            classes, seconds = int(state["classes"]), float(state["seconds"])
        outputs = None
        if self.outputs:
            with _told(beside):
                outputs = _held(beside, key)[1]["outputs"]
        return {"values": values, "outputs": outputs, "classes": classes, "seconds": seconds}

    def put(self, key: str, result: Plain) -> None:
        """Keep a result; when this returns, no kill undoes it."""
        if self.weights:
            # First: a result stands for a checkpoint that is there.
            place = checkpoint_path(self.run.folder, key)
            atomic_write(place, _tensors(result["weights"]), private=True, replaces=(WEIGHTS,))
        about = {"key": key, "classes": result["classes"], "seconds": result["seconds"]}
        if self.outputs:
            _add(self.run.series(_beside(key)), about, {"outputs": result["outputs"]})
        _add(self.run.series(key), about, result["values"])

    def put_fleet(
        self,
        keys: Sequence[str],
        member: NDArray[np.bool_],
        label: NDArray[np.int64],
        *,
        data: str,
        missing: Mapping[int, str],
    ) -> None:
        """Keep which models are a fleet, and what each was trained on, for `table_of_folder`."""
        series = self.run.series(_FLEET)
        about = {
            "keys": list(keys),
            "missing": {str(number): why for number, why in missing.items()},
            "data": data,
            "split": print_of(member, label),
        }
        if not len(series) or not _says(series, about):
            series.append(about, _packed({"member": member, "label": label}))


def table_of_folder(
    folder: str | os.PathLike[str], *, done: Callable[[int], object] = lambda models: None
) -> SignalTable:
    """The table of the fleet that was run last in a folder.

    Parameters
    ----------
    folder : path-like
        Where `canary.Fleet.run` keeps its results. Of models that were made for another one,
        distilled say, it is not told.
    done : callable
        Told of every model that was read.

    Returns
    -------
    SignalTable
        As that run gave it, without groups and outputs; what was missing is.

    Raises
    ------
    RecordError
        If no fleet was run to its end there, or a file is missing or damaged.
    """
    place = Path(folder)
    if not (place / MANIFEST).is_file():
        raise RecordError(
            "is no folder in which a fleet keeps its results",
            cure="give the folder of canary.Fleet(...).run(folder=...)",
            where=str(place),
        )
    load_document(place / MANIFEST, KIND, SCHEMA)
    kept = Kept(Run(place), weights=False)
    series = kept.run.series(_FLEET)
    if not len(series):
        raise RecordError(
            "holds no fleet that was run to its end",
            cure="run the fleet in this folder again (what is finished is not trained again)",
            where=str(place),
        )
    try:
        last = series[len(series) - 1]
        arrays = _unpacked(last)
        member, label = arrays["member"], arrays["label"]
        keys, data = list(last.state["keys"]), str(last.state["data"])
        if member.dtype != np.bool_ or member.shape != (len(keys), len(label)):
            raise ValueError(f"flags of shape {member.shape} of {len(keys)} models")
        missing = {int(number): str(why) for number, why in last.state["missing"].items()}
    except (*_BROKEN, AttributeError) as error:
        raise RecordError(
            f"does not say what its models were trained on ({_reason(error)})",
            cure="run the fleet in this folder again (what is finished is not trained again)",
            where=str(series.path(len(series) - 1)),
        ) from error
    there = list(numbers_there(len(keys) - len(missing), missing))
    values: dict[str, list[NDArray[np.float64]]] = {}
    classes = 0
    for number in there:
        result = kept.get(keys[number])
        if result is None:
            raise RecordError(
                f"lacks the result of model {number}",
                cure="run the fleet in this folder again, and it is trained again",
                where=str(place),
            )
        classes = max(classes, result["classes"])
        for name, row in result["values"].items():
            values.setdefault(name, []).append(row)
        done(1)
    return SignalTable(
        values={name: np.stack(rows) for name, rows in values.items()},
        member=member[there],
        label=label,
        classes=classes,
        source=str(place),
        missing=missing,
        origin=Origin(data, tuple(keys[number] for number in there)),
    )


def _beside(key: str) -> str:
    return f"{key}-outputs"


def _held(series: Series, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """State and arrays of a model's file."""
    shard = series[0]
    if shard.state["key"] != key:
        raise ValueError("it is of another model")
    return shard.state, _unpacked(shard)


@contextmanager
def _told(series: Series) -> Iterator[None]:
    """What is wrong with a model's file is told with the cure that costs no other model."""
    try:
        yield
    except _BROKEN as error:
        raise RecordError(
            f"is no result of this model ({_reason(error)})",
            cure="remove this file and run the fleet again: this model alone is trained again",
            where=str(series.path(0)),
        ) from error


def _says(series: Series, about: Plain) -> bool:
    """Whether the last fleet is this one; a damaged file is none."""
    try:
        return series[len(series) - 1].state == about
    except RecordError:
        return False


def _reason(error: Exception) -> str:
    return f"it {error.problem}" if isinstance(error, RecordError) else str(error)


def _unpacked(shard: Shard) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(shard.body), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _add(series: Series, about: Plain, arrays: Mapping[str, NDArray[Any]]) -> None:
    if len(series):  # something beside it was missing, and the model was trained again
        return
    series.append(about, _packed(arrays))


def _packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    return body.getvalue()


def _tensors(weights: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(value) for name, value in weights.items()}))
