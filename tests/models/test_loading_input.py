"""From folders and modules to models: what works, and what is said when it does not.

Weights come from safetensors in the model's own folder, whatever an index or config says.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from command_line import save_model, small_model
from safetensors.torch import save_file
from small_models import CHARACTERS, causal_module, character_tokenizer, recurrent_module

from canary.cli.main import run
from canary.errors import InputError, ModelError
from canary.models.language_model import Rows
from canary.models.loading import load

INDEX = "model.safetensors.index.json"
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


@pytest.mark.parametrize("factory", ["{}/net.py:make", "net:make"])
def test_recurrent_folder_gives_the_modules_numbers(recurrent, monkeypatch, factory) -> None:
    folder, module = recurrent
    monkeypatch.chdir(folder)
    model = load(folder, factory=factory.format(folder))
    assert model.facts.attention == "none"
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.inference_mode():
        logs = torch.log_softmax(module(ids[:, :-1])[0], -1)
    wanted = logs.gather(2, ids[:, 1:, None]).flatten().numpy()
    np.testing.assert_allclose(model.score(Rows.of([[1, 2, 3, 4]])), wanted, atol=1e-5)


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


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "models" / "one"
    save_model(small_model(), place)
    return place


def index(folder, **files):
    """An index of the model's weights, some of them in other files."""
    names = [name for name, _ in small_model().named_parameters()]
    table = dict.fromkeys(names, "model.safetensors") | files
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": table}))


def test_an_index_that_names_files_of_the_folder_is_read(folder) -> None:
    part = "model-00001-of-00001.safetensors"
    (folder / "model.safetensors").rename(folder / part)
    index(folder, **{name: part for name, _ in small_model().named_parameters()})
    load(folder)


@pytest.mark.parametrize(
    "named",
    [
        *("evil.bin", "pytorch_model.bin", "../other.safetensors", "sub/x.safetensors"),
        *("/etc/passwd", "..", "", "x.safetensors.bin", "..\\x.safetensors", 3, None, ["x"]),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(folder, named) -> None:
    torch.save(small_model().state_dict(), folder / "evil.bin")
    index(folder, **{"transformer.wte.weight": named})
    with pytest.raises(ModelError, match="the name of a .safetensors file in the same folder"):
        load(folder)


def test_an_index_that_names_a_missing_file_or_a_link_outside_is_refused(folder) -> None:
    index(folder, **{"transformer.wte.weight": "gone.safetensors"})
    with pytest.raises(ModelError, match="'gone.safetensors', which is not there"):
        load(folder)
    outside = folder.parent / "outside.safetensors"
    outside.write_bytes((folder / "model.safetensors").read_bytes())
    (folder / "gone.safetensors").symlink_to(outside)
    with pytest.raises(ModelError, match="a link to a file outside of the folder"):
        load(folder)


def test_the_links_of_the_hubs_cache_are_followed(folder) -> None:
    home = folder.parent / "models--x--y"
    (home / "blobs").mkdir(parents=True)
    (home / "snapshots").mkdir()
    snapshot = folder.rename(home / "snapshots" / "0123abc")
    (snapshot / "model.safetensors").rename(home / "blobs" / "ff00")
    (snapshot / "model.safetensors").symlink_to("../../blobs/ff00")
    index(snapshot)
    load(snapshot)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (INDEX, '["model.safetensors"]', "is not a JSON object"),
        (INDEX, "{}", "has no weight_map"),
        (INDEX, '{"weight_map": []}', "has no weight_map"),
        (INDEX, '{"weight_map": {}}', "has no weight_map"),
        (INDEX, "{", "is not valid JSON"),
        (INDEX, "[" * 100_000 + "]" * 100_000, "is nested too deeply"),
        ("config.json", '{"a":' * 100_000 + "1" + "}" * 100_000, "is nested too deeply"),
        ("config.json", "3", "not a JSON object"),
    ],
    ids=lambda value: value[:20],
)
def test_a_damaged_file_is_a_sentence(folder, file, content, message) -> None:
    (folder / file).write_text(content)
    with pytest.raises(ModelError, match=message):
        load(folder)


ABSURD = [
    *[{"n_layer": value} for value in (10**9, -1, "two")],
    *[{name: 0} for name in ("n_embd", "n_head")],
    *[{"n_head": 7}, {"n_embd": 10**12}, {"vocab_size": -5}, {"vocab_size": 10**15}],
    *[{"model_type": value} for value in ("no such", 7, ["gpt2"])],
    *[{"activation_function": value} for value in (3, "no such")],
    *[{"dtype": "int3"}, {"quantization_config": 5}],
    *[{"transformers_weights": value} for value in ("../x.safetensors", "x.bin")],
]


@pytest.mark.parametrize("values", ABSURD, ids=str)
def test_an_absurd_config_is_exit_code_2(folder, tmp_path, values, capsys) -> None:
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | values))
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n')
    words = ["score", str(folder), str(tmp_path / "texts.jsonl"), "--out", str(tmp_path / "out")]
    assert run(words) == 2
    assert "unforeseen" not in capsys.readouterr().err
