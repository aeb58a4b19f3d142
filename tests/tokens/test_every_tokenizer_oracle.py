"""Trees of every kind of tokenizer against brute force: all fills encoded."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from trained import KINDS, ignoring_merges, trained
from tree_paths import paths
from walk_cases import tied_tokenizer

from canary.errors import CanaryError, ModelError, UnsupportedError
from canary.formats.format import Format
from canary.tokens import tree as trees
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.machines import Table
from canary.tokens.tree import MISSING, compile_tree, leaf_numbers

WORDS = ["red", "green", "blue", "north", "east", "secret", "number", "mail"]
FORMATS = [
    "The code is {digit:3}",
    "number {choice:28|5|123|1234|007}.",  # fills of several lengths, a terminator
    "is{choice: 28| 5| 123| a|b}.",  # a token may swallow the boundary
    "mail {re:[0-2]}{digit:1}-{digit:1}",  # text between holes
    "code {hex:2} end",
    "{choice:red|green|blue} {digit:1} {digit:1}",
    "north {word:2}",
    "secret {choice:naïve|café|привет|Zürich}",  # several bytes a character
    "it{choice:'s|'ll|'ve|'re|'r| is|  is|s|'rex} {digit:1}",  # the pattern looks ahead
    "x  {choice:1|12|a|  a|b  } {digit:1}  y",
    "The {re:[A-C]{1}\\d{1,2}}!",
    "a {choice:a|ab|abc|abcd}!",  # one fill begins another
]
# What a tokenizer cannot say, or tell apart, is an error.
WITHOUT = {
    "wordpiece": {8, 9},
    "wordpiece, lower case": {8, 9},
    "words": {2, 4, 6, 7, 8, 9, 10, 11},
    "characters": {7, 8, 10, 11},
}


def check(format, encoder, tree):
    """The canonical leaves are the encodings of all fills, each once, and say so."""
    fills = list(format)
    rows = [e.ids for e in encoder.candidates(format, fills)]
    leaves = paths(tree)
    assert len(set(leaves)) == len(leaves) == tree.size
    numbers = tree.numbers(rows)
    assert (numbers != MISSING).all()
    assert [leaves[n] for n in numbers.tolist()] == rows
    if tree.canonical:
        assert len(leaves) == len(rows)
    some = range(0, len(fills), max(1, len(fills) // 1_000))
    assert tree.fills(numbers[some]) == [fills[k] for k in some]
    others = np.setdiff1d(np.arange(tree.size), numbers)
    assert set(tree.fills(others)) <= {None}
    assert tree.row(int(numbers[-1])) == rows[-1]
    # The root is the first token that depends on the fill.
    shared = len(rows[0])
    for row in rows[1:]:
        same = [a == b for a, b in zip(rows[0], row, strict=False)]
        shared = min(shared, next((k for k, s in enumerate(same) if not s), len(same)))
    if tree.canonical and len(rows) > 1:
        assert tree.context.tolist() == list(rows[0][:shared])


def by_rules(format, encoder):
    """The tree that the tokenizer's own rules give, without any other way out."""
    fills = list(format)[:: max(1, format.size // 200)]
    return trees._tree_by_rules(format, encoder, encoder.candidates(format, fills))


def a_format(text):
    return Format(text, words=WORDS) if "{word" in text else Format(text)


def an_encoder(name, text):
    start = "code " if text.startswith("{") or name == "deepseek" else ""
    return CandidateEncoder(as_tokenizer(trained(name)), None, start)


def halves(*, slow):
    """Every second format for each kind of tokenizer, or the others with --slow."""
    both = itertools.product(enumerate(KINDS), range(len(FORMATS)))
    return [(name, number) for (k, name), number in both if (k + number) % 2 == slow]


@pytest.mark.parametrize(
    ("name", "number"),
    [*halves(slow=0), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in halves(slow=1))],
)
def test_paths_oracle(name: str, number: int) -> None:
    format, encoder = a_format(FORMATS[number]), an_encoder(name, FORMATS[number])
    if number in WITHOUT.get(name, ()):
        with pytest.raises(ModelError, match=r"does not know|the same tokens"):
            compile_tree(format, encoder)
        return
    check(format, encoder, by_rules(format, encoder))
    if number % 4 == 0:
        assert compile_tree(format, encoder).certificate.startswith("certified")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["The code is {digit:5}", "mail {digit:3}-{digit:2}.", "{hex:4}"])
