"""From folders and modules to models: what works, and what is said when it does not.

Weights come from safetensors in the model's own folder, whatever an index or config says.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from command_line import save_model
from small_models import CHARACTERS, causal_module, character_tokenizer, recurrent_module
from toys import fresh, save

from canary.errors import CanaryError, InputError, ModelError
from canary.models.language_model import Rows
from canary.models.loading import load

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    """A folder that `save_pretrained` wrote."""
    place = tmp_path / "models" / "one"
    save_model(causal_module("gpt2"), place, character_tokenizer())
    return place


@pytest.fixture
def recurrent(tmp_path, monkeypatch):
    """The working folder, with a recurrent model in it, and the module."""
    module = fresh()
    folder = save(module, tmp_path / "own")
    (folder / "net.py").write_text("from canary.demo import build as make")
    monkeypatch.chdir(folder)
    return folder, module


def test_pretrained_folder(folder) -> None:
    model = load(folder)
    assert model.facts.name == folder.name
    assert (model.facts.dtype, model.facts.length_limit) == ("float32", 64)
    assert load(model) is model
    size = model.facts.vocabulary
    assert repr(model) == f"<CausalModel {folder.name}: {size} tokens, float32 on {model.device}>"
    half = load(str(folder), dtype="bfloat16")
    assert half.facts.dtype == "bfloat16"
    assert half.facts.noise_bits_per_token > 100 * model.facts.noise_bits_per_token
    assert half.facts.fingerprint != model.facts.fingerprint
    rows = Rows.of([[1, 2, 3, 4]])
    np.testing.assert_allclose(half.score(rows), model.score(rows), atol=0.2)


@pytest.mark.parametrize("factory", ["{}/net.py:make", "net:make"])
def test_recurrent_folder_gives_the_modules_numbers(recurrent, factory) -> None:
    folder, module = recurrent
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
        ("models", {}, r"no config\.json"),
        ("models/one", {"dtype": "int3"}, "unknown dtype 'int3'"),
        ("models/one", {"device": "cuda:9"}, "device 'cuda:9' cannot be used"),
        (3, {}, "got int"),
        (recurrent_module("GRU"), {}, "needs its tokenizer"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_loading_input(tmp_path, folder, source, options, message) -> None:
    source = tmp_path / source if isinstance(source, str) else source
    with pytest.raises((ModelError, InputError), match=message):
        load(source, **options)


def test_loading_input_of_incomplete_folders(tmp_path, folder) -> None:
    config, weights = (folder / CONFIG).read_text(), (folder / WEIGHTS).read_bytes()
    (tmp_path / CONFIG).write_text(config)
    with pytest.raises(ModelError, match="no weights in safetensors"):
        load(tmp_path, tokenizer=folder)
    torch.save(causal_module("gpt2").state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        load(tmp_path, tokenizer=folder)
    (tmp_path / WEIGHTS).write_bytes(weights)
    with pytest.raises(ModelError, match="has no tokenizer that can be loaded"):
        load(tmp_path)
    assert load(tmp_path, tokenizer=folder).facts.vocabulary == len(CHARACTERS)
    # A config with a layer less would silently audit another model.
    (tmp_path / CONFIG).write_text(json.dumps({**json.loads(config), "n_layer": 1}))
    with pytest.raises(ModelError, match=r"holds \d+ weights that the model"):
        load(tmp_path, tokenizer=folder)
    (tmp_path / CONFIG).write_text(config)
    (tmp_path / WEIGHTS).write_bytes(weights[:1000])
    with pytest.raises(ModelError, match="cannot be loaded as a language model"):
        load(tmp_path, tokenizer=folder)


@pytest.mark.parametrize(
    ("factory", "file", "content", "message"),
    [
        ("net.py:nothing", CONFIG, "{}", "net.py has no function nothing"),
        ("missing.py:make", CONFIG, "{}", "cannot be imported"),
        ("make", CONFIG, "{}", "does not name a factory"),
        ("no_such_module_here:make", CONFIG, "{}", "cannot be imported"),
        ("net.py:make", CONFIG, '{"size": 7}', "do not give a model"),
        ("net.py:make", CONFIG, "[]", "not a JSON object"),
        ("net.py:make", WEIGHTS, None, r"no model\.safetensors"),
    ],
)
def test_factory_input(recurrent, factory, file, content, message) -> None:
    path = recurrent[0] / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises((InputError, ModelError), match=message):
        load(recurrent[0], factory=factory)


def test_a_factory_imports_the_files_beside_it_and_names_those_that_lack(
    recurrent, tmp_path, monkeypatch
) -> None:
    folder, before = recurrent[0], list(sys.path)
    code = "def make(config):\n    from gate_net import build\n\n    return build(config)"
    (folder / "factory.py").write_text(code)
    (folder / "gate_net.py").write_text("from canary.demo import build")
    (folder / "lacking.py").write_text("import gate_net_of_another")
    monkeypatch.chdir(tmp_path)
    assert load(folder, factory=f"{folder}/factory.py:make").facts.name == folder.name
    with pytest.raises(InputError, match="No module named") as caught:
        load(folder, factory=f"{folder}/lacking.py:make")
    assert caught.value.cure == (
        "install gate_net_of_another, or put its file beside that of the factory"
    )
    assert sys.path == before


@pytest.mark.parametrize(
    ("code", "raised", "cure"),
    [
        ("import sys\n\nseed = int(sys.argv[1:] and 'x')\n", "ValueError", "__main__"),
        ("import sys\n\nsys.exit(2)\n", r"SystemExit on import \(2\)", "__main__"),
        ("import sys\n\ndef make(:\n", "SyntaxError", "correct"),
    ],
)
def test_a_factory_that_runs_on_import_is_named_with_its_line(
    recurrent, monkeypatch, code, raised, cure
):
    path = recurrent[0] / "train.py"
    path.write_text(code)
    monkeypatch.setattr(sys, "argv", ["canary", "doctor"])
    with pytest.raises(InputError, match=raised) as caught:
        load(recurrent[0], factory=f"{path}:make")
    assert caught.value.where == f"{path}:3"
    assert cure in caught.value.cure


def index(folder, **files):
    """An index of the model's weights, some of them in other files."""
    names = [name for name, _ in causal_module("gpt2").named_parameters()]
    table = dict.fromkeys(names, WEIGHTS) | files
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": table}))


