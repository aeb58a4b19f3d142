"""Models of the hub by revision, from a cache laid out as the hub's, offline."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from command_line import save_model
from small_models import causal_module, character_tokenizer

from canary.cli.main import run
from canary.errors import InputError, ModelError
from canary.models.language_model import Rows
from canary.models.loading import load
from canary.plugins.checkpoints import steps_of_names

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft
ROWS = Rows.of([[3, 1, 4, 1, 5, 9, 2, 6]])
MAIN, EARLY = "a" * 40, "b" * 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The hub's cache with two commits of one model, ``main`` and ``step-20``."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    home = tmp_path / "models--org--model-7b"
    for seed, (name, commit) in enumerate({"main": MAIN, "step-20": EARLY}.items()):
        torch.manual_seed(seed)
        save_model(causal_module("llama"), home / "snapshots" / commit, character_tokenizer())
        (home / "refs").mkdir(exist_ok=True)
        (home / "refs" / name).write_text(commit)
    return home


def test_a_revision_is_loaded_and_the_commit_is_named(cache) -> None:
    late, early = load("org/model-7b"), load("org/model-7b", revision="step-20")
    assert (late.facts.revision, late.facts.name) == (MAIN, "model-7b")
    assert (early.facts.revision, early.facts.name) == (EARLY, "model-7b@step-20")
    assert early.facts.to_dict()["revision"] == EARLY
    for name in (f"org/model-7b@{EARLY}", str(cache / "snapshots" / EARLY)):
        again = load(name)
        assert again.facts.revision == EARLY
        np.testing.assert_array_equal(again.score(ROWS), early.score(ROWS))
    assert np.abs(late.score(ROWS) - early.score(ROWS)).max() > 0.1


def test_an_adapter_of_the_hub_is_loaded_with_its_base_at_its_revision(cache) -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM")
    home = cache.parent / "models--org--lora"
    folder = home / "snapshots" / MAIN
    peft.get_peft_model(causal_module("llama"), config).save_pretrained(folder)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(MAIN)
    described = json.loads((folder / "adapter_config.json").read_text())
    for revision, wanted in ((None, MAIN), ("step-20", EARLY)):
        described |= {"base_model_name_or_path": "org/model-7b", "revision": revision}
        (folder / "adapter_config.json").write_text(json.dumps(described))
        base = load(str(cache / "snapshots" / wanted))  # LoRA begins by changing nothing
        np.testing.assert_allclose(load("org/lora").score(ROWS), base.score(ROWS), atol=1e-5)


def test_what_is_no_revision(cache, tmp_path, capsys) -> None:
    with pytest.raises(ModelError, match="the hub gives nothing by that name .*its revision"):
        load("org/model-7b@step-30")
    folder = cache / "snapshots" / MAIN
    with pytest.raises(InputError, match="is a folder; leave it out"):
        load(folder, revision="main")
    with pytest.raises(InputError, match="no hub id; leave it out"):
        load(causal_module("llama"), tokenizer=character_tokenizer(), revision="main")
    (cache / "snapshots" / EARLY / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no weights in safetensors"):
        load("org/model-7b@step-20")
    assert run(["extract", str(folder), "a{digit:2}", "--revision", "main"]) == 2
    assert "leave it out; only a hub id has revisions" in capsys.readouterr().err


def test_steps_of_revisions() -> None:
    names = [f"org/model-7b@{EARLY}", "org/model-7b@step-20", "out/checkpoint-300"]
    assert steps_of_names(names) == [0, 20, 300]
    with pytest.raises(InputError, match="name each once"):
        steps_of_names(["org/model-7b@step-20", "out/checkpoint-20"])
