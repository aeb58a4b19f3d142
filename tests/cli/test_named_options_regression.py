"""Errors at the command line name the option that was given, in Python the argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from canary.corpus.canaries import generate
from canary.errors import InputError
from canary.gate.planning import plan

DIGITS = "code {digit:9}"
CANARIES = ("--canaries", "canaries.json")
PLAN = ("plan", DIGITS)
ATTACK = ("membership", "attack", "--shadow", "old", "--out", "x")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ("generate", DIGITS, "--out", "x.json", "--repetitions", "0"),
            "error: each of --repetitions must be a whole number of at least 1, got 0",
        ),
        ((*PLAN, "--repetitions", "0"), "error: each of --repetitions must be a whole number"),
        ((*PLAN, "--confidence", "2"), "--confidence"),
        ((*PLAN, "--max-exposure-bits", "99"), "error: --max-exposure-bits: "),
        ((*PLAN, "--exposure-bits", "99"), "error: --exposure-bits: "),
        ((*PLAN, "--exposure-bits", "nan"), "error: --exposure-bits must be a number, got nan"),
        (("verify", "old/file", *CANARIES), "tell its format; say it with --file-format: one of"),
        (
            ("verify", "canaries.json", *CANARIES),
            "error: canaries.json: is a canary set document, and a corpus was expected; name the",
        ),
        (
            ("inject", "corpus.jsonl", *CANARIES, "--out", "x.jsonl", "--separators", "a", "b"),
            "error: --separators: records of their own have no separators; leave separators (--sep",
        ),
        (
            ("inject", "corpus.jsonl", *CANARIES, "--out", "x.jsonl", "--file-format", "csv"),
            "but the corpus is csv; give it the ending of the corpus, or correct --file-format",
        ),
        ((*ATTACK, "--target", "old"), "error: old: is a folder; save the outputs as .npz"),
        (
            ("check", "canaries.json", "--max-p", "0.1"),
            "error: canaries.json: is not a canary audit document but a 'canary set'; name a",
        ),
    ],
)
def test_the_command_line_names_the_option(command, workplace, words, named):
    done = command(*words)
    assert done.code == 2
    assert named in done.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--start-token", "<x>"), "error: --start-token: the "),
        (("--start-token", "auto"), "error: --start-token: the start token is to be chosen"),
        (("--context", "\u00e9"), "error: --context: the tokenizer does not know"),
        (("--overlap", 4000), "error: --overlap: "),
        (("--top-k", 5), "--top-k given, which is for a server"),
        (("--workers", 2), "error: --workers given, and no cluster"),
    ],
)
def test_options_of_models_are_named(command, workplace, model, words, named):
    Path("texts.jsonl").write_text('{"text": "code"}\n')
    done = command("score", model, "texts.jsonl", "--out", "s.jsonl", *words)
    assert done.code == 2
    assert named in done.err


def test_python_names_the_argument():
    with pytest.raises(InputError, match="^generate: each of repetitions must be"):
        generate(DIGITS, repetitions=[0])
    with pytest.raises(InputError, match="^exposure_bits must be a number"):
        plan(DIGITS, exposure_bits=float("nan"))
