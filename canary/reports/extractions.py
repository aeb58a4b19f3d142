"""What could be extracted, in words and rows, with no secret in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.statistics.numbers import bits, count, plural

if TYPE_CHECKING:
    from canary.audits.extraction import Extraction
    from canary.audits.result import Audit

__all__ = ["extraction_sentence", "extraction_view"]

_MOST_ROWS = 25


def extraction_sentence(audit: Audit, extraction: Extraction) -> str:
    """How many canaries came out, at what cost, against guessing; one or two sentences."""
    injected = {c.id for c in audit.injected if _same(audit, c.format, extraction)}
    found = [c for c in extraction.candidates if c.canary in injected]
    put_in = "injected canaries" if audit.canaries_in_corpus else "canaries, which were left out,"
    if audit.natural:
        put_in = "secrets"
    if not extraction.candidates:
        where = "" if extraction.certified else " of a token tree that is not certified"
        came = (
            f"Nothing was extracted: no candidate{where} costs less than {_rest(extraction)} bits, "
            f"and the search ended before it came to one, as {extraction.why_stopped}"
        )
    else:
        tried = plural(len(extraction.candidates), "candidate")
        proof = "proven" if extraction.proven else "not all of them proven"
        if not extraction.certified:
            proof = f"not proven, for the token tree is {extraction.certificate}"
        came = (
            f"The search brought {tried} out of the model, as the likeliest of all, {proof}; "
            f"{len(found)} of the {len(injected)} {put_in} are among them"
        )
        if found and found[0] is extraction.candidates[0]:
            came += ", and the very first is one"
    return (
        f"{came}. It took {plural(extraction.queries, 'query', 'queries')}; guessing at random "
        f"takes {plural(round(extraction.random_guesses), 'guess', 'guesses')} on average "
        "for one given secret."
    )


def extraction_view(audit: Audit, extraction: Extraction) -> dict[str, Any]:
    """What a report shows of an extraction."""
    shown = extraction.candidates[:_MOST_ROWS]
    return {
        "masked": extraction.masked,
        "sentence": extraction_sentence(audit, extraction),
        "left_out": len(extraction.candidates) - len(shown),
        "rows": [
            {
                "place": str(place),
                "canary": c.canary or "none of the set",
                "px": f"{c.px_bits:.2f}",
                "exposure": _interval(c.exposure_lower_bits, c.exposure_upper_bits),
                "proven": "yes" if c.proven else "no",
                "found_after": count(c.found_after),
            }
            for place, c in enumerate(shown, 1)
        ],
    }


def _interval(low: float, high: float) -> str:
    return bits(low) if bits(low) == bits(high) else f"{bits(low)} to {bits(high)}"


def _rest(extraction: Extraction) -> str:
    return "any number of" if extraction.rest_bits is None else f"{extraction.rest_bits:.2f}"


def _same(audit: Audit, number: int, extraction: Extraction) -> bool:
    return audit.formats[number].format == extraction.format