def test_an_index_that_names_files_of_the_folder_is_read(folder) -> None:
    part = "model-00001-of-00001.safetensors"
    (folder / WEIGHTS).rename(folder / part)
    index(folder, **{name: part for name, _ in causal_module("gpt2").named_parameters()})
    load(folder)


@pytest.mark.parametrize(
    "named",
    [
        *("evil.bin", "../other.safetensors", "sub/x.safetensors", "/etc/passwd", "..", ""),
        *("x.safetensors.bin", "..\\x.safetensors", 3, None, ["x"]),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(folder, named) -> None:
    index(folder, **{"transformer.wte.weight": named})
    with pytest.raises(ModelError, match="the name of a .safetensors file in the same folder"):
        load(folder)


def test_an_index_that_names_a_missing_file_or_a_link_outside_is_refused(folder) -> None:
    index(folder, **{"transformer.wte.weight": "gone.safetensors"})
    with pytest.raises(ModelError, match="'gone.safetensors', which is not there"):
        load(folder)
    outside = folder.parent / "outside.safetensors"
    outside.write_bytes((folder / WEIGHTS).read_bytes())
    (folder / "gone.safetensors").symlink_to(outside)
    with pytest.raises(ModelError, match="a link to a file outside of the folder"):
        load(folder)


def test_the_links_of_the_hubs_cache_are_followed(folder) -> None:
    home = folder.parent / "models--x--y"
    (home / "blobs").mkdir(parents=True)
    (home / "snapshots").mkdir()
    snapshot = folder.rename(home / "snapshots" / "0123abc")
    (snapshot / WEIGHTS).rename(home / "blobs" / "ff00")
    (snapshot / WEIGHTS).symlink_to("../../blobs/ff00")
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
        (CONFIG, '{"a":' * 100_000 + "1" + "}" * 100_000, "is nested too deeply"),
        (CONFIG, "3", "not a JSON object"),
    ],
    ids=lambda value: value[:20],
)
def test_a_damaged_file_is_a_sentence(folder, file, content, message) -> None:
    (folder / file).write_text(content)
    with pytest.raises(ModelError, match=message):
        load(folder)


ABSURD = [
    *[{"n_layer": value} for value in (10**9, -1, "two")],
    *[{"n_head": 7}, {"n_embd": 0}, {"n_embd": 10**12}, {"vocab_size": 10**15}],
    *[{"model_type": "no such"}, {"model_type": ["gpt2"]}, {"activation_function": "no such"}],
    *[{"dtype": "int3"}, {"quantization_config": 5}],
    *[{"transformers_weights": value} for value in ("../x.safetensors", "x.bin")],
]


@pytest.mark.parametrize("values", ABSURD, ids=str)
def test_an_absurd_config_is_refused(folder, values) -> None:
    config = folder / CONFIG
    config.write_text(json.dumps(json.loads(config.read_text()) | values))
    with pytest.raises(CanaryError):
        load(folder)
