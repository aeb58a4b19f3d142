"""Progress on a terminal, however large it says that it is, and now and then a line elsewhere."""

from __future__ import annotations

import os
import pty
import re
import struct
import sys
import time
from fcntl import ioctl
from io import StringIO
from termios import TIOCSWINSZ

import pytest

from canary.cli.console import Bars, _Task, show_table


def shown(monkeypatch, columns: int, rows: int = 24) -> str:
    """What a bar half done writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Bars() as bars:
            bars.stage("ranks", 1_000)(500)
        terminal.flush()
        text = os.read(ours, 2**16).decode()
    os.close(ours)
    return text


@pytest.mark.parametrize(("columns", "rows"), [(0, 24), (0, 0), (80, 0), (40, 24), (120, 50)])
def test_a_bar_is_seen_on_any_terminal_degenerate(monkeypatch, columns, rows):
    text = shown(monkeypatch, columns, rows)
    assert "ranks" in text
    assert "%|" in text
    widest = max(len(line) for line in text.replace("\r", "\n").splitlines())
    assert widest <= (columns or 80)


def test_bars_show_their_stage_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Bars() as bars:
        bars.stage("enumeration of \x1b[2J x", 2_000_000)
        reach = bars.stage("corpus.jsonl", 1024, "B")
        time.sleep(0.15)  # a bar is drawn anew ten times a second at most
        reach(512)
        bars.say("a line")
    shown = capsys.readouterr().err
    assert "enumeration of [2J x:   0%" in shown
    assert "corpus.jsonl:  50%" in shown
    assert shown.endswith("\ra line\n")  # the bar was wiped out before


@pytest.mark.parametrize("task", ["stage", "file", "phase"])
def test_lines_come_now_and_then_elsewhere(monkeypatch, task):
    """Also while nothing is told of progress, and none once it is over."""
    monkeypatch.setattr(sys, "stderr", StringIO())
    monkeypatch.setattr("canary.cli.console.EVERY", 0.05)
    with Bars() as bars:
        if task == "stage":
            bars.stage("ranks\x1b[2J", 1_000)(250)
        elif task == "file":
            bars.stage("corpus.jsonl", 1024, "B")(512)
        else:
            bars.phase("Loading model")
        time.sleep(0.4)
    *lines, last = sys.stderr.getvalue().splitlines()
    assert 2 <= len(lines) <= 8
    said = {
        "stage": "ranks[2J: 25 % (250 of at most 1,000 tokens), 0 s",
        "file": "corpus.jsonl: 50 %, 0 s",
        "phase": "Loading model: 0 s",
    }
    assert set(lines) == {said[task]}
    # A search may be done long before all that it might have taken.
    assert last == ("ranks[2J: done after 250 tokens, 0 s" if task == "stage" else said[task])
    time.sleep(0.15)
    assert sys.stderr.getvalue().splitlines() == [*lines, last]


def test_requests_are_about_so_many_since_checks_come_on_top():
    task = _Task("draws", 100, "requests", time.monotonic(), done=104)
    assert task.line() == "draws: 100 % (104 of about 100 requests), 0 s"


@pytest.mark.parametrize("every", [0.02, 10.0])
def test_what_fails_is_not_called_done_and_what_is_soon_over_not_named(monkeypatch, every):
    monkeypatch.setattr("canary.cli.console.EVERY", every)
    monkeypatch.setattr(sys, "stderr", StringIO())

    def stopped():
        with Bars() as bars:
            bars.stage("ranks", 1_000)(250)
            time.sleep(0.2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert ("ranks: 25 %" in sys.stderr.getvalue()) is (every < 1)
    assert "done" not in sys.stderr.getvalue()


def test_a_piped_command_says_how_far_it_is(command, workplace, model, monkeypatch):
    """A line every ten seconds; the clock of the test goes faster."""
    monkeypatch.setattr("canary.cli.console.EVERY", 0.02)
    words = ("--canaries", "canaries.json", "--draws", 500, "--json")
    outcome = command("exposure", model, *words)
    assert outcome.code == 0
    lines = outcome.err.splitlines()
    assert any(
        re.fullmatch(r"(Loading|Hashing the weights of|Measuring the rounding of) .*: \d+ s", line)
        for line in lines
    )
    tokens = r".*: \d+ % \([\d,]+ of at most [\d,]+ tokens\), \d+ s"
    assert any(re.fullmatch(tokens, line) for line in lines)
    assert outcome.document  # results stand alone


def test_numbers_and_intervals_are_not_broken_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    columns = ("Copies", "Secrets", "Found within the first 1,000,000 guesses",
               "Guesses needed (median)", "Exposure, bits (median)", "90 % interval")  # fmt: skip
    row = ("64 (positive control)", "8", "8", "500,000,000", "18.00", "16.82–20.58")
    show_table(columns, [row])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    (whole,) = [line for line in lines if "64 (positive control)" in line]
    assert whole.split()[-4:] == ["8", "500,000,000", "18.00", "16.82–20.58"]
    monkeypatch.setenv("COLUMNS", "60")  # too little for them: nothing is lost all the same
    show_table(columns, [row])
    assert "control)" in capsys.readouterr().out
