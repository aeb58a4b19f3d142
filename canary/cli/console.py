"""What the commands write: words, tables and progress on stderr, JSON on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from canary.cli.streams import stdout_closed, tell, write_result
from canary.errors import OutputError
from canary.statistics.numbers import clean

__all__ = ["Bars", "check_stdout", "emit", "emit_lines", "resumable", "say", "show_table"]

_NAME_WIDTH = 48
_USUAL_WIDTH = 80


def say(text: str) -> None:
    """One line for people. Control characters are taken out: texts are untrusted."""
    tell(f"{clean(text)}\n")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for people; the first column is a name, the others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(clean, row))
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    with console.capture() as drawn:
        console.print()
        console.print(table)
        console.print()
    tell(drawn.get())


def emit(kind: str, body: Mapping[str, Any], *, schema: int = 1) -> None:
    """One strict JSON document on stdout, for machines.

    It is ASCII, so that any terminal can take it and no control character gets through.

    Raises
    ------
    OutputError
        If stdout cannot be written to, on a full disk say.
    ValueError
        If `body` holds NaN or an infinity.
    """
    document = {"kind": kind, "schema": schema, **body}
    _write_result(json.dumps(document, allow_nan=False, indent=1) + "\n")


def emit_lines(lines: Iterable[str]) -> None:
    """Lines for people on stdout, where they are what the command was asked for.

    Control characters are taken out, and what is not ASCII is written as Python does, so
    that any terminal can take it.

    Raises
    ------
    OutputError
        If stdout cannot be written to.
    """
    text = "".join(f"{clean(line)}\n" for line in lines)
    _write_result(text.encode("ascii", "backslashreplace").decode())


def check_stdout() -> None:
    """Refuse a closed stdout before the work whose result would go there.

    Raises
    ------
    OutputError
        If it is closed. Whether there is room behind it shows only when it is written to.
    """
    if stdout_closed():
        raise OutputError(
            "is closed, and the result goes there", cure="send it to a file", where="stdout"
        )


def _write_result(text: str) -> None:
    try:
        write_result(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"cannot be written ({error.strerror or error})",
            cure="send it to where there is room",
            where="stdout",
        ) from error


@contextmanager
def resumable(parts: Path) -> Iterator[None]:
    """Around a long run: whoever stops it is told how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        if parts.exists():  # a run that had finished nothing leaves nothing
            say(f"the same command goes on from what is finished, in {parts}")
        raise


class Bars:
    """Progress bars on stderr, one at a time; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """A bar over queries, say; gives what is told of those done since the last time."""
        bar = self._open(name, total=total, unit="", unit_scale=True)

        def advance(done: int) -> None:
            bar.update(done)

        return advance

    def file(self, name: str) -> Callable[[int, int], None]:
        """A bar over the bytes of a file; gives what is told of those done, and of all."""
        bar = self._open(name, total=None, unit="B", unit_scale=True, unit_divisor=1024)

        def reach(done: int, total: int) -> None:
            if bar.total is None:  # what an earlier run did says nothing of the speed
                bar.n = bar.initial = bar.last_print_n = done
            bar.total = total
            bar.update(done - bar.n)

        return reach

    def say(self, text: str) -> None:
        """One line for people, in the place of the bar that may stand there."""
        self._close()
        say(text)

    def _open(self, name: str, **options: Any) -> Any:
        from tqdm import tqdm

        self._close()
        self._bar = tqdm(
            desc=clean(name)[:_NAME_WIDTH],
            file=sys.stderr,
            disable=sys.stderr is None or not sys.stderr.isatty(),
            leave=False,
            **_width(),
            **options,
        )
        return self._bar

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _width() -> dict[str, Any]:
    """How wide a bar is: as the terminal, now and later; some say that they have no columns."""
    try:
        unknown = os.get_terminal_size(sys.stderr.fileno()).columns == 0
    except (AttributeError, OSError, ValueError):
        unknown = True
    return {"ncols": _USUAL_WIDTH} if unknown else {"dynamic_ncols": True}
