"""A recurrent language model of one's own: `canary` reaches it as `--factory mygru:build`.

What an audit needs of it: `forward(ids, state) -> (logits, state)`, where `state` is None
at the start of a text and afterwards a tuple of tensors with the batch in dimension 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


class MyGRU(nn.Module):
    def __init__(self, vocabulary: int, units: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, units)
        self.gru = nn.GRU(units, units, layers, batch_first=True)
        self.output = nn.Linear(units, vocabulary)

    def forward(
        self, ids: Tensor, state: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        hidden, last = self.gru(self.embedding(ids), None if state is None else state[0])
        return self.output(hidden), (last,)


def build(config: Mapping[str, Any]) -> MyGRU:
    """A fresh model of the sizes in `config.json`; whoever loads it fills in the weights."""
    return MyGRU(config["vocabulary"], config["units"], config["layers"])
