"""The results of a fleet on disk: a file for each model, one for each checkpoint, one for all."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError, ModelError, RecordError
from canary.records.files import WEIGHTS, atomic_write
from canary.records.shards import KIND, MANIFEST, SCHEMA, Difference, Run, Series, Shard
from canary.records.versioned_json import load_document
from canary.signals.signal_table import Origin, SignalTable, numbers_there
from canary.workers.jobs import Plain

_FLEET = "fleet"
_BROKEN = (KeyError, TypeError, ValueError, OSError, EOFError, AttributeError)
"""Raised by a file that is damaged (RecordError is a ValueError), or holds something else."""

_ABOUT = {"classes": int, "seconds": float}
"""Numbers of a result."""

_SHOWN = 60  # characters of a value
_CODE = "its code or what it captures"
_AGAIN = "run the fleet in this folder again (what is finished is not trained again)"
_LOST = "run the fleet in this folder again, and it is trained again"


def print_of(*arrays: NDArray[Any]) -> str:
    """SHA-256 over dtypes, shapes and bytes; arrays of Python objects are refused."""
    digest = hashlib.sha256()
    for array in arrays:
        if array.dtype.hasobject:
            problem = f"data of the type {array.dtype}"
            raise InputError(problem, cure="give arrays of numbers or of text", where="Fleet")
        digest.update(f"{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def checkpoint_path(folder: Path, key: str) -> Path:
    """Where the weights of a model lie."""
    return folder / f"{key}.safetensors"


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """Which models are a fleet, and what each was trained on."""

    keys: Sequence[str]
    member: NDArray[np.bool_]  # of shape (models, samples)
    label: NDArray[np.int64]
    data: str  # fingerprint of the samples
    missing: Mapping[int, str]  # why models have no result

    def table(
        self,
        results: Mapping[int, Plain],
        *,
        source: str,
        group: ArrayLike | None = None,
        target: str | None = None,
    ) -> SignalTable:
        """The results of all models that are not missing, by number, as a table."""
        there = sorted(results)
        rows = [results[number] for number in there]
        classes = {row["classes"] for row in rows}
        if len(classes) > 1:
            problem = f"models of {' and '.join(map(str, sorted(classes)))} classes"
            cure = "let every model give outputs for the same classes"
            raise ModelError(problem, cure=cure, where=source)
        values, outputs = rows[0]["values"], [row["outputs"] for row in rows]
        return SignalTable(
            values={name: np.stack([row["values"][name] for row in rows]) for name in values},
            member=self.member[there],
            label=self.label,
            classes=classes.pop(),
            group=None if group is None else np.asarray(group),
            source=source,
            missing=self.missing,
            outputs=None if outputs[0] is None else np.stack(outputs),
            origin=Origin(self.data, tuple(self.keys[number] for number in there), target),
        )


@dataclass(frozen=True)
class Kept:
    """Results by their models' keys; with `weights` or `outputs`, they count only with these."""

    run: Run
    weights: bool
    outputs: bool = False

    def get(self, key: str) -> Plain | None:
        """The result of a model, if it is finished; a `RecordError` if its file is damaged."""
        series, beside = self.run.series(key), self.run.series(f"{key}-outputs")
        if not len(series) or (self.outputs and not len(beside)):
            return None
        if self.weights and not checkpoint_path(self.run.folder, key).is_file():
            return None
        result = _read(series, key)
        result["values"] = {name: result.pop(name) for name in [*result] if name not in _ABOUT}
        result["outputs"] = _read(beside, key)["outputs"] if self.outputs else None
        return result

    def put(self, key: str, result: Plain) -> None:
        """Keep a result; when this returns, no kill undoes it."""
        if self.weights:
            from safetensors.numpy import save

            # First: a result stands for a checkpoint that is there.
            place = checkpoint_path(self.run.folder, key)
            tensors = {n: np.ascontiguousarray(w) for n, w in result["weights"].items()}
            atomic_write(place, bytes(save(tensors)), private=True, replaces=(WEIGHTS,))
        about = {"key": key, **{name: result[name] for name in _ABOUT}}
        outputs = {f"{key}-outputs": {"outputs": result["outputs"]}} if self.outputs else {}
        for name, arrays in {**outputs, key: result["values"]}.items():
            series = self.run.series(name)
            if not len(series):  # else something beside it was missing, and it was trained again
                series.append(about, _packed(arrays))

    def put_fleet(self, fleet: TrainedOn) -> None:
        """Keep which models are a fleet, and what each was trained on, for `table_of_folder`."""
        series = self.run.series(_FLEET)
        about = {
            "keys": list(fleet.keys),
            "missing": {str(number): why for number, why in fleet.missing.items()},
            "data": fleet.data,
            "split": print_of(fleet.member, fleet.label),
        }
        try:
            known = bool(len(series)) and series[len(series) - 1].state == about
        except RecordError:  # a damaged file is none
            known = False
        if not known:
            series.append(about, _packed({"member": fleet.member, "label": fleet.label}))


