"""A module in training is asked as it computes, and is afterwards as it was before."""

import pytest
from small_models import causal_module, character_tokenizer, recurrent_module

MODULES = {"gpt2": lambda: causal_module("gpt2"), "LSTM": lambda: recurrent_module("LSTM")}


@pytest.mark.parametrize("kind", MODULES)
def test_autocast_is_the_dtype_of_the_facts_and_its_rounding_is_allowed(kind):
    import torch

    from canary.models.loading import load

    module = MODULES[kind]()
    plain = load(module, tokenizer=character_tokenizer())
    if kind == "LSTM":
        try:
            with torch.autocast("cpu", torch.bfloat16):
                torch.nn.LSTM(4, 4)(torch.zeros(1, 1, 4))
        except RuntimeError as error:
            pytest.skip(f"torch has no LSTM in bfloat16 for this processor: {error}")
    with torch.autocast("cpu", torch.bfloat16):
        live = load(module, tokenizer=character_tokenizer())
    assert (plain.facts.dtype, live.facts.dtype) == ("float32", "bfloat16")
    assert live.facts.noise_bits_per_token > 10 * plain.facts.noise_bits_per_token
    assert not any(part._forward_pre_hooks for part in module.modules())


def test_what_a_module_keeps_from_scoring_serves_its_training():
    import torch

    from canary.models.language_model import Rows
    from canary.models.loading import load

    class Masked(torch.nn.Module):
        """Keeps a tensor from its first forward, as modules keep masks and positions."""

        def __init__(self):
            super().__init__()
            self.inner = recurrent_module("LSTM")
            self.kept = None

        def forward(self, ids, state=None):
            if self.kept is None:
                self.kept = torch.ones(45) * 2
            logits, state = self.inner(ids, state)
            return logits * self.kept, state

    module = Masked()
    load(module, tokenizer=character_tokenizer()).score(Rows.of([[1, 2, 3]]))
    logits, _ = module(torch.tensor([[1, 2, 3]]))
    logits.sum().backward()
    assert module.inner.out.weight.grad is not None


def test_no_part_is_told_to_train_or_to_stop():
    import torch

    from canary.models.language_model import Rows
    from canary.models.loading import load

    told = []

    class Merging(torch.nn.Linear):
        """As adapters that merge their weights when they are told to evaluate."""

        def train(self, mode=True):
            told.append(mode)
            return super().train(mode)

    module = recurrent_module("LSTM")
    module.out = Merging(24, 45)
    module.train()
    module.cell.eval()
    told.clear()
    load(module, tokenizer=character_tokenizer()).score(Rows.of([[1, 2, 3]]))
    assert told == []
    assert (module.training, module.out.training, module.cell.training) == (True, True, False)
