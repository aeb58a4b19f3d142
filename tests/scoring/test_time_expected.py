"""What a verbatim run says of its time after its first batches."""

from __future__ import annotations

import pytest

from canary.cli.console import Bars
from canary.scoring import time_expected
from canary.scoring.time_expected import Announced, announced_passes


class Lines:
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)

    def stage(self, name, total, unit="tokens"):
        return lambda done: None


@pytest.mark.parametrize(("tokens", "said"), [(10_000, ["100 s"]), (4_000, [])])
def test_a_long_run_says_once_how_long_it_takes(tokens, said, monkeypatch):
    clock, lines = iter(range(0, 100, 1)), Lines()
    monkeypatch.setattr(time_expected, "perf_counter", lambda: float(next(clock)))
    announced = announced_passes(lines.stage, "98 windows of 50 texts", tokens)
    seen = []
    for _ in range(2):  # of which the second is another pass
        step = announced.after(seen.append)
        for done in (7, 100, 100, 100, 100):
            step(done)
    line = f"Scoring 98 windows of 50 texts, {tokens:,} tokens, takes about"
    wanted = [f"{line} {time} here" for time in said]
    assert lines.said == wanted
    assert seen == [7, 100, 100, 100, 100] * 2


def test_of_batches_that_grow_the_later_ones_count(monkeypatch):
    clock, lines = iter(range(100)), Lines()
    monkeypatch.setattr(time_expected, "perf_counter", lambda: float(next(clock)))
    step = Announced(lines.stage, str, 10_000, grows=True).after(lambda done: None)
    for done in (1, 1, 2, 4, 100, 100, 100):  # a second for each
        assert not lines.said
        step(done)
    assert lines.said == ["100 s"]


def test_its_line_does_not_end_the_stage_that_it_is_about(capsys):
    with Bars() as bars:
        advance = bars.stage("texts", 10)
        advance(3)
        bars._task.told = True  # as after ten seconds
        bars.say("a line")
        advance(4)
    assert capsys.readouterr().err == "a line\ntexts: done after 7 tokens, 0 s\n"
