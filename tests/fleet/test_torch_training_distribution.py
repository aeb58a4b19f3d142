"""Models trained at once are as good as those trained by torch's own loop, over many seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from canary.fleet.torch_training import TorchTraining
from canary.fleet.training import TrainingTask

MODELS, EPOCHS, BATCH, RATE = 60, 15, 25, 0.05


def network():
    return torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Dropout(0.4),
        torch.nn.Linear(32, 10),
    )  # fmt: skip


def falling(step, steps):
    return 1 - step / steps


def by_torch(x, y, rows, seed):
    """A plain loop with torch's own dropout, loader and schedule: nothing of ours."""
    torch.manual_seed(seed)
    net = network()
    held = torch.utils.data.TensorDataset(torch.from_numpy(x[rows]), torch.from_numpy(y[rows]))
    loader = torch.utils.data.DataLoader(held, BATCH, shuffle=True)
    step = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    paced = torch.optim.lr_scheduler.LinearLR(step, 1, 0, EPOCHS * len(loader))
    for _ in range(EPOCHS):
        for one, label in loader:
            step.zero_grad()
            torch.nn.functional.cross_entropy(net(one), label).backward()
            step.step()
            paced.step()
    with torch.inference_mode():
        return net.eval()(torch.from_numpy(x)).numpy()


@pytest.mark.slow
def test_accuracies_are_those_of_one_by_one_and_of_a_loop_of_torch():
    """Sixty seeds. Kolmogorov and Smirnov tell the distributions apart in 1 of 1,000 if equal."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.choice(900, 200, replace=False)) for _ in range(MODELS)]
    tasks = [TrainingTask(x, y, part, k, k, 10) for k, part in enumerate(rows)]
    train = TorchTraining(
        build=network, epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, schedule=falling
    )
    many = [one.predict(x) for one in train.together(tasks)]
    alone = [train(task).predict(x) for task in tasks]
    theirs = [by_torch(x, y, part, 1000 + k) for k, part in enumerate(rows)]

    def right(said, places):
        return np.mean(said[places].argmax(1) == y[places])

    for places in (np.arange(900, len(y)), None):
        one, two, three = (
            np.array([right(s, rows[k] if places is None else places) for k, s in enumerate(group)])
            for group in (many, alone, theirs)
        )
        assert np.abs(one - two).max() < 0.005
        assert ks_2samp(one, three).pvalue > 1e-3
        assert abs(one.mean() - three.mean()) < 4 * np.hypot(one.std(), three.std()) / np.sqrt(
            MODELS
        )
    assert 0.85 < np.mean([right(s, np.arange(900, len(y))) for s in many]) < 0.99
