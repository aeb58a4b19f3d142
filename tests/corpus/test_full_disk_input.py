"""A disk that fills while a corpus is written: an error that names the file, and no half of it."""

from __future__ import annotations

import json
import random
import resource
from contextlib import contextmanager

import pytest

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.errors import OutputError

CANARIES = generate("The code is {digit:9}", repetitions=[4], per_repetition=2, seed=0)

_ROWS = [{"text": f"{i} " + random.Random(i).randbytes(300).hex(), "n": str(i)} for i in range(400)]


@contextmanager
def files_of_at_most(size):
    """Writing behind `size` fails as on a full disk (EFBIG), whatever the file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def written(folder, name):
    path = folder / name
    if name.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(_ROWS), path)
    elif name.endswith(".csv"):
        path.write_text("text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in _ROWS))
    elif name.endswith(".txt"):
        path.write_text("".join(row["text"] + "\n" for row in _ROWS))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in _ROWS))
    return path


@pytest.mark.parametrize(
    ("source", "target", "mode", "size"),
    [
        ("a.jsonl", "b.jsonl", "splice", 0),
        ("a.csv", "b.csv", "record", 100_000),
        ("a.parquet", "b.parquet", "splice", 100_000),
        ("a.jsonl", "b.jsonl.gz", "record", 100_000),
        ("a.txt", "b.txt.bz2", "record", 0),
        ("a.jsonl", "b.jsonl.xz", "record", 0),
        ("a.jsonl", "b.jsonl.zst", "record", 100_000),
    ],
)
def test_in_and_out(tmp_path, source, target, mode, size):
    corpus, full = written(tmp_path, source), tmp_path / "full" / target
    full.parent.mkdir()
    with files_of_at_most(size), pytest.raises(OutputError, match="has room") as caught:
        inject_file(corpus, full, CANARIES, mode=mode)
    assert caught.value.where == str(full)
    assert not list(full.parent.iterdir())
    canaried = tmp_path / target
    inject_file(corpus, canaried, CANARIES, mode=mode)
    with files_of_at_most(size), pytest.raises(OutputError, match="has room"):
        strip_file(canaried, full, CANARIES)
    assert not list(full.parent.iterdir())
