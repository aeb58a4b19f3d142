"""Samples of classifiers go through the same loop as rows and nodes."""

from __future__ import annotations

import numpy as np
import pytest

from canary.scoring.samples import class_log_probs


class Fast:
    """Faster the more samples it is given; keeps the sizes of its batches."""

    name, device, fingerprint = "fast", "elsewhere", None

    def __init__(self):
        self.sizes = []

    def log_probs(self, inputs):
        self.sizes.append(len(inputs))
        return np.full((len(inputs), 2), -np.log(2))


@pytest.mark.parametrize(("width", "most"), [(1, 2**20), (2**16, 2**28 // 2**19)])
def test_batches_grow_as_far_as_the_samples_are_small(width, most, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    model = Fast()
    inputs = np.broadcast_to(np.zeros(width), (200_000, width))
    places = [part for part, _ in class_log_probs(model, inputs)]
    assert sum(part.stop - part.start for part in places) == 200_000
    assert max(model.sizes) <= most
    assert max(model.sizes) > (4_096 if width == 1 else 256)
