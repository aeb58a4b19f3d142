"""Small models behind the seam, built once per process: `build(name)`."""

from __future__ import annotations

import functools

import numpy as np

from canary.errors import OutOfMemory
from canary.models.language_model import LanguageModel

CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz ABCT.:-\n"


def character_tokenizer():
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE

    tokenizer = Tokenizer(BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def recurrent_module(kind: str, width: int = 24, layers: int = 2):
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(len(CHARACTERS), width)
            self.cell = getattr(torch.nn, kind)(width, width, layers, batch_first=True)
            self.out = torch.nn.Linear(width, len(CHARACTERS))

        def forward(self, ids, state=None):
            hidden, state = self.cell(self.embed(ids), state)
            return self.out(hidden), state

    return _spread(Net())


def _spread(module):
    """Larger weights, so that predictions are far from uniform and depend on the past."""
    import torch

    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return module.eval()


def causal_module(kind: str):
    import transformers

    size = {"vocab_size": len(CHARACTERS), "bos_token_id": None, "eos_token_id": None}
    if kind == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=64, **size)
        return _spread(transformers.GPT2LMHeadModel(config))
    llama = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        **size,
    }
    if kind == "llama":
        return _spread(transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama)))
    config = transformers.MistralConfig(**llama, sliding_window=8)
    return _spread(transformers.MistralForCausalLM(config))


def table_model(seed=5):
    from canary.models.table_model import TableModel
    from canary.tokens.fast import as_tokenizer

    rng = np.random.default_rng(seed)
    keys = [(), *((int(t),) for t in range(20)), *map(tuple, rng.integers(0, 45, (40, 3)).tolist())]
    logits = rng.normal(0, 2, (len(keys), len(CHARACTERS)))
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    tables = dict(zip(keys, logs, strict=True))
    return TableModel.ngram(tables, as_tokenizer(character_tokenizer()))


class ByRows:
    """A model that can only score whole rows."""

    def __init__(self, model: LanguageModel) -> None:
        self.tokenizer, self.facts = model.tokenizer, model.facts
        self.score, self.memory = model.score, model.memory

    def open(self, context, *, memory_bytes: int):
        from canary.models.by_scoring import RowWalker

        return RowWalker(self, context)


class Cramped:
    """A model whose memory takes only so many rows or nodes at once."""

    def __init__(self, model, most: int) -> None:
        self._model, self._most = model, most
        self.tokenizer, self.facts, self.memory = model.tokenizer, model.facts, model.memory
        self.refused = 0

    def _check(self, count: int) -> None:
        if count > self._most:
            self.refused += 1
            raise OutOfMemory("too much at once")

    def score(self, rows):
        self._check(len(rows))
        return self._model.score(rows)

    def open(self, context, *, memory_bytes):
        walker, check = self._model.open(context, memory_bytes=memory_bytes), self._check
        expand = walker.expand

        def checked(nodes, tokens, *, keep=True):
            check(len(nodes))
            return expand(nodes, tokens, keep=keep)

        walker.expand = checked
        return walker


@functools.cache
def build(name: str) -> LanguageModel:
    import dataclasses

    import torch

    from canary.models.loading import load

    if name == "table":
        return table_model()
    if name == "by_rows":
        model = ByRows(build("lstm"))
        model.facts = dataclasses.replace(model.facts, capabilities=("score", "expand"))
        return model
    torch.manual_seed(3)
    if name in ("lstm", "gru"):
        return load(recurrent_module(name.upper()), tokenizer=character_tokenizer())
    return load(causal_module(name), tokenizer=character_tokenizer())


def loaded(module, **options):
    """A module, or a new one of a named architecture, behind the seam."""
    from architectures import architecture

    from canary.models.loading import load

    module = architecture(module) if isinstance(module, str) else module
    return load(module, tokenizer=character_tokenizer(), **options)


@functools.cache
def known(name: str) -> LanguageModel:
    """An architecture behind the seam that nobody changes."""
    return loaded(name)


def conforms(model, *, but=()) -> None:
    """All checks of conformance."""
    from canary.models.conformance import CHECKS

    for check in CHECKS:
        if check not in but:
            check(model)
