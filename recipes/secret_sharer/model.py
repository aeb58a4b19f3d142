"""A character LSTM as the paper used it, and the factory that rebuilds it from its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor]


class CharLSTM(nn.Module):
    """Embedding, stacked LSTM, linear output: a recurrent language model.

    With 51 characters, 128-dimensional embeddings and two layers of 200 units it has
    602,379 parameters; the paper says "approximately 600,000".
    """

    def __init__(
        self, vocabulary: int, embedding: int, units: int, layers: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(embedding, units, layers, batch_first=True, dropout=between)
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


def build(config: Mapping[str, Any]) -> CharLSTM:
    """The model that a `config.json` describes, with fresh weights."""
    return CharLSTM(
        vocabulary=config["vocabulary"],
        embedding=config["embedding"],
        units=config["units"],
        layers=config["layers"],
        dropout=config.get("dropout", 0.0),
    )


def parameters(model: nn.Module) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in model.parameters())


def seeded(config: Mapping[str, Any], seed: int) -> CharLSTM:
    """`build` with initial weights that depend on `seed` alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(config)
