"""Results as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from canary.cli.console import say, show_table
from canary.statistics.numbers import bits_or_bound, count, probability

if TYPE_CHECKING:
    from canary.audits.audit_result import CanaryResult


def show_report(result: Any) -> None:
    """What there is to say about a result: notes, its short form, the answer."""
    from canary.reports.builders import report_of
    from canary.reports.document import Table, words_of

    made = report_of(result)
    for note in made.notes:
        marked = not isinstance(note, str) and note[0].kind == "strong"
        say(f"{'warning' if marked else 'note'}: {words_of(note)}")
    for block in made.brief:
        if isinstance(block, Table):
            show_table(block.columns, (map(words_of, row) for row in block.rows))
        elif isinstance(block, str | tuple):
            say(words_of(block))
    say(f"{made.label}. {' '.join(map(words_of, made.sentences))}")


def show_notes(notes: Iterable[str]) -> None:
    """What must be known of numbers, a line each."""
    for note in notes:
        say(f"note: {note}")


def show_exposures(results: Iterable[CanaryResult]) -> None:
    """Each canary with its log-perplexity and exposure, in bits."""
    show_table(
        ("canary", "copies", "Px", "exposure", "interval", "p-value", "skew-\nnormal"),
        (
            (
                result.id,
                count(result.repetitions),
                f"{result.px_bits:.2f}",
                bits_or_bound(result.exposure),
                f"{result.exposure.lower_bits:z.2f} to {_end(result.exposure.upper_bits)}",
                "–" if result.natural else probability(result.exposure.p_value),
                bits_or_bound(result.skew_normal),
            )
            for result in results
        ),
    )


def _end(value: float) -> str:
    return f"{value:z.2f}" if math.isfinite(value) else "no end"
