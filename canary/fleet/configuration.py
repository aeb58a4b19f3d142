"""What says whether two trainings are the same: configuration, data, split and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canary.errors import InputError
from canary.records.differences import Difference

_SHOWN = 60
_CODE = "its code or what it captures"


def print_of(*arrays: NDArray[Any]) -> str:
    """SHA-256 over dtypes, shapes and bytes.

    Raises
    ------
    InputError
        If an array holds Python objects.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array.dtype.hasobject:
            raise InputError(
                f"data of the type {array.dtype}",
                cure="give arrays of numbers or of text",
                where="Fleet",
            )
        digest.update(f"{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def model_key(configuration: Mapping[str, Any], rows: str, soft: str | None, seed: int) -> str:
    """What a model's result is kept under: 32 hexadecimal digits.

    `rows` and `soft` are fingerprints of the samples that it is trained on, and of soft labels with
    whose they are.
    """
    about = {"configuration": configuration, "rows": rows, "soft": soft, "seed": seed}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]


def checked_labels(data: Sequence[ArrayLike]) -> NDArray[np.int64]:
    """The labels of (x, y) or (x, y, group).

    Raises
    ------
    InputError
        If the arrays do not fit to each other, or the labels are no whole numbers from 0.
    """
    if len(data) not in {2, 3}:
        raise InputError(
            f"data of {len(data)} arrays", cure="give (x, y) or (x, y, group)", where="Fleet"
        )
    sizes = [len(np.asarray(part)) for part in data]
    labels = np.asarray(data[1])
    whole = labels.ndim == 1 and labels.dtype.kind in "iu" and labels.size > 0
    if len(set(sizes)) > 1 or not whole or labels.min() < 0:
        raise InputError(
            f"data of {', '.join(map(str, sizes))} entries, labels of {labels.dtype}",
            cure="give x and y of one length, y of whole numbers from 0",
            where="Fleet",
        )
    return labels.astype(np.int64)


def refusal(differences: Sequence[Difference]) -> tuple[str, str]:
    """Problem and cure, where what a fleet says of itself is not what its folder says."""
    # Another function has other code, which need not be said.
    others = {(*one.path[:-1], "code") for one in differences if one.path[-1] == "name"}
    told = [_told(one) for one in differences if one.path not in others]
    return (
        f"it keeps models of another configuration: {'; '.join(told)}",
        "name another folder, or give what these models were trained with (they stay as they are)",
    )


def _told(one: Difference) -> str:
    both = f"({_shown(one.before)} then, {_shown(one.now)} now)"
    match one.path:
        case ("training", "name"):
            return f"training function {both}"
        case ("training", "code"):
            return f"the training function ({_CODE}) changed"
        case ("training", "fields", *names):
            # Beneath a field: a value under "is", or under "call" what is called.
            inside = ".".join(name for name in names if name not in {"is", "call", "fields"})
            if names[-1] == "code":
                return f"{inside.removesuffix('.code')} of the training ({_CODE}) changed"
            return f"{inside.removesuffix('.name')} of the training {both}"
        case ("options", *names):
            return f"option {'.'.join(names)} {both}"
        case ("data",):
            return "data: other samples or labels"
        case names:
            return f"{'.'.join(names)} {both}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
