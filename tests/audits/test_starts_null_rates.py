"""Models that learned nothing: p-values after a chosen start token, and passes withdrawn."""

from __future__ import annotations

import numpy as np
import pytest
from null_starts import null_model
from scipy.stats import binom, kstest
from started import TEXT

from canary.audits.start_search import started
from canary.corpus.canaries import generate
from canary.scoring.batcher import Batcher
from canary.scoring.run_options import RunOptions
from canary.search.pricing import Pricer
from canary.search.ranking import draw
from canary.statistics.exposures import exposure_by_draws
from canary.statistics.pvalues import fisher


def null_audit(seed):
    """The token that is chosen, Fisher's p-value after it, and whether it has a rival."""
    model = null_model(seed)
    canaries = generate(TEXT, repetitions=[1, 4], per_repetition=4, controls=1, seed=seed)
    (format,) = canaries.formats
    options = RunOptions(batch_size=256, seed=seed)
    options, start = started(model, canaries.formats, options, canaries=canaries, draws=400)
    drawn = draw(
        Pricer(model, format, options.encoder(model)),
        Batcher(model, batch_size=256),
        [c.fill for c in canaries.injected],
        count=400,
        rng=np.random.default_rng(seed),
    )
    exposures = exposure_by_draws(
        drawn.canaries.px_bits, drawn.px_bits, space_size=format.size, noise_bits=0.0
    )
    p = fisher([e.p_value for e in exposures], shared_draws=400).p_value
    return start.token, p, bool(start.rivals)


def check_rates(audits):
    tokens, p_values, rivals = zip(*audits, strict=True)
    assert len(set(tokens)) > 1  # a choice was made
    # p-values are at least as large as uniform ones, but for one simulation in 1,000.
    assert kstest(p_values, "uniform", alternative="greater").pvalue > 0.001
    # At most 1 % of null audits have a rival.
    assert sum(rivals) <= binom.ppf(0.999, len(audits), 0.01)


def test_a_few_null_audits():
    check_rates([null_audit(seed) for seed in range(10)])


@pytest.mark.slow
def test_many_null_audits():
    check_rates([null_audit(seed) for seed in range(1_000)])
