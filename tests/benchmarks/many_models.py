"""All attacks on many models, and LiRA against one sample at a time.

    python tests/benchmarks/many_models.py [--models 256] [--samples 50000] [--classes 100]

Makes a table of losses, every sample in half of the models. S, P, R, LiRA (four kinds) and RMIA
(two) attack every model by the others; D and L one model by all the others. The scores of one
attack are let go before the next. Then online LiRA on one target by
ready logit-scaled losses, against a loop that calls `scipy.stats.norm` for each of the first
`--slow` samples; the two must agree.
Wall-clock and processor seconds of the process; what the attacks add to its memory at most,
the table included, as a multiple of the table. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import scipy.stats
from spread import peak_mib, spread

from canary.membership.attacks import with_many_models
from canary.membership.many import attack_models
from canary.signals.signal_table import SignalTable

MANY = tuple(with_many_models())


def made(rng, models, samples, classes):
    """Losses of models; members have lower ones. No copy beside the result is made."""
    member = np.empty((models, samples), np.bool_)
    for at in range(0, samples, 1000):
        part = slice(at, at + 1000)
        member[:, part] = np.argsort(rng.random(member[:, part].shape), axis=0) < models // 2
    ease = rng.normal(1, 2, samples)
    loss = np.empty((models, samples))
    for row in range(models):
        loss[row] = np.logaddexp(0, -(ease + 1.5 * member[row] + rng.normal(0, 1, samples)))
    return SignalTable({"loss": loss}, member, rng.integers(0, classes, samples), classes)


def logits(loss):
    return -loss - np.log(-np.expm1(-loss))


def one_by_one(table, samples):
    """Online LiRA on model 0, as one writes it down."""
    found = []
    signal, member = table.signal("logit-confidence"), table.member
    for z in range(samples):
        values, inside = signal[1:, z], member[1:, z]
        normals = [
            scipy.stats.norm(values[flags].mean(), values[flags].std(ddof=1))
            for flags in (inside, ~inside)
        ]
        found.append(normals[0].logpdf(signal[0, z]) - normals[1].logpdf(signal[0, z]))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=256)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--slow", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    attack_models(made(rng, 8, 1000, 2), "R", rule="gaussian")  # imports
    before = peak_mib()
    table = made(rng, options.models, options.samples, options.classes)
    size = (table.signal("loss").nbytes + table.member.nbytes) / 2**20
    references = range(1, options.models)
    each: dict[str, list[float]] = {name: [] for name in MANY}
    wall, cpu = [], []
    for _ in range(options.rounds):
        began = time.perf_counter(), time.process_time()
        for name in MANY:
            start = time.process_time()
            own = name in "DL"
            attack_models(
                table.select(models=[0]) if own else table,
                name,
                shadow=table if own else None,
                references=references if own else None,
            )
            each[name].append(time.process_time() - start)
        wall.append(time.perf_counter() - began[0])
        cpu.append(time.process_time() - began[1])
    peak = peak_mib() - before
    some = min(options.slow, options.samples)
    ratios = []
    table.values["logit-confidence"] = logits(table.signal("loss"))
    alone, others = table.select(models=[0]), table.select(models=references)
    for _ in range(options.rounds):
        start = time.process_time()
        expected = one_by_one(table, some)
        slow = (time.process_time() - start) / some
        start = time.process_time()
        found = attack_models(alone, "lira-online", shadow=others).scores[0]
        ratios.append(slow / ((time.process_time() - start) / options.samples))
        np.testing.assert_allclose(found[:some], expected, rtol=1e-6)
    print(
        json.dumps(
            {
                "benchmark": "many_models",
                "models": options.models,
                "samples": options.samples,
                **spread("seconds", wall),
                **spread("cpu_seconds", cpu),
                "cpu_seconds_each": {n: round(float(np.median(t)), 2) for n, t in each.items()},
                "table_mib": round(size),
                "tables": round(peak / max(size, 1e-9), 2),
                **spread("ratio", ratios, digits=1),
            }
        )
    )


if __name__ == "__main__":
    main()
