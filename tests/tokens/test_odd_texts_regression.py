"""Texts that a tokenizer reads unlike the others, though a sample would not show one."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from tree_paths import paths

from canary.errors import InputError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.tokens import tree as trees
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer, as_tokenizer
from canary.tokens.pattern import OddTextError, UnknownRuleError
from canary.tokens.rules import read_rules
from canary.tokens.textgraph import TextGraph
from canary.tokens.tree import compile_tree

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WHOLE = "and there are as many paths as fills"


def characters(letters, normalizer=None, pre_tokenizer=None, merges=(), **options):
    """A BPE tokenizer of some tokens, and of what its merges make."""
    tokens = dict.fromkeys([*letters, *(x + y for x, y in merges)])
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[*merges], **options))
    if normalizer is not None:
        backend.normalizer = normalizer
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    return backend


def encoder_of(*given, context="", **options):
    return CandidateEncoder(as_tokenizer(characters(*given, **options)), context=context)


def n(*parts):
    return normalizers.Sequence([getattr(normalizers, name)(*given) for name, *given in parts])


def check_paths(tree, format, encoder):
    """The tree has the encodings of all fills, and nothing else."""
    assert sorted(paths(tree)) == sorted(e.ids for e in encoder.candidates(format, list(format)))


def word_pieces(longest):
    tokens = ["[UNK]", "x", ".", "-", *"ab", "##a", "##b", "##ab"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    limit = {"unk_token": "[UNK]", "max_input_chars_per_word": longest}
    backend = Tokenizer(models.WordPiece(vocab=vocabulary, **limit))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return CandidateEncoder(as_tokenizer(backend))


def test_a_word_beyond_the_limit_is_unknown_in_a_tree_too() -> None:
    """The limit is one to each word."""
    format = Format("x {re:[ab]{12}|a{13}}.")  # one fill of 4,097 is longer
    with pytest.raises(ModelError, match="does not know"):
        compile_tree(format, word_pieces(12))
    assert compile_tree(format, word_pieces(13)).certificate.endswith(WHOLE)
    larger = Format("x {re:[ab]{18}|a{19}}.")  # none of a sample is
    with pytest.raises(UnsupportedError, match="a limit of 18 characters to a word"):
        compile_tree(larger, word_pieces(18))
    two = Format("x {re:[ab]{8}-[ab]{8}}.")
    assert compile_tree(two, word_pieces(8)).size == 2**16
    with pytest.raises(ModelError, match="does not know"):
        compile_tree(two, word_pieces(7))


def test_longest_piece_oracle() -> None:
    texts = Format("{re:x (a|-){1,7}\\.}").automaton
    graph = TextGraph.of(read_rules(word_pieces(100).tokenizer, texts))
    longest = max(len(part) for fill in Format("x {re:(a|-){1,7}}.") for part in fill.split("-"))
    assert graph.longest_piece == longest == 7


def test_a_letter_that_is_the_unknown_token() -> None:
    """It is spelled in bytes nowhere: the model has it as what is unknown."""
    encoder = encoder_of([*"01234567.x8", *BYTES], byte_fallback=True, unk_token="8")
    with pytest.raises(ModelError, match="does not know 1"):
        encoder.encode(["x8."])
    with pytest.raises(OddTextError, match="an unknown token"):
        read_rules(encoder.tokenizer, Format("{re:x\\d{3}\\.}").automaton)
    with pytest.raises(ModelError, match="does not know 1"):
        compile_tree(Format("x{digit:3}."), encoder)


def test_ties_do_not_make_up_for_fills_that_read_alike() -> None:
    pieces = [("?", -9.0), ("a", -1.0), ("b", -1.0), ("ab", -2.0), *((c, -1.0) for c in " .x")]
    backend = Tokenizer(models.Unigram(pieces, 0))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    encoder = CandidateEncoder(as_tokenizer(backend))
    assert len({e.ids for e in encoder.encode(["x  a.", "x a ."])}) == 1
    with pytest.raises((ModelError, UnsupportedError), match="same tokens|fewer texts"):
        compile_tree(Format("x {re:[ab ]{12}}."), encoder)
    tree = compile_tree(Format("x {re:[ab]{10}}."), encoder)  # ties alone are told apart
    assert tree.size > 2**10
    assert not tree.canonical


@pytest.mark.parametrize(
    ("parts", "text", "named"),
    [
        # Letters that normal forms join with the one before, or marks that an earlier part made.
        ([("NFKC",)], "{choice:カｶﾞ}", "NFKC"),
        ([("NFKC",)], "{choice:ㄱㅏ}", "NFKC"),
        ([("NFC",)], "{choice:\u1100\u1161}", "NFC"),
        ([("NFC",)], "{choice:가\u11a8}", "NFC"),
        ([("NFC",)], "{choice:e\u0301|e}!", "NFC"),
        ([("Replace", "-", "\u0301"), ("NFC",)], "{choice:e-|-e}", "NFC"),
        ([("Replace", "-", " "), ("Strip",)], "{choice:e-|-e}", "Strip"),
        ([("Replace", "-", ""), ("Strip",)], "{choice:e-|-e}", "Strip"),
        ([("Prepend", " "), ("Strip",)], "{choice:e-|-e}", "Strip"),
        ([("Replace", "12", '"')], "{digit:6}", "Replace"),
    ],
)
def test_normalizers_that_are_not_followed(parts, text, named) -> None:
    tokenizer = FastTokenizer(characters("ae", n(*parts)))
    with pytest.raises(UnknownRuleError, match=named):
        read_rules(tokenizer, Format(text).automaton)


def test_accents_that_are_taken_apart_and_dropped_are_followed() -> None:
    encoder = encoder_of("aeio x.", n(("NFD",), ("StripAccents",)))
    format = Format("x {re:[áeíò]{4}}.")
    check_paths(compile_tree(format, encoder), format, encoder)


def test_a_whole_piece_is_a_token_whose_characters_are_bytes_else() -> None:
    tokens = ["x", " ", ".", "a", "b", "aé", "éba", *BYTES]
    pieces, options = pre_tokenizers.Punctuation(), {"byte_fallback": True, "ignore_merges": True}
    encoder = encoder_of(tokens, pre_tokenizer=pieces, **options)
    assert len(encoder.encode(["aé.éba.bé"])[0].ids) == 4 + 3  # one, one; b and two bytes
    format = Format("x.{re:(a|b|é){3,5}}.{re:(a|b|é){2}}.")
    tree = trees._tree_by_rules(format, encoder, encoder.candidates(format, ["bbb.bb"]))
    assert tree.canonical
    check_paths(tree, format, encoder)


def test_merges_of_bytes_are_not_followed() -> None:
    merges = [("<0xC3>", "<0xA9>")]
    encoder = encoder_of(["x", *BYTES], merges=merges, byte_fallback=True)
    with pytest.raises(UnknownRuleError, match="merges of bytes"):
        read_rules(encoder.tokenizer, Format("{choice:xé}").automaton)


def test_letters_that_a_pre_tokenizer_leaves_out_are_an_error() -> None:
    sevens, spaces = (
        encoder_of("0123456789x. ", pre_tokenizer=pre_tokenizers.Split(left_out, "removed"))
        for left_out in "7 "
    )
    format = Format("x{digit:3}.")
    with pytest.raises(ModelError, match="does not know 1"):
        compile_tree(format, sevens)
    with pytest.raises(OddTextError, match="a character that it leaves out"):
        trees._tree_by_rules(format, sevens, sevens.candidates(format, ["123"]))
    assert compile_tree(Format("x{re:[0-6]{3}}."), sevens).canonical
    spaced = compile_tree(Format("x {re:[0-6]{4}} ."), spaces)  # spaces may go
    assert spaced.certificate.endswith(WHOLE)


def test_a_normalizer_that_replaces_several_characters_says_so() -> None:
    """The characters are known; `, which is not, becomes one that is."""

    def replacing(pattern):
        return encoder_of('x0123456789" .', n(("Replace", pattern, '"')))

    for old, text in [("``", "x``{digit:3}"), ("12", "x{digit:3}")]:
        with pytest.raises(ModelError, match=r"\(Replace\) replaces several characters") as error:
            compile_tree(Format(text), replacing(old))
        assert "write in format and context" in str(error.value)
    for pattern in ("``", "x1x", Regex(" {2,}")):  # what it cannot find changes nothing
        tree = compile_tree(Format("x {digit:6}."), replacing(pattern))
        assert tree.certificate.endswith(WHOLE)


@pytest.mark.parametrize(
    ("text", "context", "told"),
    [
        ("x{digit:3}", "", "the tokenizer merges 'x' with it"),
        ("{digit:3}", "x", "the tokenizer merges 'x' with it"),
        ("{digit:3}", "", "begins with a hole"),
    ],
)
def test_a_first_token_that_merges_with_the_fill_says_so(text, context, told) -> None:
    encoder = encoder_of("x0123456789", merges=[("x", "1")], context=context)
    with pytest.raises(InputError, match=told):
        compile_tree(Format(text), encoder)


def test_rules_that_are_nested_too_deeply_are_not_followed() -> None:
    deep = pre_tokenizers.Split(Regex("(" * 300 + r"\d" + ")" * 300), "isolated")
    tree = compile_tree(Format("x{digit:2}"), encoder_of("x0123456789", pre_tokenizer=deep))
    assert tree.certificate == "certified: all 100 fills were encoded"


def test_an_added_token_of_which_nothing_is_left_is_refused() -> None:
    """`tokenizers` encodes a text with it for ever."""
    backend = characters("x", normalizers.Strip())
    backend.add_tokens([AddedToken("\n\n", normalized=True, rstrip=True)])
    with pytest.raises(ModelError, match=r"leaves nothing of its added token '\\n\\n'"):
        FastTokenizer(backend)
    backend.normalizer = None
    FastTokenizer(backend)


@pytest.mark.parametrize("text", ["aüb", "ü", "aüb c", "aüb\n", "ü \n"])
def test_a_dropped_character_is_told_by_number_regression(text) -> None:
    """The offsets behind ü move up by one, so that a line break at the end seems to be missing."""
    tokenizer = FastTokenizer(characters("abc \n"))
    with pytest.raises(ModelError, match="does not know 1 of the characters"):
        tokenizer.encode([text])
    assert [e.ids for e in tokenizer.encode(["abc\n", " "])] == [(0, 1, 2, 4), (3,)]
    unigram = FastTokenizer(Tokenizer(models.Unigram([("a", -1.0), ("b", -1.0)], None)))
    with pytest.raises(ModelError, match="does not know a character"):  # and no unknown token
        unigram.encode([text])
    # Spaces that a pre-tokenizer takes are forgiven.
    spaced = FastTokenizer(characters("ab", pre_tokenizer=pre_tokenizers.Whitespace()))
    assert spaced.encode(["a  b"])[0].ids == (0, 1)
