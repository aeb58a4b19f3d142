"""Progress on a terminal, however wide it says that it is; silence elsewhere."""

from __future__ import annotations

import os
import pty
import struct
import sys
from fcntl import ioctl
from io import StringIO
from termios import TIOCSWINSZ

import pytest

from canary.cli.console import Bars


def shown(monkeypatch, columns: int) -> str:
    """What a bar half done writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Bars() as bars:
            bars.stage("ranks", 1_000)(500)
        terminal.flush()
        text = os.read(ours, 2**16).decode()
    os.close(ours)
    return text


@pytest.mark.parametrize("columns", [0, 40, 120])
def test_a_bar_is_seen_on_any_terminal_degenerate(monkeypatch, columns):
    text = shown(monkeypatch, columns)
    assert "ranks" in text
    assert "%|" in text
    widest = max(len(line) for line in text.replace("\r", "\n").splitlines())
    assert widest <= (columns or 80)


def test_nothing_is_written_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "stderr", StringIO())
    with Bars() as bars:
        bars.stage("ranks", 1_000)(500)
    assert not sys.stderr.getvalue()
