"""From folders and modules to models: what works, and what is said when it does not."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from small_models import CHARACTERS, causal_module, character_tokenizer, recurrent_module

from canary.errors import InputError, ModelError
from canary.models.language_model import Rows
from canary.models.loading import load

FACTORY = """
import torch

class Net(torch.nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.embed = torch.nn.Embedding(size, width)
        self.cell = torch.nn.GRU(width, width, 2, batch_first=True)
        self.out = torch.nn.Linear(width, size)

    def forward(self, ids, state=None):
        hidden, state = self.cell(self.embed(ids), state)
        return self.out(hidden), state

def make(config):
    return Net(**config)
"""


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    causal_module("gpt2").save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=character_tokenizer()).save_pretrained(
        folder
    )
    return folder


@pytest.fixture
def recurrent(tmp_path):
    module = recurrent_module("GRU", width=16)
    (tmp_path / "config.json").write_text(json.dumps({"size": len(CHARACTERS), "width": 16}))
    save_file(module.state_dict(), tmp_path / "model.safetensors")
    character_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "net.py").write_text(FACTORY)
    return tmp_path, module


def test_pretrained_folder(pretrained) -> None:
    model = load(pretrained)
    assert model.facts.name == pretrained.name
    assert (model.facts.dtype, model.facts.length_limit) == ("float32", 64)
    assert load(model) is model
    half = load(str(pretrained), dtype="bfloat16")
    assert half.facts.dtype == "bfloat16"
    assert half.facts.noise_bits_per_token > 100 * model.facts.noise_bits_per_token
    assert half.facts.fingerprint != model.facts.fingerprint
    rows = Rows.of([[1, 2, 3, 4]])
    np.testing.assert_allclose(half.score(rows), model.score(rows), atol=0.2)


def test_recurrent_folder_gives_the_modules_numbers(recurrent) -> None:
    folder, module = recurrent
    model = load(folder, factory=f"{folder / 'net.py'}:make")
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.inference_mode():
        logs = torch.log_softmax(module(ids[:, :-1])[0], -1)
    wanted = logs.gather(2, ids[:, 1:, None]).flatten().numpy()
    np.testing.assert_allclose(model.score(Rows.of([[1, 2, 3, 4]])), wanted, atol=1e-5)


def test_recurrent_factory_by_module_name(recurrent, monkeypatch) -> None:
    folder, _ = recurrent
    monkeypatch.chdir(folder)
    assert load(folder, factory="net:make").facts.attention == "none"


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("nowhere", {}, "no such folder"),
        ("empty", {}, r"no config\.json"),
        ("pretrained", {"dtype": "int3"}, "unknown dtype 'int3'"),
        ("pretrained", {"device": "cuda:9"}, "device 'cuda:9' cannot be used"),
        (3, {}, "got int"),
        (recurrent_module("GRU"), {}, "needs its tokenizer"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_loading_input(tmp_path, pretrained, source, options, message) -> None:
    (tmp_path / "empty").mkdir()
    if isinstance(source, str):
        source = pretrained if source == "pretrained" else tmp_path / source
    with pytest.raises((ModelError, InputError), match=message):
        load(source, **options)


def test_loading_input_of_incomplete_folders(tmp_path, pretrained) -> None:
    config = (pretrained / "config.json").read_text()
    weights = (pretrained / "model.safetensors").read_bytes()
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError, match="no weights in safetensors"):
        load(tmp_path, tokenizer=pretrained)
    torch.save(causal_module("gpt2").state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        load(tmp_path, tokenizer=pretrained)
    (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelError, match="has no tokenizer that can be loaded"):
        load(tmp_path)
    assert load(tmp_path, tokenizer=pretrained).facts.vocabulary == len(CHARACTERS)
    # A config with a layer less would silently audit another model.
    (tmp_path / "config.json").write_text(json.dumps({**json.loads(config), "n_layer": 1}))
    with pytest.raises(ModelError, match=r"holds \d+ weights that the model"):
        load(tmp_path, tokenizer=pretrained)
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "model.safetensors").write_bytes(weights[:1000])
    with pytest.raises(ModelError, match="cannot be loaded as a language model"):
        load(tmp_path, tokenizer=pretrained)


@pytest.mark.parametrize(
    ("factory", "config", "message"),
    [
        ("net.py:nothing", None, "cannot be imported"),
        ("missing.py:make", None, "cannot be imported"),
        ("make", None, "does not name a factory"),
        ("no_such_module_here:make", None, "cannot be imported"),
        ("net.py:make", '{"size": 7, "width": 16}', "do not give a model"),
        ("net.py:make", "{", "not valid JSON"),
        ("net.py:make", "[]", "not a JSON object"),
        ("net.py:make", None, r"no model\.safetensors"),
    ],
)
def test_factory_input(recurrent, monkeypatch, factory, config, message) -> None:
    folder, _ = recurrent
    monkeypatch.chdir(folder)
    if config:
        (folder / "config.json").write_text(config)
    elif factory == "net.py:make":
        (folder / "model.safetensors").unlink()
    with pytest.raises((InputError, ModelError), match=message):
        load(folder, factory=factory)
