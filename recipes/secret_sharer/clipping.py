"""Clipped gradients of single records for the LSTM, without a gradient for each of them.

The gradient of a record at a weight is the sum of d x' over its characters: x went into the
weight, and d is the gradient of the loss at what came out of it. Its squared norm is the sum of
(d_s . d_t) (x_s . x_t) over pairs of characters. So one backward pass that stops at every d
is enough for all norms, and the clipped sum over records is one product of matrices for each
weight (Bu et al., 2023, arXiv:2210.00038, who call it book-keeping).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from model import Recurrent
from numpy.typing import NDArray
from torch import Tensor, nn

NOTHING = -100  # a target that costs nothing


def rows_of(lines: Sequence[NDArray[np.int64]], start: int, width: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets (lines, time): `start` before each line, which is cut at `width`."""
    longest = min(width, max(map(len, lines)))
    inputs = torch.zeros(len(lines), longest, dtype=torch.int64)
    targets = torch.full_like(inputs, NOTHING)
    for place, line in enumerate(lines):
        ids = torch.from_numpy(line[:longest])
        inputs[place, 0] = start
        inputs[place, 1 : len(ids)] = ids[:-1]
        targets[place, : len(ids)] = ids
    return inputs, targets


def cost(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed loss in nats; padding costs nothing."""
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=NOTHING
    )


def clipped_sum(
    model: Recurrent, inputs: Tensor, targets: Tensor, norm: float
) -> tuple[dict[str, Tensor], Tensor, float]:
    """The sum of the records' clipped gradients by parameter, their norms, and the loss.

    A record is a row of `inputs` and `targets` (records, time); its loss is summed over its
    characters. Gradients longer than `norm` are shortened to it. Norms are those before, of
    shape (records,), and the loss is that of all records in nats.
    """
    weights = {name: value.detach() for name, value in model.named_parameters()}
    below = weights["embedding.weight"][inputs].requires_grad_()
    hidden, layers = below, []
    for layer in range(model.lstm.num_layers):
        above, gates, before = recurrent(hidden, weights, layer)
        layers.append((hidden.detach(), before, gates))
        hidden = above
    logits = hidden @ weights["output.weight"].T + weights["output.bias"]
    total = cost(logits, targets)
    found = torch.autograd.grad(total, [below, logits, *(gates for *_, gates in layers)])

    same = (inputs[:, :, None] == inputs[:, None, :]).to(below.dtype)
    square = paired(found[0], same) + paired(found[1], 1 + gram(hidden.detach()))
    for (into, before, _), d in zip(layers, found[2:], strict=True):
        square += paired(d, 2 + gram(into) + gram(before))
    norms = square.clamp_min(0.0).sqrt()
    kept = (norm / norms.clamp_min(1e-12)).clamp(max=1.0)[:, None, None]

    first, last, *gates = (kept * d for d in found)
    sums = {"embedding.weight": torch.zeros_like(weights["embedding.weight"])}
    sums["embedding.weight"].index_add_(0, inputs.flatten(), first.flatten(0, 1))
    sums |= {"output.weight": product(last, hidden.detach()), "output.bias": last.sum((0, 1))}
    for layer, ((into, before, _), d) in enumerate(zip(layers, gates, strict=True)):
        sums[f"lstm.weight_ih_l{layer}"] = product(d, into)
        sums[f"lstm.weight_hh_l{layer}"] = product(d, before)
        for bias in ("ih", "hh"):
            sums[f"lstm.bias_{bias}_l{layer}"] = d.sum((0, 1))
    return sums, norms, total.item()


def recurrent(
    below: Tensor, weights: dict[str, Tensor], layer: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What an LSTM layer gives (records, time, units), what its gates get, its state before."""
    into, over, *biases = (
        weights[f"lstm.{kind}_l{layer}"]
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    # The gradient at these sums is that at the gates: the state's part is added to them.
    gates = below @ into.T + sum(biases)
    state = cell = below.new_zeros(len(below), over.shape[1])
    states = [state]
    for each in gates.unbind(1):
        entry, forget, new, out = (each + state @ over.T).chunk(4, 1)
        cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        states.append(state)
    every = torch.stack(states, 1)
    return every[:, 1:], gates, every[:, :-1].detach()


def gram(of: Tensor) -> Tensor:
    """Products of all pairs in time: (records, time, time) of (records, time, size)."""
    return of @ of.transpose(1, 2)


def paired(d: Tensor, inputs: Tensor) -> Tensor:
    """The squared norm of each record's gradient at a weight, of shape (records,)."""
    return (gram(d) * inputs).sum((1, 2))


def product(d: Tensor, inputs: Tensor) -> Tensor:
    """The gradient at a weight, summed over records and time."""
    return d.flatten(0, 1).T @ inputs.flatten(0, 1)
