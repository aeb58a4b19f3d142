"""Tables of token ids: copies in, columns that follow, equal tables out, wrong set-ups refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from trained import trained

from canary.corpus.canaries import generate
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.training_steps import steps_in_order
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError

CANARIES = generate("The code is {digit:4}.", repetitions=[1, 3], per_repetition=2, seed=0)
TEXTS = [
    "The red one. And the blue one! Is it café?",
    "north east south west 12",
    "«mail» 1234, 5-6.\nOver two lines.\n",
    "",
    "привет мир. The end.",
]
PAD = "<s>"


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def table_of(rows, kind):
    """Rows of ids with columns that follow from them, and some that do not."""
    ids = pa.array(rows, kind)
    more = {
        "attention_mask": pa.array([[1] * len(r) for r in rows], pa.list_(pa.int8())),
        "labels": ids,
        "source": pa.array([f"doc {n}" for n in range(len(rows))]),
        "length": pa.array([len(r) for r in rows], pa.int32()),
    }
    return pa.table({"input_ids": ids, **more}).replace_schema_metadata({"own": "x"})


def write(table, path, group, *, stream=False):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    else:
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        with make(str(path), table.schema) as writer:
            writer.write_table(table, group)


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file).read_all()


def packed(tokenizer, texts, length):
    end = tokenizer.token_to_id(PAD)
    stream = [i for text in texts for i in [*ids_of(tokenizer, text), end]]
    return [stream[n : n + length] for n in range(0, len(stream) - length + 1, length)]


FILES = st.sampled_from([(".parquet", False), (".arrow", False), (".arrow", True)])
KINDS = st.sampled_from([pa.list_(pa.int32()), pa.list_(pa.int64()), pa.large_list(pa.uint16())])


@pytest.mark.parametrize("mode", ["record", "splice"])
@settings(max_examples=6)
@given(
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12),
    file=FILES,
    kind=KINDS,
    group=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    ends=st.booleans(),
)
def test_documents(tmp_path_factory, mode, *, texts, file, kind, group, seed, ends):
    tokenizer = trained("gpt2")
    end = [tokenizer.token_to_id(PAD)] * ends
    rows = [[*ids_of(tokenizer, text), *end] for text in [*texts, "The last one. Really."]]
    folder = tmp_path_factory.mktemp("tables")
    source, target, back = (folder / f"{name}{file[0]}" for name in "abc")
    table = table_of(rows, kind)
    write(table, source, group, stream=file[1])
    table = read(source)
    given = {"tokenizer": tokenizer, "column": "input_ids"}
    places = inject_file(source, target, CANARIES, mode=mode, seed=seed, **given)
    mixed = read(target)
    assert mixed.schema.equals(table.schema, check_metadata=True)
    assert len(mixed) == places.total_lines == len(rows) + 8 * (mode == "record")
    for row in mixed.to_pylist():
        assert row["labels"] == row["input_ids"]
        assert row["attention_mask"] == [1] * len(row["input_ids"])
    for canary in CANARIES.injected:
        assert len(places.lines[canary.id]) == canary.repetitions
        for number in places.lines[canary.id]:
            ids = mixed["input_ids"][number - 1].as_py()
            assert ids[len(ids) - len(end) :] == end
            body = ids[: len(ids) - len(end)]
            text = tokenizer.decode(body, skip_special_tokens=False)
            assert body == ids_of(tokenizer, text)
            assert CANARIES.text(canary) in text
            assert mode == "splice" or text == CANARIES.text(canary)
    assert verify(target, CANARIES, context="\n" * (mode == "splice"), **given).ok
    strip_file(target, back, CANARIES, **given)
    assert read(back).equals(table, check_metadata=True)


@settings(max_examples=6)
@given(
    file=FILES,
    fixed=st.booleans(),
    begins=st.booleans(),
    group=st.integers(1, 9),
    seed=st.integers(0, 2**31),
)
def test_blocks(tmp_path_factory, *, file, fixed, begins, group, seed):
    tokenizer = Tokenizer.from_str(trained("gpt2").to_str())
    tokenizer.add_special_tokens(["<begin>"])
    pad, start = (tokenizer.token_to_id(name) for name in (PAD, "<begin>"))
    before, length = [start] * begins, 24
    texts = [f"{'<begin>' * begins}{text} Number {n}." for n, text in enumerate(TEXTS * 9)]
    blocks = packed(tokenizer, texts, length)
    folder = tmp_path_factory.mktemp("tables")
    source, target, back = (folder / f"{name}{file[0]}" for name in "abc")
    table = table_of(blocks, pa.list_(pa.int32(), length if fixed else -1))
    write(table, source, group, stream=file[1])
    table = read(source)
    given = {"tokenizer": tokenizer, "column": "input_ids"}
    places = inject_file(source, target, CANARIES, seed=seed, pad=PAD, **given)
    mixed = read(target).to_pylist()
    owners = {n: c for c in CANARIES.injected for n in places.lines[c.id]}
    for number, row in enumerate(mixed, 1):
        assert len(row["input_ids"]) == len(row["labels"]) == length
        assert row["attention_mask"] == [1] * length
        if number in owners:
            own = before + ids_of(tokenizer, CANARIES.text(owners[number]))
            assert row["input_ids"] == own + [pad] * (length - len(own))
    rest = [row for number, row in enumerate(mixed, 1) if number not in owners]
    assert rest == table.to_pylist()
    assert verify(target, CANARIES, **given).ok
    steps = steps_in_order(places, range(len(mixed)), 1)
    assert {name: tuple(lines) for name, lines in places.lines.items()} == steps
    strip_file(target, back, CANARIES, **given)
    assert read(back).equals(table, check_metadata=True)


@pytest.fixture
def corpora(tmp_path):
    """Blocks in a Parquet file, and documents in an Arrow file."""
    tokenizer = trained("gpt2")
    blocks = packed(tokenizer, TEXTS * 9, 24)
    documents = [ids_of(tokenizer, f"{text} Number {n}.") for n, text in enumerate(TEXTS * 9)]
    write(table_of(blocks, pa.list_(pa.int32())), tmp_path / "a.parquet", 9)
    write(table_of(documents, pa.list_(pa.int64())), tmp_path / "b.arrow", 9)
    return tmp_path / "a.parquet", tmp_path / "b.arrow"


def test_texts_of_tables_are_found_and_counted(corpora):
    given = {"tokenizer": trained("gpt2"), "column": "input_ids"}
    assert len(discover(corpora[1], "Number {digit:2}.", **given)) == 35
    assert duplicates(corpora[1], **given).texts == 45


@pytest.mark.parametrize(
    ("which", "options", "error", "message"),
    [
        (0, {}, InputError, "no token to fill them up was named"),
        (0, {"pad": "red"}, InputError, "no special token.*name one of its special tokens: '<s>'"),
        (0, {"pad": PAD, "mode": "splice"}, CorpusError, "nothing can be spliced"),
        (0, {"pad": PAD, "tokenizer": None}, InputError, "no tokenizer was named"),
        (0, {"tokenizer": "qwen"}, CorpusError, "sample documents are what this tokenizer"),
        (0, {"beside": {"source": "x"}}, CorpusError, "leave beside out"),
        (0, {"column": "text"}, CorpusError, "no column 'text'"),
        (0, {"column": "labels", "pad": PAD}, None, ""),
        (1, {"pad": PAD}, InputError, "of different lengths"),
    ],
)
def test_wrong_set_ups(corpora, tmp_path, *, which, options, error, message):
    source = corpora[which]
    name = options.get("tokenizer", "gpt2")
    given = {"column": "input_ids", **options, "tokenizer": name and trained(name)}
    target = tmp_path / f"out{source.suffix}"
    if error is None:
        assert inject_file(source, target, CANARIES, **given).lines
        return
    with pytest.raises(error, match=message):
        inject_file(source, target, CANARIES, **given)
    assert not target.exists()


def test_what_does_not_follow_is_refused(corpora, tmp_path):
    table = read(corpora[1])
    masks = [[n % 2 for n in range(length)] for length in table["length"].to_pylist()]
    table = table.append_column("loss_mask", pa.array(masks))
    write(table, tmp_path / "c.arrow", 9)
    given = {"tokenizer": trained("gpt2"), "column": "input_ids"}
    with pytest.raises(CorpusError, match="not clear what a canary has in the column 'loss_mask'"):
        inject_file(tmp_path / "c.arrow", tmp_path / "d.arrow", CANARIES, **given)
    assert verify(tmp_path / "c.arrow", CANARIES, **given).records == len(table)


def test_a_missing_number_is_refused_and_a_missing_row_is_none(tmp_path):
    given = {"tokenizer": trained("gpt2"), "column": "input_ids"}
    for rows, records in [([[5, 6], None, [7]], 3), ([[5, None], [6, 7, 8]], None)]:
        pq.write_table(
            pa.table({"input_ids": pa.array(rows, pa.list_(pa.uint16()))}), tmp_path / "a.parquet"
        )
        if records is None:
            with pytest.raises(CorpusError, match="holds the token -1"):
                verify(tmp_path / "a.parquet", CANARIES, **given)
        else:
            assert verify(tmp_path / "a.parquet", CANARIES, **given).records == records


def test_a_row_of_special_tokens_alone_takes_no_splice(tmp_path):
    tokenizer = trained("gpt2")
    rows = [[tokenizer.token_to_id(PAD)], ids_of(tokenizer, "The red one. And more.")]
    pq.write_table(pa.table({"input_ids": rows}), tmp_path / "a.parquet")
    given = {"tokenizer": tokenizer, "column": "input_ids"}
    inject_file(tmp_path / "a.parquet", tmp_path / "b.parquet", CANARIES, mode="splice", **given)
    assert read(tmp_path / "b.parquet")["input_ids"][0].as_py() == rows[0]
    assert verify(tmp_path / "b.parquet", CANARIES, context="\n", **given).ok


def test_pad_is_for_blocks_only(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(InputError, match="is not a corpus of blocks of token ids"):
        inject_file(tmp_path / "a.jsonl", tmp_path / "b.jsonl", CANARIES, pad=PAD)


def test_arrow_files_hold_texts_as_well(tmp_path):
    table = pa.table({"text": [f"Row {n}. And more." for n in range(40)]})
    for stream in (False, True):
        write(table, tmp_path / "a.arrow", 7, stream=stream)
        inject_file(tmp_path / "a.arrow", tmp_path / "b.arrow", CANARIES, mode="splice")
        assert verify(tmp_path / "b.arrow", CANARIES).ok
        head = (tmp_path / "b.arrow").read_bytes()[:6]
        assert (head == b"ARROW1") is not stream
        strip_file(tmp_path / "b.arrow", tmp_path / "c.arrow", CANARIES)
        assert read(tmp_path / "c.arrow").equals(table)
