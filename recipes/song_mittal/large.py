"""Purchase100, Texas100 and the CIFARs from files that the user names.

Every reader takes the public files as they are: the text files of Shokri et al. or the .npz
that others made of them, and the binary version of CIFAR. Nothing is unpickled: the "python
version" of CIFAR is refused.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np

from canary.errors import InputError

Data = tuple[np.ndarray, np.ndarray]

CLASSES = 100
SIDE = 32
SHAPES = {
    "purchase100": (197_324, 600),
    "texas100": (67_330, 6169),
    "cifar100": (60_000, 3, SIDE, SIDE),
}
"""Of the public files."""

PICKLED = b"\x80"
"""How every pickle of protocol 2 or later begins; images begin with a class below 100."""


def purchase100(folder: Path) -> Data:
    """`dataset_purchase` (class from 1, then zeros and ones), or `purchase100.npz`."""
    packed, text = folder / "purchase100.npz", folder / "dataset_purchase"
    if packed.is_file():
        return arrays(packed)
    rows = table(text, or_else=packed)
    return bits(rows[:, 1:], text), classes_of(rows[:, 0], text)


def texas100(folder: Path) -> Data:
    """`texas/100/feats` and `texas/100/labels` (from 1), or `texas100.npz`."""
    packed = folder / "texas100.npz"
    if packed.is_file():
        return arrays(packed)
    features, named = (folder / "texas" / "100" / name for name in ("feats", "labels"))
    x, labels = table(features, or_else=packed), table(named, or_else=packed)
    if len(x) != len(labels) or labels.shape[1] != 1:
        raise InputError(
            f"{len(x)} records of features, and labels of shape {labels.shape}",
            cure="unpack both files anew: a line of either speaks of one record",
            where=str(named),
        )
    return bits(x, features), classes_of(labels[:, 0], named)


def cifar100(folder: Path) -> Data:
    """`train.bin` and `test.bin` of the binary version, one behind the other."""
    parts = [cifar(folder / name, label_bytes=2) for name in ("train.bin", "test.bin")]
    pixels, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return numbers(pixels), labels


def table(path: Path, *, or_else: Path) -> np.ndarray:
    """Small whole numbers with commas between, as uint8 of shape (lines, numbers in a line).

    Line by line, so that the memory is that of the numbers. Blank lines at the end count
    for nothing.
    """
    if not path.is_file():
        raise InputError(
            "no such file",
            cure=f"unpack the published archive there, or give {or_else}",
            where=str(path),
        )
    rows: list[np.ndarray] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            cells = line.split(b",")
            try:
                row = np.array([int(cell) for cell in cells])
            except ValueError:
                row = np.array([-1])
            if row.min() < 0 or row.max() > 255 or (rows and len(row) != len(rows[0])):
                wanted = f"{len(rows[0])} numbers" if rows else "numbers"
                raise InputError(
                    f"a line of {len(cells)} cells where {wanted} from 0 to 255 were expected",
                    cure="give the published file as it is: numbers with commas between",
                    where=f"{path}:{number}",
                )
            rows.append(row.astype(np.uint8))
    if not rows:
        raise InputError("the file is empty", cure="unpack it anew", where=str(path))
    return np.stack(rows)


def bits(x: np.ndarray, path: Path) -> np.ndarray:
    """The same, if they are zeros and ones of shape (records, features)."""
    if x.ndim != 2 or not x.size or not ((x == 0) | (x == 1)).all():
        raise InputError(
            f"features of shape {x.shape} that are no zeros and ones",
            cure="give the published file as it is",
            where=str(path),
        )
    return x.astype(np.uint8, copy=False)


def classes_of(labels: np.ndarray, path: Path) -> np.ndarray:
    """Classes from 1 as classes from 0."""
    if labels.min() < 1 or labels.max() > CLASSES:
        raise InputError(
            f"labels from {labels.min()} to {labels.max()}, where 1 to {CLASSES} were expected",
            cure="give the published file as it is",
            where=str(path),
        )
    return labels.astype(np.int64) - 1


def arrays(path: Path) -> Data:
    """`features` and `labels` of an .npz; labels as one row of zeros and a one, or from 0."""
    features, labels = packed(path, "features", "labels")
    x = bits(features, path)
    if labels.ndim == 2 and (labels.sum(axis=1) == 1).all():
        labels = labels.argmax(axis=1)
    if labels.shape != (len(x),) or labels.min() < 0 or labels.max() >= CLASSES:
        raise InputError(
            f"{len(x)} records, and labels of shape {labels.shape} from {labels.min()} to "
            f"{labels.max()}",
            cure=f"give each record a class from 0 to {CLASSES - 1}, or a row with a single one",
            where=str(path),
        )
    return x, labels.astype(np.int64)


def packed(path: Path, *names: str) -> list[np.ndarray]:
    """The plain arrays of an .npz under these names; nothing is unpickled."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            return [held[name] for name in names]
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"cannot be read: {error}",
            cure=f"give an .npz with plain arrays {' and '.join(names)}; pickles are refused",
            where=str(path),
        ) from None


