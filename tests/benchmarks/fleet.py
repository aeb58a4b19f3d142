"""Many small networks trained at once, against the same ones trained one after the other.

    python tests/benchmarks/fleet.py [--threads 2] [--batch 32] [--rounds 5]

64 networks of 446-128-64-30 units and 128 of 446-64-30 are trained on random thousands of
5,010 made-up records of zeros and ones, by SGD with momentum: first in a loop, then stacked,
in turns. Both have the same initial weights and the same batches, and must end with the
same weights. Wall-clock and processor seconds; the latter are those of all threads. One JSON
line.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise

import numpy as np
import torch
from spread import spread

from canary.fleet.torch_training import TorchTraining
from canary.fleet.training import TrainingTask


def network(*widths):
    layers = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def deep():
    return network(446, 128, 64, 30)


def shallow():
    return network(446, 64, 30)


def timed(work):
    began = time.perf_counter(), time.process_time()
    done = work()
    return done, time.perf_counter() - began[0], time.process_time() - began[1]


def compared(build, models, options):
    rng = np.random.default_rng(0)
    x = (rng.random((5010, 446)) < 0.12).astype(np.float32)
    y = rng.integers(0, 30, 5010)
    rows = [np.sort(rng.choice(5010, options.samples, replace=False)) for _ in range(models)]
    tasks = [TrainingTask(x, y, part, k, k, 30) for k, part in enumerate(rows)]
    train = TorchTraining(build=build, epochs=options.epochs, batch_size=options.batch)
    train.together(tasks[:2])  # what torch.func loads at first use
    loop, many, ratios, cpu_ratios = [], [], [], []
    apart = 0.0
    for _ in range(options.rounds):
        alone, wall, cpu = timed(lambda: [train(task) for task in tasks])
        stacked, wall_many, cpu_many = timed(lambda: train.together(tasks))
        loop.append(wall)
        many.append(wall_many)
        ratios.append(wall / wall_many)
        cpu_ratios.append(cpu / cpu_many)
        for one, two in zip(alone, stacked, strict=True):
            for name, value in one.weights.items():
                apart = max(apart, float(np.abs(value - two.weights[name]).max()))
    assert apart < 1e-3
    name = f"{models}_{build.__name__}"
    return {
        **spread(f"{name}_loop_seconds", loop),
        **spread(f"{name}_seconds", many),
        **spread(f"{name}_ratio", ratios, digits=2),
        **spread(f"{name}_cpu_ratio", cpu_ratios, digits=2),
        f"{name}_weights_apart": apart,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", type=int, nargs=2, default=[64, 128])
    options = parser.parse_args()
    before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        found = {
            **compared(deep, options.models[0], options),
            **compared(shallow, options.models[1], options),
        }
    finally:
        torch.set_num_threads(before)
    print(json.dumps({"benchmark": "fleet", **vars(options), **found}))


if __name__ == "__main__":
    main()
