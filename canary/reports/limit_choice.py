"""Limits to choose from where none was set, and what a model would do under them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.gate.check_audit import forecast
from canary.gate.verdict import Finding, Verdict, group_name
from canary.gate.weak_limits import LOOSE_BITS, STRICT_BITS, asked_guesses, is_weak
from canary.reports.document import Table, said_in_one, sentence
from canary.reports.limits import listed, takes_more_secrets, whose_guesses
from canary.reports.open_limits import LIMITED
from canary.reports.recovery import Recovery
from canary.reports.sentences import guesses_of
from canary.statistics.numbers import copies, count, plural

_MOST_RANGES = 3


def exposure_limit(
    size: int, limit: float | None, *, largest: bool = False, graded: bool = True
) -> str:
    """A limit on the exposure of typical secrets, or of the largest, in guesses and bits.

    A weak one is called so; whether another one is strict is said if it is `graded`.
    """
    least, set_to = count(asked_guesses(size, limit)) if size else "", limit or 0.0
    weak = least and is_weak(size, set_to)
    strict = least and graded and not largest and set_to <= STRICT_BITS
    weaker = least and graded and not (largest or weak or strict)
    return sentence(
        "limit.exposure", limit=f"{set_to:g}", one=least, guesses=least, size=count(size),
        which="easiest" if largest else "typical", weak=weak and not largest,
        longer=weak and largest, strict=strict, weaker=weaker,
        bits=least and not (weak or strict or weaker),
        strictly=count(asked_guesses(size, STRICT_BITS)),
    )  # fmt: skip


def limit_words(verdict: Verdict, *, bits: bool = True) -> str:
    """Which limits were set, each once; of exposure in guesses and bits.

    Without `bits` a limit on exposure is graded, too.
    """
    size, largest = verdict.space_size, "largest" in verdict.reason.subject
    words = []
    for check, limit in dict.fromkeys((f.check, f.limit) for f in verdict.findings):
        if check == "exposure":
            words.append(exposure_limit(size, limit, largest=largest, graded=not bits))
        elif check in LIMITED:
            words.append(sentence(f"limit.{check}", limit="" if limit is None else f"{limit:g}"))
    if verdict.left_out:
        words.append(f"not for secrets that appeared {listed(verdict.left_out)}")
    return "; ".join(words)


def limit_choice(audits: Sequence[tuple[str, Audit]]) -> dict[str, Any]:
    """The values ``choose`` and ``would``: limits in guesses, and which models pass them.

    `audits` have the names that their models are called by.
    """
    if not audits:
        return {"choose": "", "would": ""}
    sizes = {priced.space_size for _, audit in audits for priced in audit.formats}
    size = sizes.pop() if len(sizes) == 1 else 0
    values = choice_of(size)
    would: dict[str, list[str]] = {}  # the limits, by what the models would do under them
    for bits, limit in values.pop("limits"):
        if words := _would(audits, bits):
            alone = len(audits) == 1 and bits == STRICT_BITS
            then = _likely_under(audits[0][1], bits) if alone else ""
            would.setdefault(f"{words}. {then}".strip(), []).append(limit)
    said_of = [
        f"With {'either limit' if len(limits) > 1 else f'a limit of {limits[0]}'}, {words}"
        for words, limits in would.items()
    ]
    return values | {"would": " ".join(said_of)}


def would_strictly(audit: Audit) -> str:
    """What a model would do under a strict limit, a sentence; empty of spaces of many sizes."""
    sizes = {priced.space_size for priced in audit.formats}
    if len(sizes) > 1 or not (words := _would([("this model", audit)], STRICT_BITS)):
        return ""
    guesses = plural(asked_guesses(sizes.pop(), STRICT_BITS), "guess", "guesses")
    return f"With a limit of {guesses}, {words}. {_likely_under(audit, STRICT_BITS)}".strip()


def fails_strictly(audit: Audit) -> bool:
    """Whether a model would not pass a strict limit."""
    return (_outcome(audit, STRICT_BITS) or ("",))[0] == "memorized"


def _likely_under(audit: Audit, bits: float) -> str:
    """`likely` of the verdict on such a limit, where it can be judged."""
    return "" if _outcome(audit, bits) is None else likely(audit, forecast(audit, bits))


def likely(audit: Audit, verdict: Verdict) -> str:
    """The answer that more secrets would most likely bring, where too few leave a limit open."""
    groups = {group_name(n): (n, group) for n, group in audit.by_repetitions().items()}
    every = [f for f in verdict.findings if f.outcome == "undecided"]
    open_ = [f for f in every if f.check != "start token"]  # another start only finds more
    known = open_ and all(takes_more_secrets(f) and f.subject in groups for f in open_)
    if verdict.outcome != "undecided" or not known:
        return ""
    sizes = {priced.space_size for priced in audit.formats}
    guesses = asked_guesses(max(sizes), verdict.limit_bits or 0.0)
    asked = plural(guesses, "guess", "guesses") if len(sizes) == 1 else "the limit asks for"
    harder = True
    for n, group in (groups[f.subject] for f in reversed(open_)):
        found = Recovery(group, verdict.limit_bits or 0.0)
        easier, number = len(found.sure), len(group)
        if 2 * easier > number:
            return sentence(
                "limit.likely", no=True, times=copies(n), easier=easier, of=number, asked=asked
            )
        harder = harder and 2 * (easier + len(found.open)) < number
    sure = harder and len(open_) == len(every)
    return sentence("limit.likely", yes=True, asked=asked) if sure else ""


def takes_new_secrets(audit: Audit) -> bool:
    """Whether so few secrets leave a strict limit open, whatever is measured of them."""
    sizes = {priced.space_size for priced in audit.formats}
    return len(sizes) == 1 and (_outcome(audit, STRICT_BITS) or ("",))[0] == "undecided"


def enough_secrets(audit: Audit) -> str:
    """How many secrets of each number of copies decide about a strict limit, by its cures.

    Empty where no number is known to.
    """
    if not takes_new_secrets(audit):
        return ""
    left = [f.cure for f in forecast(audit, STRICT_BITS).findings if f.outcome == "undecided"]
    known = [re.findall(r"([\d,]+) (?:canar|that agree)", cure)[:1] for cure in left]
    numbers = [int(one.replace(",", "")) for some in known for one in some]
    return count(max(numbers)) if numbers and all(known) else ""


def in_digits(*audits: Audit) -> dict[str, str]:
    """What the next test has to plant, where the secrets of these are too short for some limit."""
    sizes = [priced.space_size for one in audits if not one.natural for priced in one.formats]
    short = any(is_weak(size, LOOSE_BITS) for size in sizes)
    words = {"of_digits": ", of nine digits", "with_digits": ", with secrets of nine digits"}
    return {name: short * said for name, said in words.items()}


def new_tests(audits: Sequence[tuple[str, Audit]]) -> dict[str, str]:
    """Which models a strict limit leaves open for want of secrets, and how many are enough."""
    new = {name: enough_secrets(audit) for name, audit in audits if takes_new_secrets(audit)}
    most = max(new.values(), key=lambda words: int(words.replace(",", "") or 0), default="")
    every = (audit for _, audit in audits)
    return {"new": _and([*new]) if new else "", "enough": most, **in_digits(*every)}


def choice_of(size: int) -> dict[str, Any]:
    """The value ``choose``, of a space or of several (0), and the limits in bits and guesses."""
    guesses = [asked_guesses(size, bits) for bits in (STRICT_BITS, LOOSE_BITS)]
    strict, loose = (plural(number, "guess", "guesses") for number in guesses)
    weak = size and is_weak(size, LOOSE_BITS)
    words = said_in_one(
        "limit.choose", one=size, strict=strict, loose=loose, size=count(size), weak=weak
    )
    limits = zip((STRICT_BITS, LOOSE_BITS), (strict, loose), strict=True)
    return {"choose": words, "limits": [*limits] if size else []}


def limit_table(audits: Sequence[tuple[str, Audit]]) -> Iterator[Table]:
    """What models would do under the limits to choose from, a row each; of one space only."""
    sizes = {priced.space_size for _, audit in audits for priced in audit.formats}
    limits = choice_of(sizes.pop())["limits"] if len(sizes) == 1 else []
    known = [[_outcome(audit, bits) for bits, _ in limits] for _, audit in audits]
    if not limits or not all(map(all, known)):
        return
    rows = [
        (
            name,
            *(
                sentence("limit.cell", between=ends, **{it: True})
                for it, ends in filter(None, some)
            ),
        )
        for (name, _), some in zip(audits, known, strict=True)
    ]
    columns = ("Model", *(f"Limit: at least {limit}" for _, limit in limits))
    yield Table("What each model would do under a limit", columns, rows, style="words")


def _outcome(audit: Audit, bits: float) -> tuple[str, str] | None:
    """What a model would do under a limit on the typical secret of each group, and the range.

    None where no secret of so small a space can be above it.
    """
    try:
        verdict = forecast(audit, bits)
    except InputError:
        return None
    outcome: str = verdict.outcome
    left = [f for f in verdict.findings if f.outcome == outcome != "passed"]  # what decides it
    worst = sorted(left, key=lambda f: -(f.upper or 0.0))  # that which takes fewest guesses
    between = next((ends for f in worst if (ends := _between(f, verdict.space_size))), "")
    if outcome == "passed" and verdict.is_weak:
        outcome = "weak"
    if outcome == "undecided":
        few = any(map(takes_more_secrets, left))
        coarse = "coarse" if any(f.check == "exposure" for f in left) else "unsettled"
        before = all(f.check == "start token" for f in left)
        outcome = "before" if before else "undecided" if few else coarse
    return outcome, between


def _would(audits: Sequence[tuple[str, Audit]], bits: float) -> str:
    """Which models would pass a limit on the typical secret of each group, in clauses."""
    known: dict[str, dict[str, list[str]]] = {}  # names, by outcome and range
    for name, audit in audits:
        if (found := _outcome(audit, bits)) is None:
            return ""
        known.setdefault(found[0], {}).setdefault(found[1], []).append(name)
    return ", and ".join(
        sentence(
            "limit.would",
            models=_and([*chain.from_iterable(by.values())]),
            between=_ranges(by),
            **{outcome: True},
        )
        for outcome, by in known.items()
    )


def _ranges(by_range: Mapping[str, Sequence[str]]) -> str:
    """The ranges of the models with one outcome; nothing where they are many."""
    some = {ends: names for ends, names in by_range.items() if ends}
    if not some or len(some) > _MOST_RANGES:
        return ""
    if len(by_range) == 1:
        (ends,) = some
        return f", and {ends}"
    return f", and {_and([f'{ends} in {_and(names)}' for ends, names in some.items()])}"


def _and(names: Sequence[str]) -> str:
    """``A, B and C``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _between(finding: Finding, size: int) -> str:
    """``the typical secret that appeared once may take 4 to 60 guesses``, of one on exposure."""
    if finding.check != "exposure" or not size or finding.lower is None or finding.upper is None:
        return ""
    ends = (math.log2(size) - end for end in (finding.upper, finding.lower))
    low, high = (count(guesses_of(end)) for end in ends)
    whose = whose_guesses(finding, largest="largest" in finding.subject)
    number = low if low == high else f"{low} to {high}"
    guesses = "guess" if high == "1" else "guesses"
    return f"{whose[0].lower()}{whose[1:]} may take {number} {guesses}"
