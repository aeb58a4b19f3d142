"""Corpora of token ids: copies in, a right index, exact bytes out, and wrong set-ups refused."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_corpora import read_megatron, write_megatron
from trained import trained

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.placements import Placements
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify
from canary.errors import CanaryError, CorpusError, InputError, OutputError

CANARIES = generate("The code is {digit:4}.", repetitions=[1, 3], per_repetition=2, seed=0)
TEXTS = st.lists(
    st.sampled_from(
        [
            "The red one. And the blue one! Is it café?",
            "north east south west 12",
            "«mail» 1234, 5-6.\nOver two lines.\n",
            "",
            "x",
            "привет мир. The end.",
        ]
    ),
    min_size=1,
    max_size=12,
)


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def both(path):
    return path.read_bytes(), path.with_suffix(".idx").read_bytes()


@pytest.mark.parametrize("mode", ["record", "splice"])
@settings(max_examples=12)
@given(
    texts=TEXTS,
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["gpt2", "llama3", "qwen", "sentencepiece bpe, digits"]),
    dtype=st.sampled_from(["u2", "i2", "i4", "i8"]),
    ends=st.booleans(),
)
def test_in_and_out_again(tmp_path_factory, mode, *, texts, seed, kind, dtype, ends):
    tokenizer = trained(kind)
    end = [tokenizer.token_to_id("<s>")] * ends
    documents = [[ids_of(tokenizer, text) + end] for text in [*texts, "The last one. Really."]]
    folder = tmp_path_factory.mktemp("megatron")
    source, target, back = (folder / f"{name}.bin" for name in "abc")
    write_megatron(source, documents, dtype=dtype)
    separators = (" ", " ") if mode == "splice" else None
    options = {"tokenizer": tokenizer, "separators": separators}
    try:
        places = inject_file(source, target, CANARIES, mode=mode, seed=seed, **options)
    except CanaryError:  # the texts of sentencepiece do not keep every space
        assert kind.startswith("sentencepiece")
        assert not target.exists()
        return
    mixed, _ = read_megatron(target)
    assert len(mixed) == places.total_lines == len(documents) + 8 * (mode == "record")
    for canary in CANARIES.injected:
        assert len(places.lines[canary.id]) == canary.repetitions
        for number in places.lines[canary.id]:
            (ids,) = mixed[number - 1]
            assert CANARIES.text(canary) in tokenizer.decode(ids)
            assert ids[len(ids) - len(end) :] == end
            if mode == "record":
                assert ids == ids_of(tokenizer, CANARIES.text(canary)) + end
            else:  # what a training has that tokenizes the text with the canary in it
                body = ids[: len(ids) - len(end)]
                text = tokenizer.decode(body, skip_special_tokens=False)
                assert body == ids_of(tokenizer, text)
    touched = {number - 1 for numbers in places.lines.values() for number in numbers}
    rest = [ids for number, ids in enumerate(mixed) if number not in touched]
    kept = (
        documents
        if mode == "record"
        else [ids for number, ids in enumerate(documents) if number not in touched]
    )
    assert rest == kept
    found = verify(target, CANARIES, tokenizer=tokenizer, context=" " * (mode == "splice"))
    assert [count.found for count in found.canaries] == [c.repetitions for c in CANARIES]
    strip_file(target, back, CANARIES, **options)
    assert both(back) == both(source)


def sentences(tokenizer):
    """Documents of several sequences, of one and of none; the last sequence has the end."""
    end = tokenizer.token_to_id("<s>")
    texts = [["The red one.", "And the blue one."], ["north east"], [], ["a", "", "The code is x."]]
    documents = [[ids_of(tokenizer, text) for text in some] for some in texts * 20]
    for document in documents:
        if document:
            document[-1] = [*document[-1], end]
    return documents


@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("multimodal", [False, True])
def test_documents_of_several_sequences(tmp_path, mode, multimodal):
    tokenizer = trained("gpt2")
    documents = sentences(tokenizer)
    number = sum(map(len, documents))
    modes = [n % 3 == 1 for n in range(number)] if multimodal else None
    source, target, back = (tmp_path / f"{name}.bin" for name in "abc")
    write_megatron(source, documents, modes=modes)
    places = inject_file(source, target, CANARIES, mode=mode, seed=3, tokenizer=tokenizer)
    mixed, new = read_megatron(target, multimodal=multimodal)
    assert len(mixed) == len(documents) + 8 * (mode == "record")
    if multimodal:
        assert new.count(1) == sum(modes)
        flat = [ids for document in mixed for ids in document]
        old = [ids for document in documents for ids in document]
        assert [ids for ids, one in zip(flat, new, strict=True) if one] == [
            ids for ids, one in zip(old, modes, strict=True) if one
        ]
    for canary in CANARIES.injected:
        for place in places.lines[canary.id]:
            whole = [tokenizer.decode(ids) for ids in mixed[place - 1]]
            assert sum(CANARIES.text(canary) in text for text in whole) == 1
    assert verify(target, CANARIES, tokenizer=tokenizer, context="\n" * (mode == "splice")).ok
    strip_file(target, back, CANARIES, tokenizer=tokenizer)
    assert both(back) == both(source)


def test_small_numbers(tmp_path):
    from small_models import character_tokenizer

    tokenizer = character_tokenizer()
    canaries = generate("my pin is {digit:4}", repetitions=[2], per_repetition=2, seed=0)
    documents = [[ids_of(tokenizer, text)] for text in ("the sea is deep", "a b c 1 2", "my pin")]
    for dtype in ("u1", "i1"):
        source, target, back = (tmp_path / f"{name}.bin" for name in "abc")
        write_megatron(source, documents, dtype=dtype)
        inject_file(source, target, canaries, tokenizer=tokenizer)
        assert verify(target, canaries, tokenizer=tokenizer).ok
        strip_file(target, back, canaries, tokenizer=tokenizer)
        assert both(back) == both(source)


def test_many_files(tmp_path):
    tokenizer = trained("gpt2")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    given = {"tokenizer": str(tmp_path / "tokenizer.json")}
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        texts = [f"The {name} is {n}. And more." for n in range(20)]
        documents = [[ids_of(tokenizer, text)] for text in texts]
        write_megatron(tmp_path / "in" / f"{name}.bin", documents)
    places = inject_file(tmp_path / "in", tmp_path / "out", CANARIES, workers=2, **given)
    assert places.total_lines == 48
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "a.bin",
        "a.idx",
        "b.bin",
        "b.idx",
    ]
    assert verify(tmp_path / "out", CANARIES, **given).ok
    strip_file(tmp_path / "out", tmp_path / "back", CANARIES, **given)
    for name in ("a", "b"):
        assert both(tmp_path / "back" / f"{name}.bin") == both(tmp_path / "in" / f"{name}.bin")
    assert len(discover(tmp_path / "in", "The a is {digit:2}.", **given)) == 10
    assert duplicates(tmp_path / "in", **given).texts == 40


def test_megatron_reads_it(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parts that it misses, and that nobody asks for
        reading = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    tokenizer = trained("gpt2")
    documents = sentences(tokenizer)
    source, target = tmp_path / "a.bin", tmp_path / "b.bin"
    write_megatron(source, documents)
    inject_file(source, target, CANARIES, tokenizer=tokenizer)
    found = reading.IndexedDataset(str(target.with_suffix("")))
    mixed, _ = read_megatron(target)
    there = found.document_indices
    assert [[found[at].tolist() for at in range(a, b)] for a, b in pairwise(there)] == mixed
    builder = reading.IndexedDatasetBuilder(str(tmp_path / "c.bin"), dtype=np.uint16)
    for document in mixed:
        builder.add_document([i for ids in document for i in ids], [len(ids) for ids in document])
    builder.finalize(str(tmp_path / "c.idx"))
    assert both(tmp_path / "c.bin") == both(target)


@pytest.fixture
def corpus(tmp_path):
    tokenizer = trained("gpt2")
    texts = [f"The {n} is red. And more words of mail number {n}." for n in range(40)]
    end = tokenizer.token_to_id("<s>")
    return write_megatron(tmp_path / "a.bin", [[[*ids_of(tokenizer, text), end]] for text in texts])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, InputError, "no tokenizer was named"),
        ({"tokenizer": "qwen"}, CorpusError, "of 40 sample documents"),
        ({"tokenizer": "characters"}, CorpusError, "and the tokenizer has tokens 0 to"),
        ({"tokenizer": "gpt2", "column": "body"}, CorpusError, "leave column"),
        ({"tokenizer": "gpt2", "beside": {"a": "b"}}, CorpusError, "leave column"),
    ],
)
def test_wrong_set_ups(corpus, options, error, message):
    if "tokenizer" in options:
        options = {**options, "tokenizer": trained(options["tokenizer"])}
    with pytest.raises(error, match=message):
        inject_file(corpus, corpus.with_name("b.bin"), CANARIES, **options)
    assert not corpus.with_name("b.bin").exists()
    assert not corpus.with_name("b.idx").exists()


def test_a_tokenizer_too_large_for_the_numbers(tmp_path):
    write_megatron(tmp_path / "a.bin", [[[1, 2, 3]]], dtype="u1")
    with pytest.raises(InputError, match="at most 255, and the tokenizer has"):
        verify(tmp_path / "a.bin", CANARIES, tokenizer=trained("gpt2"))


def test_documents_that_end_in_different_ways(tmp_path):
    tokenizer = trained("gpt2")
    end = tokenizer.token_to_id("<s>")
    documents = [[ids_of(tokenizer, "The red one.") + [end] * (n % 2)] for n in range(40)]
    source = write_megatron(tmp_path / "a.bin", documents)
    with pytest.raises(CorpusError, match=r"end in different ways.*of 40, 20 with"):
        inject_file(source, tmp_path / "b.bin", CANARIES, tokenizer=tokenizer)


def test_a_tokenizer_that_changes_the_canary(tmp_path):
    from tokenizers import Tokenizer, normalizers

    tokenizer = Tokenizer.from_str(trained("gpt2").to_str())
    tokenizer.normalizer = normalizers.Lowercase()
    documents = [[ids_of(tokenizer, "the red one. and the blue one")]] * 9
    source = write_megatron(tmp_path / "a.bin", documents)
    with pytest.raises(CorpusError, match="changes the text of a canary"):
        inject_file(source, tmp_path / "b.bin", CANARIES, tokenizer=tokenizer)


def test_files_that_do_not_belong_together(corpus, tmp_path):
    tokenizer = trained("gpt2")
    given = {"tokenizer": tokenizer}
    index = corpus.with_suffix(".idx")
    whole = index.read_bytes()
    for damaged in (b"", whole[:20], whole[:-1], whole + b"\0", b"X" + whole[1:]):
        index.write_bytes(damaged)
        with pytest.raises(CorpusError, match=r"a\.idx: is not a whole index"):
            verify(corpus, CANARIES, **given)
    index.write_bytes(whole)
    tokens = corpus.read_bytes()
    corpus.write_bytes(tokens[:-2])
    with pytest.raises(CorpusError, match=r"bytes of tokens, and the \.bin has"):
        verify(corpus, CANARIES, **given)
    corpus.write_bytes(tokens)
    index.unlink()
    with pytest.raises(CorpusError, match="needs the .idx of the same name"):
        verify(corpus, CANARIES, **given)
    index.write_bytes(whole)
    for name, message in [("b", "known by its ending"), ("b.bin.gz", "never as a whole")]:
        with pytest.raises(OutputError, match=message):
            inject_file(corpus, tmp_path / name, CANARIES, **given)


def test_numbers_with_fractions(corpus):
    index = corpus.with_suffix(".idx")
    whole = bytearray(index.read_bytes())
    whole[17] = 7
    index.write_bytes(whole)
    with pytest.raises(CorpusError, match="numbers with fractions"):
        verify(corpus, CANARIES, tokenizer=trained("gpt2"))


def test_the_commands(corpus, tmp_path, monkeypatch):
    from canary.cli.main import run

    def main(words):
        monkeypatch.setattr("sys.argv", ["canary", *words])
        return run()

    trained("gpt2").save(str(tmp_path / "tokenizer.json"))
    CANARIES.save(tmp_path / "c.json")
    words = [
        "--canaries",
        str(tmp_path / "c.json"),
        "--tokenizer",
        str(tmp_path / "tokenizer.json"),
    ]
    out, back = str(tmp_path / "b.bin"), str(tmp_path / "back.bin")
    assert main(["inject", str(corpus), "--out", out, *words]) == 0
    assert len(Placements.load(f"{out}.placements.json").lines) == len(
        CanarySet.load(tmp_path / "c.json").injected
    )
    assert main(["verify", out, *words]) == 0
    assert main(["strip", out, "--out", back, *words]) == 0
    assert both(tmp_path / "back.bin") == both(corpus)
    (tmp_path / "d.idx").write_bytes(b"mine")
    assert main(["inject", str(corpus), "--out", str(tmp_path / "d.bin"), *words]) != 0
    assert (tmp_path / "d.idx").read_bytes() == b"mine"
