"""Copies of texts over shards, against a count of the texts themselves."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from collections import Counter
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, Features, Value

import canary
from canary.corpus.duplicates import Duplicates, duplicates
from canary.errors import CorpusError, InputError, RecordError


def lines(texts):
    return "".join(json.dumps({"text": each}) + "\n" for each in texts)


@pytest.mark.parametrize("seed", range(12))
def test_copies_are_those_of_a_count_of_the_texts(seed, tmp_path):
    rng = np.random.default_rng(seed)
    shards = [
        ["".join(rng.choice(list("ab"), rng.integers(0, 4))) for _ in range(rng.integers(1, 20))]
        for _ in range(rng.integers(1, 5))
    ]
    files = [tmp_path / f"{number}.jsonl" for number in range(len(shards))]
    for file, texts in zip(files, shards, strict=True):
        file.write_text(lines(texts))
    found = duplicates(*files)
    everything = [text for each in shards for text in each]
    count = Counter(everything)
    assert found.texts == len(everything)
    assert found.different == len(count)
    assert dict(found.by_copies) == Counter(count.values())
    repeated = [text for text in count if count[text] > 1]  # in the order of their first places
    assert found.digest == tuple(sha256(each.encode()).hexdigest()[:32] for each in repeated)
    assert found.copies == tuple(count[each] for each in repeated)
    for text, source, row in zip(repeated, found.source, found.row, strict=True):
        before = [each for shard in shards[:source] for each in shard] + shards[source][: row - 1]
        assert shards[source][row - 1] == text
        assert text not in before
    asked = duplicates(*files, texts=count)
    assert asked.of(everything) == [count[each] for each in everything]
    assert asked.by_copies == found.by_copies


def test_shards_of_several_formats_are_one_corpus(tmp_path):
    rng = np.random.default_rng(0)
    texts = [f"line {n}" for n in rng.integers(0, 40, 200)]
    (tmp_path / "a.jsonl").write_text(lines(texts[:90]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines(texts[90:150]).encode()))
    (tmp_path / "c.txt").write_text("\n".join(texts[150:]))
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl.gz", "c.txt")]
    seen = []

    def progress(name, total, unit):
        seen.append([name, total, unit, 0])

        def advance(done):
            seen[-1][3] += done

        return advance

    found = duplicates(*files, progress=progress)
    assert dict(zip(found.digest, found.copies, strict=True)) == {
        sha256(text.encode()).hexdigest()[:32]: copies
        for text, copies in Counter(texts).items()
        if copies > 1
    }
    assert found.files == ("a.jsonl", "b.jsonl.gz", "c.txt")
    assert [(name, unit) for name, _, unit, _ in seen] == [(name, "B") for name in found.files]
    assert all(done == total for _, total, _, done in seen)
    found.save(tmp_path / "found.json")
    written = (tmp_path / "found.json").read_text()
    assert "line" not in written
    assert isinstance(canary.read(tmp_path / "found.json"), Duplicates)
    assert canary.read(tmp_path / "found.json") == found
    (tmp_path / "found.json").write_text(written.replace('"texts": 200', '"texts": 201'))
    with pytest.raises(RecordError, match="has not the copies of each text"):
        canary.read(tmp_path / "found.json")


def test_messages_of_chats_and_both_columns_of_a_pair_are_texts():
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    found = duplicates(Dataset.from_dict({"chat": [chat, chat]}), column="chat")
    assert (found.texts, found.by_copies) == (4, ((2, 2),))
    pair = Dataset.from_dict({"en": ["a", "b"], "fr": ["a", "c"]})
    assert duplicates(pair, column=("en", "fr")).by_copies == ((1, 2), (2, 1))


def test_what_cannot_be_counted_is_refused(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(lines(["one", "two", "one", "\ud800"]))
    assert duplicates(file).by_copies == ((1, 2), (2, 1))
    assert duplicates(["one" * 999, "two"], ["two"]).by_copies == ((1, 1), (2, 1))
    with pytest.raises(InputError, match="is listed twice"):
        duplicates(file, str(file))
    with pytest.raises(InputError, match="there is no corpus"):
        duplicates()
    with pytest.raises(InputError, match="a list holds texts, and this one files"):
        duplicates([str(file)])
    with pytest.raises(InputError, match=r"2 different texts of 3 not in .*, texts\[1\] the first"):
        duplicates(file, texts=["one", "one ", "three"])
    with pytest.raises(InputError, match=r"does not have texts\[1\]; .*duplicates --texts"):
        duplicates(file).of(["one", "two"])
    with pytest.raises(InputError, match="texts must be a list"):
        duplicates(file, texts="one")
    with pytest.raises(CorpusError, match="has no column"):
        duplicates(file, column="body")
    with pytest.raises(CorpusError, match="holds no text"):
        duplicates(Dataset.from_dict({"text": [None]}, features=Features(text=Value("string"))))


def test_memory_for_each_text_is_what_the_page_on_scale_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "scale.md").read_text()
    said = int(re.search(r"`duplicates` holds about (\d+) bytes for each text", page)[1])
    peaks = []
    for number in (5_000, 25_000):
        (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(number)))
        duplicates(tmp_path / "a.txt")  # what is made once is there
        tracemalloc.start()
        duplicates(tmp_path / "a.txt")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert 0.8 * said < (peaks[1] - peaks[0]) / 20_000 < 1.1 * said
