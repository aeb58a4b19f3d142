"""Indices go to the device once in a step, however many layers gather by them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import transformers
from small_models import CHARACTERS, character_tokenizer

from canary.models.language_model import Children, Context, Nodes
from canary.models.loading import load


def transfers(monkeypatch, layers: int, *, shares: bool) -> int:
    """Calls of `Tensor.to` by canary's own modules in the second step of a walk."""
    config = transformers.GPT2Config(
        n_embd=16, n_layer=layers, n_head=2, n_positions=32, vocab_size=len(CHARACTERS)
    )
    torch.manual_seed(0)
    model = load(transformers.GPT2LMHeadModel(config), tokenizer=character_tokenizer())
    model._shares = shares
    sent, plain = [], torch.Tensor.to

    def counted(self, *to, **how):
        if "canary/models" in sys._getframe(1).f_code.co_filename and not self.is_floating_point():
            sent.append(self.shape)
        return plain(self, *to, **how)

    two = np.full(3, 2)
    paths = np.array([[1, 2], [1, 3], [4, 5]], np.int32)
    tokens = Children(np.arange(5, dtype=np.int32))
    with model.open(Context(np.array([7, 8, 9], np.int32)), memory_bytes=2**20) as walker:
        one = np.ones(3, np.int64)
        held = walker.expand(Nodes(paths[:, :1], one, one, np.full(3, -1)), tokens)
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "to", counted)
            walker.expand(Nodes(paths, two, two, held.handles), tokens)
    return len(sent)


@pytest.mark.parametrize("shares", [True, False])
def test_transfers_do_not_grow_with_the_layers(monkeypatch, shares) -> None:
    few, many = (transfers(monkeypatch, layers, shares=shares) for layers in (1, 6))
    assert few == many
    assert 3 <= many <= 5  # ancestors, places, tokens, and the children that are asked for
