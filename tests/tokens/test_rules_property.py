"""Rules of tokenizers, each against the tokenizer itself, on random models and patterns."""

from __future__ import annotations

import json

import numpy as np
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

TEXTS = Format("{re:[ab]{7}}")
FILLS = list(TEXTS)
MODELS = 30  # two letters only, so that tokens cross and nest in every way


def check(tokenizer, *, pieces=None) -> None:
    """The tree of all texts of seven letters, by rules alone, against their encodings.

    Only ways to cut a text that score as much may stand in it besides.
    """
    encoder = CandidateEncoder(as_tokenizer(tokenizer), "<s>")
    encodings = encoder.candidates(TEXTS, FILLS)
    tree = trees._tree_by_rules(TEXTS, encoder, encodings)  # looks up all encodings
    numbers = tree.numbers([e.ids for e in encodings])
    assert tree.fills(numbers) == FILLS
    others = np.setdiff1d(np.arange(tree.size), numbers)
    assert set(tree.fills(others)) <= {None}
    if pieces is None:
        assert tree.canonical
        assert tree.size == len(FILLS)
        return
    best = {fill: score(e.ids, pieces) for fill, e in zip(FILLS, encodings, strict=True)}
    for number in others.tolist():
        row = tree.row(number)
        text = "".join(pieces[token][0] for token in row[1:])
        assert score(row, pieces) == pytest.approx(best[text], abs=1e-5)


def score(row, pieces):
    return sum(pieces[token][1] for token in row)


def some_texts(rng: np.random.Generator, most: int, longest: int) -> list[str]:
    """Different texts of two letters or more."""
    lengths = rng.integers(2, longest + 1, int(rng.integers(0, most + 1)))
    return list(dict.fromkeys("".join(rng.choice(list("ab"), k)) for k in lengths))


def some_merges(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Merges in any order, also such that lead to one token in two ways, or to none."""
    tokens, found = ["a", "b"], dict[tuple[str, str], None]()
    for _ in range(int(rng.integers(1, 16))):
        x, y = str(rng.choice(tokens)), str(rng.choice(tokens))
        if len(x + y) <= 6:
            found[x, y] = None
            tokens.append(x + y)
    order = list(found)
    if rng.random() < 0.5:
        rng.shuffle(order)
    return [(str(x), str(y)) for x, y in order]


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_byte_pairs_property(ignore_merges: bool) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    rng = np.random.default_rng(1)
    for _ in range(MODELS):
        pairs = some_merges(rng)
        tokens = ["<s>", "a", "b", *(x + y for x, y in pairs), *some_texts(rng, 4, 7)]
        vocabulary = {token: k for k, token in enumerate(dict.fromkeys(tokens))}
        check(Tokenizer(BPE(vocab=vocabulary, merges=pairs, ignore_merges=ignore_merges)))


@pytest.mark.parametrize("ties", [False, True])
def test_unigram_property(ties: bool) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import Unigram

    rng = np.random.default_rng(2)
    for _ in range(MODELS):
        texts = ["a", "b", *some_texts(rng, 12, 5)]
        scores = -rng.uniform(1, 3, len(texts)) - [0.6 * len(text) for text in texts]
        scores = np.round(scores, 0 if ties else 9).tolist()
        pieces = [("<s>", 0.0), *zip(texts, scores, strict=True)]
        check(Tokenizer(Unigram(pieces, 0)), pieces=pieces)


def test_word_pieces_property() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    rng = np.random.default_rng(3)
    for _ in range(MODELS):
        marked = [f"##{text}" for text in ("a", "b", *some_texts(rng, 9, 6))]
        tokens = dict.fromkeys(["<s>", "?", "a", "b", *some_texts(rng, 9, 6), *marked])
        check(Tokenizer(WordPiece({t: k for k, t in enumerate(tokens)}, unk_token="?")))


def cuts(levels, text):
    """Pieces by the scanner: of all possibilities exactly one is left at the end."""
    scanner = Scanner(levels)
    ways = [((), scanner.start)]
    for number, char in enumerate(text):
        ways = [
            (read + more, after)
            for read, state in ways
            for more, after in scanner.read(state, char, begins=number == 0, first=number == 0)
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
@settings(max_examples=20)
@given(text=st.text("ab c'reEll12\n-é²", min_size=1, max_size=12))
def test_cuts_property(pattern: str, invert: bool, behavior: str, text: str) -> None:
    from tokenizers import Regex, pre_tokenizers

    splitter = pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)
    name = "".join(part.capitalize() for part in behavior.split("_"))
    wanted = [piece for piece, _ in splitter.pre_tokenize_str(text)]
    assert cuts((Level(parse(pattern), name, invert),), text) == wanted


PRE_TOKENIZERS = {
    "ByteLevel": lambda p: p.ByteLevel(add_prefix_space=False),
    "ByteLevel, space": lambda p: p.ByteLevel(add_prefix_space=True),
    "Metaspace": lambda p: p.Metaspace(),
    "Metaspace, first": lambda p: p.Sequence([p.Digits(True), p.Metaspace(prepend_scheme="first")]),
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


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
@settings(max_examples=20)
@given(text=st.text("ab c'1²2-.▁é", min_size=1, max_size=10))
def test_pre_tokenizers_property(name: str, text: str) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    backend.pre_tokenizer = PRE_TOKENIZERS[name](pre_tokenizers)
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


@settings(max_examples=60)
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
    found = rules.leads[0] + "".join(rules.normalized[c] for c in text)
    assert found == backend.normalizer.normalize_str(text)
