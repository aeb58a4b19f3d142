"""Many small networks trained at once, against the same ones trained one after the other.

    python tests/benchmarks/fleet.py [--threads 2] [--batch 32] [--rounds 5]

64 networks of 446-128-64-30 units and 128 of 446-64-30 are trained on random thousands of
5,010 made-up records of zeros and ones, by SGD with momentum: first in a loop, then stacked,
in turns. Both have the same initial weights and the same batches, and must end with the
same weights. Wall-clock and processor seconds; the latter are those of all threads. One JSON
line.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from figures import Clock, options, over, show, spread

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


def compared(build, models, given):
    rng = np.random.default_rng(0)
    x = (rng.random((5010, 446)) < 0.12).astype(np.float32)
    y = rng.integers(0, 30, 5010)
    rows = [np.sort(rng.choice(5010, given.samples, replace=False)) for _ in range(models)]
    tasks = [TrainingTask(x, y, part, k, k, 30) for k, part in enumerate(rows)]
    train = TorchTraining(build=build, epochs=given.epochs, batch_size=given.batch)
    train.together(tasks[:2])  # what torch.func loads at first use
    loops, many = [], []
    apart = 0.0
    for _ in range(given.rounds):
        with Clock() as loop:
            alone = [train(task) for task in tasks]
        with Clock() as together:
            stacked = train.together(tasks)
        loops.append(loop)
        many.append(together)
        for one, two in zip(alone, stacked, strict=True):
            for name, value in one.weights.items():
                apart = max(apart, float(np.abs(value - two.weights[name]).max()))
    assert apart < 1e-3
    name = f"{models}_{build.__name__}"
    wall, wall_many = ([clock.wall for clock in clocks] for clocks in (loops, many))
    cpu, cpu_many = ([clock.cpu for clock in clocks] for clocks in (loops, many))
    return {
        **spread(f"{name}_loop_seconds", wall),
        **spread(f"{name}_seconds", wall_many),
        **spread(f"{name}_ratio", over(wall, wall_many), digits=2),
        **spread(f"{name}_cpu_ratio", over(cpu, cpu_many), digits=2),
        f"{name}_weights_apart": apart,
    }


def main() -> None:
    given = options(samples=1000, epochs=2, batch=32, rounds=5, threads=2, models=[64, 128])
    before = torch.get_num_threads()
    torch.set_num_threads(given.threads)
    try:
        found = {
            **compared(deep, given.models[0], given),
            **compared(shallow, given.models[1], given),
        }
    finally:
        torch.set_num_threads(before)
    show("fleet", **vars(given), **found)


if __name__ == "__main__":
    main()
