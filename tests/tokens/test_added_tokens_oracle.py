"""Added tokens of every kind against the tokenizer itself: none changes a tree unseen."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_paths import paths

from canary.errors import UnsupportedError
from canary.formats.format import Format
from canary.tokens.added import Searched, between, find_cuts
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer, as_tokenizer
from canary.tokens.pattern import UnknownRuleError
from canary.tokens.rules import read_rules
from canary.tokens.tree import compile_tree

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NORMALIZERS = {
    "none": lambda n: None,
    "lower case": lambda n: n.Lowercase(),
    "a mark before": lambda n: n.Prepend("▁"),
    "spaces are marks": lambda n: n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]),
    "spaces go": lambda n: n.Replace(" ", ""),
    "compatible": lambda n: n.Sequence([n.NFKC(), n.Lowercase(), n.StripAccents()]),
}
CONTENTS = ["AB", "ab", "▁a", " b", "b a", "x  a", "á", "ﬁa", "xa", "aab", "éé"]


def characters(normalizer=None, added=()):
    from tokenizers import Tokenizer, models, normalizers

    alphabet = {c: k for k, c in enumerate(f"{LETTERS}{LETTERS.upper()}0123456789 .▁áéﬁ")}
    backend = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    if normalizer is not None and (made := NORMALIZERS[normalizer](normalizers)) is not None:
        backend.normalizer = made
    backend.add_tokens(list(added))
    return backend


@settings(max_examples=200)
@given(
    fills=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=4, unique=True),
    around=st.tuples(*[st.text("abc", max_size=4)] * 2),
    spelled=st.fixed_dictionaries({c: st.text("xy", max_size=3) for c in "abc"}),
    lead=st.text("xy", max_size=2),
    contents=st.lists(st.text("xyz", min_size=1, max_size=4), min_size=1, max_size=2, unique=True),
)
def test_where_added_tokens_cut_all_texts_oracle(fills, around, spelled, lead, contents) -> None:
    """They cut what each text is written as at the places found; or one differs from another."""
    texts = Format(f"{{choice:{'|'.join(around[0] + f + around[1] for f in fills)}}}").automaton
    longest = re.compile("|".join(sorted(contents, key=len, reverse=True)))

    def pieces(text):
        written = lead + "".join(spelled[c] for c in text)
        return [lead] * (not text) or longest.split(written), longest.findall(written)

    tokens = [{"content": content, "id": k} for k, content in enumerate(contents)]
    everywhere = between(texts, [])
    try:
        cuts = find_cuts(tokens, Searched(texts, everywhere, spelled, lead))
    except UnknownRuleError:
        assert any(pieces(text)[1] for text in texts)
        return
    for text in texts:
        rest, found = pieces(text)
        assert found == [contents[cut.token] for cut in cuts]
        if cuts:  # all texts are alike up to the first of them, and behind the last
            assert (
                lead * (cuts[0].start > 0) + "".join(spelled[c] for c in text[: cuts[0].start])
                == rest[0]
            )
            assert text[cuts[0].start :].startswith(cuts[0].text)


@pytest.mark.parametrize(
    ("flags", "text", "cuts"),
    [
        # Spaces that one takes along behind it are not there for the next to take.
        ({"A": "lr"}, "x A A  B", [" A ", "A  "]),
        ({"A": "r", "B": "l"}, "x A A  B", ["A ", "A  ", "B"]),
        ({"A": "l", "B": "l"}, "x A A  B", [" A", " A", "  B"]),
        ({"A": "", "B": "l"}, "x A A  B", ["A", "A", "  B"]),
    ],
)
def test_spaces_between_added_tokens_belong_to_one_oracle(flags, text, cuts) -> None:
    from tokenizers import AddedToken

    kinds = {"l": "lstrip", "r": "rstrip"}
    tokens = [
        AddedToken(content, normalized=False, **{kinds[kind]: True for kind in given})
        for content, given in flags.items()
    ]
    backend, texts = characters(added=tokens), Format(f"{{re:{text}[0-9]{{2}}\\.}}").automaton
    spec = as_tokenizer(backend).spec["added_tokens"]
    found = find_cuts(spec, Searched(texts, between(texts, [])))
    assert [cut.text for cut in found] == cuts
    encoding = backend.encode(f"{text}00.")
    added = {token["id"] for token in spec}
    pairs = zip(encoding.ids, encoding.offsets, strict=True)
    ends = [(number, *span) for number, span in pairs if number in added]
    assert [(cut.token, cut.start, cut.stop) for cut in found] == ends


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("content", CONTENTS)
def test_rules_refuse_where_an_added_token_is_found_oracle(normalizer: str, content: str) -> None:
    """They may refuse more only for what must be a word by itself."""
    from tokenizers import AddedToken

    format, texts = Format("x {re:[abé ]{3}}."), Format("{re:x [abé ]{3}\\.}").automaton
    names = ("normalized", "single_word", "lstrip", "rstrip")
    for chosen in itertools.product([False, True], repeat=len(names)):
        flags = dict(zip(names, chosen, strict=True))
        backend = characters(normalizer, [AddedToken(content, special=flags["lstrip"], **flags)])
        tokenizer, number = FastTokenizer(backend), backend.token_to_id(content)
        found = any(number in backend.encode(format.candidate(fill)).ids for fill in format)
        try:
            read_rules(tokenizer, texts)
        except UnknownRuleError:
            assert found or flags["single_word"]
        else:
            assert not found


@pytest.mark.parametrize("flags", [{"normalized": True}, {"normalized": True, "special": True}])
def test_a_token_that_lower_case_makes_of_a_candidate_regression(flags) -> None:
    """A sample of fills does not show it, so no tree may be made from one."""
    from tokenizers import AddedToken

    backend = characters("lower case", [AddedToken("SECRET", **flags)])
    encoder = CandidateEncoder(as_tokenizer(backend))
    with pytest.raises(UnsupportedError, match="an added token that may be found in some"):
        compile_tree(Format("x {letter:6}."), encoder)
    small = Format("x {choice:s|z}ecre{letter:2}.")
    tree = compile_tree(small, encoder)
    assert tree.certificate == "certified: all 1,352 fills were encoded"
    rows = [e.ids for e in encoder.candidates(small, list(small))]
    assert sorted(paths(tree)) == sorted(rows)
    assert backend.token_to_id("SECRET") in set(itertools.chain(*rows))


def test_a_token_that_the_mark_before_a_text_completes_regression() -> None:
    from tokenizers import AddedToken

    backend = characters("a mark before", [AddedToken("1234567", normalized=True)])
    encoder = CandidateEncoder(as_tokenizer(backend), "x")
    with pytest.raises(UnsupportedError, match="an added token that may be found in some"):
        compile_tree(Format("{digit:7}."), encoder)
    # It takes the mark with it, so behind another text there is none.
    tree = compile_tree(Format("a {digit:7}."), encoder)
    assert tree.certificate.endswith("and there are as many paths as fills")


def test_an_added_token_that_the_model_makes_itself_regression() -> None:
    """Not normalized, it does not stand in AB; the model makes it of what AB becomes."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers

    pieces = [("?", -9.0), *((c, -2.0) for c in "abz."), ("ab", -1.0)]
    backend = Tokenizer(models.Unigram(pieces, 0))
    backend.normalizer = normalizers.Lowercase()
    backend.add_tokens([AddedToken("ab", normalized=False)])
    encoder = CandidateEncoder(as_tokenizer(backend), "z")
    format = Format("{re:[ABZ]{8}}.")
    assert backend.encode("AB").ids == [5]
    tree = compile_tree(format, encoder)
    assert tree.certificate.endswith("and there are as many paths as fills")
    assert sorted(paths(tree)) == sorted(e.ids for e in encoder.encode([f"{f}." for f in format]))
