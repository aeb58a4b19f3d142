"""The command as a process: signals, pipes, terminals, and what libraries print."""

from __future__ import annotations

import gc
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from command_line import ENTRY, ENVIRONMENT, files, strict
from toys import fresh, save

from canary.cli.main import run

# In the background of a shell without job control, a process ignores Ctrl-C from birth.
HEAR = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
LISTENING = [*ENTRY[:-1], HEAR + ENTRY[-1]]
AUDIT = ("--canaries", "canaries.json", "--method", "sampling", "--draws")
FACTORY = """
import ctypes, os, sys
from canary.demo import CharacterLSTM

print("on import")

def build(config):
    print("in the factory")
    sys.__stdout__.write("past the redirection")
    os.system("echo from a child")
    ctypes.CDLL(None).puts(b"from C")
    return CharacterLSTM(**config)
"""


def process(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **environment):
    return subprocess.run(
        [*ENTRY, *map(str, words)],
        stdout=stdout,
        stderr=stderr,
        text=True,
        env={**ENVIRONMENT, **environment},
        check=False,
    )


@pytest.mark.parametrize("argv", [None, ["--version"]])
def test_only_a_process_of_its_own_ends_without_a_last_collection(argv, monkeypatch):
    asked = []
    monkeypatch.setattr("atexit.register", asked.append)
    monkeypatch.setattr(sys, "argv", ["canary", "--version"])
    assert run(argv) == 0
    assert (gc.freeze in asked) == (argv is None)


def lasting(said):
    """The lines without those that a busy machine gets, of how far the command is."""
    return [line for line in said.splitlines() if not re.search(r"[:,] \d+ s$", line)]


def test_a_command_prints_one_document_and_its_own_words_only(workplace, model):
    done = process("exposure", model, *AUDIT, "200", "--json")
    assert done.returncode == 0, done.stderr
    assert strict(done.stdout)["kind"] == "canary exposure"
    words = lasting(done.stderr)
    assert words[0] == f"Loading {model}"
    assert words[1].startswith("Not enough evidence to decide")
    notes = [line for line in words if line.startswith("note: ")]
    assert any(note.startswith("note: No start token was put before each") for note in notes)
    assert any("'untrained' finds ordinary English no more likely" in note for note in notes)


NEW = ("generate", "x {digit:9}", "--out", "new.json")


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        (("--help",), "stdout"),
        (("--version",), "stdout"),
        ((*NEW, "--json"), "stdout"),
        (NEW, "stdout"),
        (("audit",), "stderr"),
    ],
)
def test_closed_pipe_gives_no_traceback_and_no_verdict_and_keeps_the_work(workplace, words, stream):
    """As `| head` closes it when it has read enough."""
    reader, writer = os.pipe()
    os.close(reader)
    done = process(*words, **{stream: writer})
    os.close(writer)
    assert done.returncode == 141
    said = done.stderr or ""
    assert "Traceback" not in said
    assert "Exception" not in said
    assert said == "" or "--out" in words
    assert Path("new.json").exists() is ("--out" in words)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full")
@pytest.mark.parametrize(
    ("words", "stream", "code", "buffered"),
    [
        (NEW, "stderr", 0, ""),
        (NEW, "stdout", 2, ""),
        (NEW, "stdout", 2, "1"),
        (("audit",), "stderr", 2, "1"),
        ((*NEW, "--json"), "stdout", 2, ""),
        ((*NEW, "--json"), "stdout", 2, "1"),
        (("--help",), "stdout", 2, ""),
    ],
)
def test_full_disk_gives_no_verdict(workplace, words, stream, code, buffered):
    with Path("/dev/full").open("w") as full:
        done = process(*words, **{stream: full}, PYTHONUNBUFFERED=buffered)
    assert done.returncode == code
    assert Path("new.json").exists() is ("x {digit:9}" in words)
    if stream == "stdout":
        assert "cannot be written (No space left on device)" in done.stderr


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["adit"], 2)])
def test_python_m_runs_the_same_command(words, code):
    ways = [[sys.executable, "-m", "canary", *words], [*ENTRY, *words]]
    module, script = (
        subprocess.run(way, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        for way in ways
    )
    assert module.returncode == code
    assert (module.stdout, module.stderr) == (script.stdout, script.stderr)


def test_ctrl_c_while_the_command_is_still_starting():
    held = (
        "import sys\n"
        "class Hold:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Hold)\n"
    )
    words = [ENTRY[0], "-c", held + ENTRY[2], "--version"]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stderr) == (130, "stopped; no file was left half-written\n")


def on_terminal(words, until, then):
    """Run with stderr on a terminal; call `then(process)` once it shows `until`.

    Returns
    -------
    What went to stdout, everything shown, and the exit code.
    """
    terminal, stderr = pty.openpty()
    termios.tcsetwinsize(stderr, (40, 120))
    running = subprocess.Popen(
        [*LISTENING, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**ENVIRONMENT, "TERM": "xterm-256color", "NO_COLOR": "1"},
    )
    os.close(stderr)
    shown, end, told = b"", time.monotonic() + 100, False
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 0.5)[0]:
                continue
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the other side was closed: the process has ended
                break
            if not part:
                break
            shown += part
            if not told and until in shown:
                told = True
                then(running)
        return running.communicate(timeout=10)[0], shown.decode(), running.returncode
    finally:
        running.kill()
        running.communicate()
        os.close(terminal)


def test_ctrl_c_in_an_audit_exits_130_and_leaves_nothing_half_written(workplace):
    """And nothing that user code, a library or a child of it prints gets to stdout."""
    Path("mine.py").write_text(FACTORY)
    save(fresh(), Path("model"))
    before = files(workplace)
    words = ("audit", "model", "--factory", "mine.py:build", *AUDIT, "100000", "--force")
    words += ("--start-token", "none")
    out, shown, code = on_terminal(
        (*words, "--out", "old"),
        b"uniform draws of The code is",
        lambda running: running.send_signal(signal.SIGINT),
    )
    assert (code, out) == (130, b"")
    for said in ("on import", "in the factory", "past the", "from a child", "from C"):
        assert said in shown
    assert not re.search("\x1b\\[[39]", shown)  # bars, and no colour where it is not wanted
    assert "stopped; no file was left half-written" in shown
    assert "Traceback" not in shown
    after = files(workplace)
    parts = {name for name in after if name.startswith("old/parts/")}
    # What was finished when the signal came is kept, and only then is it said.
    goes_on = "run the same command again to resume from old/parts" in shown
    assert goes_on == ("old/parts/manifest.json" in parts) == bool(parts)
    assert not any(name.endswith(".part") for name in parts)
    assert {name: after[name] for name in after.keys() - parts} == before


@pytest.mark.parametrize(
    "given",
    [
        ("extract", "no-such-model", "x {digit:9}"),
        ("exposure", "no-such-model", "--canaries", "canaries.json", "--json"),
    ],
)
def test_a_closed_stdout_is_refused_before_the_work(workplace, given):
    """As the shell's ``>&-`` closes it."""
    closing = "import os; os.closerange(1, 2); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {closing}", *ENTRY, *given],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "error: stdout: is closed, and the result goes there; send it to a file\n"
