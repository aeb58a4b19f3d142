"""The data sets, as features and classes from 0, and how each is dealt out and learned."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import large
import numpy as np

from canary.errors import InputError

RECORDS = 5010
WORDS = 2000

Data = tuple[np.ndarray, np.ndarray]
Sizes = dict[str, tuple[int, int, int]]


def location30(folder: Path) -> Data:
    """446 zeros and ones: where somebody checked in; 30 classes."""
    path = folder / "location30.npz"
    with np.load(path) as held:
        bits = np.unpackbits(held["bits"], axis=1)[:, : int(held["n_features"])]
        return paired(bits.astype(np.float32), held["labels"].astype(np.int64) - 1, path)


def mnist(folder: Path) -> Data:
    """The first images of the training set, 784 pixels from 0 to 1; 10 classes."""
    path = folder / "train-images-idx3-ubyte.gz"
    pixels, labels = idx(path, 2051), idx(folder / "train-labels-idx1-ubyte.gz", 2049)
    x, y = paired(pixels.reshape(-1, 784), labels.astype(np.int64), path)
    return x[:RECORDS].astype(np.float32) / 255, y[:RECORDS]


def idx(path: Path, magic: int) -> np.ndarray:
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


def paired(x: np.ndarray, labels: np.ndarray, path: Path) -> Data:
    """Both, if every record has a class from 0."""
    if labels.shape != (len(x),) or (labels < 0).any():
        raise InputError(
            f"{len(x):,} records, and labels of shape {labels.shape} from {labels.min(initial=0)}",
            cure="give both files of one data set, as they were published",
            where=str(path),
        )
    return x, labels


def agnews(folder: Path) -> Data:
    """Which of the 2,000 commonest words a piece of news has; 4 classes.

    The news are those of the published test split, drawn by a fixed seed.
    """
    text = lzma.decompress((folder / "test.csv.xz").read_bytes()).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    drawn = np.random.default_rng(0).permutation(len(rows))[:RECORDS]
    news = [set(words(" ".join((rows[i]["Title"], rows[i]["Description"])))) for i in drawn]
    common = Counter(word for one in news for word in sorted(one)).most_common(WORDS)
    place = {word: number for number, (word, _) in enumerate(common)}
    x = np.zeros((len(news), WORDS), np.float32)
    for row, one in enumerate(news):
        x[row, [place[word] for word in one if word in place]] = 1
    return x, np.array([int(rows[i]["Class Index"]) - 1 for i in drawn])


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def cifar10(folder: Path) -> Data:
    """The first 4,000 images of the training set, 3 x 32 x 32 numbers from -1 to 1; 10 classes.

    Of `data_batch_1.bin`, or as arrays `x` and `y` in `cifar10_exact_4000.npz`.
    """
    whole, first = folder / "data_batch_1.bin", folder / "cifar10_exact_4000.npz"
    if first.is_file() and not whole.is_file():
        side = large.SIDE
        pixels, labels = large.pictures(first, (side, side, 3), range(10), "x", "y")
        pixels = np.ascontiguousarray(pixels[:4000].transpose(0, 3, 1, 2))
        return large.numbers(pixels), labels[:4000]
    pixels, labels = large.cifar(whole, label_bytes=1, most=4000, or_else=first.name)
    return large.numbers(pixels), labels


def emnist(folder: Path) -> Data:
    """600 images of each of 26 letters, 784 pixels from 0 to 1."""
    path = folder / "emnist_letters_subset.npz"
    names = ("x_train", "y_train", "x_test", "y_test")
    pixels, labels = large.pictures(path, (28, 28), range(1, 27), *names)
    return pixels.reshape(-1, 784).astype(np.float32) / 255, labels


def made_up(name: str) -> Callable[[Path], Data]:
    """A reader of SYNTHETIC records, which looks into no folder."""
    return lambda _: large.made_up(name)


@dataclass(frozen=True)
class DataSet:
    """How to read it; records of each role: trained on, kept for the defence, never seen.

    Target and shadow share no record; the small shadow's lie among the shadow's.
    Undefended models are followed every `every` epochs.
    """

    read: Callable[[Path], Data]
    sizes: Sizes = field(
        default_factory=lambda: {
            "target": (1000, 1000, 1000),
            "shadow": (1000, 500, 510),
            "small-shadow": (500, 500, 500),
        }
    )
    epochs: int = 20
    every: float = 0.25


def of_thirds(records: int) -> Sizes:
    """As many to be trained on as are kept and never seen; half of all for the small shadow."""
    whole, half = (records,) * 3, (records // 2,) * 3
    return {"target": whole, "shadow": whole, "small-shadow": half}


IMAGES: Sizes = {
    "target": (1000, 500, 500),
    "shadow": (1000, 500, 500),
    "small-shadow": (500, 500, 500),
}
DATASETS = {
    "location30": DataSet(location30),
    "mnist": DataSet(mnist),
    "agnews": DataSet(agnews),
    "emnist": DataSet(emnist, of_thirds(2600), every=1.0),
    "cifar10": DataSet(cifar10, IMAGES, epochs=30, every=1.0),
    "purchase100": DataSet(large.purchase100, of_thirds(19_732), every=1.0),
    "texas100": DataSet(large.texas100, of_thirds(10_000), every=1.0),
    "cifar100": DataSet(large.cifar100, of_thirds(10_000), epochs=30, every=1.0),
    "synthetic-purchase100": DataSet(made_up("purchase100"), of_thirds(19_732), every=1.0),
    "synthetic-texas100": DataSet(made_up("texas100"), of_thirds(10_000), every=1.0),
    "synthetic-cifar100": DataSet(made_up("cifar100"), of_thirds(10_000), epochs=30, every=1.0),
}
