"""A character LSTM as the paper used it, other networks, and the factory of them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

State = Tensor | tuple[Tensor, Tensor]
KERNEL = 10


class Recurrent(nn.Module):
    """Embedding, stacked LSTM or GRU, linear output: a recurrent language model.

    With 51 characters, 128-dimensional embeddings and two layers of 200 units it has
    602,379 parameters; the paper says "approximately 600,000".
    """

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        units: int,
        layers: int,
        dropout: float = 0.0,
        *,
        gru: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        between = dropout if layers > 1 else 0.0
        kind = nn.GRU if gru else nn.LSTM
        self.lstm = kind(embedding, units, layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(units, vocabulary)

    def forward(self, ids: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits (batch, time, vocabulary) and the state after ids (batch, time).

        `state` is None at the start of a text, afterwards two tensors of shape
        (layers, batch, units).
        """
        hidden, state = self.lstm(self.embedding(ids), state)
        logits: Tensor = self.output(self.dropout(hidden))
        return logits, state


class Convolutional(nn.Module):
    """Embedding, stacked causal convolutions, linear output: it sees the last characters only.

    Each layer has a kernel of 10 steps; the paper does not say its own, and with this one its
    numbers of units have about 600,000 parameters. With `dilated`, the steps of a layer are
    twice as far apart as those of the layer before, as in WaveNet, whose gates and skips are
    left out.
    """

    def __init__(
        self, vocabulary: int, embedding: int, units: int, layers: int, *, dilated: bool
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.layers = nn.ModuleList(
            nn.Conv1d(
                units if layer else embedding,
                units,
                KERNEL,
                dilation=2**layer if dilated else 1,
            )
            for layer in range(layers)
        )
        self.output = nn.Linear(units, vocabulary)

    def forward(self, ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (batch, time, vocabulary) and the state after ids (batch, time).

        The state is what each layer still sees of its input, one layer after the other in the
        first of its dimensions, which are (steps, batch, channels); where a layer has fewer
        channels than another, zeros fill them. At the start of a text all of it is zeros. So a
        step costs one step of each layer, and gradients do not go back into what was read before.
        """
        hidden, kept, begin = self.embedding(ids).permute(1, 0, 2), [], 0
        width = max(layer.in_channels for layer in self.layers)
        for layer in self.layers:
            steps, channels = layer.dilation[0] * (KERNEL - 1), layer.in_channels
            before = (
                hidden.new_zeros(steps, *hidden.shape[1:])
                if state is None
                else state[begin : begin + steps, :, :channels]
            )
            seen = torch.cat([before, hidden])
            kept.append(nn.functional.pad(seen[len(seen) - steps :], (0, width - channels)))
            hidden = layer(seen.permute(1, 2, 0)).relu().permute(2, 0, 1)
            begin += steps
        logits: Tensor = self.output(hidden.transpose(0, 1))
        return logits, torch.cat(kept)


def build(config: Mapping[str, Any]) -> nn.Module:
    """The model that a `config.json` describes, with fresh weights."""
    sizes = {name: config[name] for name in ("vocabulary", "embedding", "units", "layers")}
    network = config.get("network", "lstm")
    if network in ("cnn", "wavenet"):
        return Convolutional(**sizes, dilated=network == "wavenet")
    return Recurrent(**sizes, dropout=config.get("dropout", 0.0), gru=network == "gru")


def parameters(model: nn.Module) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in model.parameters())


def seeded(config: Mapping[str, Any], seed: int) -> nn.Module:
    """`build` with initial weights that depend on `seed` alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(config)
