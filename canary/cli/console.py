"""What the commands write: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from canary.cli.standard_streams import tell, write_result, write_words
from canary.records import progress
from canary.statistics.numbers import bits_or_bound, clean, count, probability

if TYPE_CHECKING:
    from canary.audits.audit_result import CanaryResult
    from canary.reports.document import Block

EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""

_TICK = 1.0
_LONGEST_NUMBER = 30  # characters of a cell that is set on the right; a longer one is a text


def say(text: str) -> None:
    """One line about the run, on stderr. Control characters are removed: texts are untrusted."""
    tell(f"{clean(text)}\n")


def show(text: str) -> None:
    """One line of the result, on stdout; on stderr with ``--json``. Cleaned as by `say`."""
    write_words(f"{clean(text)}\n")


def show_lines(text: str) -> None:
    """`show`, of each line."""
    for line in text.splitlines():
        show(line)


def show_table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """A table for people; the first column is a name, the others are numbers or long texts.

    A number or an interval is never broken over two lines, if the terminal has room for that.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    cells = [tuple(map(clean, row)) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    texts = [not n or any(len(row[n]) > _LONGEST_NUMBER for row in cells)
             for n in range(len(columns))]  # fmt: skip
    room = console.width - 2 * len(columns)  # a space after each cell, and one between columns
    # Names are broken only where the others do not fit with their headings broken.
    widths = _widths(columns, cells, [n > 0 and text for n, text in enumerate(texts)], room)
    widths = widths or _widths(columns, cells, texts, room) or [None] * len(columns)
    for column, text, width in zip(columns, texts, widths, strict=True):
        justify: Literal["left", "right"] = "left" if text else "right"
        table.add_column(column, justify=justify, overflow="fold", width=width)
    for row in cells:
        table.add_row(*row)
    with console.capture() as drawn:
        console.print()
        console.print(table)
        console.print()
    write_words(drawn.get())


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], broken: Sequence[bool], room: int
) -> list[int | None]:
    """How wide columns are in so much room, if headings and `broken` columns break at spaces.

    Nothing if that is too little.
    """
    least, most = [], []
    for number, (heading, breaks) in enumerate(zip(columns, broken, strict=True)):
        lines = [line for row in rows for line in row[number].split("\n")]
        pieces = [piece for line in lines for piece in line.split()] if breaks else lines
        least.append(max(map(len, (*heading.split(), *pieces)), default=0))
        most.append(max(map(len, (*heading.split("\n"), *lines))))
    if sum(least) > room:
        return []
    widths = [*least]
    for number in sorted(range(len(columns)), key=lambda n: most[n] - least[n]):  # long texts last
        widths[number] += min(most[number] - least[number], room - sum(widths))
    return [*widths]


def show_report(result: Any, *, answer: Sequence[str] = (), short: bool = False) -> None:
    """What there is to say about a result: the answer, notes, what came out, what to do.

    The lines of `answer` are said in place of the report's, and only they and the notes if `short`.
    """
    from canary.reports.builders import report_of
    from canary.reports.document import words_of

    made = report_of(result)
    for line in answer or [f"{made.label}. {' '.join(map(words_of, made.sentences))}"]:
        show(line)
    if made.basis:
        show(words_of(made.basis))
    for note in made.notes:
        show(f"{'warning' if note in made.warnings else 'note'}: {words_of(note)}")
    if short:
        return
    _show_blocks((*made.outcome, *made.brief))
    for heading, actions in made.to_do.items():
        show(f"What to do{f' ({heading[0].lower()}{heading[1:]})' if heading else ''}:")
        for action in actions:
            show(f"- {words_of(action)}")


def show_answer(result: Any) -> None:
    """What its report answers, in a line."""
    from canary.reports.builders import report_of
    from canary.reports.document import words_of

    made = report_of(result)
    show(f"{made.label}. {' '.join(map(words_of, made.sentences))}")


def show_summary(result: Any) -> None:
    """The answer, what must be known before it, the tables of what came out, and notes."""
    from canary.reports.builders import report_of
    from canary.reports.document import words_of

    made = report_of(result)
    show_answer(result)
    if made.basis:
        show(words_of(made.basis))
    for warning in made.warnings:
        show(f"warning: {words_of(warning)}")
    show_tables(result)
    for note in made.notes:
        if note not in made.warnings:
            first, more, _ = words_of(note).partition(". ")
            show(f"note: {first}{' …' if more else ''}")
    show("With --verbose, or in the report: the notes in full, p-values, the method, what to do.")


def show_tables(result: Any) -> None:
    """What came out, in the tables of its report alone."""
    from canary.reports.builders import report_of

    _show_blocks(one for one in report_of(result).outcome if not isinstance(one, str | tuple))


def _show_blocks(blocks: Iterable[Block]) -> None:
    """Paragraphs, headings, tables, and of figures their tables; no other blocks."""
    from canary.reports.document import Figure, Heading, Table, words_of

    for block in blocks:
        table = block.table if isinstance(block, Figure) else block
        if isinstance(table, Table):
            show_table(table.columns, (map(words_of, row) for row in table.rows))
        elif isinstance(block, Heading):
            show(f"{words_of(block.text)}:")
        elif isinstance(block, str | tuple):
            show(words_of(block))


