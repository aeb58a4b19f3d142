"""Results as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from canary.cli.console import say, show_table
from canary.statistics.numbers import bits_or_bound, count, probability

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit, CanaryResult

__all__ = ["show_audit", "show_exposures", "show_notes"]


def show_audit(audit: Audit) -> None:
    """The groups of an audit by number of copies, its p-values, and its answer."""
    from canary.reports.extractions import extraction_sentence
    from canary.reports.sentences import answer, curve_verdict

    show_notes(audit.notes)
    groups = audit.by_repetitions().items()
    there = audit.canaries_in_corpus
    copies = "copies" if there else "copies planned"
    show_table(
        (copies, "number", "median exposure, bits", "smallest", "largest"),
        ((_copies(repetitions), *_group(group)) for repetitions, group in groups),
    )
    for name, combined in (
        ("the injected canaries" if there else "the canaries that were left out", audit.injected_p),
        ("the controls", audit.controls_p),
    ):
        if combined is not None:
            say(f"Fisher's p-value of {name}: {probability(combined.p_value)}")
    for number, priced in enumerate(audit.formats, 1):
        which = f"Format {number}: " if len(audit.formats) > 1 else ""
        say(f"{which}Method: {priced.method}: {priced.reason}")
        say(f"{which}{curve_verdict(priced.skew_normal)}")
    for extraction in audit.extractions:
        which = f"{extraction.masked}: " if len(audit.extractions) > 1 else ""
        say(f"{which}{extraction_sentence(audit, extraction)}")
    found = answer(audit)
    say(f"{found.label}. {found.sentence}")


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


def _group(group: tuple[CanaryResult, ...]) -> tuple[str, str, str, str]:
    """Number, median, smallest and largest exposure; bounds are bounds, with no estimate in."""
    from canary.audits.audit_result import largest_bits, median_bits, smallest_bits

    exposures = [c.exposure for c in group]
    found = (measure(exposures) for measure in (median_bits, smallest_bits, largest_bits))
    median, smallest, largest = (_bits(value, bound=bound) for value, bound in found)
    return count(len(group)), median, smallest, largest


def _copies(repetitions: int) -> str:
    return count(repetitions) if repetitions else "0 (control)"


def _end(value: float) -> str:
    return f"{value:z.2f}" if math.isfinite(value) else "no end"


def _bits(value: float, *, bound: bool) -> str:
    return f"at least {value:z.2f}" if bound else f"{value:z.2f}"
