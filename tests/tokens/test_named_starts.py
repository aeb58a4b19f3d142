"""Which start tokens are tried where a tokenizer does not say which of its tokens are special."""

from __future__ import annotations

from canary.tokens.fast import as_tokenizer
from canary.tokens.starts import possible_starts


def test_names_of_a_character_dict_are_tried():
    ids = {"a": 0, " ": 1, "\n": 2, "<eot>": 3, "<|end|>": 4, "[PAD]": 9}
    found = possible_starts(as_tokenizer(ids), 8)
    assert found == {None: (), "\n": (2,), "<eot>": (3,), "<|end|>": (4,)}
