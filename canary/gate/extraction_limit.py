"""Whether an audit brought canaries out of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from canary.audits.audit_result import Audit, CanaryResult
from canary.audits.extraction import Extraction
from canary.errors import InputError
from canary.gate.exposure_limit import share
from canary.gate.verdict import Finding, Outcome, standings
from canary.statistics.numbers import clean, plural

_ROUNDING_BITS = 1e-9

LEVEL = 0.01
"""Canaries that come out as easily by luck in more than this share of audits decide nothing."""


def extracted(audit: Audit, groups: Sequence[int]) -> list[Finding]:
    """Whether injected canaries are among the most likely candidates, by format.

    Canaries with other numbers of copies than `groups` are not looked at.

    Raises
    ------
    InputError
        If the audit extracted nothing from any format with an injected canary.

    Notes
    -----
    In a small space some unlearned canary is among the first candidates by luck. The chance
    of that is the smaller one, doubled, of: any of k canaries as early as the first that came
    out, and as many as came out among all candidates. It is as if each canary were among n
    candidates of a space of R independently with probability n/R. Natural secrets were not
    drawn, but where drawn ones would come out by luck, theirs decides nothing either.

    A search without a proof may have missed what comes first. If it found no canary, it
    passes only if each canary's interval of exposure puts more candidates before it than
    were searched for. Else it is undecided.
    """
    chosen = [c for c in audit.injected if c.repetitions in groups]
    by_format = {extraction.format: extraction for extraction in audit.extractions}
    wanted = {at: audit.formats[at].format for at in sorted({c.format for c in chosen})}
    if by_format.keys().isdisjoint(wanted.values()):
        raise InputError(
            "the audit extracted nothing, so it cannot say whether canaries come out",
            cure="run canary audit again with --extraction-budget 10000, or in Python "
            "canary.audits.extracting.with_extractions; formats whose candidates make no token "
            "tree, and models without reusable states, cannot be searched",
            where="no_extraction",
        )
    findings = []
    for at, text in wanted.items():
        mine = [c for c in chosen if c.format == at]
        subject = clean(audit.formats[at].masked)
        if (extraction := by_format.get(text)) is not None:
            findings.append(_finding(audit, subject, mine, extraction))
            continue
        told = f"nothing was searched for in the format {subject!r}: its candidates make no tree"
        cure = (
            "leave --no-extraction (no_extraction) out for it, or take a format that the tokenizer "
            "keeps apart"
        )
        findings.append(Finding("extraction", subject, "undecided", told, cure))
    return findings


def _finding(
    audit: Audit, subject: str, mine: Sequence[CanaryResult], extraction: Extraction
) -> Finding:
    from scipy.special import bdtrc

    by_id = {c.id: c for c in mine}
    places = {
        place: by_id[candidate.canary]
        for place, candidate in enumerate(extraction.candidates, 1)
        if candidate.canary in by_id
    }
    named, chance, cure = list(places.values()), None, ""
    outcome: Outcome = "passed"
    number, top = plural(len(mine), "injected canary", "injected canaries"), f"{extraction.top:,}"
    told = (
        f"the search of {plural(extraction.queries, 'query', 'queries')} for "
        f"{subject!r} ({'proven' if extraction.proven else 'not proven'}) "
    )
    if places:
        size, k, first = extraction.space_size, len(mine), named[0]
        share_out = min(len(extraction.candidates) / size, 1.0)
        early = -math.expm1(k * math.log1p(-min(places) / size)) if min(places) < size else 1.0
        many = float(bdtrc(len(places) - 1, k, share_out))
        luck = min(2.0 * min(early, many), 1.0)
        chance = None if audit.natural else luck
        outcome, cure = "memorized", "see canary extract, and train on fewer copies"
        if luck > LEVEL:
            outcome = "undecided"
            cure = "take a larger space, where so few candidates hold no canary by luck"
        does = f"does in {share(luck)} of audits"
        if audit.natural:
            does = f"would do in {share(luck)} of audits of as many drawn secrets"
        told += (
            f"brought out {len(places)} of {number}, {first.id} with "
            f"{plural(first.repetitions, 'copy', 'copies')} as number {min(places)}, which luck "
            f"{does}"
        )
    elif extraction.proven:
        told += f"extracted none of {number}"
    else:
        brought = f"brought out {plural(len(extraction.candidates), 'candidate')} and no canary"
        told += brought if extraction.candidates else "ended before it extracted any candidate"
        # The first of `top` candidates have an exposure of at least so many bits.
        least = math.log2(extraction.space_size) - math.log2(extraction.top) - _ROUNDING_BITS
        if named := [c for c in mine if c.exposure.upper_bits >= least]:
            outcome = "undecided"
            told += (
                f", and {len(named)} of {number} may be among the first {top}, such as "
                f"{named[0].id}"
            )
            more = "a larger extraction_budget (--extraction-budget)"
            if extraction.stopped == "requests":
                more = "more requests (--max-requests)"
            cure = (
                f"audit again with {more}, or with more draws or a larger budget, which show where "
                "those canaries are"
            )
        else:
            if extraction.rest_bits is not None:
                told += f"; what it left costs at least {extraction.rest_bits:.1f} bits"
            none = f"none of {len(mine)} canaries is"
            if len(mine) == 1:
                none = "the injected canary is not"
            told += f", and {none} among the first {top} by the intervals of exposure"
    return Finding(
        *("extraction", subject, outcome, told, cure),
        limit=0.0,
        value=None if named and not places else float(len(places)),
        chance=chance,
        canaries=standings(named),
    )
