"""Prices that tie: cut off and rounded ones are told from the honest ones of other models."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from small_models import CHARACTERS, ByRows, build, causal_module, loaded

from canary.models.language_model import Expansion
from canary.models.table_model import TableModel
from canary.models.ties import ties

SIZE = len(CHARACTERS)


def reserved():
    """A third of the tokens was never trained on: alike, and the least likely of all."""
    module = causal_module("gpt2")
    with torch.no_grad():
        module.lm_head.weight = torch.nn.Parameter(module.lm_head.weight.clone())
        module.transformer.ln_f.bias.fill_(1.0)
        module.lm_head.weight[: SIZE // 3] = -1.0
    return loaded(module)


def counted(*, smoothed):
    """Bigrams that were counted in little text, plus one, or mixed with how often each token is."""
    rng = np.random.default_rng(0)
    often = rng.dirichlet(np.full(SIZE - 5, 0.5))
    common = np.append(often, np.zeros(5))  # five tokens were never seen
    counts = np.array([rng.multinomial(30, common) for _ in range(SIZE)], float)
    if smoothed:
        probs = 0.5 * counts / 30 + 0.49 * common + 0.01 / SIZE
    else:
        probs = (counts + 1) / (30 + SIZE)
    states = np.tile(np.arange(SIZE), (SIZE, 1))
    return TableModel(states, np.log(probs), build("table").tokenizer)


HONEST = {
    "LSTM": (lambda: build("lstm"), "fine"),
    "GPT-2": (lambda: build("gpt2"), "fine"),
    "bfloat16": (lambda: loaded(causal_module("gpt2").to(torch.bfloat16)), "fine"),
    "float16": (lambda: loaded(causal_module("gpt2").half()), "fine"),
    "reserved tokens": (reserved, "fine"),
    "rows of a table": (lambda: ByRows(build("table")), "fine"),
    "counts, smoothed": (lambda: counted(smoothed=True), "fine"),
    "counts plus one": (lambda: counted(smoothed=False), "noted"),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_models_are_not_refused(name):
    make, verdict = HONEST[name]
    found = ties(make())
    assert found.verdict == verdict, found.figure


def test_a_vocabulary_of_thousands_in_16_bits_is_noted():
    """Most of its tokens tie, those at the ends do not; cut off, it is refused in 16 bits too."""
    found = ties(Thousands(torch.bfloat16))
    assert found.verdict == "noted", found.figure
    assert "compute in float32" in found.cure
    assert ties(Thousands(torch.float32)).verdict == "fine"
    for dtype in (torch.bfloat16, torch.float32):
        found = ties(Thousands(dtype, most=6.0))
        assert found.verdict == "refused", found.figure


class Thousands:
    """A model of 20,000 tokens, all next ones at once."""

    def __init__(self, dtype, *, most=np.inf):
        honest = build("lstm")
        name = str(dtype).removeprefix("torch.")
        self.tokenizer = type("Many", (), {"size": 20_000})()
        self.facts = dataclasses.replace(honest.facts, vocabulary=20_000, dtype=name)
        self.memory, self.dtype, self.most = honest.memory, dtype, most

    def open(self, context, *, memory_bytes):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def expand(self, nodes, tokens, *, keep=True):
        logs = []
        for path in nodes.paths:
            seed = int(np.asarray(path).sum())
            logits = 3 * torch.randn(20_000, generator=torch.Generator().manual_seed(seed))
            logits = logits.clamp(max=self.most).to(self.dtype).float()
            logs.append(torch.log_softmax(logits, -1)[torch.as_tensor(tokens.tokens)])
        n = len(logs)
        return Expansion(np.zeros(n), torch.stack(logs).numpy(), np.full(n, -1, np.int64), n)
