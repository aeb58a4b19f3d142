"""What says whether two trainings are the same: configuration, data, split and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError

__all__ = ["model_key", "model_seed", "print_of"]


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


def model_seed(seed: int, number: int) -> int:
    """The seed of a model's training, below 2^32."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def model_key(configuration: Mapping[str, Any], rows: str, soft: str | None, seed: int) -> str:
    """What a model's result is kept under: 32 hexadecimal digits.

    Parameters
    ----------
    configuration : mapping
        Plain data: the training, its options, the data, what is asked of the models.
    rows, soft : str
        Fingerprints of the samples that it is trained on, and of soft labels with whose they
        are.
    seed : int
        Of its training.
    """
    about = {"configuration": configuration, "rows": rows, "soft": soft, "seed": seed}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