def is_fleet(folder: Path) -> bool:
    """Whether a fleet keeps its results in a folder."""
    return (folder / MANIFEST).is_file()


def table_of_folder(
    folder: str | os.PathLike[str],
    *,
    outputs: bool = False,
    done: Callable[[int], object] = lambda models: None,
) -> SignalTable:
    """The table of the fleet that was run last in a folder, without groups.

    The folder does not record for which target models were made, for example distilled ones.

    Parameters
    ----------
    folder, outputs : path-like, bool
        Where `canary.Fleet.run` keeps its results; whether to read the outputs that were kept.
    done : callable
        Called for every model that was read.

    Raises
    ------
    RecordError
        If no fleet was run to its end there, or a file is missing or damaged.
    """
    place = Path(folder)
    if not is_fleet(place):
        problem = "is no folder in which a fleet keeps its results"
        cure = "give the folder of canary.Fleet(...).run(folder=...); read files of outputs by "
        cure += "canary.signals.measuring.table_of_files"
        raise RecordError(problem, cure=cure, where=str(place))
    load_document(place / MANIFEST, KIND, SCHEMA)
    kept = Kept(Run(place), weights=False)
    series = kept.run.series(_FLEET)
    if not len(series):
        raise RecordError("holds no fleet that was run to its end", cure=_AGAIN, where=str(place))
    try:
        last = series[len(series) - 1]
        arrays = _unpacked(last)
        missing = {int(number): str(why) for number, why in last.state["missing"].items()}
        keys, data = list(last.state["keys"]), str(last.state["data"])
        fleet = TrainedOn(keys, arrays["member"], arrays["label"], data, missing)
        shape = (len(fleet.keys), len(fleet.label))
        if fleet.member.dtype != np.bool_ or fleet.member.shape != shape:
            raise ValueError(f"flags of shape {fleet.member.shape} of {len(fleet.keys)} models")
    except _BROKEN as error:
        problem = f"does not say what its models were trained on ({_reason(error)})"
        raise RecordError(problem, cure=_AGAIN, where=str(series.path(len(series) - 1))) from error
    results, there = {}, numbers_there(len(fleet.keys) - len(missing), missing)
    beside = (len(kept.run.series(f"{fleet.keys[number]}-outputs")) for number in there)
    kept = Kept(kept.run, weights=False, outputs=outputs and all(beside))
    for number in there:
        result = kept.get(fleet.keys[number])
        if result is None:
            raise RecordError(f"lacks the result of model {number}", cure=_LOST, where=str(place))
        results[number] = result
        done(1)
    return fleet.table(results, source=str(place))


def refusal(differences: Sequence[Difference]) -> tuple[str, str]:
    """Problem and cure, where what a fleet says of itself is not what its folder says."""
    # Another function has other code, which need not be said.
    renamed = {each.path[:-1] for each in differences if each.path[-1] == "name"}
    told = []
    for each in differences:
        if each.path[-1] == "code" and each.path[:-1] in renamed:
            continue
        both = f"({_shown(each.before)} then, {_shown(each.now)} now)"
        match each.path:
            case ("training", "name"):
                told.append(f"training function {both}")
            case ("training", "code"):
                told.append(f"the training function ({_CODE}) changed")
            case ("training", "fields", *names):
                # Beneath a field: a value under "is", or under "call" what is called.
                inside = ".".join(name for name in names if name not in {"is", "call", "fields"})
                if names[-1] == "code":
                    field_name = inside.removesuffix(".code")
                    told.append(f"{field_name} of the training ({_CODE}) changed")
                else:
                    told.append(f"{inside.removesuffix('.name')} of the training {both}")
            case ("options", *names):
                told.append(f"option {'.'.join(names)} {both}")
            case ("data",):
                told.append("data: other samples or labels")
            case names:
                told.append(f"{'.'.join(names)} {both}")
    return (
        f"it keeps models of another configuration: {'; '.join(told)}",
        "name another folder, or give what these models were trained with (they stay as they are)",
    )


def _shown(value: Any) -> str:
    text = "none" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _read(series: Series, key: str) -> dict[str, Any]:
    """The numbers and arrays of a model's file, or what is wrong with it."""
    try:
        shard = series[0]
        if shard.state["key"] != key:
            raise ValueError("it is of another model")
        about = {name: kind(shard.state[name]) for name, kind in _ABOUT.items()}
        return {**_unpacked(shard), **about}
    except _BROKEN as error:
        problem = f"is no result of this model ({_reason(error)})"
        cure = "remove this file and run the fleet again: this model alone is trained again"
        raise RecordError(problem, cure=cure, where=str(series.path(0))) from error


def _reason(error: Exception) -> str:
    return f"it {error.problem}" if isinstance(error, RecordError) else str(error)


def _unpacked(shard: Shard) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(shard.body), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    return body.getvalue()
