"""`canary extract`: candidates in clear on stdout and nowhere else, and how it ends."""

from __future__ import annotations

import io

import pytest
from command_line import CHARACTERS, small_model
from tokenizers import Tokenizer
from tokenizers.models import BPE

from canary.cli.main import run
from canary.corpus.canaries import CanarySet, generate
from canary.formats.format import Format
from canary.scoring.batcher import Batcher

TEXT = "The code is {upper:3}"


def fills_of(lines):
    """The fills of the lines that stdout shows, below their heading."""
    return [line.rsplit(" ", 1)[1] for line in lines[1:]]


def test_stdout_shows_the_result_and_stderr_no_candidate(command, model):
    shown = command("extract", model, TEXT, "--top", "4")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].split() == [
        *("place", "Px,", "bits", "exposure,", "bits", "order", "proven"),
        *("queries", "candidate"),
    ]
    assert max(map(len, lines[:5])) <= 80
    fills = fills_of(lines[:5])
    assert len(fills) == 4
    assert all(fill in Format(TEXT) for fill in fills)
    assert [line.split()[0] for line in lines[1:5]] == ["1", "2", "3", "4"]
    assert "Proven (to within the model's noise" in shown.out
    assert "guessing at random takes 8,788 guesses on average" in shown.out
    assert not any(fill in shown.err for fill in fills)

    document = command("extract", model, TEXT, "--top", "4", "--json")
    found = document.document
    assert found["kind"] == "canary extraction"
    assert [c["fill"] for c in found["candidates"]] == fills
    assert found["proven"] is True
    assert found["queries"] >= max(c["found_after"] for c in found["candidates"])
    assert not any(fill in document.err for fill in fills)


def test_canaries_are_named_and_completed(command, model, workplace):
    best = command("extract", model, TEXT, "--top", "2", "--json").document["candidates"]
    fills = [best[1]["fill"], "ABC", best[0]["fill"]]
    CanarySet.from_fills(TEXT, fills).save("found.json")
    ids = {c.fill: c.id for c in CanarySet.load("found.json")}
    words = ("extract", model, TEXT, "--top", "2", "--canaries", "found.json", "--known", "2")
    shown = command(*words)
    assert shown.code == 0
    # Behind the name stands the candidate: four words.
    named = [line.split()[-5] for line in shown.out.splitlines()[1:3]]
    assert named == [ids[best[0]["fill"]], ids[best[1]["fill"]]]
    assert "Completed from the first 2 characters:" in shown.out
    completed = shown.out.partition("Completed")[2]
    first = [line.split()[0] for line in completed.splitlines() if line.strip()]
    assert [name for name in first if name in ids.values()] == [ids[fill] for fill in fills]
    made = command(*words, "--json").document["completions"]
    assert [(c["secret"], c["known"]) for c in made] == [(ids[fill], 2) for fill in fills]
    assert "Controls" not in shown.out
    # Said where there is something to explain, and only there.
    differ = any(c["greedy"] != c["beam"] for c in made)
    assert ("Greedy search takes the likeliest next token" in shown.out) == differ
    generate(TEXT, repetitions=[1], per_repetition=1, controls=1, seed=0).save("drawn.json")
    shown = command("extract", model, TEXT, "--canaries", "drawn.json", "--known", "2")
    assert "control-1" in shown.out
    assert "Controls were never in the corpus" in shown.out


def test_an_ended_budget_is_an_answer(command, model):
    shown = command("extract", model, TEXT, "--budget", "40", "--batch-size", "4")
    assert shown.code == 0
    assert "until the budget was spent" in shown.out
    assert "bits (to within" in shown.out or "Nothing found" in shown.out
    shown = command("extract", model, TEXT, "--budget", "1", "--batch-size", "1")
    assert shown.code == 0
    assert "Nothing found within the budget of 1 query; give a larger --budget" in shown.out


def test_an_unforeseen_error_exits_70_and_says_no_secret(command, model, workplace, monkeypatch):
    def fail(self, *arguments, **options):
        raise RuntimeError("The code is ABC")

    monkeypatch.setattr(Batcher, "expand", fail)
    outcome = command("extract", model, TEXT)
    assert outcome.code == 70
    assert "ABC" not in outcome.err


def test_formats_with_words_of_their_own_come_from_the_set(command, model, workplace):
    own = Format("The code is {word:2}.", words=["Alpha", "Beta", "Gamma"])
    CanarySet.from_fills(own, ["Beta Gamma"]).save("words.json")
    words = ("extract", model, own.text, "--canaries", "words.json", "--top", "9", "--json")
    found = command(*words).document
    assert found["space_size"] == 9
    assert sum(c["canary"] is not None for c in found["candidates"]) == 1


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "\\xe9"), ("utf-8", "é")])
def test_any_terminal_can_take_what_is_printed(tmp_path, monkeypatch, encoding, shown):
    """The space of this format has an accent."""
    from transformers import PreTrainedTokenizerFast

    vocabulary = {c: i for i, c in enumerate(CHARACTERS.replace("Z", "é"))}
    small_model().save_pretrained(tmp_path / "m")
    backend = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path / "m")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", terminal)
    words = ("extract", str(tmp_path / "m"), "The code is {choice:é|e}", "--top", "2")
    assert run(words) == 0
    assert f"The code is {shown}" in terminal.buffer.getvalue().decode(encoding)
