"""Injection into a datasets.Dataset: same type, same features, exact copies."""

from __future__ import annotations

import datasets
import pytest
from datasets import (
    Array2D,
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    Image,
    IterableDataset,
    Value,
)

from canary.corpus.canaries import generate
from canary.corpus.injection import inject
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError, UnsupportedError

CANARIES = generate(
    ["The code is {digit:6}.", "{letter:9}!"], repetitions=[1, 3], per_repetition=2, seed=0
)
COPIES = 2 * 2 * (1 + 3)


def test_every_kind_of_column_is_kept():
    features = Features(
        {
            "text": Value("large_string"),
            "label": ClassLabel(names=["no", "yes"]),
            "grid": Array2D((2, 2), "float32"),
            "picture": Image(),
            "tags": datasets.List(Value("string")),
            "meta": {"source": Value("string"), "page": Value("int64")},
        }
    )
    row = {
        "text": "a row",
        "label": 1,
        "grid": [[1.0, 2.0], [3.0, 4.0]],
        "picture": None,
        "tags": ["a", "b"],
        "meta": {"source": "s", "page": 3},
    }
    base = Dataset.from_list([row] * 5, features=features)
    mixed = inject(base, CANARIES)
    assert mixed.features == features
    rows = [dict(item) for item in mixed]
    assert rows.count(row) == 5
    others = [item for item in rows if item != row]
    assert len(others) == COPIES
    for item in others:
        assert item["label"] is item["grid"] is item["picture"] is item["tags"] is None
        assert item["meta"] in (None, {"source": None, "page": None})


def test_split_description_and_look_are_kept():
    base = Dataset.from_dict(
        {"text": ["x"] * 4, "n": [1, 2, 3, 4]},
        info=datasets.DatasetInfo(description="about"),
        split="train",
    ).with_format("numpy", columns=["n"], output_all_columns=True)
    mixed = inject(base, CANARIES)
    assert mixed.split == "train"
    assert mixed.info.description == "about"
    assert mixed.format == base.format


def test_a_transform_is_kept():
    base = Dataset.from_dict({"text": ["x"] * 4}).with_transform(
        lambda batch: {"length": [len(text) for text in batch["text"]]}
    )
    mixed = inject(base, CANARIES)
    assert sorted(mixed[:]["length"])[:4] == [1] * 4
    assert verify(mixed, CANARIES).ok


def test_controls_alone_change_nothing():
    base = Dataset.from_dict({"text": ["a", "b", "c"]})
    only = generate("{digit:9}", repetitions=[], seed=0)
    mixed = inject(base, only)
    assert list(mixed) == list(base)
    assert mixed is not base


def _of(**columns):
    return Dataset.from_dict(columns)


TEXT, BODY = _of(text=["x"]), _of(body=["x"])
NO_TEXT = "no column 'text'; name one of 'body'"
NO_TRAIN = "no split 'train'; name one with split=…: there is dataset['test']"


@pytest.mark.parametrize(
    ("dataset", "column", "error", "message"),
    [
        (BODY, "text", CorpusError, NO_TEXT),
        (BODY.to_iterable_dataset(), "text", CorpusError, NO_TEXT),
        (_of(), "text", CorpusError, "no column"),
        (_of(text=[1]), "text", CorpusError, "int64, not text"),
        (_of(text=[["x"]]), "text", CorpusError, "not text"),
        (TEXT.select([]), "text", CorpusError, "dataset is empty"),
        (IterableDataset.from_generator(lambda: iter([])), "text", CorpusError, "dataset is empty"),
        (DatasetDict(test=TEXT), "text", CorpusError, NO_TRAIN),
        (DatasetDict(), "text", CorpusError, "no split 'train'; give one with splits"),
        (TEXT, ("text", "text"), InputError, "different names"),
        (TEXT, ("a", "b", "c"), InputError, "3 columns"),
        (["x"], "text", UnsupportedError, "a list is no datasets.Dataset"),
    ],
)
def test_what_cannot_be_injected(dataset, column, error, message):
    for call in (inject, verify):
        with pytest.raises(error) as caught:
            call(dataset, CANARIES, column=column)
        assert message in str(caught.value)
        assert caught.value.cure


def test_a_written_corpus_loads_as_a_dataset(tmp_path):
    from canary.corpus.injection import inject_file

    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    base = Dataset.from_dict({"n": range(50), "text": [f"row {n}" for n in range(50)]})
    base.to_json(source)
    inject_file(source, target, CANARIES)
    loaded = Dataset.from_json(str(target), cache_dir=str(tmp_path / "cache"))
    assert loaded.features == base.features
    assert verify(loaded, CANARIES).ok
