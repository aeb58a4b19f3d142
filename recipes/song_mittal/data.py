"""The data sets: 5,010 records each, as features and classes from 0."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import re
from collections import Counter
from pathlib import Path

import numpy as np

RECORDS = 5010
WORDS = 2000

Data = tuple[np.ndarray, np.ndarray]


def location30(folder: Path) -> Data:
    """446 zeros and ones: where somebody checked in; 30 classes."""
    with np.load(folder / "location30.npz") as held:
        bits = np.unpackbits(held["bits"], axis=1)[:, : int(held["n_features"])]
        return bits.astype(np.float32), held["labels"].astype(np.int64) - 1


def mnist(folder: Path) -> Data:
    """The first images of the training set, 784 pixels from 0 to 1; 10 classes."""
    pixels, labels = (
        np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=at)
        for path, at in (
            (folder / "train-images-idx3-ubyte.gz", 16),
            (folder / "train-labels-idx1-ubyte.gz", 8),
        )
    )
    x = pixels[: RECORDS * 784].reshape(-1, 784).astype(np.float32) / 255
    return x, labels[:RECORDS].astype(np.int64)


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


READERS = {"location30": location30, "mnist": mnist, "agnews": agnews}
