"""What measuring exposure returns, without the tests of an audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from canary.audits.audit_result import CanaryResult, by_copies, canary_rows, group_lines
from canary.audits.group_medians import median_metrics
from canary.statistics.numbers import Shown, plural

_BEYOND = (
    "{} of {} are more likely than every draw. There the curve is a guess, and nothing bounds how "
    "far it is off"
)


class Exposures(Shown, tuple[CanaryResult, ...]):
    """The exposure of each canary: a tuple of `CanaryResult`, in the order of the set.

    Parameters
    ----------
    canaries : iterable of CanaryResult
    notes : iterable of str
        What the reader of the numbers must know before them.
    """

    notes: tuple[str, ...]

    def __new__(cls, canaries: Iterable[CanaryResult], notes: Iterable[str] = ()) -> Exposures:
        """As any tuple."""
        made = super().__new__(cls, canaries)
        made.notes = tuple(notes)
        return made

    def summary(self) -> str:
        """A line for each number of copies, the methods, notes."""
        lines = [*group_lines(self)]
        methods = dict.fromkeys(c.exposure.method for c in self)
        lines.append(("method", ", ".join(methods)))
        if beyond := sum(c.exposure.unbounded and c.exposure.hits == 0 for c in self):
            lines.append(("note", _BEYOND.format(beyond, plural(len(self), "canary", "canaries"))))
        lines += [("note", note) for note in self.notes]
        return "\n".join(f"{name:>12}: {what}" for name, what in lines)

    def _table(self) -> list[dict[str, Any]]:
        return canary_rows(self)

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        groups = by_copies(self).items()
        yield from median_metrics({n: [c.exposure for c in group] for n, group in groups})
