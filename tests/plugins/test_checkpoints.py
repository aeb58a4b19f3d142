"""Checkpoints of one training in one history: as audits of each, resumed, and added to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from chatted import CONTEXT, chat_tokenizer, some

import canary
from canary.audits.history import History
from canary.cli.main import run
from canary.errors import InputError, ModelError, RecordError
from canary.plugins.checkpoints import exposure_over, steps_of_names
from canary.plugins.watching import watched


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A base model and two checkpoints, with other weights each."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder, tokenizer = tmp_path_factory.mktemp("training"), chat_tokenizer()
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    config = LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=2, **sizes)
    for seed, name in enumerate(("base", "checkpoint-100", "checkpoint-20")):
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return [str(folder / name) for name in ("base", "checkpoint-100", "checkpoint-20")]


@pytest.mark.filterwarnings("ignore:.*tie_word_embeddings")
def test_each_moment_is_as_an_audit_and_a_run_goes_on(saved, tmp_path):
    canaries, path = some(), tmp_path / "history.json"
    told = []
    first = exposure_over(saved[:1], canaries, path=path, draws=50, say=told.append)
    history = exposure_over(saved, canaries, path=path, draws=50, say=told.append)
    assert [moment.step for moment in history.measured] == [0, 20, 100]
    assert told == [saved[0], saved[0], saved[2], saved[1]]
    assert history.measured[0] == first.measured[0]
    assert History.load(path) == history
    assert history.settings["context"] == CONTEXT
    for moment, folder in zip(history.measured, (saved[0], saved[2], saved[1]), strict=True):
        audited = [c.px_bits for c in canary.exposure(folder, canaries, draws=50)]
        assert list(moment.px_bits) == pytest.approx(audited, abs=1e-3)
    wrong = rf"other draws than this training's \(50 then, 60 now\).* --force, or remove {path}$"
    with pytest.raises(RecordError, match=wrong):
        exposure_over(saved, canaries, path=path, draws=60)


def test_a_checkpoint_of_another_model_is_refused(saved, tmp_path):
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    config = AutoModelForCausalLM.from_pretrained(saved[0]).config
    shutil.copytree(saved[0], tmp_path / "checkpoint-300")
    deeper = LlamaConfig(**{**config.to_dict(), "num_hidden_layers": 2})
    LlamaForCausalLM(deeper).save_pretrained(tmp_path / "checkpoint-300")
    with pytest.raises(ModelError, match="other shapes than the") as refused:
        exposure_over([*saved, tmp_path / "checkpoint-300"], some(), path=tmp_path / "h", draws=50)
    assert "checkpoint-300" in str(refused.value)


def test_the_command_writes_the_figure(saved, tmp_path, capsys):
    canaries = tmp_path / "canaries.json"
    some().save(canaries)
    line = ["checkpoints", *saved, "--canaries", str(canaries), "--draws", "50", "--json"]
    assert run([*line, "--out", str(tmp_path / "out")]) == 0
    body = json.loads(capsys.readouterr().out)
    assert [moment["step"] for moment in body["moments"]] == [0, 20, 100]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "no batch" not in page


def test_bad_input(saved, tmp_path):
    with pytest.raises(InputError, match=r"steps \[0, 0\] .*b has no number.*name each once"):
        steps_of_names(["a", "b"])
    with pytest.raises(InputError, match="name each once"):
        steps_of_names(["a/checkpoint-1", "b/checkpoint-1"])
    other = chat_tokenizer("unigram")
    later = tmp_path / "checkpoint-300"
    model = canary.load(saved[1]).module
    model.save_pretrained(later)
    other.save_pretrained(later)
    with pytest.raises(ModelError, match="another tokenizer than the first"):
        exposure_over([saved[1], later], some(), path=tmp_path / "h.json", draws=50)


@pytest.mark.filterwarnings("ignore:.*tie_word_embeddings", "ignore:`is_gradient:FutureWarning")
def test_the_base_of_adapters_is_the_first_moment(saved, tmp_path, caplog):
    """Without another load; and where it cannot be had, it is said why."""
    import torch

    peft, base = pytest.importorskip("peft"), canary.load(saved[0])
    options = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}

    def adapter(name, **more):
        torch.manual_seed(3)
        config = peft.LoraConfig(**options, **more, init_lora_weights=False)
        module = peft.get_peft_model(canary.load(saved[0]).module, config)
        module.peft_config["default"].base_model_name_or_path = saved[0]
        module.save_pretrained(tmp_path / name)
        return tmp_path / name

    told, path = [], tmp_path / "history.json"
    tuned = adapter("checkpoint-7")
    history = exposure_over([tuned], some(), path=path, draws=50, say=told.append)
    assert [moment.step for moment in history.measured] == [0, 7]
    assert told == [str(tuned)]
    wanted = [c.px_bits for c in canary.exposure(base, some(), draws=50)]
    assert list(history.measured[0].px_bits) == pytest.approx(wanted, abs=1e-3)
    assert list(history.measured[1].px_bits) != pytest.approx(wanted, abs=1e-3)
    biased = adapter("checkpoint-8", bias="all")
    history = exposure_over([biased], some(), path=tmp_path / "other.json", draws=50)
    assert [moment.step for moment in history.measured] == [8]
    assert "step 0, the base model, is not measured" in caplog.text


def test_a_watched_checkpoint_is_whole(saved, tmp_path):
    """A training writes shards behind the index, the last byte late, and its state at the end."""
    looks, home, source = iter(range(100)), tmp_path / "output", Path(saved[1])
    weights = (source / "model.safetensors").read_bytes()

    def state(step):
        return json.dumps({"global_step": step, "max_steps": 20}).encode()

    writes = [  # one between two looks
        *(("checkpoint-10", "model.safetensors", part) for part in (weights[:9], weights[:-1])),
        ("checkpoint-10", "model.safetensors", weights),
        ("checkpoint-10", "trainer_state.json", state(10)),
        ("checkpoint-20", "model.safetensors", weights),
        ("checkpoint-20", "trainer_state.json", state(20)),
    ]
    for name in ("checkpoint-10", "checkpoint-20", "runs"):
        (home / name).mkdir(parents=True)
        shutil.copy(source / "config.json", home / name)

    def sleep(seconds):
        look = next(looks)
        if look % 3 == 0:  # two looks see the same, also of what is cut
            folder, name, content = writes[look // 3]
            (home / folder / name).write_bytes(content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("canary.plugins.watching.time.sleep", sleep)
        given = []
        for name in watched(home):
            given.append((Path(name).name, next(looks) // 3))
            assert (Path(name) / "model.safetensors").read_bytes() == weights
        assert given == [("checkpoint-10", 2), ("checkpoint-20", 4)]
        assert list(watched(home, until=1)) == [str(home / "checkpoint-10")]
        patch.setattr("canary.plugins.watching.time.sleep", lambda seconds: 1 / 0)
        (home / "checkpoint-20" / "model.safetensors").unlink()
        with pytest.raises(ZeroDivisionError):  # nothing is given at the first look
            next(watched(home))
        patch.setattr("canary.plugins.watching.time.sleep", lambda seconds: None)
        with pytest.raises(ModelError, match="no weights in safetensors"):
            list(watched(home))
    with pytest.raises(InputError, match="no such folder; start the training"):
        next(watched(tmp_path / "nowhere"))


def test_the_command_watches(saved, tmp_path, capsys, monkeypatch):
    canaries, home = tmp_path / "canaries.json", tmp_path / "training"
    some().save(canaries)
    shutil.copytree(saved[2], home / "checkpoint-20")
    monkeypatch.setattr("canary.plugins.watching.time.sleep", lambda seconds: None)
    line = ["checkpoints", str(home), "--canaries", str(canaries), "--draws", "50"]
    line += ["--out", str(tmp_path / "out")]
    assert run([*line, "--watch", "--until", "1", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert [moment["step"] for moment in body["moments"]] == [20]
    assert (tmp_path / "out" / "report.html").exists()
    assert run([*line, "--until", "1"]) == 2
    assert "--until ends a --watch" in capsys.readouterr().err
