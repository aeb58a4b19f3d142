"""Bars where somebody looks: on a terminal, in a notebook, or where they are asked for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import IPython
import pytest
from listening import Listening
from small_models import build

import canary
from canary.records import progress

TEXTS = ["abc", "abab"]


def written(capsys, **options) -> str:
    canary.score(build("table"), TEXTS, **options)
    return capsys.readouterr().err


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)


@pytest.mark.parametrize(
    ("terminal", "kernel", "asked", "seen"),
    [
        (False, False, None, False),
        (True, False, None, True),
        (False, True, None, True),
        (False, False, True, True),
        (True, True, False, False),
    ],
)
def test_bars_are_seen_where_somebody_looks(monkeypatch, capsys, *, terminal, kernel, asked, seen):
    session = SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()
    monkeypatch.setattr(IPython, "get_ipython", lambda: session)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    text = written(capsys, progress=asked)
    assert ("texts:" in text) is seen
    assert text.endswith("\r") is seen  # the bar is wiped out at the end


def test_parts_are_timed_and_heard_of(monkeypatch):
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    told, bars = Listening(), progress.Bars(shown=False)
    named = []
    monkeypatch.setattr(bars, "phase", named.append)
    with bars, progress.Timed(told) as timed:
        progress.phase("Loading")
        timed.stage("ranks", 7)
        progress.phase("Loading")
    progress.phase("of nobody")
    assert timed.seconds == {"Loading": 20, "ranks": 10}
    assert told.stages == [("ranks", 7, "tokens")]
    assert named == ["Loading", "Loading"]


def test_what_is_soon_over_has_no_bar(monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 3600.0)
    assert "texts:" not in written(capsys, progress=True)


def test_a_function_is_told_of_all(capsys):
    told = Listening()
    assert written(capsys, progress=told) == ""
    assert told.stages == [("texts", 5, "tokens")]
    assert told.reached[-1] == (5, 5)


@pytest.mark.parametrize("wrong", ["yes", 1, 0.5])
def test_what_is_no_switch_is_refused(wrong):
    with pytest.raises(canary.CanaryError, match="progress must be a function"):
        canary.score(build("table"), TEXTS, progress=wrong)


def test_a_bar_that_an_error_ends_is_wiped_out(capsys):
    with pytest.raises(ZeroDivisionError), progress.Bars() as bars:
        bars.stage("ranks \x1b[2J of x", 100)(1 // 0)
    text = capsys.readouterr().err
    assert "ranks [2J of x:" in text
    assert text.endswith("\r")
