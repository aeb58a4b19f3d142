"""Ctrl-C and signals in the middle of the work: 130, nothing half-written, and it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from command_line import files, shows_secret

from canary.audits import extracting
from canary.audits.audit_result import Audit
from canary.corpus.canaries import generate
from canary.scoring.batcher import Batcher

SET = ("--canaries", "canaries.json", "--start-token", "none")
WORKING = {
    "inject": ("inject", "corpus.jsonl", *SET[:2], "--force", "--out", "old/file", "--json"),
    "rank": ("exposure", "model", *SET, "--method", "rank", "--draws", "50"),
    "sampling": ("exposure", "model", *SET, "--method", "sampling", "--draws", "50"),
    "audit": ("audit", "model", *SET, "--force", "--out", "old", "--draws", "50"),
    "extract": ("extract", "model", "The code is {digit:5}", *SET, "--json"),
}
STOPPED = "stopped; no file was left half-written\n"


def raises_stop(*_, **__):
    raise KeyboardInterrupt


def terminated(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)


def shows_fill(err):
    """Whether a fill is in what was said; the speed at which weights load may be one."""
    return any(shows_secret(line) for line in err.splitlines() if "it/s]" not in line)


@pytest.mark.parametrize("name", WORKING)
def test_ctrl_c_exits_130_and_leaves_nothing_half_written(
    command, workplace, model, name, monkeypatch
):
    """Extraction answers before it ends."""
    shutil.copytree(model, "model")
    drawn = generate("The code is {digit:5}", repetitions=[1], per_repetition=2, controls=1, seed=0)
    drawn.save("canaries.json", force=True)
    before = files(workplace)
    calls = [-(10**9) if name == "extract" else 0]  # not while its start token is checked

    def stopping(method):
        def stop(self, *arguments, **options):
            calls[0] += 1
            if calls[0] > 3:
                raise KeyboardInterrupt
            return method(self, *arguments, **options)

        return stop

    def searched(*arguments, search=extracting.shortest_leaves, **options):
        calls[0] = 0
        return search(*arguments, **options)

    for method in ("expand", "score"):
        monkeypatch.setattr(Batcher, method, stopping(getattr(Batcher, method)))
    monkeypatch.setattr(extracting, "shortest_leaves", searched)
    monkeypatch.setattr("canary.corpus.line_corpus._cut_out", raises_stop)
    outcome = command(*WORKING[name], *(() if name == "inject" else ("--batch-size", "8")))
    assert outcome.code == 130
    goes_on = "run the same command again to resume" in outcome.err
    assert goes_on or outcome.err.endswith(STOPPED)
    assert "Traceback" not in outcome.err
    assert not shows_fill(outcome.err)
    after = files(workplace)
    assert {key: value for key, value in after.items() if "parts/" not in key} == before
    if name == "extract":
        assert outcome.document["stopped"] == "interrupted"
        assert outcome.document["proven"] is False
        assert "until it was interrupted" in outcome.err
    else:
        assert outcome.out == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_clean_up_as_ctrl_c_does(command, workplace, monkeypatch, number, code):
    def kill(*_, **__):
        assert list(Path().glob(".new.json.*.part"))
        os.kill(os.getpid(), number)

    before = files(workplace)
    monkeypatch.setattr("os.fsync", kill)
    found = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored
    try:
        outcome = command("generate", "The code is {digit:9}", "--out", "new.json")
    finally:
        ours = signal.signal(number, found)
    assert outcome.code == code
    assert (outcome.out, outcome.err) == ("", STOPPED)
    assert files(workplace) == before
    assert ours is signal.SIG_DFL


def test_an_audit_that_goes_on_says_so(command, workplace, model, monkeypatch):
    """Its count is of what is left, which looks like other work if nothing is said."""
    words = ("audit", model, *SET[:2], "--method", "sampling", "--draws", 250)
    words += ("--extraction-budget", 100, "--out")
    monkeypatch.setattr("canary.search.ranking.FILLS_AT_ONCE", 100)
    assert "Resuming" not in command(*words, "whole").err
    with monkeypatch.context() as patch:
        patch.setattr("canary.audits.extracting.with_extractions", raises_stop)
        assert command(*words, "a").code == 130
    monkeypatch.setattr("canary.cli.console.EVERY", 0.001)
    again = command(*words, "a")
    assert again.code == 0
    # What the canaries cost, and three blocks of draws.
    assert "Resuming an earlier run of this command (4 finished pieces in a/parts)" in again.err
    assert "uniform draws of The code is •••••••••, the rest" in again.err
    found = [Audit.load(f"{out}/audit.json").canaries for out in ("a", "whole")]
    assert [c.exposure for c in found[0]] == [c.exposure for c in found[1]]


def test_scores_go_on_where_they_were(command, workplace, model, monkeypatch):
    texts = [json.dumps({"text": f"line {i} of many"}) + "\n" for i in range(200)]
    Path("texts.jsonl").write_text("".join(texts))
    monkeypatch.setattr("canary.scoring.texts._TEXTS", 64)
    monkeypatch.setattr("canary.scoring.score_job._SHARD_SECONDS", 0)
    words = ("score", model, "texts.jsonl", "--batch-size", "64", "--out", "scores.jsonl")
    calls, score = [], Batcher.score

    def twice(batcher, rows):
        calls.append(len(rows))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(batcher, rows)

    monkeypatch.setattr(Batcher, "score", twice)
    stopped = command(*words)
    assert stopped.code == 130
    assert "to resume from scores.jsonl.parts" in stopped.err
    assert not Path("scores.jsonl").exists()
    done = command(*words, "--json")
    assert done.code == 0, done.err
    assert 0 < done.document["resumed"] < done.document["texts"] == len(texts)
    lines = Path("scores.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in lines] == list(range(1, len(texts) + 1))
    assert not Path("scores.jsonl.parts").exists()


def test_attacks_on_texts_go_on_and_leave_their_result_alone(
    command, workplace, model, monkeypatch
):
    """Stopped after the pass over the texts; started again it scores the lower case only."""
    for name, first in (("in", 0), ("out", 40)):
        rows = [json.dumps({"text": f"Text {first + i} of many"}) + "\n" for i in range(40)]
        Path(f"{name}.jsonl").write_text("".join(rows))
    words = ("membership", "text", model, "in.jsonl", "out.jsonl", "--attacks", "loss,lower-case")
    given = (*words, "--batch-size", "16", "--json", "--out")
    whole = command(*given, "whole").document
    calls, score = [], Batcher.score

    def once(batcher, rows):
        calls.append(len(rows))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(batcher, rows)

    monkeypatch.setattr(Batcher, "score", once)
    stopped = command(*given, "report")
    assert stopped.code == 130
    assert "run the same command again to resume from report/parts" in stopped.err
    assert Path("report/parts/texts.00000000.shard").exists()
    other = command(*given, "report", "--seed", "0", "--overlap", "2")
    assert other.code == 2
    assert "begun with another overlap" in other.err
    assert command(*given, "report").document == whole
    assert calls == [80] * 3
    assert sorted(path.name for path in Path("report").iterdir()) == [
        *("membership.json", "report.html")
    ]


def test_a_stop_while_the_page_is_drawn_leaves_a_whole_audit_and_says_so(
    command, workplace, model, monkeypatch
):
    """All is measured then; the command says how to end it, and the check what is missing."""
    words = ("audit", model, *SET, "--method", "sampling", "--draws", 250, "--out", "a")
    found = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("canary.reports.pages.report", terminated)
            stopped = command(*words)
    finally:
        signal.signal(signal.SIGTERM, found)
    assert stopped.code == 143
    assert f"run the same command again to resume from a/parts\n{STOPPED}" in stopped.err
    half = Audit.load("a/audit.json")
    check = ("check", "a/audit.json", "--max-exposure-bits", "4", "--verbose")
    told = "A run of canary audit was stopped and left a/parts. If it began after the audit"
    assert told in " ".join(command(*check).out.split())
    assert command(*words).code == 0
    assert Path("a/report.html").exists()
    whole = Audit.load("a/audit.json")
    assert (half.canaries, half.start) == (whole.canaries, whole.start)
    assert len(half.extractions) == len(whole.extractions) == 1
    Path("a/parts").mkdir()  # of the user
    said = command(*check)
    assert "was stopped" not in said.out + said.err
