"""Hits of canaries that were not learned, and intervals by the number of hits."""

from __future__ import annotations

import functools

import numpy as np

from canary.statistics.exposures import exposure_by_draws


def unlearned_hits(rng, *, audits, canaries, draws):
    """Draws as likely as each of some canaries that were not learned; shape (audits, canaries).

    Canary by canary in the order of their shares, the draws that fall between it and the one
    before are binomial: the same numbers as by drawing and sorting all of them.
    """
    shares = np.sort(rng.random((audits, canaries)), axis=1)
    hits = np.empty((audits, canaries), np.int64)
    below, hit = np.zeros(audits), np.zeros(audits, np.int64)
    for at in range(canaries):
        part = (shares[:, at] - below) / (1 - below)
        hit = hit + rng.binomial(draws - hit, part)
        hits[:, at], below = hit, shares[:, at]
    return rng.permuted(hits, axis=1)


@functools.cache
def ends_by_hits(draws, space_size):
    """Lower and upper ends of `exposure_by_draws`, for each number of hits from 0 on."""
    found = exposure_by_draws(
        np.arange(draws + 1.0), np.arange(1.0, draws + 1), space_size=space_size
    )
    return tuple(np.array([getattr(e, f"{end}_bits") for e in found]) for end in ("lower", "upper"))
