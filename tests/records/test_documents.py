"""Documents come back as they were written, and only strict ones are read."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.errors import RecordError
from canary.records.versioned_json import dump_document, load_document

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=10,
)
_FIELDS = st.dictionaries(st.sampled_from("abcdef"), _JSON, max_size=4)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("documents") / "d.json"


@settings(max_examples=100)
@given(body=_FIELDS, schema=st.integers(1, 3))
def test_round_trip_property(path, body, schema):
    dump_document(path, "some kind", schema, body)
    assert load_document(path, "some kind", 3) == {"kind": "some kind", "schema": schema, **body}
    content = path.read_bytes()
    assert content.endswith(b"}\n")
    dump_document(path, "some kind", schema, body)
    assert path.read_bytes() == content


def test_a_file_that_is_missing_names_those_beside_it(tmp_path):
    with pytest.raises(RecordError, match="check the path$"):
        load_document(tmp_path / "membership.json", "test", 1)
    dump_document(tmp_path / "models.json", "test", 1, {})
    with pytest.raises(RecordError, match="check the path: its folder has models.json"):
        load_document(tmp_path / "membership.json", "test", 1)


@settings(max_examples=100)
@given(
    content=st.binary(max_size=40)
    | st.text(max_size=40).map(lambda t: t.encode("utf-8", "replace"))
    | _JSON.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_a_record_error_property(path, content):
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        load_document(path, "some kind", 1)
    assert caught.value.where == str(path)
    assert caught.value.cure


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "\ud800"])
def test_what_json_does_not_know_is_not_written_input(tmp_path, value):
    with pytest.raises(ValueError, match="JSON compliant|surrogates not allowed"):
        dump_document(tmp_path / "d.json", "some kind", 1, {"deep": [{"x": value}]})
    assert not list(tmp_path.iterdir())


KIND = b'{"kind": "some kind", '


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (KIND + b'"schema": 2}', "schema 2; this version of canary reads up to 1"),
        (KIND + b'"schema": 2}', "upgrade canary: update its checkout"),
        (KIND + b'"schema": 0}', "no valid schema number"),
        (KIND + b'"schema": true}', "no valid schema number"),
        (KIND + b'"schema": "1"}', "no valid schema number"),
        (b'{"kind": "some kind"}', "no valid schema number"),
        (b'{"kind": "another", "schema": 1}', "is not a some kind document"),
        (b'{"schema": 1}', "is not a some kind document"),
        (b"[]", "is not a some kind document"),
        (KIND + b'"sch', "may be truncated"),
        (b"", "may be truncated"),
        (KIND + b'"schema": 1, "x": NaN}', "NaN is not a JSON number"),
        (KIND + b'"schema": 1, "x": -Infinity}', "-Infinity is not a JSON number"),
        (KIND + b'"schema": 1, "schema": 1}', "a key is there twice"),
        (KIND + b'"schema": 1, "x": {"y": 1, "y": 2}}', "a key is there twice"),
        (b'{"kind": "\xff"}', "is not UTF-8 (byte 10)"),
        (KIND + b'"schema": ' + b"9" * 4000 + b"}", "schema 99999"),
        (KIND + b'"schema": -' + b"9" * 4000 + b"}", "number (got -9999"),
        (KIND + b'"schema": 1, "x": ["\\ud800"]}', "half a surrogate pair"),
        (KIND + b'"schema": 1, "\\uDFFF": 1}', "half a surrogate pair"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"x": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"<!doctype html>", "is a page, and no file of numbers; name the .json file"),
    ],
)
def test_what_is_refused_input(path, content, message):
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        load_document(path, "some kind", 1)
    assert message in str(caught.value)
    assert caught.value.where == str(path)
    assert caught.value.cure
    assert len(str(caught.value)) < 300 + len(str(path))


def test_whole_surrogate_pairs_are_read(path):
    path.write_bytes(KIND + b'"schema": 1, "x": "\\ud83d\\ude00 \\\\ud800"}')
    assert load_document(path, "some kind", 1)["x"] == "\U0001f600 \\ud800"


@pytest.mark.parametrize("name", ["missing.json", "folder", "missing/d.json", "pipe"])
def test_files_that_cannot_be_read_input(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # and not waited for
    told = "cannot be read|is a pipe|is a folder; name a some kind file"
    with pytest.raises(RecordError, match=told) as caught:
        load_document(tmp_path / name, "some kind", 1)
    assert caught.value.where == str(tmp_path / name)
