"""Weights come from safetensors in the model's own folder, whatever an index or config says."""

from __future__ import annotations

import json

import pytest
import torch
from command_line import save_model, small_model

from canary.cli.main import run
from canary.errors import ModelError
from canary.models.loading import load

INDEX = "model.safetensors.index.json"


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
