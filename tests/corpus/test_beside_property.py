"""Records of their own with a text beside the canary, and pairs of chats: in, counted, out."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from corpora import write_corpus
from datasets import Dataset

from canary.corpus.canaries import generate
from canary.corpus.injection import inject, inject_file
from canary.corpus.stripping import strip, strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError

CANARIES = generate(
    "The number is {digit:6}.", repetitions=[1, 3], per_repetition=2, controls=2, seed=0
)
BESIDE = {"src": "Say the number, and only this."}
ROWS = [{"src": f'un {n}, "deux"', "tgt": f"one {n}. Two.", "n": str(n)} for n in range(9)]


def own_rows(rows):
    return [row for row in rows if CANARIES.formats[0].prefix in row["tgt"]]


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
@pytest.mark.parametrize("check", [True, False])
def test_files(tmp_path, ending, check):
    source = write_corpus(tmp_path / f"a.{ending}", ROWS)
    target, back = tmp_path / f"b.{ending}", tmp_path / f"c.{ending}"
    inject_file(source, target, CANARIES, column="tgt", beside=BESIDE, check=check)
    mixed = getattr(Dataset, f"from_{ending}")(str(target), cache_dir=str(tmp_path))
    assert [row["src"] for row in own_rows(mixed)] == [BESIDE["src"]] * 8
    assert verify(target, CANARIES, column="tgt").ok
    strip_file(target, back, CANARIES, column="tgt", beside=BESIDE)
    if ending == "parquet":
        assert pq.read_table(back).equals(pq.read_table(source))
    else:
        assert back.read_bytes() == source.read_bytes()
    for beside in (None, {"src": "something else"}):
        with pytest.raises(CorpusError, match="still holds canary-"):
            strip_file(target, tmp_path / f"d.{ending}", CANARIES, column="tgt", beside=beside)


@pytest.mark.parametrize("streaming", [False, True])
def test_datasets(streaming):
    base = Dataset.from_list(ROWS)
    given = base.to_iterable_dataset(num_shards=3) if streaming else base
    mixed = inject(given, CANARIES, column="tgt", beside=BESIDE)
    assert [row["src"] for row in own_rows(mixed)] == [BESIDE["src"]] * 8
    assert verify(mixed, CANARIES, column="tgt").ok
    assert list(strip(mixed, CANARIES, column="tgt", beside=BESIDE)) == list(base)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"beside": {"tgt": "x"}}, InputError, "which holds the canary"),
        ({"beside": {"src": ""}}, InputError, "or gets no text"),
        ({"beside": {"src": 3}}, InputError, "or gets no text"),
        ({"beside": BESIDE, "mode": "splice"}, InputError, "a spliced one has its host's"),
        ({"beside": {"none": "x"}}, CorpusError, "no column 'none'"),
        ({"beside": {"n": "x"}}, CorpusError, "column 'n' "),
        ({"beside": {"chat": "x"}}, CorpusError, "column 'chat' holds chats"),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "dataset"])
def test_what_does_not_serve_input(tmp_path, options, error, message, kind):
    chat = [{"role": "user", "content": "x"}]
    rows = [{**row, "n": 1, "chat": chat} for row in ROWS]
    given, out = Dataset.from_list(rows), None
    if kind == "jsonl":
        given, out = write_corpus(tmp_path / "a.jsonl", rows), tmp_path / "b.jsonl"
    with pytest.raises(error, match=message):
        inject(given, CANARIES, out=out, column="tgt", **options)
    assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_pairs_of_chats(mode):
    """As preferences are kept: both get the canary, in answers, and give it back."""
    asked = {"role": "user", "content": "Well? Say."}
    better = [asked, {"role": "assistant", "content": "Yes. No."}]
    worse = [asked, *better, {"role": "assistant", "content": "Hm."}]
    base = Dataset.from_list([{"good": better, "bad": worse, "n": n} for n in range(5)])
    both = ("good", "bad")
    mixed = inject(base, CANARIES, column=both, mode=mode)
    assert verify(mixed, CANARIES, column=both).ok
    assert not verify(base, CANARIES, column=both).ok
    messages = [message for row in mixed for name in both for message in row[name]]
    assert not [m for m in messages if m["role"] == "user" and "The number" in m["content"]]
    assert list(strip(mixed, CANARIES, column=both)) == list(base)
