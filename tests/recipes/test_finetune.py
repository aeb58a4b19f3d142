"""The watched fine-tuning in little, in full and with adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
from readers_things import lay
from recipe_scripts import RECIPES, run_script

from canary.audits.history import History

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


@pytest.mark.slow
def test_kinds_of_canaries_are_compared_in_little(tmp_path, monkeypatch):
    """In full and with adapters; what is measured is not done again."""
    monkeypatch.chdir(tmp_path)
    lay(tmp_path, "corpus.jsonl")
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
    script, words = RECIPES / "finetune" / "kinds.py", ("base", "corpus.jsonl", "--work", "work")
    said = run_script(script, *words, "--quick")
    assert [said.count(f"| {kind} |") for kind in ("digits", "passages", "new tokens")] == [2, 2, 2]
    again = run_script(script, *words, "--quick")
    table = said[said.index("| training") :]
    assert again == table == run_script(script, "--table", "work/kinds.json")
