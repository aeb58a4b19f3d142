"""Corpora as `datasets.Dataset`: what canary can work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.errors import CorpusError, UnsupportedError

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["check_dataset"]


def check_dataset(dataset: Dataset, column: str) -> None:
    """Check that `dataset` is a `datasets.Dataset` with rows and a text column of that name.

    Raises
    ------
    UnsupportedError
        If it is something else.
    CorpusError
        If there is no such column, if it holds no text, or if there are no rows.
    """
    from datasets import Dataset, DatasetDict, Value

    if not isinstance(dataset, Dataset):
        cure = (
            f"give one split, such as dataset[{next(iter(dataset), 'train')!r}]"
            if isinstance(dataset, DatasetDict)
            else "load it as a datasets.Dataset, or use a file of JSON lines"
        )
        raise UnsupportedError(f"a {type(dataset).__name__} is no datasets.Dataset", cure=cure)
    if column not in dataset.features:
        names = ", ".join(map(repr, dataset.features))
        raise CorpusError(
            f"the dataset has no column {column!r}",
            cure=f"name one of {names}" if names else "give a dataset with columns",
        )
    feature = dataset.features[column]
    if not isinstance(feature, Value) or feature.dtype not in ("string", "large_string"):
        raise CorpusError(
            f"column {column!r} holds {getattr(feature, 'dtype', feature)}, not text",
            cure="name a column of strings",
        )
    if len(dataset) == 0:
        raise CorpusError("the dataset is empty", cure="give one with rows")
