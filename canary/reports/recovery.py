"""How many guesses an attacker who has the model needs for each secret of an audit.

The attacker guesses in the order of the model, the most likely candidate first. A secret is the
rank-th guess then, and ``2**exposure`` times sooner there than the end of the list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from canary.audits.audit_result import Audit, CanaryResult, median_bits
from canary.reports.document import Table, Text, said_in_one
from canary.reports.sentences import LEVEL, RECOVERED_SHARE, ROUNDING_BITS, guesses_of
from canary.statistics.exposures import Exposure
from canary.statistics.numbers import count

COLUMNS = ("Copies", "Secrets", "Recovered", "Guesses needed (median)", "Exposure, bits (median)")
"""Of `rows`."""


@dataclass(frozen=True)
class Recovery:
    """What is known of some canaries: how many are recovered, and how many may be."""

    canaries: Sequence[CanaryResult]
    limit_bits: float = math.log2(RECOVERED_SHARE)

    @property
    def sure(self) -> list[CanaryResult]:
        """Those that are recovered wherever in its interval the exposure is."""
        return [c for c in self.canaries if self._reached(c.exposure, c.exposure.lower_bits)]

    @property
    def open(self) -> list[CanaryResult]:
        """Those whose interval holds both answers."""
        reached = [c for c in self.canaries if self._reached(c.exposure, c.exposure.upper_bits)]
        return [c for c in reached if c not in self.sure]

    def _reached(self, exposure: Exposure, bits: float) -> bool:
        """Whether so many bits of exposure are enough; of a small space, the first guess is."""
        return bits >= min(self.limit_bits, exposure.space_bits) - ROUNDING_BITS

    def share(self, kind: str = "") -> str:
        """``7 of 12 planted secrets were``, with ``at least`` where more may be."""
        number, sure = len(self.canaries), len(self.sure)
        at_least = "at least " if self.open and sure else ""
        if not sure:
            certain = "certainly " if self.open else ""
            none = f"none of the {count(number)} {kind}secrets was"
            return f"{none if number > 1 else f'the {kind}secret was not'} {certain}".strip()
        if number == 1:
            return f"the {kind}secret was"
        whole = f"all {count(number)}" if sure == number else f"{count(sure)} of {count(number)}"
        return f"{at_least}{whole} {kind}secrets {'was' if sure == 1 else 'were'}"


def most_guesses(exposure: Exposure) -> int:
    """The most that its secret takes: a certain rank where it is known, else by the interval."""
    if exposure.confidence is None and exposure.rank_upper is not None:
        return exposure.rank_upper
    return guesses_of(exposure.space_bits - exposure.lower_bits)


def searched(audit: Audit) -> Iterator[Text]:
    """What a search recovered that did not know the secrets, format by format."""
    for extraction in audit.extractions:
        mine = [c for c in audit.injected if audit.formats[c.format].format == extraction.format]
        names = {c.id for c in mine}
        found = [c.canary for c in extraction.candidates if c.canary in names]
        if names:
            tried = len(extraction.candidates)
            yield said_in_one(
                "outcome.extraction",
                there=tried and audit.canaries_in_corpus and not audit.natural,
                natural=tried and audit.natural,
                left_out=tried and not audit.canaries_in_corpus,
                out=count(len(found)) if found else "none",
                number=len(names),
                tried=tried,
                queries=extraction.queries,
                more=len(Recovery(mine).sure) > len(found),
            )


def blind_guesses(audit: Audit, canaries: Iterable[CanaryResult]) -> str:
    """How many guesses each of some secrets takes on average without the model."""
    sizes = sorted({audit.formats[c.format].space_size for c in canaries})
    ends = [count(max(size // 2, 1)) for size in dict.fromkeys((sizes[0], sizes[-1]))]
    return " to ".join(ends) + (" guess" if ends == ["1"] else " guesses")


def recovered(audit: Audit) -> Iterator[Text]:
    """What came out, in sentences that need no statistics."""
    if audit.injected and audit.canaries_in_corpus and not audit.natural:
        yield said_in_one("outcome.secrets", there=True, controls=audit.controls)
    if audit.injected:
        yield _of_injected(audit)
    else:
        yield said_in_one("outcome.nothing", empty=not audit.canaries)
    yield from searched(audit)
    if audit.controls:
        found = Recovery(audit.controls)
        p = 1.0 if audit.controls_p is None else audit.controls_p.p_value
        yield said_in_one(
            "outcome.controls",
            number=len(audit.controls),
            found=len(found.sure),
            some=found.sure,
            open=found.open,
            suspect=p <= LEVEL,
        )
    if audit.canaries:
        sizes = sorted({audit.formats[c.format].space_size for c in audit.canaries})
        first = [count(max(size // RECOVERED_SHARE, 1)) for size in (sizes[0], sizes[-1])]
        words = f"the first {' to '.join(dict.fromkeys(first))} guesses".replace(
            " 1 guesses", " guess"
        )
        yield said_in_one("outcome.meaning", small=sizes[-1] < RECOVERED_SHARE, first=words)


def _of_injected(audit: Audit) -> Text:
    found = Recovery(audit.injected)
    exposures = [c.exposure for c in found.sure]
    kind = "planted " if audit.canaries_in_corpus else "left-out "
    share = found.share("" if audit.natural else kind)
    exactly = all(e.confidence is None and e.rank == e.rank_upper for e in exposures)
    return said_in_one(
        "outcome",
        share=share[0].upper() + share[1:],
        exactly=exposures and exactly,
        bound=exposures and not exactly,
        none=not exposures,
        guesses=max(map(most_guesses, exposures), default=0),
        each=" of its form" if len({c.format for c in found.sure}) > 1 else "",
        left=found.open,
        open=len(found.open),
        more=" more" if exposures else "",
        blind=blind_guesses(audit, audit.injected),
        several=len(audit.injected) > 1,
        drawn=any(c.exposure.confidence is not None for c in audit.injected),
        dry=not audit.canaries_in_corpus,
        natural=audit.natural,
    )


def table(audit: Audit, at: int) -> Table:
    """The canaries of one format by number of copies."""
    rows = []
    for copies, group in audit.by_repetitions(at).items():
        exposures, found = [c.exposure for c in group], Recovery(group)
        median, bound = median_bits(exposures)
        more = len(found.sure) + len(found.open)
        known = count(len(found.sure)) + (f" to {count(more)}" if found.open else "")
        label = count(copies) if copies else "0 (never planted)"
        rows.append((label, count(len(group)), known, median_guesses(exposures),
                     f"{'at least ' if bound else ''}{median:z.2f}"))  # fmt: skip
    return Table("Guesses that an attacker needs, by number of copies", COLUMNS, rows)


def median_guesses(exposures: Sequence[Exposure]) -> str:
    """The guesses at the median exposure: ``147``, or ``at most 147`` for a bound."""
    median, bound = median_bits(exposures)
    number = count(guesses_of(exposures[0].space_bits - median))
    return f"{'at most ' if bound else ''}{number}"
