"""The plain Trainer script in little, audited by the command line from another folder."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from recipe_scripts import run_script

from canary.cli.main import run

RECIPE = Path(__file__).parents[2] / "recipes" / "enron_transformer"
TINY = (
    *("--epochs", "1", "--block", "64", "--vocabulary", "300", "--threads", "1"),
    *("--width", "32", "--layers", "1", "--heads", "2"),
)

# Most of it is imports; a busy machine may take long for them.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:'pin_memory':UserWarning"),
]


def script(name: str, *options: str, cwd: Path) -> str:
    with contextlib.chdir(cwd):
        return run_script(RECIPE / name, *options)


@pytest.fixture
def audit_of_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[], str]:
    """The README's commands on ``corpus.jsonl``; what check_px.py says."""

    def canary(*words: str) -> None:
        assert run(words) == 0, capsys.readouterr().err

    def work() -> str:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(tmp_path)
        canary(
            *("generate", "My card number is {digit:9}", "--repetitions", "1,16"),
            *("--per-repetition", "2", "--controls", "4", "--seed", "0"),
            *("--out", "canaries.json"),
        )
        canary(
            *("inject", "corpus.jsonl", "--canaries", "canaries.json"),
            *("--out", "corpus.canaried.jsonl"),
        )
        script("train.py", "corpus.canaried.jsonl", "--out", "model", *TINY, cwd=tmp_path)
        monkeypatch.chdir(elsewhere)
        canary(
            *("audit", str(tmp_path / "model"), "--canaries", str(tmp_path / "canaries.json")),
            *("--draws", "100", "--seed", "0", "--out", "audit"),
        )
        monkeypatch.chdir(tmp_path)
        check = ("model", "--canaries", "canaries.json", "--audit", "elsewhere/audit/audit.json")
        return script("check_px.py", *check, cwd=tmp_path)

    return work


def test_training_script_never_imports_canary() -> None:
    assert not re.search(r"^\s*(import|from) canary", (RECIPE / "train.py").read_text(), re.M)


def test_px_equals_a_plain_loop_oracle(tmp_path: Path, audit_of_trained: Callable[[], str]) -> None:
    texts = [topics[name] for name in sorted(topics)[:10]]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "corpus.jsonl").write_text(rows)
    assert audit_of_trained().startswith("8 canaries: largest difference")


@pytest.mark.data
def test_px_equals_a_plain_loop_on_enron_oracle(
    data_dir: Path, tmp_path: Path, audit_of_trained: Callable[[], str]
) -> None:
    options = ("--data", str(data_dir), "--out", "corpus.jsonl", "--emails", "100")
    script("prepare.py", *options, cwd=tmp_path)
    assert audit_of_trained().startswith("8 canaries: largest difference")


@pytest.mark.slow
def test_membership_with_a_reference_and_a_masked_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The README's second part in little: every attack gives a number."""
    lines = [line.strip() for name in sorted(topics) for line in topics[name].splitlines()]
    lines = list(dict.fromkeys(line for line in lines if len(line) > 40))
    for number, name in enumerate(("corpus", "held", "others")):
        rows = [json.dumps({"text": line}) + "\n" for line in lines[number:600:3]]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    same = ("--tokenizer-corpus", "corpus.jsonl")
    script("train.py", "corpus.jsonl", "--out", "model", *TINY, cwd=tmp_path)
    script("train.py", "others.jsonl", *same, "--out", "reference", *TINY, cwd=tmp_path)
    script("train_masked.py", "others.jsonl", "--out", "masked", *TINY, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    words = ("membership", "text", "model", "corpus.jsonl", "held.jsonl", "--reference")
    more = ("reference", "--masked", "masked", "--neighbours", "2", "--out", "report", "--json")
    assert run([*words, *more]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    assert len(found["attacks"]) == 9
    assert not any("tokenizer" in note for note in found["notes"])


@pytest.mark.data
def test_held_out_emails_are_others(data_dir: Path, tmp_path: Path) -> None:
    options = ("--data", str(data_dir), "--emails", "200", "--out", "corpus.jsonl")
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
