"""Histories made of numbers, as a training would give them."""

from __future__ import annotations

import numpy as np

from canary.audits.history import History, Loss, Moment, WatchedCanary, WatchedFormat
from canary.statistics.exposures import exposure_by_draws

SPACE = 10**6


def make_history(
    *,
    moments=6,
    learned=True,
    losses=True,
    broken=(),
    marks=(),
    stopped_at=None,
    formats=1,
    seed=0,
    stop_reason=None,
    batches=None,
    late=0,
):
    """Canaries of 16 copies become 5 bits likelier at each moment after `late`; others stay."""
    rng = np.random.default_rng(seed)
    canaries, found = [], []
    for at in range(formats):
        for copies, count in ((1, 3), (16, 3), (0, 4)):
            for _ in range(count):
                name = f"{'canary' if copies else 'control'}-{len(canaries) + 1}"
                canaries.append(WatchedCanary(name, at, copies))
    own = rng.normal(30.0, 2.0, len(canaries))
    draws = rng.normal(30.0, 2.0, 400)
    for number in range(1, moments + 1):
        step = 10 * number
        if number in broken:
            reason = "the model 'net' gives log-probabilities that are not finite numbers"
            found.append(Moment(step, step / 40, 0.2, reason=reason))
            continue
        gain = np.array(
            [
                5.0 * max(number - late, 0) if c.repetitions == 16 and learned else 0.0
                for c in canaries
            ]
        )
        px = np.maximum(own - gain, 0.5)
        curve = tuple(float(v) for v in np.maximum(33.0 - px, 0.0))
        exposures = tuple(exposure_by_draws(px, draws, space_size=SPACE))
        found.append(Moment(step, step / 40, 0.2, tuple(px.tolist()), exposures, curve))
    return History(
        canaries=tuple(canaries),
        formats=tuple(
            WatchedFormat(f"code {at} {{digit:6}}", f"code {at} ••••••", SPACE, 400)
            for at in range(formats)
        ),
        moments=tuple(found),
        losses=tuple(Loss(5 * n, 4.0 / n) for n in range(1, 13)) if losses else (),
        model={"name": "net", "dtype": "float32", "vocabulary": 97},
        settings={
            "draws": 400,
            "seed": 0,
            "start_token": None,
            "context": "",
            "every": 10,
            "steps": [],
            "share": 0.05,
            "stop_above_bits": None if stopped_at is None else 6.0,
            "marks": list(marks),
        },
        training_seconds=100.0,
        own_seconds=4.5,
        asked=moments + 2,
        stopped_at=stopped_at,
        stop_reason=stop_reason,
        batches=batches or {},
    )
