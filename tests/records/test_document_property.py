"""Documents come back as they were written, and only strict ones are read."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.errors import CanaryError, RecordError
from canary.records.versioned_json import dump_document, load_document

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner)
    ),
    max_leaves=10,
)
_FIELDS = st.dictionaries(st.sampled_from("abcdef"), _JSON, max_size=4)


@settings(max_examples=100, deadline=None)
@given(body=_FIELDS, schema=st.integers(1, 3))
def test_round_trip(tmp_path_factory, body, schema):
    path = tmp_path_factory.mktemp("document") / "d.json"
    dump_document(path, "some kind", schema, body)
    assert load_document(path, "some kind", 3) == {"kind": "some kind", "schema": schema, **body}
    content = path.read_bytes()
    assert content.endswith(b"}\n")
    dump_document(path, "some kind", schema, body)
    assert path.read_bytes() == content


@settings(max_examples=100, deadline=None)
@given(
    content=st.binary(max_size=40)
    | st.text(max_size=40).map(lambda t: t.encode("utf-8", "replace"))
    | _JSON.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_load_or_raise_a_record_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("document") / "d.json"
    path.write_bytes(content)
    problem = None
    try:
        load_document(path, "some kind", 1)
    except CanaryError as error:
        problem = error
    assert isinstance(problem, RecordError)
    assert problem.where == str(path)
    assert problem.cure


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "\ud800"])
def test_what_json_does_not_know_is_not_written(tmp_path, value):
    with pytest.raises(ValueError, match="JSON compliant|surrogates not allowed"):
        dump_document(tmp_path / "d.json", "some kind", 1, {"deep": [{"x": value}]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"kind": "some kind", "schema": 2}', "schema 2; this version of canary reads up to 1"),
        (b'{"kind": "some kind", "schema": 2}', "upgrade canary: update its checkout"),
        (b'{"kind": "some kind", "schema": 0}', "no valid schema number"),
        (b'{"kind": "some kind", "schema": true}', "no valid schema number"),
        (b'{"kind": "some kind", "schema": "1"}', "no valid schema number"),
        (b'{"kind": "some kind"}', "no valid schema number"),
        (b'{"kind": "another", "schema": 1}', "is not a some kind document"),
        (b'{"schema": 1}', "is not a some kind document"),
        (b"[]", "is not a some kind document"),
        (b'{"kind": "some kind", "sch', "may be truncated"),
        (b"", "may be truncated"),
        (b'{"kind": "some kind", "schema": 1, "x": NaN}', "NaN is not a JSON number"),
        (b'{"kind": "some kind", "schema": 1, "x": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"kind": "some kind", "schema": 1, "schema": 1}', "a key stands twice"),
        (b'{"kind": "some kind", "schema": 1, "x": {"y": 1, "y": 2}}', "a key stands twice"),
        (b'{"kind": "\xff"}', "is not UTF-8 (byte 10)"),
        (b'{"kind": "some kind", "schema": ' + b"9" * 4000 + b"}", "schema 99999"),
        (b'{"kind": "some kind", "schema": -' + b"9" * 4000 + b"}", "number (got -9999"),
        (b'{"kind": "some kind", "schema": 1, "x": ["\\ud800"]}', "half a surrogate pair"),
        (b'{"kind": "some kind", "schema": 1, "\\uDFFF": 1}', "half a surrogate pair"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"x": ' + b"9" * 5000 + b"}", "is not valid JSON"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        load_document(path, "some kind", 1)
    assert message in str(caught.value)
    assert caught.value.where == str(path)
    assert caught.value.cure
    assert len(str(caught.value)) < 300 + len(str(path))


def test_whole_surrogate_pairs_are_read(tmp_path):
    path = tmp_path / "d.json"
    path.write_bytes(b'{"kind": "some kind", "schema": 1, "x": "\\ud83d\\ude00 \\\\ud800"}')
    assert load_document(path, "some kind", 1)["x"] == "\U0001f600 \\ud800"


@pytest.mark.parametrize("name", ["missing.json", "folder", "missing/d.json", "pipe"])
def test_files_that_cannot_be_read(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # and not waited for
    with pytest.raises(RecordError, match="cannot be read|is a pipe") as caught:
        load_document(tmp_path / name, "some kind", 1)
    assert caught.value.where == str(tmp_path / name)
