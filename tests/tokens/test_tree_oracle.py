"""Trees without rules, candidates with start tokens and contexts, tokenizers that do not serve."""

from __future__ import annotations

import pytest
import tokenizers
from small_models import CHARACTERS, character_tokenizer
from trained import trained
from tree_paths import paths

from canary.errors import FormatError, InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer, as_tokenizer
from canary.tokens.tree import compile_tree


class Opaque:
    """A tokenizer that tells nothing but encodings."""

    def __init__(self, inner):
        self.size, self.encode, self.decode = inner.size, inner.encode, inner.decode


def test_tree_is_marked_where_it_is_only_sampled() -> None:
    """Digits that a pre-tokenizer splits are proven to be single only by its rules."""
    format = Format("The code is {digit:9}")
    seam = as_tokenizer(trained("qwen"))
    assert compile_tree(format, CandidateEncoder(seam)).certificate.startswith("certified")
    encoder = CandidateEncoder(Opaque(seam))
    tree = compile_tree(format, encoder)
    assert tree.certificate == "not certified: one token per character, sampled on 1000 fills"
    assert tree.size == 10**9
    assert tree.fills([78051120]) == ["078051120"]
    tree = compile_tree(Format("The code is {digit:3}."), encoder)
    assert tree.certificate == "certified: all 1,000 fills were encoded"
    merged = CandidateEncoder(Opaque(as_tokenizer(trained("gpt2, many numbers"))))
    with pytest.raises(UnsupportedError, match='method="sampling"'):
        compile_tree(Format("The code is {digit:6}"), merged)


def test_what_continues_another_is_refused_input() -> None:
    encoder = CandidateEncoder(as_tokenizer(character_tokenizer()))
    with pytest.raises(FormatError, match="prefix-free"):
        compile_tree(Format("a {choice:b|bc}"), encoder)
    # What only the text after the last hole tells apart is told apart.
    assert len(paths(compile_tree(Format("a {choice:b|bc}."), encoder))) == 2
    # Spaces that become no tokens may be all that tells two candidates apart.
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    backend = Tokenizer(WordLevel({"a": 0, "b": 1, "c": 2, "?": 3}, unk_token="?"))
    backend.pre_tokenizer = WhitespaceSplit()
    with pytest.raises(UnsupportedError, match="continue those of others"):
        compile_tree(Format("a {choice:b c|b  }"), CandidateEncoder(as_tokenizer(backend)))


def test_start_tokens_and_contexts_input() -> None:
    seam, format = as_tokenizer(character_tokenizer()), Format("{digit:3}")
    for fills in (["123", "456"], ["123"]):
        with pytest.raises(InputError, match="--start-token"):
            CandidateEncoder(seam).candidates(format, fills)
    for given, tokens in (({"start_token": "\n"}, 4), ({"context": "ab"}, 5)):
        (encoding,) = CandidateEncoder(seam, **given).candidates(format, ["123"])
        assert len(encoding.ids) == tokens
    # A tokenizer that puts a start token there itself needs none.
    own = CandidateEncoder(as_tokenizer(trained("roberta")))
    assert own.context_length(format, own.candidates(format, ["123"])[0]) == 1
    named = CandidateEncoder(as_tokenizer(trained("qwen")), "<s>")
    assert named.encode(["a"])[0].ids[0] == named.tokenizer.token_id("<s>")
    assert CandidateEncoder(seam, "a").encode(["b"])[0].ids == tuple(seam.token_id(c) for c in "ab")
    with pytest.raises(InputError, match="is 2 tokens"):
        CandidateEncoder(seam, "ab")


def test_spans_are_those_of_the_candidate_golden() -> None:
    encoder = CandidateEncoder(as_tokenizer(character_tokenizer()), "\n", context="xy ")
    (encoding,) = encoder.encode(["ab1"])
    spans = ((-3, -3), (-3, -2), (-2, -1), (-1, 0), (0, 1), (1, 2), (2, 3))
    assert encoding.spans == spans
    assert encoder.context_length(Format("ab{digit:1}"), encoding) == 6


def test_the_callers_tokenizer_is_not_changed() -> None:
    backend = character_tokenizer()
    backend.enable_truncation(2)
    backend.enable_padding(length=9)
    assert [len(e.ids) for e in as_tokenizer(backend).encode(["abcd", "a"])] == [4, 1]
    assert backend.truncation is not None


def test_tokenizer_input(tmp_path) -> None:
    """Unknown characters are neither dropped nor mapped, and the message tells none."""
    seam = as_tokenizer(character_tokenizer())
    assert isinstance(seam, FastTokenizer)
    with pytest.raises(ModelError, match="does not know 1 of the characters") as caught:
        seam.encode(["Ω3"])
    assert "Ω" not in str(caught.value)
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        as_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is not a tokenizer"):
        as_tokenizer(tmp_path)
    with pytest.raises(InputError, match="a tokenizer was expected, got int"):
        as_tokenizer(3)


class Characters:
    """What a small program's own tokenizer looks like: one text in, a list of ids out."""

    size = len(CHARACTERS)

    def encode(self, text):
        return [dict(zip(CHARACTERS, range(self.size), strict=True))[c] for c in text]


class Empty(Characters):
    def encode(self, texts):
        return [[] for _ in texts]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Characters(), r"Characters, whose encode fails for a list of texts \(KeyError"),
        (Empty(), r"Empty, whose encode gives \[\] for a text"),
        ({"a": 0, "the": 1}, "'the': 1"),
        ({0: "a"}, "0: 'a'"),
        ({"a": -1}, "'a': -1"),
        ({"a": 1, "b": 1}, "two characters with one id"),
        ({}, "no entry"),
    ],
)
def test_own_tokenizers_are_tried(given, message) -> None:
    with pytest.raises(InputError, match=message):
        as_tokenizer(given)


def test_ids_of_characters_are_a_tokenizer() -> None:
    ids = {"<pad>": 0, "[UNK]": 1} | {c: i for i, c in enumerate(CHARACTERS, 2)}
    seam = as_tokenizer(ids)
    assert [list(e.ids) for e in seam.encode(["a1 ", ""])] == [[ids[c] for c in "a1 "], []]
    assert (seam.size, seam.token_id("<pad>")) == (len(ids), 0)
    with pytest.raises(ModelError, match="does not know 1 of the characters"):
        seam.encode(["aΩ"])
    with pytest.raises(InputError, match=r"start_token: the tokenizer has no token '\\n'"):
        CandidateEncoder(as_tokenizer({"a": 0}), "\n")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=[]))
    assert seam.fingerprint == as_tokenizer(backend).fingerprint
