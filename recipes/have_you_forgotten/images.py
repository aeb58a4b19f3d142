"""The images of the recipe: digits, digits of another source, and what is no digit."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from canary.errors import InputError

SIDE = 28
TURN = 40
"""Degrees at most, either way."""
BLUR = 1.2
"""Pixels at most: standard deviation of the Gaussian."""


@dataclass(frozen=True)
class Images:
    """Grey images of shape (n, 1, 28, 28), from 0 to 1, and their classes 0 to 9."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.y.shape != (len(self.x),) or not ((self.y >= 0) & (self.y < 10)).all():
            raise InputError(
                f"{len(self.x):,} images, and classes of shape {self.y.shape} from "
                f"{self.y.min(initial=0)} to {self.y.max(initial=0)}",
                cure="give both files of one data set, as they were published",
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, at: object) -> Images:
        return Images(self.x[at], self.y[at])

    def __add__(self, other: Images) -> Images:
        return Images(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))


def mnist(folder: Path, part: str) -> Images:
    """MNIST as gzipped IDX; `part` is train or t10k."""
    pixels = idx(folder / f"{part}-images-idx3-ubyte.gz", 2051)
    return grey(pixels, idx(folder / f"{part}-labels-idx1-ubyte.gz", 2049))


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


def letters(path: Path) -> Images:
    """Ten letters of EMNIST, A to J, as classes 0 to 9: ``x_train``, ``y_train`` (from 1)."""
    with np.load(path) as held:
        ten = held["y_train"] <= 10
        return grey(held["x_train"][ten], held["y_train"][ten] - 1)


def objects(path: Path) -> Images:
    """CIFAR-10 from an .npz with ``x`` (n, 32, 32, 3) and ``y``."""
    with np.load(path) as held:
        return grey(held["x"], held["y"])


def svhn(path: Path) -> Images:
    """House numbers as its authors give them: train_32x32.mat, whose digit 0 is class 10."""
    from scipy.io import loadmat

    held = loadmat(path)
    return grey(held["X"].transpose(3, 0, 1, 2), held["y"].ravel() % 10)


def grey(pixels: NDArray[np.uint8], labels: NDArray[np.integer]) -> Images:
    """In grey and 28 x 28, as the paper has all its images."""
    x = pixels.astype(np.float32) / 255
    if x.ndim == 4:
        x = x @ np.array([0.299, 0.587, 0.114], np.float32)  # Rec. 601
    if x.shape[1] != SIDE:
        x = ndimage.zoom(x, (1, SIDE / x.shape[1], SIDE / x.shape[2]), order=1)
    return Images(np.ascontiguousarray(x[:, None], np.float32), labels.astype(np.int64))


def another_source(digits: Images, rng: np.random.Generator) -> Images:
    """The digits as another source might have them: each turned, blurred, every other inverted."""
    turned = np.stack(
        [
            ndimage.gaussian_filter(
                ndimage.rotate(image, rng.uniform(-TURN, TURN), reshape=False, order=1),
                rng.uniform(0, BLUR),
            )
            for image in digits.x[:, 0]
        ]
    )
    inverted = rng.random(len(digits)) < 0.5
    turned[inverted] = 1 - turned[inverted]
    return Images(np.clip(turned, 0, 1)[:, None].astype(np.float32), digits.y)
