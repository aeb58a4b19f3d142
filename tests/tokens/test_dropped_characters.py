"""A tokenizer that silently drops characters is caught, whatever its offsets say."""

from __future__ import annotations

import pytest

from canary.errors import ModelError
from canary.tokens.fast import FastTokenizer


@pytest.fixture
def tokenizer():
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    # A BPE model without an unknown token, over these characters only.
    return FastTokenizer(Tokenizer(BPE(vocab={c: i for i, c in enumerate("abc \n")}, merges=[])))


@pytest.mark.parametrize("text", ["aüb", "ü", "aüb c", "aüb\n", "ü \n"])
def test_dropped_character_is_named_by_number_regression(tokenizer, text):
    # The offsets of what follows ü move up by one: at the end a line break seems to be
    # missing, which would be forgiven.
    with pytest.raises(ModelError, match="does not know 1 of the characters"):
        tokenizer.encode([text])


def test_known_characters_pass(tokenizer):
    assert [e.ids for e in tokenizer.encode(["abc\n", " "])] == [(0, 1, 2, 4), (3,)]


def test_spaces_that_a_pre_tokenizer_takes_are_forgiven():
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    backend = Tokenizer(WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    backend.pre_tokenizer = Whitespace()
    assert FastTokenizer(backend).encode(["a  b"])[0].ids == (0, 1)
