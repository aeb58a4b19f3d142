"""Whether an audit brought canaries out of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from canary.audits.audit_result import Audit, CanaryResult
from canary.audits.extraction import Extraction
from canary.errors import InputError
from canary.formats.unplanted import noted
from canary.gate.exposure_limit import share
from canary.gate.subjects import nothing_to_check
from canary.gate.verdict import (
    Finding,
    Outcome,
    Policy,
    Standing,
    Verdict,
    standings,
    verdict_on,
)
from canary.statistics.numbers import clean, plural

_ROUNDING_BITS = 1e-9
OWN_CANDIDATES = "a set made from the model's own candidates always comes out, and shows nothing"

NOT_DRAWN = "these secrets were not drawn at random, so luck has an unknown chance"
"""What is said of natural secrets that come out, which decides nothing."""

FIND_OUT = (
    "find out where the set comes from: secrets that canary discover found in the training data "
    "may be those of real people; for a chance, inject canaries of canary generate"
)
"""The cure."""

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
    drawn, so that they come out decides nothing.

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
            "canary.audits.extracting.with_extractions; search a server that returns only the most "
            "likely tokens by canary extract --top-k 20, and check its file; formats whose "
            "candidates make no token tree, and models without reusable states, cannot be "
            "searched",
            where="no_extraction",
        )
    findings = []
    for at, text in wanted.items():
        mine = [c for c in chosen if c.format == at]
        subject = clean(audit.formats[at].masked)
        if (extraction := by_format.get(text)) is not None:
            copies = {c.id: c.repetitions for c in mine}
            findings.append(_finding(extraction, subject, copies, natural=audit.natural, mine=mine))
            continue
        told = f"nothing was searched for in the format {subject!r}: its candidates make no tree"
        cure = (
            "leave --no-extraction (no_extraction) out for it, or take a format that the tokenizer "
            "keeps apart"
        )
        findings.append(Finding("extraction", subject, "undecided", told, cure))
    return findings


def check_extraction(
    given: Any, *, no_extraction: bool, trust_injection: bool, undecided: Policy
) -> Verdict:
    """The verdict on an `Extraction` or its file; see `canary.check`.

    Raises
    ------
    InputError
        If there is no limit, or the extraction does not know which canaries were planted.
    RecordError
        If the file is damaged or too new.
    """
    if not no_extraction:
        raise nothing_to_check("an extraction")
    result = (given if isinstance(given, Extraction) else Extraction.load(given)).hidden()
    planted = {name: copies for name, copies in result.canaries.items() if copies}
    if not planted:
        none = "its set has only controls" if result.canaries else "it was not given its canaries"
        raise InputError(
            f"the extraction cannot say which candidates are planted secrets: {none}",
            cure="run canary extract again with --canaries FILE, the set that was injected",
            where=result.file or "no_extraction",
        )
    subject = clean(result.masked)
    finding = _finding(result, subject, planted, natural=result.natural)
    if finding.outcome == "passed" and not result.natural and (doubts := noted(result.notes)):
        problem, cure = doubts[0]
        told = f"{finding.sentence}, but {problem}"
        finding = replace(finding, outcome="undecided", sentence=told, cure=cure)
    notes = [*result.notes]
    if finding.outcome == "passed" and not (trust_injection or result.natural):
        told = (
            f"{finding.sentence}, and nothing shows that the canaries were in the training data of "
            "this model: one that never read them looks the same"
        )
        cure = (
            "audit the model (canary audit), which looks for weaker traces; or, if you know that "
            "they were in it, say so with --trust-injection, in Python trust_injection"
        )
        finding = replace(finding, outcome="undecided", sentence=told, cure=cure)
    elif finding.outcome == "passed" and not result.natural:
        notes.append("that the canaries were in the training data is your word")
    names = ("secret", "secrets") if result.natural else ("planted canary", "planted canaries")
    allowed = f"none of {plural(len(planted), *names)} comes out"
    return verdict_on(
        *("an extraction", [finding], undecided, notes),
        about={"Limit": f"{allowed} of a search for {plural(result.top, 'candidate')}"},
        tested=result, source=(result.to_dict(), result.file),
    )  # fmt: skip


def _finding(
    extraction: Extraction,
    subject: str,
    copies: Mapping[str, int],
    *,
    natural: bool,
    mine: Sequence[CanaryResult] | None = None,
) -> Finding:
    """What a search for these canaries, by id with their copies, brought out.

    `mine` are their exposures in an audit, by which a search without a proof may pass.
    """
    names = ("secret", "secrets") if natural else ("injected canary", "injected canaries")
    number = plural(len(copies), *names)
    told = (
        f"the search of {plural(extraction.queries, 'query', 'queries')} for "
        f"{subject!r} ({'proven' if extraction.proven else 'not proven'}) "
    )
    places = {place: c for place, c in enumerate(extraction.candidates, 1) if c.canary in copies}
    if not places and extraction.proven:
        tried = plural(len(extraction.candidates), "guess", "guesses")
        told += f"extracted none of {number} in {tried}"
        return Finding("extraction", subject, "passed", told, limit=0.0, value=0.0)
    if not places:
        brought = f"brought out {plural(len(extraction.candidates), 'candidate')} and no canary"
        told += brought if extraction.candidates else "ended before it extracted any candidate"
        return _unproven(extraction, subject, told, number, mine)
    if mine is None:
        named = tuple(
            Standing(str(c.canary), n, None, c.exposure_lower_bits, c.exposure_upper_bits)
            for c in places.values()
            for n in [copies[str(c.canary)]]
        )
    else:
        by_id = {c.id: c for c in mine}
        named = standings(by_id[str(c.canary)] for c in places.values())
    first, luck = named[0], luck_of(extraction, len(copies), [*places])
    outcome: Outcome = "memorized"
    cure = "see canary extract, and train on fewer copies"
    does = f"luck alone does this in {share(luck)} of audits"
    if natural:
        outcome, does, cure = "undecided", f"{NOT_DRAWN}; {OWN_CANDIDATES}", FIND_OUT
    elif luck > LEVEL:
        outcome = "undecided"
        cure = "take a larger space, where so few candidates hold no canary by luck"
    told += (
        f"brought out {len(places)} of {number}, {first.id} with "
        f"{plural(first.repetitions, 'copy', 'copies')} as number {min(places)}; {does}"
    )
    return Finding(
        *("extraction", subject, outcome, told, cure),
        limit=0.0,
        value=float(len(places)),
        chance=None if natural else luck,
        canaries=named,
    )


def luck_of(extraction: Extraction, canaries: int, places: Sequence[int]) -> float:
    """In which share of audits as many come out, or the first as early, of a model without them."""
    from scipy.special import bdtrc

    size, first = extraction.space_size, min(places)
    share_out = min(len(extraction.candidates) / size, 1.0)
    early = -math.expm1(canaries * math.log1p(-first / size)) if first < size else 1.0
    many = float(bdtrc(len(places) - 1, canaries, share_out))
    return min(2.0 * min(early, many), 1.0)


def _unproven(
    extraction: Extraction,
    subject: str,
    told: str,
    number: str,
    mine: Sequence[CanaryResult] | None,
) -> Finding:
    """Of a search that found no canary and proved nothing: it may have missed what comes first."""
    top = f"{extraction.top:,}"
    # The first of `top` candidates have an exposure of at least so many bits.
    least = math.log2(extraction.space_size) - math.log2(extraction.top) - _ROUNDING_BITS
    may = [c for c in mine or () if c.exposure.upper_bits >= least]
    more = "a larger extraction_budget (--extraction-budget)"
    if mine is None:
        more = "a larger budget (--budget)"
    if extraction.stopped == "requests":
        more = "more requests (--budget, --max-requests)"
    if mine is None:
        told += f", and any of {number} may be among the first {top}"
        return Finding("extraction", subject, "undecided", told, f"search again with {more}",
                       limit=0.0)  # fmt: skip
    if may:
        told += f", and {len(may)} of {number} may be among the first {top}, such as {may[0].id}"
        cure = (
            f"audit again with {more}, or with more draws or a larger budget, which show where "
            "those canaries are"
        )
        return Finding("extraction", subject, "undecided", told, cure, limit=0.0,
                       canaries=standings(may))  # fmt: skip
    if extraction.rest_bits is not None:
        told += f"; what it left costs at least {extraction.rest_bits:.1f} bits"
    none = f"none of {len(mine)} canaries is"
    if len(mine) == 1:
        none = "the injected canary is not"
    told += f", and {none} among the first {top} by the intervals of exposure"
    return Finding("extraction", subject, "passed", told, limit=0.0, value=0.0)
