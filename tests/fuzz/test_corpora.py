"""Any bytes as a corpus: canaries go in, are counted and come out, or a CanaryError says why."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import packed
from fuzzing import attempt, cases, damaged, failed
from hypothesis import given
from hypothesis import strategies as st
from token_corpora import write_megatron
from trained import trained

from canary.corpus.canaries import generate
from canary.corpus.columns import Edit
from canary.corpus.discovery import discover
from canary.corpus.duplicates import duplicates
from canary.corpus.injection import inject, inject_file
from canary.corpus.line_formats import JsonLines
from canary.corpus.stripping import strip, strip_file
from canary.corpus.verification import verify
from canary.errors import CorpusError

# Short fills, which stand in some texts by chance; one needs escapes, quotes and UTF-8.
SETS = [
    generate("{digit:2}", repetitions=[1, 3], per_repetition=1, controls=1, seed=0),
    generate(
        ['é "{digit:4}", ', "{letter:3}\n!"], repetitions=[2], per_repetition=1, controls=1, seed=1
    ),
]

TEXT = st.text(max_size=12) | st.sampled_from(
    ["One. Two! 3?", "a\nb\r\nc", " ", "\ufeff", "😀. é", "\0", "\x1b[2J", "\u2028x", "17", 'é "0']
)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from([10**400, -0.0, "\ud800", "\udc00\ud800"])
)
MESSAGE = st.dictionaries(st.sampled_from(["role", "content", "x"]), SCALAR, max_size=3)
VALUE = st.recursive(
    SCALAR | st.lists(MESSAGE, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
NAME = st.sampled_from(["text", "en", "", "a.b"])
RECORD = st.dictionaries(NAME, VALUE, max_size=4) | st.builds(
    lambda rest, text: {**rest, "text": text}, st.dictionaries(NAME, VALUE, max_size=2), TEXT
)
JUNK = st.sampled_from(
    [
        *(b"", b"{", b"}", b"[" * 2000, b'{"text": "a"', b'{"text": NaN}', b'{"text": "\xff"}'),
        *(b"\xef\xbb\xbf{}", b'{"text": "a", "text": "b. c"}', b'{"te\\u0078t":"\\ud83d\\ude00."}'),
        *(
            b' { "text" : "x\\n." } ',
            b'{"text": 1e999}',
            b'{"text":"\\ud800"}',
            b"null",
            b"1" * 5000,
        ),
        *(
            b'"',
            b'a,"b""c"',
            b'x,"y',
            b"\r",
            b'a"b',
            b"\x1f\x8b\x08",
            b"\x00",
            b"text,n",
            b"text\ten",
        ),
    ]
)


def dumped(value, ascii_only):
    try:
        return json.dumps(value, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


GOOD = st.builds(dumped, RECORD, st.booleans())
LINE = GOOD | GOOD | GOOD | st.builds(dumped, VALUE, st.booleans()) | JUNK | st.binary(max_size=12)
NEWLINE = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])


@st.composite
def lines(draw, line=LINE):
    newline = draw(NEWLINE)
    found = newline.join(draw(st.lists(line, max_size=6)))
    return found + draw(st.sampled_from([newline, b""]))


FIELD = st.binary(max_size=6) | st.sampled_from(
    [b'"a ""b"" c"', b'"x\ny"', b"One. Two.", b'"', b"17", "é".encode(), b"\xff", b'""']
)
ROW = st.lists(FIELD, max_size=4).map(b",".join) | st.tuples(FIELD, FIELD).map(b",".join)
TABLE = st.builds(
    lambda head, rest: head + rest,
    st.sampled_from([b"text,n\n", b"n,text\r\n", b'"text","n"\n', b"\xef\xbb\xbftext,n\n", b""]),
    lines(ROW),
)
COLUMN = st.sampled_from(["text", "text", "text", "en", ("text", "en"), "", ("en", "text")])
SEPARATORS = st.none() | st.tuples(TEXT, TEXT)


def there_and_back(folder, name, content, options):
    """Inject, verify, strip: what goes in comes out; whatever fails is a CanaryError."""
    chosen, column, mode, separators, check = options
    separators = separators if mode == "splice" else None
    source = folder / f"source-{name}"
    target, back = folder / f"target-{name}", folder / f"back-{name}"
    source.write_bytes(content)
    for path in (target, back):
        path.unlink(missing_ok=True)
    spliced = {"column": column, "mode": mode, "separators": separators}
    done = attempt(inject_file, source, target, chosen, check=check, **spliced)
    assert target.exists() is not failed(done)
    assert source.read_bytes() == content
    attempt(discover, source, ["{digit:2}", "{letter:3}!"], column=column)
    attempt(duplicates, source, column=column)
    if failed(done):
        attempt(verify, source, chosen, column=column)
        attempt(strip_file, source, back, chosen, column=column, separators=separators)
        return None
    if not check:
        return None  # nobody has looked whether the rest can be read
    assert verify(target, chosen, column=column).ok
    strip_file(target, back, chosen, column=column, separators=separators)
    return back


OPTIONS = st.tuples(
    st.sampled_from(SETS),
    COLUMN,
    st.sampled_from(["record", "splice"]),
    SEPARATORS,
    st.sampled_from([True, True, True, False]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


NAMES = ["x.jsonl"] * 3 + ["x.csv", "x.tsv", "x.txt"]


@cases(19_000, default=40)
@given(data=st.data(), name=st.sampled_from(NAMES), options=OPTIONS)
def test_lines(folder, data, name, options):
    content = data.draw(TABLE if name.endswith("sv") else lines())
    if name == "x.tsv":
        content = content.replace(b",", b"\t")
    back = there_and_back(folder, name, content, options)
    assert back is None or back.read_bytes() == content


@cases(3_000)
@given(data=st.data(), ending=st.sampled_from([".gz", ".bz2", ".xz", ".zst"]), options=OPTIONS)
def test_compressed(folder, data, ending, options):
    content = data.draw(damaged(lines().map(lambda content: packed(content, ending))))
    there_and_back(folder, f"x.jsonl{ending}", content, options)


@cases(12_000)
@given(line=LINE, data=st.data())
def test_one_line_and_edits_of_it(line, data):
    layout = JsonLines("x.jsonl")
    name = data.draw(NAME)
    found = attempt(layout.read, line, 7, (name,))
    if failed(found) or found is None:
        assert found is None or "x.jsonl:" in found.where
        return
    if not found[1]:
        return
    slot = data.draw(st.sampled_from(found[1]))
    start = data.draw(st.integers(0, len(slot.text)))
    new = data.draw(TEXT)
    edited = layout.edit(line, [Edit(slot.path, start, start, new)])
    again = {s.path: s.text for s in layout.read(edited, 7, (name,))[1]}
    assert again[slot.path] == slot.text[:start] + new + slot.text[start:]
    cut = layout.edit(edited, [Edit(slot.path, start, start + len(new), "")])
    assert cut == line


@st.composite
def tables(draw):
    """Small Arrow tables with columns of every sort, some of them for canaries."""
    rows = draw(st.integers(0, 5))
    chat = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    clean = st.text(max_size=8) | st.none()
    kinds = {
        pa.string(): clean,
        pa.large_string(): clean,
        pa.int64(): st.none() | st.integers(-(2**63), 2**63 - 1),
        pa.list_(pa.string()): st.none() | st.lists(clean, max_size=2),
        pa.binary(): st.none() | st.binary(max_size=3),
        chat: st.none()
        | st.lists(st.fixed_dictionaries({"role": clean, "content": clean}), max_size=2),
        pa.dictionary(pa.int8(), pa.string()): clean,
        pa.string_view(): clean,
    }
    columns = {}
    for name in draw(st.lists(st.sampled_from(["text", "en", "n"]), max_size=3, unique=True)):
        kind = draw(st.sampled_from(list(kinds)))
        values = draw(st.lists(kinds[kind], min_size=rows, max_size=rows))
        columns[name] = pa.array(values, type=kind)
    return pa.table(columns)


@cases(2_000)
@given(data=st.data(), table=tables(), options=OPTIONS)
def test_parquet(folder, data, table, options):
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=data.draw(st.integers(1, 3)))
    content = out.getvalue()
    if data.draw(st.booleans()):
        content = data.draw(damaged(st.just(content)))
    back = there_and_back(folder, "x.parquet", content, options)
    if back is not None and content == out.getvalue():
        found = pq.read_table(back)
        assert found.schema.equals(table.schema)
        assert found.to_pylist() == table.to_pylist()


@cases(2_000)
@given(data=st.data(), table=tables(), options=OPTIONS, stream=st.booleans())
def test_arrow(folder, data, table, options, stream):
    out = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, table.schema) as writer:
        writer.write_table(table, data.draw(st.integers(1, 3)))
    content = out.getvalue()
    if data.draw(st.booleans()):
        content = data.draw(damaged(st.just(content)))
    back = there_and_back(folder, "x.arrow", content, options)
    if back is not None and content == out.getvalue():
        found = (pa.ipc.open_stream if stream else pa.ipc.open_file)(back.read_bytes()).read_all()
        assert found.schema.equals(table.schema)
        assert found.to_pylist() == table.to_pylist()


@cases(4_000, default=20)
@given(
    data=st.data(),
    texts=st.lists(TEXT, max_size=5),
    rows=st.lists(st.none() | st.lists(st.integers(-1, 800) | st.none(), max_size=5), max_size=3),
    options=OPTIONS,
)
def test_token_tables(folder, data, texts, rows, options):
    tokenizer = trained("gpt2")
    rows = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts] + rows
    table = pa.table({"text": pa.array(rows, pa.list_(pa.int32()))})
    if data.draw(st.booleans()):
        other = data.draw(st.lists(st.none() | st.lists(st.integers(0, 1)), min_size=len(rows)))
        table = table.append_column("m", pa.array(other[: len(rows)], pa.list_(pa.int8())))
    source, target, back = (folder / f"{name}.parquet" for name in ("in", "out", "back"))
    target.unlink(missing_ok=True)
    pq.write_table(table, source)
    chosen, column, mode, separators, check = options
    given_ = {"separators": separators if mode == "splice" else None, "tokenizer": tokenizer}
    pad = data.draw(st.sampled_from([None, "<s>", "x"]))
    more = {"column": column, "mode": mode, "check": check, "pad": pad}
    done = attempt(inject_file, source, target, chosen, **more, **given_)
    assert target.exists() is not failed(done)
    attempt(discover, source, ["{digit:2}"], tokenizer=tokenizer)
    attempt(duplicates, source, tokenizer=tokenizer)
    attempt(verify, source, chosen, tokenizer=tokenizer)
    if failed(done) or not check:
        return
    found = verify(target, chosen, tokenizer=tokenizer)
    assert [count.found for count in found.canaries] == [c.repetitions for c in chosen]
    strip_file(target, back, chosen, **given_)
    assert pq.read_table(back).equals(pq.read_table(source))


@cases(1_000, default=10)
@given(table=tables(), options=OPTIONS)
def test_datasets(table, options):
    from datasets import Dataset

    chosen, column, mode, separators, _ = options
    try:
        dataset = Dataset(table)
    except (ValueError, TypeError, NotImplementedError):  # what datasets does not hold
        return
    separators = separators if mode == "splice" else None
    mixed = attempt(inject, dataset, chosen, column=column, mode=mode, separators=separators)
    if failed(mixed):
        return
    assert verify(mixed, chosen, column=column).ok
    back = strip(mixed, chosen, column=column, separators=separators)
    assert back.features == dataset.features
    assert back.to_list() == dataset.to_list()


@pytest.mark.parametrize("content", [b"\xff\n", b'{"text": "a"}\n{"text": \n'])
def test_the_tests_see_errors(folder, content):
    path = folder / "seen.jsonl"
    path.write_bytes(content)
    assert isinstance(attempt(verify, path, SETS[0]), CorpusError)
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0)


@cases(4_000, default=20)
@given(data=st.data(), options=OPTIONS)
def test_megatron(folder, data, options):
    tokenizer = trained("gpt2")
    texts = data.draw(st.lists(TEXT, max_size=5))
    documents = [[tokenizer.encode(text, add_special_tokens=False).ids] for text in texts]
    documents += data.draw(
        st.lists(st.lists(st.lists(st.integers(0, 800), max_size=4)), max_size=2)
    )
    source, target, back = (folder / f"{name}.bin" for name in ("in", "out", "back"))
    for path in (target, back):
        for file in (path, path.with_suffix(".idx")):
            file.unlink(missing_ok=True)
    modes = None
    if data.draw(st.booleans()):
        modes = [data.draw(st.integers(0, 1)) for document in documents for _ in document]
    write_megatron(source, documents, dtype=data.draw(st.sampled_from(["u2", "i4"])), modes=modes)
    if data.draw(st.booleans()):
        file = data.draw(st.sampled_from([source, source.with_suffix(".idx")]))
        file.write_bytes(data.draw(damaged(st.just(file.read_bytes()))))
    chosen, column, mode, separators, check = options
    given_ = {"separators": separators if mode == "splice" else None, "tokenizer": tokenizer}
    done = attempt(
        inject_file, source, target, chosen, column=column, mode=mode, check=check, **given_
    )
    assert target.exists() is target.with_suffix(".idx").exists() is not failed(done)
    attempt(discover, source, ["{digit:2}"], tokenizer=tokenizer)
    attempt(duplicates, source, tokenizer=tokenizer)
    attempt(verify, source, chosen, tokenizer=tokenizer)
    if failed(done) or not check:
        return
    found = verify(target, chosen, tokenizer=tokenizer)
    assert [count.found for count in found.canaries] == [c.repetitions for c in chosen]
    strip_file(target, back, chosen, **given_)
    for ending in (".bin", ".idx"):
        assert back.with_suffix(ending).read_bytes() == source.with_suffix(ending).read_bytes()
