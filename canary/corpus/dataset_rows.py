"""Corpora as `datasets.Dataset`: rows of their own, rows that are changed, rows that go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canary.corpus.columns import Edit, Shape, edit_record, refuse_chat
from canary.errors import CorpusError, UnsupportedError

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = [
    "SPLIT",
    "add_rows",
    "check_dataset",
    "check_features",
    "choose_split",
    "edit_rows",
    "is_split",
    "replace_split",
    "rows_of",
]

SPLIT = "train"
"""The split of a `DatasetDict` that is meant unless one is named."""

_BATCH = 1000


def is_split(dataset: object) -> bool:
    """Whether `dataset` is a dictionary of splits, streamed or not."""
    from datasets import DatasetDict, IterableDatasetDict

    return isinstance(dataset, DatasetDict | IterableDatasetDict)


def choose_split(dataset: Any, split: str) -> Any:
    """One split of a dictionary of them; anything else as it is.

    Raises
    ------
    CorpusError
        If there is no such split.
    """
    if not is_split(dataset):
        return dataset
    if split not in dataset:
        names = ", ".join(f"dataset[{name!r}]" for name in dataset)
        raise CorpusError(
            f"the dataset has no split {split!r}",
            cure=f"name one with split=…: there is {names}" if names else "give one with splits",
        )
    return dataset[split]


def replace_split(dataset: Any, split: str, rows: Any) -> Any:
    """`dataset` with `rows` in the place of the split that they come from."""
    return type(dataset)({**dataset, split: rows}) if is_split(dataset) else rows


def check_dataset(
    dataset: Any, names: tuple[str, ...], beside: tuple[tuple[str, str], ...] = ()
) -> Shape:
    """Check that `dataset` is a `datasets.Dataset` with rows, and with text in its columns.

    Raises
    ------
    UnsupportedError
        If it is something else.
    CorpusError
        If there is no such column, if it holds no text, or if there are no rows.
    """
    from datasets import Dataset

    if not isinstance(dataset, Dataset):
        raise UnsupportedError(
            f"a {type(dataset).__name__} is no datasets.Dataset, nor a stream or splits of it",
            cure="load it with datasets, or use a file",
        )
    shape = check_features(dataset.features, names, beside)
    if len(dataset) == 0:
        raise CorpusError("the dataset is empty", cure="give one with rows")
    return shape


def check_features(
    features: Mapping[str, Any],
    names: tuple[str, ...],
    beside: tuple[tuple[str, str], ...] = (),
) -> Shape:
    """How the columns `names` hold text, from the features of a dataset."""
    for name, _ in beside:
        if check_features(features, (name,)).chat:
            raise refuse_chat(name)
    chats = []
    for name in names:
        if name not in features:
            known = ", ".join(map(repr, features))
            raise CorpusError(
                f"the dataset has no column {name!r}",
                cure=f"name one of {known}" if known else "give a dataset with columns",
            )
        feature = features[name]
        chats.append(_holds_chats(feature))
        if not chats[-1] and getattr(feature, "dtype", None) not in ("string", "large_string"):
            raise CorpusError(
                f"column {name!r} holds {getattr(feature, 'dtype', feature)}, not text",
                cure="name a column of strings or of chat messages",
            )
    if len({*chats}) > 1:
        raise CorpusError(
            "one column holds texts and the other chats", cure="name two columns of texts"
        )
    return Shape(names, chat=chats[0], beside=beside)


def _holds_chats(feature: Any) -> bool:
    inner = feature[0] if isinstance(feature, list) and feature else feature
    inner = getattr(inner, "feature", inner)
    return (
        not hasattr(inner, "dtype")
        and isinstance(inner, Mapping)
        and {"role", "content"} <= inner.keys()
        and all(getattr(inner[key], "dtype", None) == "string" for key in ("role", "content"))
    )


def rows_of(dataset: Dataset, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The named columns of each row, as plain Python."""
    for batch in dataset.select_columns(list(names)).with_format(None).iter(batch_size=_BATCH):
        for values in zip(*(batch[name] for name in names), strict=True):
            yield dict(zip(names, values, strict=True))


def add_rows(
    dataset: Dataset,
    shape: Shape,
    texts: list[str],
    places: NDArray[np.int64],
    owners: NDArray[np.int64],
) -> Dataset:
    """`dataset` with rows of their own for `texts` at `places` among all rows."""
    from datasets import Dataset

    order = np.empty(len(dataset) + len(places), np.int64)
    ours = np.zeros(len(order), np.bool_)
    ours[places] = True
    order[ours] = len(dataset) + owners
    order[~ours] = np.arange(len(dataset))
    own = [shape.values(text) for text in texts]
    columns = {name: [row.get(name) for row in own] for name in dataset.features}
    rows = Dataset.from_dict(columns, features=dataset.features)
    return _rejoin(dataset, rows, order)


def edit_rows(
    dataset: Dataset, edits: Mapping[int, list[Edit]], gone: Iterable[int] = ()
) -> Dataset:
    """`dataset` with some rows edited and the rows `gone` left out."""
    import pyarrow as pa
    from datasets import Dataset, DatasetInfo

    order = np.arange(len(dataset))
    changed = sorted(edits)
    order[changed] = len(dataset) + np.arange(len(changed))
    order = np.delete(order, np.fromiter(gone, np.int64))
    if not changed:
        return dataset.select(order)
    # Through Arrow, so that what is not text is not even decoded.
    table = dataset.select(changed).with_format("arrow")[:]
    names = sorted({str(edit.path[0]) for row in edits.values() for edit in row})
    for name in names:
        values = [
            edit_record({name: value}, [e for e in edits[at] if e.path[0] == name])[name]
            for at, value in zip(changed, table[name].to_pylist(), strict=True)
        ]
        at = table.column_names.index(name)
        field = table.schema.field(name)
        table = table.set_column(at, field, pa.chunked_array([values], type=field.type))
    rows = Dataset(table, info=DatasetInfo(features=dataset.features))
    return _rejoin(dataset, rows, order)


def _rejoin(dataset: Dataset, rows: Dataset, order: NDArray[np.int64]) -> Dataset:
    """`dataset` and `rows` behind it, chosen by `order`; split, description and look kept."""
    from datasets import concatenate_datasets

    look = dict(dataset.format)
    rows.set_format(**look.pop("format_kwargs"), **look)
    joined = concatenate_datasets([dataset, rows], info=dataset.info, split=dataset.split)
    return joined.select(order)
