"""Texts that a tokenizer reads unlike the others, though a sample would not show one."""

from __future__ import annotations

import json

import pytest
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


def characters(letters, normalizer=None, pre_tokenizer=None, merges=()):
    """A BPE tokenizer of single characters, and of what its merges make."""
    from tokenizers import Tokenizer, models

    tokens = [*dict.fromkeys(letters), *(x + y for x, y in merges)]
    backend = Tokenizer(models.BPE(vocab={t: k for k, t in enumerate(tokens)}, merges=[*merges]))
    if normalizer is not None:
        backend.normalizer = normalizer
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    return backend


def word_pieces(longest):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokens = ["[UNK]", "x", ".", "-", *"ab", "##a", "##b", "##ab"]
    backend = Tokenizer(
        models.WordPiece(
            vocab={t: k for k, t in enumerate(tokens)},
            unk_token="[UNK]",
            max_input_chars_per_word=longest,
        )
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return CandidateEncoder(as_tokenizer(backend))


def test_a_word_beyond_the_limit_is_unknown_in_a_tree_too() -> None:
    format = Format("x {re:[ab]{16}|a{17}}.")  # one fill of 65,537 is longer
    with pytest.raises(ModelError, match="does not know"):
        compile_tree(format, word_pieces(16))
    larger = Format("x {re:[ab]{18}|a{19}}.")
    with pytest.raises(UnsupportedError, match="a limit of 18 characters to a word"):
        compile_tree(larger, word_pieces(18))
    tree = compile_tree(format, word_pieces(17))
    assert tree.certificate.endswith("and there are as many paths as fills")


def test_a_limit_is_one_to_each_word() -> None:
    tree = compile_tree(Format("x {re:[ab]{8}-[ab]{8}}."), word_pieces(8))
    assert tree.size == 2**16
    with pytest.raises(ModelError, match="does not know"):
        compile_tree(Format("x {re:[ab]{8}-[ab]{8}}."), word_pieces(7))


def test_longest_piece_oracle() -> None:
    encoder = word_pieces(100)
    format = Format("x {re:(a|-){1,7}}.")
    texts = Format("{re:x (a|-){1,7}\\.}").automaton
    graph = TextGraph.of(read_rules(encoder.tokenizer, texts))
    longest = max(len(part) for fill in format for part in fill.split("-"))
    assert graph.longest_piece == longest == 7


def test_a_letter_that_is_the_unknown_token() -> None:
    """It is spelled in bytes nowhere: the model has it as what is unknown."""
    from tokenizers import Tokenizer, models

    tokens = [*"01234567", *".x", "8", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Tokenizer(
        models.BPE(
            vocab={t: k for k, t in enumerate(tokens)}, merges=[], byte_fallback=True, unk_token="8"
        )
    )
    encoder = CandidateEncoder(as_tokenizer(backend))
    with pytest.raises(ModelError, match="does not know 1"):
        encoder.encode(["x8."])
    with pytest.raises(OddTextError, match="an unknown token"):
        read_rules(encoder.tokenizer, Format("{re:x\\d{3}\\.}").automaton)
    with pytest.raises(ModelError, match="does not know 1"):
        compile_tree(Format("x{digit:3}."), encoder)


def test_ties_do_not_make_up_for_fills_that_read_alike() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    pieces = [("?", -9.0), ("a", -1.0), ("b", -1.0), ("ab", -2.0), *((c, -1.0) for c in " .x")]
    backend = Tokenizer(models.Unigram(pieces, 0))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    encoder = CandidateEncoder(as_tokenizer(backend))
    format = Format("x {re:[ab ]{12}}.")
    assert len({e.ids for e in encoder.encode(["x  a.", "x a ."])}) == 1
    with pytest.raises((ModelError, UnsupportedError), match="same tokens|fewer texts"):
        compile_tree(format, encoder)
    tree = compile_tree(Format("x {re:[ab]{10}}."), encoder)  # ties alone are told apart
    assert tree.size > 2**10
    assert not tree.canonical


def n(*parts):
    from tokenizers import normalizers

    return normalizers.Sequence([getattr(normalizers, name)(*given) for name, *given in parts])


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
    encoder = CandidateEncoder(as_tokenizer(characters("aeio x.", n(("NFD",), ("StripAccents",)))))
    format = Format("x {re:[áeíò]{4}}.")
    tree = compile_tree(format, encoder)
    assert sorted(paths(tree)) == sorted(e.ids for e in encoder.candidates(format, list(format)))
    assert tree.size == 4**4


def test_a_model_without_an_unknown_token_says_so() -> None:
    from tokenizers import Tokenizer, models

    tokenizer = FastTokenizer(Tokenizer(models.Unigram([("a", -1.0), ("b", -1.0)], None)))
    with pytest.raises(ModelError, match="does not know a character"):
        tokenizer.encode(["abc"])


def with_bytes(*tokens, merges=(), **options):
    from tokenizers import Tokenizer, models

    names = dict.fromkeys([*tokens, *(f"<0x{byte:02X}>" for byte in range(256))])
    vocabulary = {token: number for number, token in enumerate(names)}
    model = models.BPE(vocab=vocabulary, merges=list(merges), byte_fallback=True, **options)
    return CandidateEncoder(as_tokenizer(Tokenizer(model)))


def test_a_whole_piece_is_a_token_whose_characters_are_bytes_else() -> None:
    from tokenizers import Tokenizer, pre_tokenizers

    plain = with_bytes("x", " ", ".", "a", "b", "aé", "éba", ignore_merges=True)
    backend = Tokenizer.from_str(json.dumps(plain.tokenizer.spec))
    backend.pre_tokenizer = pre_tokenizers.Punctuation()
    encoder = CandidateEncoder(as_tokenizer(backend))
    assert len(backend.encode("aé.éba.bé").ids) == 4 + 3  # one, one; b and two bytes
    format = Format("x.{re:(a|b|é){3,5}}.{re:(a|b|é){2}}.")
    fills = list(format)
    tree = trees._tree_by_rules(format, encoder, encoder.candidates(format, ["bbb.bb"]))
    assert (tree.canonical, tree.size) == (True, len(fills))
    assert sorted(paths(tree)) == sorted(e.ids for e in encoder.candidates(format, fills))


def test_merges_of_bytes_are_not_followed() -> None:
    encoder = with_bytes("x", "<0xC3><0xA9>", merges=[("<0xC3>", "<0xA9>")])
    with pytest.raises(UnknownRuleError, match="merges of bytes"):
        read_rules(encoder.tokenizer, Format("{choice:xé}").automaton)


def test_letters_that_a_pre_tokenizer_leaves_out_are_an_error() -> None:
    from tokenizers import pre_tokenizers

    def encoder(left_out):
        split = pre_tokenizers.Split(left_out, "removed")
        return CandidateEncoder(as_tokenizer(characters("0123456789x. ", pre_tokenizer=split)))

    sevens, format = encoder("7"), Format("x{digit:3}.")
    with pytest.raises(ModelError, match="does not know 1"):
        compile_tree(format, sevens)
    with pytest.raises(OddTextError, match="a character that it leaves out"):
        trees._tree_by_rules(format, sevens, sevens.candidates(format, ["123"]))
    assert compile_tree(Format("x{re:[0-6]{3}}."), sevens).canonical
    spaced = compile_tree(Format("x {re:[0-6]{4}} ."), encoder(" "))  # spaces may go
    assert spaced.certificate.endswith("and there are as many paths as fills")


def replacing(pattern):
    return CandidateEncoder(
        as_tokenizer(characters('x0123456789" .', n(("Replace", pattern, '"'))))
    )


def test_a_normalizer_that_replaces_several_characters_says_so() -> None:
    """The characters are known; `, which is not, becomes one that is."""
    for old, text in [("``", "x``{digit:3}"), ("12", "x{digit:3}")]:
        with pytest.raises(ModelError, match=r"\(Replace\) replaces several characters") as error:
            compile_tree(Format(text), replacing(old))
        assert "write in format and context" in str(error.value)


def test_what_a_normalizer_cannot_find_in_a_candidate_changes_nothing() -> None:
    from tokenizers import Regex

    for pattern in ("``", "x1x", Regex(" {2,}")):
        tree = compile_tree(Format("x {digit:6}."), replacing(pattern))
        assert tree.certificate.endswith("and there are as many paths as fills")


def test_a_first_token_that_merges_with_the_fill_says_so() -> None:
    backend = characters("x0123456789", merges=[("x", "1")])
    for format, context in [("x{digit:3}", ""), ("{digit:3}", "x")]:
        encoder = CandidateEncoder(as_tokenizer(backend), context=context)
        with pytest.raises(InputError, match="the tokenizer merges 'x' with it"):
            compile_tree(Format(format), encoder)
    with pytest.raises(InputError, match="begins with a hole"):
        compile_tree(Format("{digit:3}"), CandidateEncoder(as_tokenizer(backend)))


def test_rules_that_are_nested_too_deeply_are_not_followed() -> None:
    from tokenizers import Regex, pre_tokenizers

    deep = pre_tokenizers.Split(Regex("(" * 300 + r"\d" + ")" * 300), "isolated")
    backend = characters("x0123456789", pre_tokenizer=deep)
    tree = compile_tree(Format("x{digit:2}"), CandidateEncoder(as_tokenizer(backend)))
    assert tree.certificate == "certified: all 100 fills were encoded"


def test_an_added_token_of_which_nothing_is_left_is_refused() -> None:
    """`tokenizers` encodes a text with it for ever."""
    from tokenizers import AddedToken, normalizers

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


def test_spaces_that_a_pre_tokenizer_takes_are_forgiven() -> None:
    from tokenizers import pre_tokenizers

    tokenizer = FastTokenizer(characters("ab", pre_tokenizer=pre_tokenizers.Whitespace()))
    assert tokenizer.encode(["a  b"])[0].ids == (0, 1)
