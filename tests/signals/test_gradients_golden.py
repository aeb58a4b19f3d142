"""Gradients of single samples: by hand, and against a loop over the samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import canary
from canary.errors import ModelError, UnsupportedError
from canary.signals.gradients import gradient_features


def test_linear_classifier_by_hand():
    # The gradient by the weights is (p - onehot(y)) x^T, by the bias p - onehot(y). With
    # weights 0 and x = (3, 4): p = (1/2, 1/2), y = 0: rows (-1/2)(3, 4) and (1/2)(3, 4), each
    # of norm 5/2; together 5/sqrt(2), the bias 1/sqrt(2), the whole sqrt(13).
    net = torch.nn.Linear(2, 2)
    torch.nn.init.zeros_(net.weight)
    torch.nn.init.zeros_(net.bias)
    found = gradient_features(net, np.array([[3.0, 4.0]]), [0], outputs="logits")
    assert found.names == ("weight", "bias")
    np.testing.assert_allclose(found.norms, [[5 / 2**0.5, 1 / 2**0.5]], rtol=1e-6)
    np.testing.assert_allclose(found.norm, [13**0.5], rtol=1e-6)
    np.testing.assert_allclose(found.losses, [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(found.rows, [[2.5, 2.5]], rtol=1e-6)
    np.testing.assert_allclose(found.label_rows, [[-1.5, -2.0]], rtol=1e-6)


@pytest.mark.parametrize("outputs", ["logits", "probs"])
def test_against_a_loop_of_autograd_oracle(outputs):
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(5, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.Tanh(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(8, 3),
        *([torch.nn.Softmax(1)] if outputs == "probs" else []),
    )
    net.requires_grad_(False)  # a frozen model has gradients all the same
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(23, 5)).astype(np.float32), rng.integers(0, 3, 23)
    found = gradient_features(net, x, y, outputs=outputs, batch_size=7)
    assert net.training
    assert not any(part.requires_grad for part in net.parameters())
    net.requires_grad_(True).eval()
    for i in range(23):
        net.zero_grad()
        given = net(torch.from_numpy(x[i : i + 1]))
        logged = given.log() if outputs == "probs" else functional.log_softmax(given, 1)
        loss = -logged[0, y[i]]
        loss.backward()
        grads = [part.grad for part in net.parameters()]
        np.testing.assert_allclose(found.losses[i], loss.item(), rtol=1e-5)
        expected = [grad.norm().item() for grad in grads]
        np.testing.assert_allclose(found.norms[i], expected, rtol=1e-4, atol=1e-7)
        last = net[4].weight.grad
        np.testing.assert_allclose(found.rows[i], last.norm(dim=1), rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(found.label_rows[i], last[y[i]], rtol=1e-4, atol=1e-6)


def test_signal_in_the_table_and_its_attack():
    torch.manual_seed(0)
    rng = np.random.default_rng(3)
    nets, tables = [], []
    for _ in range(2):
        x, y = rng.normal(size=(240, 10)).astype(np.float32), rng.integers(0, 2, 240)
        member = np.arange(240) < 120
        net = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        step = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(80):
            step.zero_grad()
            given = net(torch.from_numpy(x[member]))
            functional.cross_entropy(given, torch.from_numpy(y[member])).backward()
            step.step()
        nets.append(net)
        tables.append(canary.measure(net, x, y, member=member, outputs="logits", gradients=True))
    target, shadow = tables
    norm = target.signal("gradient-norm")[0]
    assert norm[:120].mean() < norm[120:].mean()
    found = canary.evaluate(canary.attack(target, "gradient-norm", shadow=shadow), target.member[0])
    assert found.accuracy.lower > 0.6


class Branching(torch.nn.Linear):
    """Looks at a number of the batch, which cannot be mapped over samples."""

    def forward(self, x):
        return super().forward(x if x.sum().item() > 0 else -x)


def test_what_has_no_gradients_is_refused_input():
    x = np.zeros((4, 3), np.float32)
    with pytest.raises(UnsupportedError, match="ndarray has no gradients; give a torch module"):
        gradient_features(x, x, [0, 1, 0, 1], outputs="logits")
    net = torch.nn.Linear(3, 2)
    with pytest.raises(ModelError, match="labels from 0 to 2 for 2 classes"):
        gradient_features(net, x, [0, 1, 2, 1], outputs="logits")
    with pytest.raises(ModelError, match=r"cannot take samples of shape \(3,\).*item\(\)"):
        gradient_features(Branching(3, 2), x, [0, 1, 0, 1], outputs="logits")
    pooled = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Unflatten(1, (2, 2)))
    wide = torch.nn.Sequential(*pooled, torch.nn.AvgPool2d((1, 2)), torch.nn.Flatten())
    with pytest.raises(ModelError, match="no weight matrix with a row for each of 2 classes"):
        gradient_features(wide, x, [0, 1, 0, 1], outputs="logits")
