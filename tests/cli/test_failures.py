"""Errors that nobody foresaw, and texts that would play with a terminal."""

from __future__ import annotations

import errno
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from drawing import figures
from gate_audits import exact

from canary.audits.audit_result import CanaryResult
from canary.cli.console import emit, say, show_exposures, show_report, show_table
from canary.errors import OutputError
from canary.statistics.exposures import exposure_by_bounds, exposure_by_draws

GENERATE = ("generate", "The code is {digit:9}", "--out", "new.json")
SECRET = "271828182"


class PanicException(BaseException):
    """What an extension in Rust raises when it gives up; no Exception."""


def raises(error):
    def call(*_, **__):
        raise error

    return call


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(f"no place for {SECRET}"),
        EOFError(SECRET),
        PanicException(SECRET),
        OSError(errno.EIO, SECRET),
        SystemExit(1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_unforeseen_error_exits_70_with_one_line_and_a_private_log(
    command, workplace, monkeypatch, error
):
    name = type(error).__name__
    monkeypatch.setattr("canary.corpus.canaries.generate", raises(error))
    outcome = command(*GENERATE)
    assert (outcome.code, outcome.out) == (70, "")
    (log,) = Path(tempfile.gettempdir()).iterdir()
    assert outcome.err.strip() == f"error: unforeseen {name}, its log is {log}"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text()
    assert all(part in text for part in ("Traceback", name, str(error)))
    assert not Path("new.json").exists()
    monkeypatch.setattr("tempfile.tempdir", str(workplace / "nowhere"))
    outcome = command(*GENERATE)
    assert outcome.code == 70
    assert outcome.err.strip() == f"error: unforeseen {name}, and its log could not be written"


def test_failed_report_keeps_the_audit(command, workplace, monkeypatch, model):
    monkeypatch.setattr("canary.reports.pages.report", raises(RuntimeError()))
    words = ("--canaries", "canaries.json", "--draws", 50, "--extraction-budget", 0, "--out", "a")
    assert command("audit", model, *words).code == 70
    monkeypatch.undo()
    monkeypatch.chdir(workplace)
    with figures(drawn=False):
        assert command("report", "a/audit.json", "--out", "b.html").code == 0
        assert command("audit", model, *words).code == 0  # it goes on without --force


def test_control_characters_do_not_reach_the_terminal(command, workplace):
    wild = "\x1b[31mred\x07\x9b2J\u202e {digit:9}"
    outcome = command("generate", wild, "--out", "new.json", "--json")
    assert outcome.code == 0
    assert outcome.document["formats"][0]["format"] == wild
    refused = command("generate", "\x1b]0;title\x07{digit", "--out", "new.json")
    assert refused.code == 2
    unknown = command("generate", "x {digit:9}", "--out", "new.json", "--\x1b[2J")
    assert unknown.code == 2
    shown = outcome.out + outcome.err + refused.err + unknown.err
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_words_and_cells_are_cleaned_and_are_no_markup(capsys):
    say("a\x1b[0mb\nc")
    show_table(("[red]name[/red]", "number"), [("[bold]x[/bold] :smile:\x1b[2J", "1")])
    shown = capsys.readouterr()
    assert shown.err == "a[0mb c\n"
    assert "[red]name[/red]" in shown.out
    assert "[bold]x[/bold] :smile:[2J" in shown.out
    assert "\x1b" not in shown.out


def test_names_are_broken_only_where_nothing_else_helps(capsys, monkeypatch):
    name = "modified-entropy-one-threshold"
    rates = [f"TPR at FPR {rate} %" for rate in (0.1, 1, 10)]
    monkeypatch.setenv("COLUMNS", "40")
    show_table(("name", "number"), [("x" * 60, "9" * 30)])
    shown = capsys.readouterr().out
    assert (shown.count("x"), shown.count("9")) == (60, 30)
    for width in (70, 77, 78, 99):
        monkeypatch.setenv("COLUMNS", str(width))
        show_table(["Attack", "Balanced accuracy", "AUC", *rates], [[name, *["100.0 %"] * 5]])
        shown = capsys.readouterr().out
        assert shown.count("100.0 %") == 5, width
        assert (name in shown) == (width >= 78), width


def test_tables_fit_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    drawn = exposure_by_draws([1.0], [2.0] * 20_000, space_size=10**9)[0]
    canaries = [CanaryResult(f"canary-{n}", 0, 4 * n, 100.0, None, drawn, None) for n in (10, 2000)]
    controls = [CanaryResult("control-10", 0, 0, 100.0, None, drawn, None)]
    show_exposures([*canaries, *controls])
    show_report(replace(exact({4: [1.0]}), canaries=(*canaries, *controls)))
    lines = capsys.readouterr().out.splitlines()
    between = f"{drawn.lower_bits:.2f} to {drawn.upper_bits:.2f}"
    assert sum(between in line for line in lines) == 3
    medians = [line for line in lines if f"at least {drawn.lower_bits:.2f}" in line]
    assert len(medians) == 3  # of three groups


def test_a_log_perplexity_that_is_only_a_bound_is_marked(capsys):
    bounds = {"lower": 1, "upper": 1000}, {"lower": 3, "upper": 3, "rank": 3}
    results = [
        CanaryResult(
            f"canary-{n}", 0, 1, 37.5, None, exposure_by_bounds(space_size=1000, **b), None
        )
        for n, b in enumerate(({"rank": None, **bounds[0]}, bounds[1]))
    ]
    show_exposures(results, bounds=True)
    first, second = [line for line in capsys.readouterr().out.splitlines() if "canary-" in line]
    assert "≥ 37.50" in first
    assert "≥" not in second
    assert "37.50" in second
    show_exposures(results)
    assert "≥ 37.50" not in capsys.readouterr().out


def test_json_is_strict_and_ascii(capsys):
    emit("canary test", {"text": "\x9b2J é \ud800"})
    assert capsys.readouterr().out.isascii()
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit("canary test", {"number": float("nan")})


def test_placements_that_cannot_be_written_leave_a_way(command, workplace, monkeypatch):
    full = OutputError("cannot be written (No space left on device)", where="x")
    monkeypatch.setattr("canary.corpus.injection.Placements.save", raises(full))
    outcome = command("inject", "corpus.jsonl", "--canaries", "canaries.json", "--out", "new")
    assert outcome.code == 2
    assert "new.placements.json: cannot be written (No space" in outcome.err
    assert "new is complete, and the same seed" in outcome.err
    assert Path("new").exists()


def test_long_message_keeps_its_beginning_and_its_cure(command, workplace, monkeypatch):
    long = OutputError("x" * 5000, cure="mend it", where="there")
    monkeypatch.setattr("canary.corpus.canaries.generate", raises(long))
    outcome = command(*GENERATE)
    assert outcome.err.startswith("error: there: xxx")
    assert outcome.err.endswith("xxx; mend it\n")
    assert len(outcome.err) < 1100
