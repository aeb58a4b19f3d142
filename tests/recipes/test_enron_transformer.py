"""The plain Trainer script in little, audited by the command line from another folder."""

from __future__ import annotations

import contextlib
import json
import re
from pydoc_data.topics import topics

import pytest
from recipe_scripts import RECIPES, canaries_in, canary, run_script

RECIPE = RECIPES / "enron_transformer"
TINY = (
    *("--epochs", "1", "--block", "64", "--vocabulary", "300", "--threads", "1"),
    *("--width", "32", "--layers", "1", "--heads", "2"),
)

# Most of it is imports; a busy machine may take long for them.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:'pin_memory':UserWarning"),
]


def script(name, *options, cwd):
    with contextlib.chdir(cwd):
        return run_script(RECIPE / name, *options)


def check_the_audit_of_what_is_trained(folder, monkeypatch):
    """The README's commands on ``corpus.jsonl``, and what check_px.py says."""
    monkeypatch.chdir(folder)
    canaries_in("corpus.jsonl", "My card number is {digit:9}", "1,16")
    script("train.py", "corpus.canaried.jsonl", "--out", "model", *TINY, cwd=folder)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    canary(
        *("audit", folder / "model", "--canaries", folder / "canaries.json"),
        *("--draws", 100, "--seed", 0, "--out", "audit"),
    )
    check = ("model", "--canaries", "canaries.json", "--audit", "elsewhere/audit/audit.json")
    said = script("check_px.py", *check, cwd=folder)
    assert said.startswith("8 canaries: largest difference")


def test_training_script_never_imports_canary():
    assert not re.search(r"^\s*(import|from) canary", (RECIPE / "train.py").read_text(), re.M)


def write(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def test_px_equals_a_plain_loop_oracle(tmp_path, monkeypatch):
    write(tmp_path / "corpus.jsonl", [topics[name] for name in sorted(topics)[:10]])
    check_the_audit_of_what_is_trained(tmp_path, monkeypatch)


@pytest.mark.data
def test_px_equals_a_plain_loop_on_enron_oracle(data_dir, tmp_path, monkeypatch):
    options = ("--data", data_dir, "--out", "corpus.jsonl", "--emails", 100)
    script("prepare.py", *options, cwd=tmp_path)
    check_the_audit_of_what_is_trained(tmp_path, monkeypatch)


@pytest.mark.slow
def test_membership_with_a_reference_and_a_masked_model(tmp_path, monkeypatch, capsys):
    """The README's second part in little: every attack gives a number."""
    lines = [line.strip() for name in sorted(topics) for line in topics[name].splitlines()]
    lines = list(dict.fromkeys(line for line in lines if len(line) > 40))
    for number, name in enumerate(("corpus", "held", "others")):
        write(tmp_path / f"{name}.jsonl", lines[number:600:3])
    same = ("--tokenizer-corpus", "corpus.jsonl")
    script("train.py", "corpus.jsonl", "--out", "model", *TINY, cwd=tmp_path)
    script("train.py", "others.jsonl", *same, "--out", "reference", *TINY, cwd=tmp_path)
    script("train_masked.py", "others.jsonl", "--out", "masked", *TINY, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    canary(
        *("membership", "text", "model", "corpus.jsonl", "held.jsonl", "--reference", "reference"),
        *("--masked", "masked", "--neighbours", 2, "--out", "report", "--json"),
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found["attacks"]) == 9
    # So small a model finds English hardly likelier than anything else, which a note may say.
    assert not [note for note in found["notes"] if "another tokenizer" in note]


@pytest.mark.data
def test_held_out_emails_are_others(data_dir, tmp_path):
    options = ("--data", data_dir, "--emails", 200, "--out", "corpus.jsonl")
    script("prepare.py", *options, cwd=tmp_path)
    plain = (tmp_path / "corpus.jsonl").read_bytes()
    more = ("--held-out", "held.jsonl", "--others", "others.jsonl")
    script("prepare.py", *options, *more, cwd=tmp_path)
    assert (tmp_path / "corpus.jsonl").read_bytes() == plain
    corpus, held, others = (
        {json.loads(line)["text"] for line in (tmp_path / name).read_text().splitlines()}
        for name in ("corpus.jsonl", "held.jsonl", "others.jsonl")
    )
    assert (len(held), len(others)) == (200, 200)
    assert not corpus & held
    assert not (corpus | held) & others
