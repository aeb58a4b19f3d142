"""Servers that return only text, and hide what their model writes: what the page says of them."""

from __future__ import annotations

import json
from pathlib import Path

from fake_server import FakeServer
from small_models import build
from wrong_setups import Setups, lines, of_command, test_all_are_made, test_is_said  # noqa: F401

import canary

made = Setups()
TABLE = lines("Servers that return only text")
COUNT = 6


def text(kind, number):
    return " ".join(f"{kind}{number}w{at}" for at in range(10))


def sampled(desk, said, samples=1, *, known="t", others=list, cut=()):
    """What a check says where `said(rest, turn)` answers a prompt that goes on with `rest`.

    It does so of the `known` kind. The controls are what `others` makes of them. Answers that are
    `cut` by these options say so.
    """
    for kind in ("texts", "controls"):
        texts = [text(kind[0], number) for number in range(COUNT)]
        texts = others(texts) if kind == "controls" else texts
        Path(f"{kind}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    with FakeServer(build("table")) as server:

        def answered(_, body):
            prompt, turn = str(body["prompt"]), server.count()
            kind, drawn = prompt[:1], turn if body["temperature"] else 0
            rest = f"{drawn} other words that the model made up today"
            if prompt[1:2].isdigit():
                rest = text(kind, int(prompt[1])).removeprefix(prompt).strip()
                rest = said(rest if kind == known else f"{turn} b c d e f", turn)
            return {"choices": [{"text": rest, "finish_reason": "length" if cut else "stop"}]}

        server.sampled = answered
        drawn = ("--samples", samples, *(("--temperature", 0) if samples == 1 else ()))
        done = desk.command(
            *("sample", server.url, "--texts", "texts.jsonl", "--controls", "controls.jsonl"),
            *("--prefix", 4, "--suffix", 6, "--out", "s", "--force", *drawn, *cut),
        )
    if done.code:
        return of_command(done)
    limits = ("--max-extractable", 0.6, "--trust-members")
    return of_command(desk.command("check", "s/samples.json", *limits))


@made("S1")
def _cut_short(desk):
    return sampled(desk, lambda rest, turn: " ".join(rest.split()[:3]))


@made("S2")
def _emptied(desk):
    return sampled(desk, lambda rest, turn: "")


@made("S3")
def _reasoning(desk):
    return sampled(desk, lambda rest, turn: f"<think>The user wants {turn} words, and it is long")


@made("S4")
def _refused(desk):
    said = "I'm sorry, but I cannot go on with text number {}, whatever it may be about"
    return sampled(desk, lambda rest, turn: said.format(turn))


@made("S5")
def _cached(desk):
    """Each prompt has an answer of its own, always the same."""
    return sampled(desk, lambda rest, turn: f"{rest[::-1]} and so on to the end", samples=59)


@made("S6")
def _beginnings_cut(desk):
    return sampled(desk, lambda rest, turn: f"{rest[3:]} and {turn} words more behind them")


@made("S7")
def _texts_in_lower_case(desk):
    said = "{} words of its own that it goes on with each time, and they are long ones"
    return sampled(
        desk,
        lambda rest, turn: said.format(turn),
        others=lambda own: [f"{each[:-4]}{each[-4:].upper()}" for each in own],
    )


@made("S8")
def _few_tokens(desk):
    """Answers begin with other words, and the limit ends them."""
    said, few = "{} other words", ("--max-tokens", 4)
    return sampled(desk, lambda rest, turn: said.format(turn), cut=few)


@made("S9")
def _digits_masked(desk):
    """The server writes planted secrets, and a filter puts a star in place of each digit."""
    planted = canary.generate("pin {digit:6}", repetitions=[9], per_repetition=60, seed=1)
    planted.save("planted.json")
    with FakeServer(build("table")) as server:

        def answered(_, body):
            text = f"{planted.injected[server.count() % 60].fill} and {server.count()}"
            masked = "".join("*" if letter.isdigit() else letter for letter in text)
            words = ["and", "then", "one", "two", "three", "four", "five", "six", "seven"]
            return {"choices": [{"text": f"{masked} {words[server.count() % 9]}"}]}

        server.sampled = answered
        asked = ("--canaries", "planted.json", "--samples", 60, "--out", "s", "--force")
        done = desk.command("sample", server.url, *asked)
    assert done.code == 0, done.err
    few = desk.command("check", "s/samples.json", "--max-extractable", 0.01, "--trust-members")
    assert "switch that filter off" in few.out
    assert "plant more" not in few.out
    limits = ("--max-extractable", 0.2, "--trust-members")
    return of_command(desk.command("check", "s/samples.json", *limits))


@made("S10")
def _backwards(desk):
    return sampled(desk, lambda rest, turn: f"{turn} {rest}"[::-1])


@made("S11")
def _another_set(desk):
    """The server writes four secrets that the given set lacks."""
    own, given = (
        canary.generate("pin {digit:6}", repetitions=[9], per_repetition=4, seed=seed)
        for seed in (1, 2)
    )
    given.save("given.json")
    with FakeServer(build("table")) as server:

        def answered(_, body):
            turn = server.count() if body["temperature"] else 0
            return {"choices": [{"text": f"{own.injected[turn % 4].fill} and {turn} more words"}]}

        server.sampled = answered
        asked = ("--canaries", "given.json", "--samples", 72, "--out", "s", "--force")
        done = desk.command("sample", server.url, *asked)
    assert done.code == 0, done.err
    limits = ("--max-extractable", 0.9, "--trust-members")
    return of_command(desk.command("check", "s/samples.json", *limits))


def test_swapped_files_are_seen_as_by_verbatim(desk):
    found = sampled(desk, lambda rest, turn: f"{rest} {turn} and so on", known="c")
    assert found.outcome == "Undecided"
    assert "the controls come out more often than the texts" in found.text


def test_a_text_among_the_controls_is_an_error_as_of_verbatim(desk):
    found = sampled(desk, lambda rest, turn: rest, others=lambda own: [text("t", 1), *own])
    assert found.outcome == "Error"
    assert "a passage of control 1 is in text 2" in found.text


def test_a_server_that_hides_nothing_passes(desk):
    found = sampled(desk, lambda rest, turn: f"{turn} words that are in none of the texts at all")
    assert found.outcome == "Note"
    assert "the texts were in the training data is your word" in found.text
    found.fits_none(TABLE)
