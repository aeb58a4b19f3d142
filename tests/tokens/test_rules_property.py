"""Rules of tokenizers, each against the tokenizer itself, on random models and patterns."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trained import LLAMA3, QWEN

from canary.formats.format import Format
from canary.tokens import tree as trees
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import FastTokenizer, as_tokenizer
from canary.tokens.pattern import UnknownRuleError, parse
from canary.tokens.rules import read_rules
from canary.tokens.scanner import Level, Scanner

TEXTS = Format("{re:[abc]{5}}")
FILLS = list(TEXTS)


def check(tokenizer) -> None:
    """The tree of all texts of five letters, by rules alone, against their encodings."""
    encoder = CandidateEncoder(as_tokenizer(tokenizer), "<s>")
    encodings = encoder.candidates(TEXTS, FILLS)
    tree = trees._tree_by_rules(TEXTS, encoder, encodings)  # looks up all encodings
    assert len(set(tree.numbers([e.ids for e in encodings]).tolist())) == len(FILLS)
    said = [fill for fill in tree.fills(range(tree.size)) if fill is not None]
    assert sorted(said) == FILLS
    if tree.canonical:
        assert tree.size == len(FILLS)


@st.composite
def merges(draw):
    """Merges in any order, also such that lead to one token in two ways, or to none."""
    tokens = ["a", "b", "c"]
    found: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 12))):
        x, y = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if len(x + y) <= 5 and (x, y) not in found:
            found.append((x, y))
            tokens.append(x + y)
    return draw(st.permutations(found)), sorted({*tokens})


@settings(max_examples=60)
@given(merges(), st.booleans(), st.lists(st.text("abc", min_size=2, max_size=5), max_size=4))
def test_byte_pairs_property(found, ignore_merges, more) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    pairs, tokens = found
    vocabulary = {t: k for k, t in enumerate(["<s>", *dict.fromkeys([*tokens, *more])])}
    check(Tokenizer(BPE(vocab=vocabulary, merges=pairs, ignore_merges=ignore_merges)))


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text("abc", min_size=2, max_size=5),
        st.sampled_from([-1.0, -2.0, -2.5, -3.1]),
        max_size=9,
    )
)
def test_unigram_property(scores) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import Unigram

    pieces = [("<s>", 0.0), ("a", -1.0), ("b", -1.7), ("c", -2.0), *scores.items()]
    check(Tokenizer(Unigram(pieces, 0)))


@settings(max_examples=40)
@given(*(st.lists(st.text("abc", min_size=2, max_size=4), max_size=7) for _ in range(2)))
def test_word_pieces_property(first, within) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    marked = [f"##{text}" for text in (*"abc", *within)]
    tokens = dict.fromkeys(["<s>", "?", *"abc", *first, *marked])
    check(Tokenizer(WordPiece({t: k for k, t in enumerate(tokens)}, unk_token="?")))


def cuts(levels, text):
    """Pieces by the scanner: of all possibilities exactly one is left at the end."""
    scanner = Scanner(levels)
    ways = [((), scanner.start)]
    for number, char in enumerate(text):
        ways = [
            (read + more, after)
            for read, state in ways
            for more, after in scanner.read(state, char, first=number == 0)
        ]
    (read,) = [read for read, state in ways if scanner.ends(state)]
    pieces: list[str] = []
    for char, cut in read:
        if cut:
            pieces.append("")
        pieces[-1] += char
    return pieces


PATTERNS = [
    QWEN,
    LLAMA3,
    r"a+b|\d{2}|x",
    r"(?:ab)*c|[^a-c\s]{1,2}|b(?=c)",
    r"\s+(?!\S)|ab?c?",
]


@pytest.mark.parametrize("behavior", ["isolated", "removed", "contiguous", "merged_with_next"])
@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=60)
@given(text=st.text("ab c'reEll12\n-é²", min_size=1, max_size=12))
def test_cuts_property(pattern: str, invert: bool, behavior: str, text: str) -> None:
    from tokenizers import Regex, pre_tokenizers

    splitter = pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)
    name = "".join(part.capitalize() for part in behavior.split("_"))
    wanted = [piece for piece, _ in splitter.pre_tokenize_str(text)]
    assert cuts((Level(parse(pattern), name, invert),), text) == wanted


@pytest.mark.parametrize(
    "name",
    [
        "ByteLevel",
        "ByteLevel, space",
        "Metaspace",
        "Metaspace, first",
        "Metaspace, whole",
        "Digits",
        "Digits, together",
        "Whitespace",
        "WhitespaceSplit",
        "BertPreTokenizer",
        "Punctuation",
        "Split at a text",
        "several",
        "digits and space",
    ],
)
@settings(max_examples=60)
@given(text=st.text("ab c'1²2-.▁é", min_size=1, max_size=10))
def test_pre_tokenizers_property(name: str, text: str) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = {
        "ByteLevel": lambda p: p.ByteLevel(add_prefix_space=False),
        "ByteLevel, space": lambda p: p.ByteLevel(add_prefix_space=True),
        "Metaspace": lambda p: p.Metaspace(),
        "Metaspace, first": lambda p: p.Sequence(
            [p.Digits(individual_digits=True), p.Metaspace(prepend_scheme="first")]
        ),
        "Metaspace, whole": lambda p: p.Metaspace(split=False),
        "Digits": lambda p: p.Digits(individual_digits=True),
        "Digits, together": lambda p: p.Digits(individual_digits=False),
        "Whitespace": lambda p: p.Whitespace(),
        "WhitespaceSplit": lambda p: p.WhitespaceSplit(),
        "BertPreTokenizer": lambda p: p.BertPreTokenizer(),
        "Punctuation": lambda p: p.Punctuation("merged_with_previous"),
        "Split at a text": lambda p: p.Split("-", "merged_with_next"),
        "several": lambda p: p.Sequence([p.WhitespaceSplit(), p.Digits(True), p.Punctuation()]),
        "digits and space": lambda p: p.Sequence([p.Digits(True), p.Metaspace()]),
    }
    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    backend.pre_tokenizer = made[name](pre_tokenizers)
    rules = read_rules(FastTokenizer(backend), Format(f"{{choice:{text}}}").automaton)
    wanted = [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
    pieces = cuts(rules.levels, text)
    if name.startswith("ByteLevel"):
        one = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        pieces = ["".join(one.pre_tokenize_str(c)[0][0] for c in piece) for piece in pieces]
    assert pieces == wanted


@pytest.mark.parametrize(
    "source",
    ["^a", "a$", r"\b", "a++", "a*?", "(a)\\1", "(?<=a)b", "[a[b]]", "[a&&b]", "a{2", "(a", r"\h",
     "(?!ab)c", "a?", "(?x)a", "(?:a?)*b", "a{100}"],
)  # fmt: skip
def test_patterns_that_are_not_read_input(source: str) -> None:
    with pytest.raises(UnknownRuleError):
        parse(source)


NORMALIZERS = [
    {"type": "NFC"},
    {"type": "NFKC"},
    {"type": "Lowercase"},
    {"type": "Replace", "pattern": {"String": "-"}, "content": "_ _"},
    {"type": "Prepend", "prepend": "▁"},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
     "strip_accents": None, "lowercase": True},
]  # fmt: skip


@settings(max_examples=150)
@given(
    parts=st.lists(st.sampled_from(NORMALIZERS), max_size=3),
    text=st.text("aB é-ﬁ中Å", min_size=1, max_size=8),
)
def test_normalizers_property(parts, text: str) -> None:
    from tokenizers import Tokenizer, models

    spec = json.loads(Tokenizer(models.WordLevel({"?": 0}, unk_token="?")).to_str())
    spec["normalizer"] = {"type": "Sequence", "normalizers": parts}
    backend = Tokenizer.from_str(json.dumps(spec))
    rules = read_rules(FastTokenizer(backend), Format(f"{{choice:{text}}}").automaton)
    found = rules.lead + "".join(rules.normalized[c] for c in text)
    assert found == backend.normalizer.normalize_str(text)


def test_marks_that_join_the_letter_before_are_not_followed() -> None:
    from tokenizers import Tokenizer, models, normalizers

    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    backend.normalizer = normalizers.NFC()
    texts = Format("{choice:e\u0301|e}!").automaton
    with pytest.raises(UnknownRuleError, match="NFC"):
        read_rules(FastTokenizer(backend), texts)


def test_fills_are_few_enough_to_be_all_encoded() -> None:
    assert len(FILLS) == 3**5
    assert ["".join(t) for t in itertools.product("abc", repeat=5)] == FILLS
