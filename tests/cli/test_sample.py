"""`canary sample`: what it writes and says, and that it holds no text."""

from __future__ import annotations

import json
import re

import pytest
from fake_server import FakeServer
from small_models import build

import canary
from canary.passages.sampled import Sampled


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    canary.generate("pin is {digit:2}", repetitions=[2], per_repetition=4, controls=4, seed=4).save(
        "canaries.json"
    )
    for name, word in (("train", "code"), ("other", "number")):
        rows = [{"text": f"the {word} is {n} and {7 * n} of {n}"} for n in range(6)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tmp_path


def digits(server, number, right):
    """All two-digit numbers, or the end of a text, one in each answer."""
    (choice,) = right["choices"]
    said = f"{number % 100:02}" if "pin" in str(server.bodies[-1]) else "0 and 0 of 0"
    said = said if number > 4 else str(number)
    said = {"text": said, "message": {"content": said}, "finish_reason": "stop"}
    return {**right, "choices": [{**choice, **said}]}


@pytest.mark.parametrize(
    ("words", "label", "code"),
    [
        (("--canaries", "canaries.json", "--samples", "110"), "a warning, and no proof", 0),
        (("--canaries", "canaries.json", "--samples", "2"), "No planted secret came out", 0),
        (
            ("--texts", "train.jsonl", "--controls", "other.jsonl", "--prefix", "3", "--suffix",
             "5", "--samples", "2", "--chat"), "but perhaps any model writes them", 0,
        ),
    ],
)  # fmt: skip
def test_it_writes_counts_and_a_report_without_text(command, folder, words, label, code):
    with FakeServer(build("table"), fault=digits) as server:
        outcome = command("sample", server.url, *words, "--out", "s", "--json")
    assert outcome.code == code, outcome.err
    found = canary.read("s/samples.json")
    assert isinstance(found, Sampled)
    page = (folder / "s" / "report.html").read_text()
    assert label in page
    counts = re.search(r"luck alone may write as many in up to ([\d,]+) of 1,000 tests", page)
    assert (counts is not None) is ("a warning" in label)
    if counts:
        p = int(counts[1].replace(",", "")) / 1_000
        assert found.chance.p_value <= p < found.chance.p_value + 0.001
    assert f"{server.url}/v1" in page
    asked, sent = found.samples * found.prompts, found.model["requests"]
    assert sent > asked > 0
    assert f"{sent} requests ({asked} for the answers and {sent - asked} to check" in page
    fills = [c.fill for c in canary.CanarySet.load("canaries.json")]
    rows = found.to_frame().to_dict("records")
    assert [row["hits"] > 0 for row in rows] == [
        hits > 0 for hits in (*found.texts.hits, *found.controls.hits)
    ]
    for written in (page, outcome.err, (folder / "s" / "samples.json").read_text()):
        assert "the code is" not in written
        assert not any(f"pin is {fill}" in written for fill in fills)
    assert not (folder / "s" / "parts").exists()
    assert command("check", "s/samples.json", "--max-extractable", "0.1").code == 3


def test_of_one_answer_that_is_always_the_same_nothing_is_asked_again(command, folder):
    words = ("--canaries", "canaries.json", "--temperature", "0", "--samples", "1", "--out", "s")
    with FakeServer(build("table")) as server:
        few = command("sample", server.url, *words, "--max-requests", "5")
        assert "give --max-requests 13 or more" in few.err
        assert command("sample", server.url, *words).code == 0
    assert canary.read("s/samples.json").interval(0) == (0.0, 0.0)
    page = (folder / "s" / "report.html").read_text()
    assert "at temperature 0, the server always gives its most probable answer" in page
    assert "Ask the server four times as often" not in page
    assert "98 %" not in page
