"""Metric attacks, thresholds and risk scores; and the threshold search against a plain one.

    python tests/benchmarks/membership.py [--samples 1000000] [--classes 100] [--each 50000]

The first part makes float32 logits of a target and of a shadow, each of so many samples and
classes, and does all with them: signals, eleven attacks with their thresholds and scores, their
evaluation in all and by class, risk scores. The second learns the threshold of one class with
so many members and as many nonmembers, against one pass over both for every candidate
threshold; the two must agree.
Wall-clock and processor seconds of all threads; the peak of memory of the process, the
logits included. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from spread import spread

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
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--each", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    given = [made(rng, options.samples, options.classes) for _ in range(2)]
    wall, cpu, of_signals = [], [], []
    for _ in range(options.rounds):
        began = time.perf_counter(), time.process_time()
        target, shadow = (
            measure(logits, y=labels, member=member, outputs="logits")
            for logits, labels, member in given
        )
        of_signals.append(time.perf_counter() - began[0])
        survey(target, shadow)
        wall.append(time.perf_counter() - began[0])
        cpu.append(time.process_time() - began[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    member = np.arange(2 * options.each) < options.each
    values = rng.normal(size=len(member)) + member
    began = time.process_time()
    expected = plain(values, member)
    slow = time.process_time() - began
    ours = []
    for _ in range(max(options.rounds, 3)):
        began = time.process_time()
        found = learn_thresholds(values, member, np.zeros(len(member), np.int64), classes=1)
        ours.append(time.process_time() - began)
        reached = accuracy(values[member], values[~member], found.values[0])
        assert abs(reached - expected) < 1e-12
    print(
        json.dumps(
            {
                "benchmark": "membership",
                "samples": options.samples,
                "classes": options.classes,
                **spread("seconds", wall),
                **spread("signal_seconds", of_signals),
                **spread("cpu_seconds", cpu),
                "input_mib": round(2 * options.samples * options.classes * 4 / 2**20),
                "peak_mib": round(peak),
                "plain_cpu_seconds": round(slow, 3),
                **spread("search_cpu_seconds", ours, digits=5),
                **spread("ratio", [slow / one for one in ours], digits=1),
            }
        )
    )


if __name__ == "__main__":
    main()
