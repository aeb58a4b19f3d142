"""The walks on the command line with what they cannot use: exit code, message, nothing shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import files, save_model, shows_secret, small_model

from canary.audits import extracting
from canary.corpus.canaries import CanarySet, generate
from canary.scoring.batcher import Batcher

METHODS = ("auto", "rank", "enumeration", "importance", "sampling", "skew-normal")
COMMANDS = {
    **{method: ("exposure", "model", "--method", method, "--draws", "50") for method in METHODS},
    "audit": ("audit", "model", "--force", "--out", "old", "--draws", "50"),
    "extract": ("extract", "model"),
}


def words_of(name, text, *more):
    """The words of a command for the canaries of a format."""
    first, *rest = COMMANDS[name]
    where = rest[:1] + ([text] if first == "extract" else []) + rest[1:]
    return (first, *where, "--canaries", "canaries.json", *more)


def some(text):
    made = generate(text, repetitions=[1], per_repetition=2, controls=1, seed=0)
    made.save("canaries.json", force=True)


def shows_fill(err):
    """Whether a fill stands in what was said; the speed at which weights load may be one."""
    return any(shows_secret(line) for line in err.splitlines() if "it/s]" not in line)


def refused(outcome, *fragments):
    assert outcome.code == 2, outcome.err
    assert outcome.out == ""
    message = next(line for line in outcome.err.splitlines() if line.startswith("error: "))
    for fragment in fragments:
        assert fragment in f"{message} {outcome.err.splitlines()[-1]}"
    assert "Traceback" not in outcome.err
    assert not shows_fill(outcome.err)


@pytest.fixture
def here(workplace, model):
    """The workplace with the model in it; what stood there must stand there afterwards."""
    shutil.copytree(model, "model")
    return workplace


@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_walked_exits_2_input(command, here, name):
    before = files(here / "old")
    some("Schlüssel {digit:3}")
    words = words_of(name, "Schlüssel {digit:3}", "--start-token", "none")
    refused(command(*words), "does not know 1 of the characters", "use a format")
    some("The code is {digit:3}")
    long = words_of(name, "The code is {digit:3}", "--context", "x" * 62)
    refused(command(*long), "77 tokens is longer than the 64", "shorter format or context")
    assert files(here / "old") == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_space_of_one_candidate_degenerate(command, here, name):
    text = "The code is {choice:XQZ}."
    CanarySet.from_fills(text, ["XQZ"]).save("canaries.json", force=True)
    outcome = command(*words_of(name, text, "--json"))
    if name == "skew-normal":
        refused(outcome, "too few to fit a curve", "draw more candidates")
    elif name == "extract":
        assert (outcome.code, outcome.document["proven"]) == (0, True)
        assert outcome.document["queries"] == 0
    else:
        assert outcome.code == 0
        (found,) = outcome.document["canaries"]
        assert found["exposure"]["upper_bits"] == 0.0


@pytest.mark.parametrize("name", ["rank", "importance", "sampling", "audit", "extract"])
def test_a_vocabulary_larger_than_the_tokenizers(command, here, name):
    """As models are padded to a multiple of 64: no candidate holds what no text gives."""
    from command_line import CHARACTERS

    shutil.rmtree("model")
    padded = small_model()
    padded.resize_token_embeddings(128)
    save_model(padded, Path("model"))
    some("The code is {digit:3}")
    outcome = command(*words_of(name, "The code is {digit:3}", "--json"))
    assert outcome.code == 0
    assert len(CHARACTERS) < 128
    if name == "extract":
        assert outcome.document["proven"] is True
        assert outcome.document["candidates"][0]["fill"].isdecimal()
    else:
        assert len(outcome.document["canaries"]) == 3


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_exits_130_and_leaves_nothing_half_written(command, here, name, monkeypatch):
    """In the middle of the work; extraction answers before it ends."""
    some("The code is {digit:5}")
    before = files(here)
    calls = [0]

    def stopping(method):
        def stop(self, *arguments, **options):
            calls[0] += 1
            if calls[0] > 3:
                raise KeyboardInterrupt
            return method(self, *arguments, **options)

        return stop

    for method in ("expand", "score"):
        monkeypatch.setattr(Batcher, method, stopping(getattr(Batcher, method)))
    if name == "extract":  # not while the start token is checked
        calls[0] = -(10**9)
        search = extracting.shortest_leaves

        def searched(*arguments, **options):
            calls[0] = 0
            return search(*arguments, **options)

        monkeypatch.setattr(extracting, "shortest_leaves", searched)
    more = ("--start-token", "none", "--batch-size", "8")
    more += ("--json",) if name == "extract" else ()
    outcome = command(*words_of(name, "The code is {digit:5}", *more))
    assert outcome.code == 130
    assert outcome.err.endswith("stopped; no file was left half-written\n") or (
        "the same command goes on from what is finished" in outcome.err
    )
    assert "Traceback" not in outcome.err
    assert not shows_fill(outcome.err)
    after = files(here)
    assert {key: value for key, value in after.items() if "parts/" not in key} == before
    if name == "extract":
        assert outcome.document["stopped"] == "interrupted"
        assert outcome.document["proven"] is False
    else:
        assert outcome.out == ""
