"""Audits made of numbers, as a model would give them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from drawing import figures
from gate_audits import assembled, space
from html_pages import render

from canary.audits.audit_result import Audit, CanaryResult
from canary.statistics.exposures import (
    RANK,
    RANK_AND_DRAWS,
    exposure_by_bounds,
    exposure_by_bounds_and_draws,
    exposure_by_draws,
    exposure_by_rank,
)
from canary.statistics.extrapolation import exposure_by_skew_normal
from canary.statistics.histogram import HistogramBuilder

MODEL = {
    "name": "checkpoint-1200",
    "vocabulary": 97,
    "length_limit": None,
    "dtype": "float32",
    "attention": "none",
    "device": "cpu",
    "noise_bits_per_token": 2.4e-6,
    "capabilities": ["score", "expand", "reuse"],
}


NINE = {"text": "The random number is {digit:9}", "masked": "The random number is •••••••••"}
SETTINGS = {"method": "auto", "budget": 1_000_000, "draws": 20_000, "seed": 0}


def finish(canaries, formats):
    return replace(assembled(canaries, formats), model=MODEL, settings=SETTINGS)


def make_audit(
    *,
    repetitions=(1, 4, 16, 64),
    per_repetition=8,
    controls=16,
    bits_per_doubling=3.0,
    method="enumeration",
    space_size=1_000_000,
    draws=20_000,
    text="The random number is {digit:6}",
    masked="The random number is ••••••",
    at=0,
    first=1,
    seed=0,
):
    """An audit in which a canary of `n` copies is `bits_per_doubling * log2(2 n)` bits likelier.

    Log-perplexities of what was not learned are normal around 32 bits.
    """
    rng = np.random.default_rng(seed)
    copies = [n for n in repetitions for _ in range(per_repetition)] + [0] * controls
    enumerated = method == "enumeration"
    others = rng.normal(32, 2.2, min(space_size, 100_000) if enumerated else draws)
    gain = bits_per_doubling * np.array([math.log2(2 * n) if n else 0 for n in copies])
    px = np.maximum(rng.normal(32, 2.2, len(copies)) - gain, 3 + rng.random(len(copies)))
    if enumerated:
        ranks = 1 + np.searchsorted(np.sort(others), px) * (space_size // len(others))
        found = [
            exposure_by_rank(
                int(r), lower=max(int(r) - 1, 1), upper=min(int(r) + 1, space_size),
                space_size=space_size,
            )
            for r in ranks
        ]  # fmt: skip
    else:
        found = exposure_by_draws(px, others, space_size=space_size, noise_bits=1e-5)
    # An enumerated space is extrapolated from draws of it, as in an audit.
    skewed, fit = exposure_by_skew_normal(
        px, others[:20_000], space_size=space_size, rng=rng, replicates=20
    )
    ids = [f"canary-{first + i}" for i in range(len(copies) - controls)]
    ids += [f"control-{first + i}" for i in range(controls)]
    canaries = [
        CanaryResult(name, at, n, float(p), 9.25, e, s)
        for name, n, p, e, s in zip(ids, copies, px, found, skewed, strict=True)
    ]
    histogram = HistogramBuilder()
    histogram.add(others)
    priced = replace(
        space(text, size=space_size, method=method, draws=None if enumerated else draws),
        masked=masked,
        reason="1,000,000 candidates need 111,110 queries, within the budget of 1,000,000"
        if enumerated
        else "111,111,110 queries exceed the budget of 1,000,000",
        histogram=histogram.build(),
        skew_normal=fit,
        candidates=space_size if enumerated else draws,
        queries=111_110 if enumerated else draws * 9,
        noise_bits=6.7e-5,
        certificate="certified: one token per character" if enumerated else None,
        seconds=12.3,
    )
    return finish(canaries, [priced])


def ranked(method, **options):
    """An audit of 10**9 candidates with a walk: all that cost up to 22.2 bits were counted."""
    size, draws = 10**9, 20_000
    base = make_audit(method="uniform draws", space_size=size, draws=draws, **NINE, **options)

    def found(canary):
        # The canaries are candidates, too: those as likely as this one, itself included.
        mine = sum(c.px_bits <= canary.px_bits for c in base.canaries)
        rank = mine + round(size * NormalDist(32, 2.2).cdf(canary.px_bits))
        ends = {"lower": min(8_000, rank), "upper": size}
        if canary.px_bits <= 22.2:
            ends = {"lower": rank, "upper": min(rank + 1, size), "rank": rank}
        certain = exposure_by_bounds(**ends, space_size=size)
        if method == RANK:
            return certain
        return exposure_by_bounds_and_draws(certain, canary.exposure)

    canaries = [replace(c, exposure=found(c)) for c in base.canaries]
    exact = sum(c.exposure.exact for c in canaries)
    priced = replace(
        base.formats[0],
        method=method,
        reason="enumeration would take 111,111,110 queries, the budget is 1,000,000; branch and "
        f"bound ranked {exact} of {len(canaries)} canaries exactly, with 48,211 queries",
        candidates=draws + 30_000,
        certificate="certified: one token per character",
    )
    return finish(canaries, [priced])


def hostile():
    """Text that wants to be markup, a command or another page."""
    audit = make_audit(
        text='<script>alert(1)</script>{digit:6}"\x1b[31m\u202egnp.exe',
        masked="<script>alert(1)</script>•••••• & $\\frac{1}{0}$ \ud800",
    )
    priced = replace(
        audit.formats[0],
        reason='"><img src=x onerror=alert(1)>',
        certificate="</style><link rel=stylesheet href=http://example.org>",
    )
    canaries = (replace(audit.canaries[0], id="<b>canary-1</b>"), *audit.canaries[1:])
    model = {
        **MODEL,
        "name": "</title><script src=//example.org/x.js></script>\x00\x07",
        "<i>odd</i>": {"nested": ["<u>", None]},
    }
    settings = {"start_token": "<|endoftext|>", "context": "javascript:alert(1)\x9b"}
    return replace(audit, formats=(priced,), canaries=canaries, model=model, settings=settings)


def two_formats():
    a = make_audit(per_repetition=4, controls=8)
    b = make_audit(
        method="uniform draws", space_size=10**9, at=1, first=17, seed=5, per_repetition=4,
        controls=8, text="My SSN is {digit:3}-{digit:2}-{digit:4}", masked="My SSN is •••-••-••••",
    )  # fmt: skip
    return finish([*a.canaries, *b.canaries], [*a.formats, *b.formats])


AUDITS: dict[str, Callable[[], Audit]] = {
    "enumerated": make_audit,
    "draws": lambda: make_audit(
        method="uniform draws", space_size=10**9, bits_per_doubling=2.2, **NINE
    ),
    "rank": lambda: ranked(RANK),
    "rank and draws": lambda: ranked(RANK_AND_DRAWS),
    "all ranked": lambda: ranked(
        RANK_AND_DRAWS, repetitions=(64,), controls=0, bits_per_doubling=6.0
    ),
    "nothing learned": lambda: make_audit(bits_per_doubling=0.0),
    "no controls": lambda: make_audit(controls=0),
    "only controls": lambda: make_audit(repetitions=()),
    "hostile": hostile,
    "two formats": two_formats,
    "many groups": lambda: make_audit(
        repetitions=range(1, 31), per_repetition=1, method="uniform draws", space_size=10**9,
        bits_per_doubling=2.0,
    ),
    "one canary": lambda: make_audit(repetitions=(1,), per_repetition=1, controls=1),
    "no canaries": lambda: make_audit(repetitions=(), controls=0),
}  # fmt: skip


class Made(dict[str, Any]):
    """A mapping that makes each value when it is first asked for."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def __missing__(self, name):
        self[name] = self.make(name)
        return self[name]


@pytest.fixture(scope="session")
def audits():
    """The audits of the factory, by name."""
    return Made(lambda name: AUDITS[name]())


DRAWN = ("hostile", "rank and draws", "many groups")
"""Audits whose figures are drawn, too: one of each that draws in a way of its own."""


@pytest.fixture(scope="session")
def pages(audits):
    """Their reports, as HTML, without figures but for those of `DRAWN`."""

    def make(name):
        with figures(drawn=name in DRAWN):
            return render(audits[name])

    return Made(make)


@pytest.fixture
def plain():
    """Asked for by tests of what stands beside the figures of a page."""
    with figures(drawn=False):
        yield


def pytest_generate_tests(metafunc):
    if "every_name" in metafunc.fixturenames:
        metafunc.parametrize("every_name", AUDITS)