def pictures(path: Path, shape: tuple[int, ...], classes: range, *names: str) -> Data:
    """Images and classes of an .npz, one part behind the other: uint8 and int64 from 0.

    `names` are pairs: images of `shape` each, and their classes, which lie in `classes`.
    """
    held = packed(path, *names)
    x, y = (np.concatenate(part) for part in (held[::2], held[1::2]))
    fits = x.dtype == np.uint8 and x.shape[1:] == shape and y.shape == (len(x),) and len(x)
    if not fits or y.dtype.kind not in "iu" or y.min() < classes[0] or y.max() > classes[-1]:
        raise InputError(
            f"{names[0]} of {x.dtype} and shape {x.shape}, {names[1]} of shape {y.shape}",
            cure=f"give images of uint8 and shape (n, {', '.join(map(str, shape))}), each with "
            f"a class from {classes[0]} to {classes[-1]}",
            where=str(path),
        )
    return x, y.astype(np.int64) - classes[0]


def cifar(path: Path, *, label_bytes: int, most: int | None = None, or_else: str = "") -> Data:
    """Images of the binary version: uint8 of shape (images, 3, 32, 32), and their classes.

    The last of the label bytes is the class: CIFAR-100 puts the coarse one before it. Of
    `most` images no more than those are read. `or_else` is another file that would do.
    """
    version = f"the binary version of CIFAR-{10 if label_bytes == 1 else 100}"
    size = label_bytes + 3 * SIDE * SIDE
    of_python = path.with_suffix("")  # what the "python version" calls the same
    there = [one for one in (path, of_python) if one.is_file()]
    if there:
        with there[0].open("rb") as file:
            held = np.frombuffer(file.read(-1 if most is None else most * size), np.uint8)
        if held[:1].tobytes() == PICKLED:
            raise InputError(
                "a pickle, which is not read: it could run any code",
                cure=f"give {version}, which has none",
                where=str(there[0]),
            )
    if path not in there:
        cure = f"unpack {version} there" + (f", or give {or_else}" if or_else else "")
        raise InputError("no such file", cure=cure, where=str(path))
    if not len(held) or len(held) % size:
        raise InputError(
            f"{len(held):,} bytes, which are no whole number of images of {size:,}",
            cure=f"give {version}, unpacked anew",
            where=str(path),
        )
    rows = held.reshape(-1, size)
    labels = rows[:, label_bytes - 1].astype(np.int64)
    if labels.max() >= 10**label_bytes:
        raise InputError(
            f"a class {labels.max()}, where 0 to {10**label_bytes - 1} were expected",
            cure=f"give {version}",
            where=str(path),
        )
    return rows[:, label_bytes:].reshape(-1, 3, SIDE, SIDE), labels


def numbers(pixels: np.ndarray) -> np.ndarray:
    """Pixels from 0 to 255 as numbers from -1 to 1."""
    return pixels.astype(np.float32) / 127.5 - 1


def made_up(name: str, records: int | None = None) -> Data:
    """SYNTHETIC records of the shape of a data set, to see how long it takes; nothing else.

    Every class has its own share of ones for every feature, or its own picture in much noise.
    """
    rng = np.random.default_rng(0)
    every, *shape = SHAPES[name]
    records = records or every
    labels = rng.integers(0, CLASSES, records)
    likely = rng.random((CLASSES, math.prod(shape)), np.float32)
    images = len(shape) > 1
    x = np.empty((records, *shape), np.float32 if images else np.uint8)
    for at in range(0, records, 1000):
        of = likely[labels[at : at + 1000]]
        drawn = rng.random(of.shape, np.float32)
        part = 0.2 * of + 1.8 * drawn - 1 if images else drawn < of**4
        x[at : at + 1000] = part.reshape(-1, *shape)
    return x, labels
