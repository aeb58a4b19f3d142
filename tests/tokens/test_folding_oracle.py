"""Whether a tokenizer that replaces characters keeps fills apart, against all fills."""

from __future__ import annotations

import itertools
import random

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from canary.audits.auditing import audit
from canary.corpus.canaries import generate
from canary.errors import ModelError
from canary.formats.format import Format
from canary.models.table_model import TableModel
from canary.tokens.candidates import CandidateEncoder, check_kept_apart
from canary.tokens.fast import as_tokenizer

LETTERS = [chr(code) for code in range(32, 127)]


def letters(normalizer=None):
    backend = Tokenizer(models.BPE({c: i for i, c in enumerate(LETTERS)}, []))
    if normalizer is not None:
        backend.normalizer = normalizer
    return as_tokenizer(backend)


def refused(text) -> bool:
    try:
        check_kept_apart(Format(text), CandidateEncoder(letters(normalizers.Lowercase())))
    except ModelError:
        return True
    return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the key is {base64:12}", True),  # 2^72: no two of some thousand draws collide
        ("the key is {alnum:40}", True),
        ("the key is {upper:12}", False),
        ("the key is {letter:3}{upper:3}{digit:9}", False),
        ("is {choice:Polish|polish} so", True),
        ("is {choice:Polish|polishes} so", False),
        ("is {choice:Ab|aB|c}", True),
        ("is {re:[A-Z]{4}[a-z]{4}}", False),
        ("is {re:([A-Z]{2}|[a-z]{2})\\d{20}}", True),
    ],
)
def test_large_spaces_golden(text, expected):
    assert refused(text) is expected


def test_against_all_fills_oracle():
    words = ["".join(word) for k in (2, 3) for word in itertools.product("aAbB", repeat=k)]
    for seed in range(40):
        rng = random.Random(seed)
        chosen = sorted(rng.sample(words, rng.randint(2, 7)))
        text = "x{choice:" + "|".join(chosen) + "}."
        assert refused(text) is (len({word.lower() for word in chosen}) < len(chosen))


def test_an_audit_refuses_before_it_draws_regression():
    tokenizer = letters(normalizers.Lowercase())
    model = TableModel.ngram({(): [-5.0] * len(LETTERS)}, tokenizer)
    canaries = generate("the key is {base64:12}", repetitions=[1], controls=1, seed=0)
    for method in ("auto", "sampling"):
        with pytest.raises(ModelError, match="the same tokens"):
            audit(model, canaries, method=method, draws=100)


def test_who_keeps_all_characters_or_knows_whole_words_is_let_through():
    check_kept_apart(Format("a {base64:40}"), CandidateEncoder(letters()))
    words = Tokenizer(models.WordLevel({"is": 0, "red": 1, "blue": 2, "?": 3}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    check_kept_apart(Format("is {choice:red|blue}"), CandidateEncoder(as_tokenizer(words)))
