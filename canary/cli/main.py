"""The command `canary`: its commands, and what becomes of errors.

Exit codes: 0 done; 2 the input or the command line cannot be used; 70 an error that
nobody foresaw; 130 stopped by Ctrl-C; 141 whoever read the output closed it. 1 is kept for a
verdict.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from typer.main import get_command

from canary import __version__
from canary.cli import after_training, before_training
from canary.cli.console import say
from canary.cli.failures import write_log
from canary.errors import CanaryError

__all__ = ["app", "run"]

USAGE, UNFORESEEN, STOPPED, PIPE_CLOSED = 2, 70, 130, 141

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, context_settings={"max_content_width": 100}
)

_COMMANDS: tuple[tuple[Callable[..., None], str], ...] = (
    (
        before_training.generate,
        'generate "The random number is {digit:9}" --repetitions 1,4,16 --per-repetition 4 '
        "--controls 16 --seed 0 --out canaries.json",
    ),
    (
        before_training.inject,
        "inject corpus.jsonl --canaries canaries.json --column text --out corpus.canaried.jsonl",
    ),
    (
        before_training.verify,
        "verify corpus.canaried.jsonl --canaries canaries.json --column text --json",
    ),
    (after_training.score, "score ./model texts.jsonl --column text --out scores.jsonl"),
    (
        before_training.strip,
        "strip corpus.canaried.jsonl --canaries canaries.json --out corpus.jsonl",
    ),
    (
        before_training.discover,
        'discover mail.jsonl "{digit:3}-{digit:3}-{digit:4}" --column body --out found.json',
    ),
    (
        after_training.audit,
        "audit ./model --canaries canaries.json --draws 20000 --seed 0 --out audit/",
    ),
    (
        after_training.exposure,
        "exposure ./model --canaries canaries.json --method auto --budget 1000000 --json",
    ),
    (after_training.report, "report audit/audit.json --out report.html"),
    (after_training.demo, "demo --out demo/"),
)


def _example(command: str) -> str:
    return f"\b\nExample:\ncanary {command}"  # \b: in one piece, so that it can be copied


for _function, _words in _COMMANDS:
    app.command(epilog=_example(_words))(_function)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"canary {__version__}")
        raise typer.Exit


@app.callback(epilog=_example("demo --out demo/"))
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Test whether a trained language model has memorized its training data.

    Put canaries into a corpus (generate, inject, verify; strip and discover), train as
    always, and measure (score, audit, exposure, report).
    """


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; the console entry point.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the command's name; those of the process unless given.
    """
    _quiet_libraries()
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        return _outcome(arguments)
    except BrokenPipeError:
        pass
    except SystemExit as stop:
        # So typer and rich leave when nobody reads any more; nothing else has cause to.
        if not isinstance(stop.__context__, BrokenPipeError):
            return _unforeseen(stop)
    _drop_streams()
    return PIPE_CLOSED


def _outcome(arguments: list[str]) -> int:
    """Run one command; tell people of what it raises."""
    try:
        code = int(
            get_command(app).main(args=arguments, prog_name="canary", standalone_mode=False) or 0
        )
    except CanaryError as error:
        say(f"error: {error}")
        return USAGE
    except typer.TyperException as error:
        say(f"error: {error.format_message()}")
        context = getattr(error, "ctx", None)
        say(f"Try: {context.command_path if context else 'canary'} --help")
        return USAGE
    except SystemExit:
        raise
    except KeyboardInterrupt:
        code = STOPPED
    except typer.Abort as error:  # what typer makes of an EOFError
        return _unforeseen(error.__cause__ or error)
    except BaseException as error:  # a panic in Rust is no Exception
        return _unforeseen(error)
    if code == STOPPED:
        say("stopped; files are whole or absent")
    return code


def _unforeseen(error: BaseException) -> int:
    log = write_log(error)
    place = f"its log is {log}" if log else "and its log could not be written"
    # Not its message: that may hold anything, a secret included.
    say(f"error: unforeseen {type(error).__name__}, {place}")
    return UNFORESEEN


def _quiet_libraries() -> None:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def _drop_streams() -> None:
    # What is still buffered would otherwise raise again when the interpreter ends.
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    os.close(null)