def show_notes(notes: Iterable[str]) -> None:
    """What must be known of numbers, a line each."""
    for note in notes:
        show(f"note: {note}")


def unknown(result: CanaryResult) -> bool:
    """Whether certain bounds leave open that a canary is the most likely one or the least."""
    exposure = result.exposure
    return exposure.confidence is None and exposure.lower_bits <= 0.0 < exposure.upper_bits


def show_exposures(results: Iterable[CanaryResult], *, bounds: bool = False) -> None:
    """Each canary with its log-perplexity and exposure, in bits.

    `bounds` that the model has only bounds for some tokens: then Px is one where no rank is known.
    """
    results = list(results)
    beside = any(result.skew_normal is not None for result in results)
    show_table(
        ("canary", "copies", "Px", "exposure", "interval", "p-value") + ("skew-\nnormal",) * beside,
        (
            (
                result.id,
                count(result.repetitions),
                f"{'≥ ' if bounds and unknown(result) else ''}{result.px_bits:.2f}",
                bits_or_bound(result.exposure),
                f"{result.exposure.lower_bits:z.2f} to "
                + (f"{upper:z.2f}" if math.isfinite(upper) else "no end"),
                "–" if result.natural else p_value,
                *([bits_or_bound(result.skew_normal)] if beside else []),
            )
            for result in results
            for upper in [result.exposure.upper_bits]
            for p_value in ["unknown" if unknown(result) else probability(result.exposure.p_value)]
        ),
    )


def emit(kind: str, body: Mapping[str, Any], *, schema: int = 1) -> None:
    """One strict JSON document on stdout, for machines; a ValueError if it holds NaN.

    It is ASCII, so that any terminal can take it and no control character gets through.
    """
    document = {"kind": kind, "schema": schema, **body}
    write_result(json.dumps(document, allow_nan=False, indent=1) + "\n")


class Bars(progress.Bars):
    """How far a command is, on stderr: a bar on a terminal, a line now and then elsewhere.

    One thing at a time. A thread of its own keeps the bar's clock and writes a line every `EVERY`
    seconds, also while one long step is computed.
    """

    def __init__(self) -> None:
        terminal = sys.stderr is not None and sys.stderr.isatty()
        super().__init__(shown=terminal)
        self._task: _Task | None = None
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._over.set()
        self._close(done=kind is None)
        super().__exit__(kind, *error)

    def stage(self, name: str, total: int, unit: str = "tokens") -> Callable[[int], None]:
        """A bar over a stage; see `canary.records.progress.Progress`."""
        bar = self._open(name, total, unit)
        task = self._task
        assert task is not None

        def advance(done: int) -> None:
            task.done += done
            bar.update(done)

        return advance

    def say(self, text: str) -> None:
        """One line for people, in the place of a bar, unless that counts something unfinished."""
        with self._lock:
            task, bar = self._task, self._bar
            if bar is not None and task and task.counted and task.done < (task.total or 0):
                bar.clear()  # it is drawn again below the line
            else:
                self._close()
            say(text)

    def _open(self, name: str, total: int | None, unit: str, **options: Any) -> Any:
        self._close()
        with self._lock:
            bar = super()._open(name, total, unit, **options)
            self._task = _Task(progress.shown_name(name), total, unit, time.monotonic())
        if self._thread is None:
            pause = min(_TICK, EVERY) if self._shown else EVERY
            self._thread = threading.Thread(target=self._keep_telling, args=(pause,), daemon=True)
            self._thread.start()
        return bar

    def _close(self, *, done: bool = True) -> None:
        """End what is under way; a line says that it is done, if lines said how far it was."""
        with self._lock:
            task = self._task
            super()._close()
            self._task = None
        if done and task is not None and task.told and task.counted:
            say(task.line(over=True))

    def _keep_telling(self, pause: float) -> None:
        while not self._over.wait(pause):
            with self._lock:
                if self._bar is None or self._task is None:
                    continue
                if not self._bar.disable:
                    self._bar.refresh()
                    continue
                self._task.told = True
                try:
                    say(self._task.line())
                except BrokenPipeError:  # whoever listened is gone, and the command goes on
                    return


@dataclass
class _Task:
    """What is being done, and how far it is."""

    name: str
    total: int | None
    unit: str
    began: float
    done: int = 0
    told: bool = False

    @property
    def counted(self) -> bool:
        """Whether it counts what it does, and not only time or bytes."""
        return bool(self.total) and self.unit != "B"

    def line(self, *, over: bool = False) -> str:
        """In words, where there is no bar. It may be over long before all that it might take."""
        seconds = f"{time.monotonic() - self.began:.0f} s"
        if over:
            return f"{self.name}: done after {self.done:,} {self.unit}, {seconds}"
        if not self.total:
            return f"{self.name}: {seconds}"
        share = f"{100 * min(self.done / self.total, 1):.0f} %"
        most = "about" if self.unit == "requests" else "at most"  # checks come on top of requests
        of_all = f" ({self.done:,} of {most} {self.total:,} {self.unit})" if self.counted else ""
        return f"{self.name}: {share}{of_all}, {seconds}"
