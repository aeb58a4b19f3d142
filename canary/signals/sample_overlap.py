"""Do two sets share samples? By hash, so that nothing of a sample is held or shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def digests(samples: Iterable[Any]) -> list[bytes]:
    """A hash of each sample: of its text, or of its numbers with their shape and type.

    Parameters
    ----------
    samples : iterable of str, or array_like of shape (samples, ...)

    Notes
    -----
    Equal means equal to the last bit and of one type: an image as uint8 and the same image
    as float differ, and so do texts with another line end.
    """
    return [_digest(sample) for sample in samples]


def shared_samples(first: Iterable[Any], second: Iterable[Any]) -> NDArray[np.int64]:
    """Positions in `first` of the samples that are in `second` too."""
    there = set(digests(second))
    return np.array([at for at, one in enumerate(digests(first)) if one in there], np.int64)


def _digest(sample: Any) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    if isinstance(sample, str):
        found.update(b"text" + sample.encode("utf-8", "surrogatepass"))
    else:
        array = np.ascontiguousarray(sample)
        found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return found.digest()
