"""Two models of one fingerprint give the same probabilities; a model that moves keeps its own."""

from __future__ import annotations

import pytest
import torch
from architectures import architecture
from small_models import loaded

from canary import audit, generate, load
from canary.errors import ModelError
from canary.models.torch_support import fingerprint


class Cell(torch.nn.Module):
    """A recurrent model with numbers beside its weights, of each kind that there is."""

    def __init__(self, *, bias=0.0, temperature=1.0, act=torch.nn.Tanh, slope=0.1):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(64, 8)
        self.register_buffer("bias", torch.full((8,), bias), persistent=False)
        self.act, self.leaky = act(), torch.nn.LeakyReLU(slope)
        self.temperature = temperature

    def forward(self, ids, state):
        hidden = self.leaky(self.act(self.embedding(ids) + self.bias))
        logits = hidden @ self.embedding.weight.T / self.temperature
        return logits, torch.zeros(1, len(ids), 1)


def test_what_no_checkpoint_holds_counts():
    others = ({"bias": 1.0}, {"temperature": 2.0}, {"act": torch.nn.Sigmoid}, {"slope": 0.5})
    modules = [Cell(), *(Cell(**other) for other in others)]
    assert len({tuple(module.state_dict()) for module in modules}) == 1
    assert len({loaded(module).facts.fingerprint for module in modules}) == 5
    assert fingerprint(Cell()) == fingerprint(modules[0])


def positions(module):
    module.model.rotary_emb.inv_freq *= 0.5


def attention(module):
    module.model.layers[0].self_attn.scaling *= 2


def dropout(module):
    module.config.attention_dropout = 0.25


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable:FutureWarning")
def test_the_config_counts_and_where_a_model_lies_and_how_it_is_used_does_not(tmp_path):
    """Same weights; only what the config says of positions or attention is another."""
    module = architecture("llama")
    plain = fingerprint(module)
    module.save_pretrained(tmp_path)
    module.train()
    module.gradient_checkpointing_enable()
    module.config.use_cache = False
    assert fingerprint(module) == plain
    assert fingerprint(type(module).from_pretrained(tmp_path)) == plain
    for change in (positions, attention, dropout):
        other = architecture("llama")
        change(other)
        assert fingerprint(other) != plain


def test_a_large_module_is_hashed_again_where_torch_has_counted_a_change(monkeypatch):
    monkeypatch.setattr("canary.models.torch_model._SMALL_BYTES", 0)
    module = Cell()
    model = loaded(module)
    hashed = []
    monkeypatch.setattr(model, "fingerprint", lambda: hashed.append(1) or fingerprint(module))
    assert load(model).facts.fingerprint == fingerprint(module)
    assert not hashed
    optimizer = torch.optim.AdamW(module.parameters(), 0.1)
    module.embedding.weight.sum().backward()
    optimizer.step()
    assert load(model).facts.fingerprint == fingerprint(module)
    module.load_state_dict({name: 2 * kept for name, kept in module.state_dict().items()})
    assert load(model).facts.fingerprint == fingerprint(module)
    assert len(hashed) == 2


def test_weights_that_were_trained_since_are_hashed_and_measured_again():
    module = Cell()
    model = loaded(module)
    before = model.facts
    assert load(model) is model
    assert model.facts is before
    with torch.no_grad():
        module.embedding.weight.data += 1.0
    audited = audit(model, generate("code {digit:3}", seed=0), draws=60, budget=1, start_token="a")
    assert audited.model["fingerprint"] == fingerprint(module) != before.fingerprint
    assert audited.model == model.facts.to_dict()
    known = model.facts
    module.embedding.weight.data[3] = float("nan")
    with pytest.raises(ModelError, match="not finite"):
        load(model)
    assert model.facts is known
