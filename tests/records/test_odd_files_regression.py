"""Files that are something else than they are taken for: an error that names them."""

from __future__ import annotations

import json
import os

import pytest

from canary.errors import InputError, ModelError
from canary.formats.format import read_words
from canary.statistics.numbers import clean
from canary.tokens.fast import read_tokenizer


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0" * 40, "control characters"),
        (b"one two\0 three", "control characters"),
        (json.dumps({"kind": "canary set", "canaries": []}).encode(), "is a JSON document"),
        (b'["one", "two"]', "is a JSON document"),
    ],
)
def test_what_is_no_list_of_words_is_refused(tmp_path, content, message):
    file = tmp_path / "words.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_words(file)
    assert caught.value.where == str(file)
    file.write_text("[one] {two} three\n")
    assert read_words(file) == ["[one]", "{two}", "three"]


def test_a_name_that_is_no_utf8_is_shown_with_its_bytes():
    assert clean(os.fsdecode(b"caf\xe9.json")) == r"caf\xe9.json"
    assert clean("half \ud83d") == r"half \ud83d"


def test_a_missing_tokenizer_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="^missing: there is no such file"):
        read_tokenizer("missing")
    with pytest.raises(ModelError, match="there is no tokenizer.json in it"):
        read_tokenizer(tmp_path)
