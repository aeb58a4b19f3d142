"""Audits made of exposures, as a model would give them, for the gate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from canary.audits.audit_result import CANARY_SET, Audit, CanaryResult, FormatResult, combined_p
from canary.audits.extraction import Candidate, Extraction
from canary.audits.history import History, Moment, WatchedCanary, WatchedFormat
from canary.corpus.verification import Count, Verification
from canary.gate.check_audit import check
from canary.statistics.exposures import (
    ENUMERATION,
    UNIFORM_DRAWS,
    exposure_by_draws,
    exposure_by_rank,
)
from canary.statistics.histogram import HistogramBuilder

SIZE = 10**9
TEXT = "The random number is {digit:9}"
DIGEST = "9f3c1b7e42d05a68" * 4  # of weights
SET = "5e7" * 21 + "a"  # the fingerprint of a canary set

trusting = partial(check, trust_injection=True)
"""`check` of made-up audits, which no corpus was verified for."""


def _histogram():
    builder = HistogramBuilder()
    builder.add(np.linspace(20, 40, 50))
    return builder.build()


HISTOGRAM = _histogram()


def by_bits(bits, *, size=SIZE):
    """Exact exposures of about so many bits."""
    ranks = np.maximum(np.round(size * 2.0 ** -np.asarray(bits, float)), 1).astype(object)
    return [
        exposure_by_rank(r, lower=r, upper=r, space_size=size) for r in map(int, np.ravel(ranks))
    ]


def by_draws(shares, *, draws, rng, size=SIZE):
    """Exposures of canaries that so large a share of the space is as likely as."""
    return exposure_by_draws(shares, rng.random(draws), space_size=size)


def space(text=TEXT, *, size=SIZE, method=ENUMERATION, draws=None, noise=1e-6):
    return FormatResult(
        format=text,
        masked=text.replace("{digit:9}", "•••••••••"),
        space_size=size,
        method=method,
        reason="for a test",
        histogram=HISTOGRAM,
        skew_normal=None,
        candidates=50,
        draws=draws,
        queries=450,
        tokens=28,
        noise_bits=noise,
        certificate=None,
        seconds=1.0,
    )


def of_groups(groups, *, formats=None, fingerprint=DIGEST, extractions=(), at=0, **settings):
    """An audit of exposures by number of copies; 0 holds the controls."""
    canaries, ordinal = [], {True: 0, False: 0}
    for n, exposures in groups.items():
        for e in exposures:
            ordinal[n == 0] += 1
            name = f"{'canary' if n else 'control'}-{ordinal[n == 0]}"
            canaries.append(CanaryResult(name, at, n, 30.0 - (e.bits or 0.0), 9.0, e, None))
    if formats is None:
        drawn = {c.exposure.draws for c in canaries} - {None}
        method = UNIFORM_DRAWS if drawn else ENUMERATION
        formats = [space(method=method, draws=min(drawn, default=None))]
    return assembled(canaries, formats, fingerprint, extractions, **settings)


def assembled(canaries, formats, fingerprint=DIGEST, extractions=(), *, natural=False, **settings):
    injected = [c for c in canaries if c.repetitions]
    return Audit(
        canaries=tuple(canaries),
        formats=tuple(formats),
        injected_p=None if natural else combined_p(injected),
        controls_p=combined_p([c for c in canaries if not c.repetitions]),
        model={"name": "checkpoint", "fingerprint": fingerprint, "dtype": "float32"},
        settings={"method": "auto", "seed": 0, "canary_set": SET, **settings},
        extractions=tuple(extractions),
    )


def exact(groups, **options):
    """An audit of exact exposures in bits, by number of copies."""
    return of_groups({n: by_bits(bits) for n, bits in groups.items()}, **options)


def extraction(found, *, size=SIZE, top=8, proven=True, text=TEXT):
    """What was brought out: ids of canaries by place, others in between."""
    candidates = tuple(
        Candidate(None, 10.0 + place, proven, 9 * place, 0.0, 30.0, found.get(place))
        for place in range(1, top + 1)
    )
    return Extraction(
        format=text,
        masked="The random number is •••••••••",
        space_size=size,
        top=top,
        candidates=candidates,
        context_bits=9.0,
        rest_bits=30.0,
        queries=1234,
        batches=3,
        dropped=0,
        stopped="proof" if proven else "budget",
        noise_bits=0.0,
        certificate="certified",
        seconds=1.0,
        model={},
        settings={},
    )


NEVER = exact({1: [1.0] * 8, 4: [1.0] * 8, 0: [1.0] * 4})
"""Of a model that learned nothing."""

READ = exact({1: [1.0] * 8, 64: [25.0] * 4, 0: [1.0] * 4})
"""Of a model that learned its positive control."""


def verified(audit):
    """A verification that found every copy."""
    counts = tuple(Count(c.id, c.repetitions, c.repetitions, 0) for c in audit.canaries)
    formats = tuple(one.format for one in audit.formats)
    return Verification(counts, "text", 99_000, formats, fingerprint=SET, file="verify.json")


def history(audit=NEVER, *, counted=36, findings=(), **changes):
    """Of a monitor that counted canaries and measured nothing."""
    watched = tuple(WatchedCanary(c.id, c.format, c.repetitions) for c in audit.canaries)
    of = audit.formats[0]
    formats = (WatchedFormat(of.format, of.masked, of.space_size, 10),)
    batches = {"read": 9, "canaries": counted, "after": {}, "findings": list(findings)}
    made = History(watched, formats, (), (), {}, {CANARY_SET: SET}, 0.0, 0.0, 0, batches=batches)
    return replace(made, **changes)


def measured(audit, *, shift=0.0, **batches):
    """A history whose last measurement has the prices of the audit, but for one of them."""
    priced = [c.px_bits for c in audit.canaries]
    last = Moment(7, 1.0, 0.1, (priced[0] + shift, *priced[1:]),
                  tuple(c.exposure for c in audit.canaries), (None,) * len(priced),
                  start_token=audit.settings.get("start_token"))  # fmt: skip
    made = history(audit, counted=40, moments=(last,))
    return replace(made, batches={**made.batches, **batches})
