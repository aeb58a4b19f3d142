"""The data sets: samples as numbers, and their classes from 0."""

from __future__ import annotations

import gzip
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import InputError

Data = tuple[NDArray[Any], NDArray[np.int64]]


def mnist(folder: Path) -> Data:
    """60,000 images of 28 x 28 from 0 to 1, and their digits."""
    images = idx(folder / "train-images-idx3-ubyte.gz", 2051)
    labels = idx(folder / "train-labels-idx1-ubyte.gz", 2049)
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def idx(path: Path, magic: int) -> NDArray[np.uint8]:
    """The bytes of a gzipped IDX file in the shape that its header gives."""
    held = gzip.decompress(path.read_bytes())
    start = 4 * (1 + magic % 256)  # the last byte of the magic number counts the dimensions
    first, *shape = np.frombuffer(held[:start].ljust(start, b"\0"), ">u4").tolist()
    if first != magic or math.prod(shape) != len(held) - start:
        raise InputError(
            f"{len(held):,} bytes that begin with {first} and the sizes {shape}",
            cure=f"give the published IDX file, which begins with {magic}",
            where=str(path),
        )
    return np.frombuffer(held, np.uint8, offset=start).reshape(shape)


def location30(folder: Path) -> Data:
    """5,010 records of 446 zeros and ones: where somebody checked in; 30 classes."""
    with np.load(folder / "location30.npz") as held:
        bits = np.unpackbits(held["bits"], axis=1)[:, : int(held["n_features"])]
        return bits.astype(np.float32), held["labels"].astype(np.int64) - 1


def cifar10(folder: Path) -> Data:
    """Images of 32 x 32 x 3 from 0 to 1; 10 classes.

    The 10,000 of `data_batch_1.bin`, or its first 4,000 as arrays.
    """
    whole, first = folder / "data_batch_1.bin", folder / "cifar10_exact_4000.npz"
    if whole.is_file():
        rows = np.fromfile(whole, np.uint8)
        if not len(rows) or len(rows) % (1 + 3 * 32 * 32):
            raise InputError(
                f"{len(rows):,} bytes, which are no whole number of images",
                cure="give the file of the binary version of CIFAR-10, unpacked anew",
                where=str(whole),
            )
        rows = rows.reshape(-1, 1 + 3 * 32 * 32)
        x = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return x.astype(np.float32) / 255, rows[:, 0].astype(np.int64)
    with np.load(first) as held:
        return held["x"].astype(np.float32) / 255, held["y"].astype(np.int64)


def purchase100(folder: Path) -> Data:
    """Zeros and ones: who bought what; 100 classes.

    `dataset_purchase`, text with the class (from 1) before the features, or `purchase100.npz`
    with `features` and `labels` (from 0, or a row with a one for each).
    """
    text, packed = folder / "dataset_purchase", folder / "purchase100.npz"
    path = packed if packed.is_file() else text
    if not path.is_file():
        raise InputError(
            "no such file", cure=f"unpack the published archive there, or give {packed}",
            where=str(text),
        )  # fmt: skip
    try:
        if path == packed:
            with np.load(packed, allow_pickle=False) as held:
                x, labels = held["features"], held["labels"]
            labels = labels.argmax(axis=1) if labels.ndim == 2 else labels
        else:
            rows = np.loadtxt(text, np.uint8, delimiter=",", ndmin=2)
            x, labels = rows[:, 1:], rows[:, 0].astype(np.int64) - 1
        known = ((x == 0) | (x == 1)).all() and ((labels >= 0) & (labels < 100)).all()
        if x.ndim != 2 or not x.size or labels.shape != (len(x),) or not known:
            raise ValueError(f"features of shape {x.shape}, labels of shape {labels.shape}")
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(
            f"no records of zeros and ones with classes 1 to 100 ({error})",
            cure="give the published file as it is, or plain arrays; pickles are refused",
            where=str(path),
        ) from None
    return x.astype(np.uint8), labels.astype(np.int64)


READERS = {
    "location30": location30,
    "mnist": mnist,
    "cifar10": cifar10,
    "purchase100": purchase100,
}