@pytest.mark.parametrize("name", KINDS)
def test_a_hundred_thousand_paths_oracle(name: str, text: str) -> None:
    if name == "words":
        text = "The code is {digit:4}-{digit:1}"
    format, encoder = Format(text), an_encoder(name, text)
    check(format, encoder, by_rules(format, encoder))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpt2, many numbers", "{digit:9}"),
        ("llama2", "{digit:3}-{digit:2}-{digit:4}"),
        ("wordpiece", "{digit:9}"),
        ("llama3", "{credit_card}"),
    ],
)
def test_large_spaces_are_certified(name: str, text: str) -> None:
    format = Format(f"The code is {text}.")
    encoder = an_encoder(name, text)
    tree = compile_tree(format, encoder)
    assert tree.size == format.size
    assert tree.certificate.endswith("and there are as many paths as fills")
    some = format.sample(500, rng=np.random.default_rng(5))
    numbers = tree.numbers([e.ids for e in encoder.candidates(format, some)])
    assert tree.fills(numbers) == some


def test_a_count_alone_certifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the encodings of pairs, abc has no path (ab is a token) and xyz has two."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    vocabulary = {t: k for k, t in enumerate([*"abcxyz", "ab", "xyz", "<s>"])}
    backend = Tokenizer(BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    encoder, format = CandidateEncoder(as_tokenizer(backend), "<s>"), Format("{choice:abc|xyz}")
    own = {tuple(vocabulary[t] for t in ("<s>", *row)) for row in ("abc", ["xyz"])}
    assert set(paths(compile_tree(format, encoder))) == own

    def naive(tokens, _merges, **_):
        names = ["".join(token) for token in tokens]
        follow = [
            [j if (a, b) in {("x", "y"), ("y", "z")} else -1 for j, b in enumerate(names)]
            for a in names
        ]
        every = np.arange(len(names), dtype=np.int32)
        return Table(every, np.array(follow, np.int32), np.ones(len(names), bool))

    monkeypatch.setattr(trees, "bpe_machine", naive)  # such a tree is found out
    with pytest.raises(trees.UnknownRuleError, match="not in the tree"):
        by_rules(format, encoder)
    tree = compile_tree(format, encoder)  # from the encodings of all fills
    assert set(paths(tree)) == own
    assert tree.certificate == "certified: all 2 fills were encoded"


@pytest.mark.parametrize("odd", [("Ġ12", "123", "Ġ12345"), ("12-", "Ġ-1", "3-4", "11", "-2")])
def test_tokens_that_no_merges_lead_to_oracle(odd: tuple[str, ...]) -> None:
    """With `ignore_merges` a piece that is such a token is that token; it is none else."""
    encoder = CandidateEncoder(as_tokenizer(ignoring_merges(trained("gpt2"), odd)))
    for text in (
        "The code is {digit:3}",
        "code {digit:1}-{digit:2}",
        "is{choice: 12345| 12| 123}!",
    ):
        check(Format(text), encoder, by_rules(Format(text), encoder))


def test_ties_are_told_apart_when_leaves_are_encoded_again() -> None:
    encoder = CandidateEncoder(tied_tokenizer(), context="!")
    format = Format("{re:[ab]{4}}!")
    tree = compile_tree(format, encoder)
    assert not tree.canonical
    assert tree.size > format.size
    assert tree.certificate.endswith("leaves that re-encode differently are left out")
    check(format, encoder, tree)


def test_leaves_below_a_long_context_are_those_of_whole_texts_oracle() -> None:
    """They are found by the ends of texts; most tokenizers are spared the context."""
    spared = []
    for k, name in enumerate(KINDS):
        text, context = (
            ("The code is {re:[0-9][0-3]{2}}", "code: 12 the " * 9),
            ("is{choice: 28| 5| 123| a|b}.", "the secret number is red and the mail " * 4),
        )[k % 2]
        format = Format(text)
        try:
            encoder = CandidateEncoder(as_tokenizer(trained(name)), None, context)
            tree, fills = compile_tree(format, encoder), list(format)
        except CanaryError:
            continue  # a tokenizer that does not know some character
        whole = tree.numbers([e.ids for e in encoder.candidates(format, fills)])
        by_tails = trees._numbers_by_tails(tree, format, encoder, fills)
        there = by_tails != MISSING
        np.testing.assert_array_equal(by_tails[there], whole[there])
        np.testing.assert_array_equal(leaf_numbers(tree, format, encoder, fills), whole)
        if tree.canonical and len(tree.context) >= 48:
            spared.append(there.mean())
    assert len(spared) > 5
    assert np.mean(spared) > 0.5


def test_unused_and_special_tokens_are_no_children() -> None:
    """Not even where their text stands in no candidate but their pieces would fit."""
    from tokenizers import Tokenizer

    spec = json.loads(trained("gpt2").to_str())
    added = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    spec["added_tokens"].append({"id": 100, "content": "unheard of", "special": True, **added})
    names = {number: token for token, number in spec["model"]["vocab"].items()}
    spec["model"]["vocab"]["unheard of"] = spec["model"]["vocab"].pop(names[100])
    tokenizer = as_tokenizer(Tokenizer.from_str(json.dumps(spec)))
    never = {t["id"] for t in spec["added_tokens"]}
    tree = compile_tree(Format("The code is {digit:3}"), CandidateEncoder(tokenizer))
    assert not never & {*tree.tokens.tolist(), *tree.forced.tolist()}


def with_unicode_scripts(backend, pre_tokenizers):
    scripts = [pre_tokenizers.UnicodeScripts(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    backend.pre_tokenizer = pre_tokenizers.Sequence(scripts)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda backend, _: backend.add_tokens(["77"]), "an added token"),
        (with_unicode_scripts, "its pre-tokenizer UnicodeScripts"),
    ],
)
def test_where_rules_do_not_serve_small_spaces_are_listed_input(change, told) -> None:
    """Small spaces are encoded one by one, large ones refused."""
    from tokenizers import Tokenizer, pre_tokenizers

    backend = Tokenizer.from_str(trained("gpt2").to_str())
    change(backend, pre_tokenizers)
    encoder = CandidateEncoder(as_tokenizer(backend))
    small = Format("The code is {digit:3}")
    tree = compile_tree(small, encoder)
    assert tree.certificate == "certified: all 1,000 fills were encoded"
    check(small, encoder, tree)
    with pytest.raises(UnsupportedError, match=told) as caught:
        compile_tree(Format("The code is {digit:9}"), encoder)
    assert 'method="sampling"' in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "start", "context"),
    [
        *((name, "The code is {choice:123}.", None, "") for name in ("gpt2", "wordpiece")),
        ("gpt2", "{re:[0-4]{3}} end", "<s>", "The code is "),
    ],
)
def test_one_fill_and_what_comes_before_the_root(name, text, start, context) -> None:
    format, encoder = Format(text), CandidateEncoder(as_tokenizer(trained(name)), start, context)
    tree = compile_tree(format, encoder)
    check(format, encoder, tree)
    assert (tree.queries() == 0) == (format.size == 1)
    assert tuple(tree.context[: len(encoder.start)]) == encoder.start


def test_rows_that_are_not_in_the_tree_have_no_number() -> None:
    format = Format("{choice:red|green|blue} end of it")
    encoder = an_encoder("gpt2", format.text)
    tree = compile_tree(format, encoder)
    row = [*encoder.candidates(format, ["red"])[0].ids]
    assert (np.diff(tree.forced_offsets) > 0).any()
    for at in range(len(row)):
        assert tree.numbers([[*row[:at], 1, *row[at + 1 :]]]).tolist() == [MISSING]
    assert tree.numbers([row[:-1], [*row, 5], [], row]).tolist()[:3] == [MISSING] * 3
    assert tree.fills([tree.numbers([row])[0]]) == ["red"]
