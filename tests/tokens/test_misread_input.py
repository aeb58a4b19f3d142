"""Contexts and formats that a tokenizer may not read as they are meant: each gets a note."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from trained import trained

import canary
from canary.formats.format import Format
from canary.models.table_model import TableModel
from canary.plugins.monitor import ExposureMonitor
from canary.tokens.candidates import CandidateEncoder, misread
from canary.tokens.fast import as_tokenizer
from canary.tokens.pattern import UnknownRuleError
from canary.tokens.rules import read_rules
from canary.tokens.tree import compile_tree

CHAT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def tokenizer(*, bos=False):
    from tokenizers import Tokenizer, processors

    made = Tokenizer.from_str(trained("qwen").to_str())
    made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    if bos:
        number = made.token_to_id("<|im_start|>")
        made.post_processor = processors.TemplateProcessing(
            single="<|im_start|> $A", special_tokens=[("<|im_start|>", number)]
        )
    return made


def notes(context, format="The code is {digit:3}", made=None, start=None):
    encoder = CandidateEncoder(as_tokenizer(made or tokenizer()), start, context)
    return misread(encoder, Format(format))


ORDINARY = "The {} holds {}, which is ordinary text to this tokenizer; its special tokens"


@pytest.mark.parametrize(
    ("context", "format", "where", "name"),
    [
        (CHAT, "The code is {digit:3}", None, None),
        (CHAT, "Is {digit:3}<|im_end|>", None, None),
        ("", "a < b |> c [x] <b>{digit:3}", None, None),
        ("<s>", "The {digit:3}", None, None),  # a token of this tokenizer
        (CHAT.replace("start", "strat"), "The {digit:3}", "context", "<|im_strat|>"),
        ("[INST] What? [/INST]", "The {digit:3}", "context", "[INST]"),
        ("<bos>x", "The {digit:3}", "context", "<bos>"),
        ("", "<|eot_id|>The {digit:3}", "format", "<|eot_id|>"),
        (CHAT, "The {digit:3}<|im_ends|>", "format", "<|im_ends|>"),
    ],
)
def test_what_looks_like_a_special_token_and_is_none(context, format, where, name) -> None:
    found = notes(context, format)
    if name is None:
        assert found == ()
        return
    assert found[0].startswith(ORDINARY.format(where, name))
    assert "<|im_start|>" in found[0]


def test_a_tokenizer_saved_without_its_added_tokens() -> None:
    made = trained("qwen")
    spec = json.loads(made.to_str()) | {"added_tokens": []}
    (first, *rest) = notes(CHAT, made=made.from_str(json.dumps(spec)))
    assert "<|im_start|>, which is ordinary text to this tokenizer; it has no special" in first
    assert len(rest) == 1


def test_what_is_read_twice_or_across_the_end_of_the_context() -> None:
    twice = "already puts the first token of the context"
    assert f"tokenizer {twice}" in notes(CHAT, made=tokenizer(bos=True))[0]
    assert "start token already puts" in notes(CHAT, start="<|im_start|>")[0]
    assert notes(CHAT.removeprefix("<|im_start|>"), made=tokenizer(bos=True)) == ()
    assert "One token covers the end of the context" in notes("The ", "number {digit:3}")[0]
    assert notes("The", " number {digit:3}") == ()


def test_audit_extraction_and_monitor_say_it(caplog) -> None:
    from tokenizers import Tokenizer, models

    context = "<|im_strat|>"
    letters = {c: k for k, c in enumerate(dict.fromkeys(f"0123456789a{context}"))}
    seam = as_tokenizer(Tokenizer(models.BPE(vocab=letters, merges=[])))
    size = len(letters)
    model = TableModel(np.zeros((1, size), int), np.full((1, size), -np.log(size)), seam)
    canaries = canary.generate("a{digit:2}", repetitions=[1], per_repetition=1, controls=1, seed=0)
    wanted = "The context holds <|im_strat|>, which is ordinary text"
    assert wanted in canary.audit(model, canaries, context=context).notes[0]
    assert wanted in canary.extract(model, "a{digit:2}", context=context).notes[0]
    with caplog.at_level(logging.WARNING):
        ExposureMonitor(canaries, tokenizer=seam, context=context)
    assert wanted in caplog.text


def test_special_tokens_that_are_split_stay_so() -> None:
    """No file says it: `split_special_tokens` of transformers is a property of the backend."""
    made = tokenizer()
    made.encode_special_tokens = True
    encoder = CandidateEncoder(as_tokenizer(made), None, CHAT)
    (encoding,) = encoder.encode(["The code is 1"])
    assert list(encoding.ids) == made.encode(CHAT + "The code is 1").ids
    assert made.token_to_id("<|im_start|>") not in encoding.ids
    assert as_tokenizer(made).fingerprint != as_tokenizer(tokenizer()).fingerprint
    assert "splits as ordinary text (split_special_tokens)" in notes(CHAT, made=made)[0]
    tree = compile_tree(Format("The code is {digit:2}"), encoder)
    assert tree.certificate == "certified: all 100 fills were encoded"
    with pytest.raises(UnknownRuleError, match="special tokens whose names it splits"):
        read_rules(as_tokenizer(made), Format(r"{re:<\|im_end\|>\d}").automaton)
    assert read_rules(as_tokenizer(made), Format("{digit:3}").automaton).head == ""
