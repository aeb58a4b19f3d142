"""Metric attacks, thresholds and risk scores; and the threshold search against a plain one.

    python tests/benchmarks/membership.py [--samples 1000000] [--classes 100] [--each 50000]

The first part makes float32 logits of a target and of a shadow, each of so many samples and
classes, and does all with them: signals, eleven attacks with their thresholds and scores, their
evaluation in all and by class, risk scores. The second learns the threshold of one class with
so many members and as many non-members, against one pass over both for every candidate
threshold; the two must agree.
Wall-clock and processor seconds of all threads; the peak of memory of the process, the
logits included. One JSON line.
"""

from __future__ import annotations

import resource

import numpy as np
from figures import Clock, options, show, spread, timed

from canary.membership.attacking import learn_thresholds
from canary.membership.shadow_survey import survey
from canary.signals.measuring import measure


def made(rng, samples, classes):
    """Logits, labels and members."""
    labels, member = rng.integers(0, classes, samples), rng.random(samples) < 0.5
    logits = rng.standard_normal((samples, classes), np.float32)
    logits[np.arange(samples), labels] += 5 + 3 * member
    return logits, labels, member


def plain(values, member):
    """The best balanced accuracy, by one pass over both kinds for each candidate."""
    inside, outside = values[member], values[~member]
    best = 0.5
    for threshold in values:
        best = max(best, accuracy(inside, outside, threshold))
    return best


def accuracy(inside, outside, threshold):
    right = np.sum(inside >= threshold) / len(inside) + np.sum(outside < threshold) / len(outside)
    return right / 2


def main() -> None:
    given = options(samples=1_000_000, classes=100, each=50_000, rounds=3)
    rng = np.random.default_rng(0)
    inputs = [made(rng, given.samples, given.classes) for _ in range(2)]
    everything, of_signals = [], []
    for _ in range(given.rounds):
        with Clock() as clock:
            with Clock() as signals:
                target, shadow = (
                    measure(logits, y=labels, member=member, outputs="logits")
                    for logits, labels, member in inputs
                )
            survey(target, shadow)
        everything.append(clock)
        of_signals.append(signals.wall)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    member = np.arange(2 * given.each) < given.each
    values = rng.normal(size=len(member)) + member
    expected, slow = timed(lambda: plain(values, member))
    ours = []
    for _ in range(max(given.rounds, 3)):
        found, seconds = timed(
            lambda: learn_thresholds(values, member, np.zeros(len(member), np.int64), classes=1)
        )
        ours.append(seconds)
        reached = accuracy(values[member], values[~member], found.values[0])
        assert abs(reached - expected) < 1e-12
    show(
        "membership",
        samples=given.samples,
        classes=given.classes,
        **spread("seconds", [clock.wall for clock in everything]),
        **spread("signal_seconds", of_signals),
        **spread("cpu_seconds", [clock.cpu for clock in everything]),
        input_mib=round(2 * given.samples * given.classes * 4 / 2**20),
        peak_mib=round(peak),
        plain_cpu_seconds=round(slow, 3),
        **spread("search_cpu_seconds", ours, digits=5),
        **spread("ratio", [slow / one for one in ours], digits=1),
    )


if __name__ == "__main__":
    main()
