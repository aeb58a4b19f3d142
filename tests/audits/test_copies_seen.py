"""Many copies that are learned no better than one, as after de-duplication."""

from __future__ import annotations

import numpy as np
import pytest

from canary.audits.audit_result import CanaryResult
from canary.audits.copies_seen import note_on_copies
from canary.statistics.exposures import exposure_by_draws

SPACE = 10**6


def results(gains, *, each=8, seed=0, draws=1000):
    """Canaries of 1 and 64 copies that are likelier by some bits than what was not learned."""
    rng = np.random.default_rng(seed)
    others = rng.normal(30.0, 3.0, draws)
    px = np.concatenate([rng.normal(30.0 - gain, 2.0, each) for gain in gains])
    found = exposure_by_draws(px, others, space_size=SPACE)
    copies = [1] * each + [64] * each
    return [
        CanaryResult(f"canary-{at}", 0, n, float(bits), None, exposure, None)
        for at, (n, bits, exposure) in enumerate(zip(copies, px, found, strict=True))
    ]


@pytest.mark.parametrize(
    ("gains", "noted"),
    [((5.0, 5.0), True), ((3.5, 9.0), False), ((0.0, 0.0), False), ((15.0, 15.0), False)],
    ids=["de-duplicated", "as planned", "not learned", "as high as is seen"],
)
def test_only_copies_that_made_no_difference_are_noted(gains, noted):
    found = [note_on_copies(results(gains, seed=seed)) for seed in range(10)]
    assert sum(map(bool, found)) >= 5 if noted else not any(found)
    assert not noted or "de-duplicated after canary inject" in str(found)


def test_too_few_canaries_and_one_group_are_not_judged():
    assert note_on_copies(results((3.5, 3.5), each=3)) is None
    assert note_on_copies(results((3.5, 3.5))[:8]) is None
    assert note_on_copies([]) is None
