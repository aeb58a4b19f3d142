"""The watched fine-tuning in little, in full and with adapters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from readers_things import lay
from recipe_scripts import RECIPES, ScriptError, has_table, modules, run_script
from texts_and_models import random_words

from canary.audits.history import History
from canary.errors import InputError

TINY = ("--epochs", "1", "--block", "128", "--threads", "1", "--share", "0", "--draws", "40")

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),  # peft
    pytest.mark.filterwarnings("ignore:'pin_memory':UserWarning"),
]


@pytest.mark.parametrize("options", [(), ("--lora", "--first")], ids=["full", "lora"])
def test_it_trains_watches_and_keeps_the_history(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    lay(tmp_path, "model", "canaries.json", "corpus.canaried.jsonl")
    words = ("model", "corpus.canaried.jsonl", "--canaries", "canaries.json", "--out", "out")
    said = run_script(RECIPES / "finetune" / "finetune.py", *words, *TINY, "--every", "5", *options)
    history = History.load("out/canary_history.json")
    assert [m.step for m in history.measured][:2] == [5, 10]
    assert history.model["name"] == ("PeftModelForCausalLM" if options else "GPT2LMHeadModel")
    marks = history.settings["marks"]
    assert marks == (list(range(1, 1 + len(marks))) if options else [])
    assert bool(marks) == bool(options)
    assert {p.name for p in Path("out").glob("*.png")} == {"curves.png", "draws.png"}
    assert f"measured {len(history.measured)} of" in said


def small_base():
    """A base model on the corpus of this folder, which it hardly knows."""
    sizes = {
        "vocabulary": 300,
        "width": 32,
        "layers": 1,
        "heads": 2,
        "block": 512,
        "epochs": 60,
        "batch": 1,
    }
    options = [word for name, size in sizes.items() for word in (f"--{name}", size)]
    base = ("corpus.jsonl", "--out", "base", "--threads", 1, "--learning-rate", 1e-2)
    run_script(RECIPES / "enron_transformer" / "train.py", *base, *options)


@pytest.mark.parametrize("study", ["kinds", "testset"])
def test_pages_show_what_is_kept(study):
    folder = RECIPES / "finetune"
    table = run_script(folder / f"{study}.py", "--table", folder / f"{study}.json")
    assert has_table((folder / "README.md").read_text(), table)


@pytest.mark.parametrize("study", ["kinds", "testset"])
def test_a_study_goes_on_with_what_it_was_made_of_alone(tmp_path, study):
    texts, work, base = tmp_path / "texts.jsonl", tmp_path / "work", tmp_path / "base"
    texts.write_text('{"text": "one"}\n')
    for folder in (work, base):
        folder.mkdir()
    kept = work / f"{study}.json"
    with modules(RECIPES / "finetune") as recipe:
        opened, plans = recipe["finetune"].opened, recipe[study]
        begun = opened(kept, plans.QUICK, base, ["one"])
        kept.write_text(json.dumps(begun))
        assert opened(kept, plans.QUICK, base, ["one"]) == begun
        with pytest.raises(InputError, match="made with another texts; give another --work"):
            opened(kept, plans.QUICK, base, ["two"])
        (base / "model.safetensors").write_bytes(b"weights")
        with pytest.raises(InputError, match="made with another base; give another --work"):
            opened(kept, plans.QUICK, base, ["one"])
        (base / "model.safetensors").unlink()
        kept.write_text('{"trainings": {}}')
        assert opened(kept, plans.FULL, base, ["two"]) == {"trainings": {}}  # an older study
    kept.write_text(json.dumps(begun))
    words = (base, texts) if study == "kinds" else (base, "--texts", texts)
    with pytest.raises(ScriptError, match=f"{study}.py: .*made with another plan.*another --work"):
        run_script(RECIPES / "finetune" / f"{study}.py", *words, "--work", work)
    assert json.loads(kept.read_text()) == begun


@pytest.mark.slow
def test_a_test_set_is_looked_for_in_little(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lay(tmp_path, "corpus.jsonl")
    small_base()
    words = random_words(np.random.default_rng(0), 160, vocabulary=500)
    Path("texts.jsonl").write_text("".join(json.dumps({"text": w}) + "\n" for w in words))
    script, given = RECIPES / "finetune" / "testset.py", ("base", "--texts", "texts.jsonl")
    said = run_script(script, *given, "--work", "work", "--quick")
    table = said[said.index("| copies") :]
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| 0", "| 4"]
    assert table == run_script(script, *given, "--work", "work", "--quick")


@pytest.mark.slow
def test_kinds_of_canaries_are_compared_in_little(tmp_path, monkeypatch):
    """In full and with adapters; what is measured is not done again."""
    monkeypatch.chdir(tmp_path)
    lay(tmp_path, "corpus.jsonl")
    small_base()
    script, words = RECIPES / "finetune" / "kinds.py", ("base", "corpus.jsonl", "--work", "work")
    said = run_script(script, *words, "--quick")
    assert [said.count(f"| {kind} |") for kind in ("digits", "passages", "new tokens")] == [2, 2, 2]
    again = run_script(script, *words, "--quick")
    table = said[said.index("| training") :]
    assert again == table == run_script(script, "--table", "work/kinds.json")
