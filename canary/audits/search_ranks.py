"""Ranks that a search proved, in the place of what few draws could say of the same canaries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from canary.audits.extraction import Extraction
from canary.statistics.exposures import exposure_by_bounds


class _Audited(Protocol):
    """An audit, which uses this module for its tables."""

    @property
    def model(self) -> Any: ...

    @property
    def canaries(self) -> tuple[Any, ...]: ...

    @property
    def extractions(self) -> tuple[Extraction, ...]: ...


_AnAudit = TypeVar("_AnAudit", bound=_Audited)

_MOST = 1_000  # places that are counted one by one; of later ones only the bits are kept


def with_search(audit: _AnAudit) -> _AnAudit:
    """The audit with the small ranks that extractions prove, where they say more than it does.

    Exposures alone are better known then: the p-values of the audit stay those of its method.
    """
    found = {}
    for extraction in audit.extractions:
        space_bits = math.log2(extraction.space_size)
        for c in extraction.candidates:
            ends = (c.exposure_upper_bits, c.exposure_lower_bits)
            first, last = (round(2.0 ** max(space_bits - bits, 0.0)) for bits in ends)
            if last < _MOST:
                found[c.canary] = exposure_by_bounds(
                    lower=first,
                    upper=last,
                    rank=first if first == last else None,
                    space_size=extraction.space_size,
                )
    canaries = (
        replace(c, exposure=replace(better, p_value=c.exposure.p_value))
        if (better := found.get(c.id)) and better.lower_bits > c.exposure.lower_bits
        else c
        for c in audit.canaries
    )
    known: Any = audit
    return replace(known, canaries=tuple(canaries))  # type: ignore[no-any-return]


def unsearched(audit: _Audited) -> Iterator[str]:
    """Why an audit of a server knows only bounds of ranks: it had no search, or a short one.

    A search gives these ranks there, where no method but draws can be paid for.
    """
    served = audit.model.get("device") == "served" and "score" in audit.model.get(
        "capabilities", ()
    )
    known = with_search(audit).canaries if served else ()
    if all(c.control or c.exposure.bits is not None for c in known):
        return
    spent = [some.settings["budget"] for some in audit.extractions if some.stopped == "budget"]
    cure = "--extraction-budget (in Python extraction_budget), or use canary exposure --top-k 20"
    bounds = "so some ranks of memorized canaries are only bounds"
    if not audit.extractions:
        yield f"no search was made, {bounds}: give {cure}"
    elif spent:
        yield f"the search ended at its budget of {max(spent):,} queries, {bounds}: raise {cure}"
