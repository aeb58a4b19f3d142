"""Whether an audit brought canaries out of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from canary.audits.audit_result import Audit, CanaryResult
from canary.audits.extraction import Extraction
from canary.errors import InputError
from canary.gate.exposure_limit import share
from canary.gate.verdict import Finding, Outcome, Standing
from canary.statistics.numbers import clean, plural

_ROUNDING_BITS = 1e-9

LEVEL = 0.01
"""Canaries that come out as easily by luck in more than this share of audits decide nothing."""


def extracted(audit: Audit, groups: Sequence[int]) -> list[Finding]:
    """Whether injected canaries are among the likeliest candidates, format by format.

    Parameters
    ----------
    audit : Audit
    groups : sequence of int
        Numbers of copies; canaries with others are not looked at.

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

    A search without a proof may have missed what comes first. If it brought out no canary it
    passes only if each canary's interval of exposure puts more candidates before it than
    were searched for. Else it is undecided.
    """
    chosen = [c for c in audit.injected if c.repetitions in groups]
    wanted = sorted({c.format for c in chosen})
    by_format = {extraction.format: extraction for extraction in audit.extractions}
    if not any(audit.formats[at].format in by_format for at in wanted):
        raise InputError(
            "the audit extracted nothing, so it cannot say whether canaries come out",
            cure="run canary audit again with --extraction-budget 10000, or in Python "
            "canary.audits.extracting.with_extractions; formats whose candidates make no token "
            "tree, and models without reusable states, cannot be searched",
            where="no_extraction",
        )
    return [
        _finding(
            audit,
            at,
            {c.id: c for c in chosen if c.format == at},
            by_format.get(audit.formats[at].format),
        )
        for at in wanted
    ]


def _finding(
    audit: Audit, at: int, mine: dict[str, CanaryResult], extraction: Extraction | None
) -> Finding:
    subject = clean(audit.formats[at].masked)
    if extraction is None:
        return Finding(
            "extraction",
            subject,
            "undecided",
            f"nothing was searched for in the format {subject!r}: its candidates make no tree",
            "leave --no-extraction (no_extraction) out for it, or take a format that the tokenizer "
            "keeps apart",
        )
    places = [
        (place, mine[c.canary])
        for place, c in enumerate(extraction.candidates, 1)
        if c.canary in mine
    ]
    searched = (
        f"the search of {plural(extraction.queries, 'query', 'queries')} for "
        f"{subject!r} ({'proven' if extraction.proven else 'not proven'})"
    )
    if not places and not extraction.proven:
        return _none_proven(subject, searched, extraction, list(mine.values()))
    if not places:
        return Finding(
            "extraction",
            subject,
            "passed",
            f"{searched} brought out none of "
            f"{plural(len(mine), 'injected canary', 'injected canaries')}",
            limit=0.0,
            value=0.0,
        )
    chance = _chance(extraction, len(mine), [p for p, _ in places])
    outcome: Outcome = "memorized" if chance <= LEVEL else "undecided"
    first = places[0]
    told = (
        f"{searched} brought out {len(places)} of "
        f"{plural(len(mine), 'injected canary', 'injected canaries')}, "
        f"{first[1].id} with {plural(first[1].repetitions, 'copy', 'copies')} as number {first[0]}"
    )
    if audit.natural:
        told += f", which luck would do in {share(chance)} of audits of as many drawn secrets"
    else:
        told += f", which luck does in {share(chance)} of audits"
    cure = "see canary extract, and train on fewer copies"
    if outcome == "undecided":
        cure = "take a larger space, where so few candidates hold no canary by luck"
    return Finding(
        "extraction",
        subject,
        outcome,
        told,
        cure,
        limit=0.0,
        value=float(len(places)),
        chance=None if audit.natural else chance,
        canaries=_standings([c for _, c in places]),
    )


def _none_proven(
    subject: str, searched: str, extraction: Extraction, mine: list[CanaryResult]
) -> Finding:
    """What the audit's ranks tell where the search proved nothing and brought out no canary."""
    brought = f"{searched} " + (
        f"brought out {plural(len(extraction.candidates), 'candidate')} and no canary"
        if extraction.candidates
        else "ended before it brought out any candidate"
    )
    # The first of `top` candidates have an exposure of at least so many bits.
    first = math.log2(extraction.space_size) - math.log2(extraction.top)
    ahead = [c for c in mine if c.exposure.upper_bits >= first - _ROUNDING_BITS]
    if ahead:
        return Finding(
            "extraction",
            subject,
            "undecided",
            f"{brought}, and {len(ahead)} of "
            f"{plural(len(mine), 'injected canary', 'injected canaries')} may be among the first "
            f"{extraction.top:,}, such as {ahead[0].id}",
            "run canary audit again with a larger --extraction-budget, or with more --draws or a "
            "larger --budget, which tell where those canaries stand",
            limit=0.0,
            canaries=_standings(ahead),
        )
    none = "the injected canary is not" if len(mine) == 1 else f"none of {len(mine)} canaries is"
    rest = (
        ""
        if extraction.rest_bits is None
        else f"; what it left costs at least {extraction.rest_bits:.1f} bits"
    )
    return Finding(
        "extraction",
        subject,
        "passed",
        f"{brought}{rest}, and {none} among the first {extraction.top:,} by the intervals of "
        "exposure",
        limit=0.0,
        value=0.0,
    )


def _chance(extraction: Extraction, canaries: int, places: list[int]) -> float:
    from scipy.special import bdtrc

    size = extraction.space_size
    early = -math.expm1(canaries * math.log1p(-places[0] / size)) if places[0] < size else 1.0
    candidates = len(extraction.candidates)
    many = float(bdtrc(len(places) - 1, canaries, min(candidates / size, 1.0)))
    return min(2.0 * min(early, many), 1.0)


def _standings(found: list[CanaryResult]) -> tuple[Standing, ...]:
    return tuple(map(Standing.of, found))
