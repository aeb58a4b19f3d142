"""Reports and figures of several audits, on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import files, shows_secret
from histories import make_history

from canary.audits.auditing import audit
from canary.corpus.canaries import CanarySet, generate
from canary.reports.comparison import measured_losses
from canary.scoring.score_job import score_file


@pytest.fixture(scope="module")
def made(model, tmp_path_factory):
    """A folder with two audits of one model with other draws, and its scores of a text."""
    folder = tmp_path_factory.mktemp("audited")
    texts, canaries = folder / "test.jsonl", folder / "canaries.json"
    texts.write_text('{"text": "some words"}\n{"text": "more of them"}\n')
    generate("The code is {digit:9}", repetitions=[1, 8], controls=4, seed=3).save(canaries)
    for name, seed in (("a", 0), ("b", 1)):
        chosen = CanarySet.load(canaries)
        found = audit(model, chosen, method="sampling", draws=300, seed=seed)
        (folder / name).mkdir()
        found.save(folder / name / "audit.json")
        score_file(model, texts, folder / name / "scores.jsonl")
    return folder


@pytest.fixture
def audited(made, tmp_path, monkeypatch):
    """The audits of the folder, in a copy of it."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return ("a/audit.json", "b/audit.json")


def test_the_folder_of_an_audit_names_it(command, audited):
    assert (
        command("report", "a", "b", "--label", "<x>", "--label", "y", "--out", "c.html").code == 0
    )
    html = Path("c.html").read_text()
    assert "&lt;x&gt;" in html
    assert not shows_secret(html)
    Path("empty").mkdir()
    assert command("report", "empty", "--out", "d.html").code == 2


def test_measured_losses_are_those_of_the_scores(command, audited):
    scores = [f"{name}/scores.jsonl" for name in "ab"]
    words = [word for path in scores for word in ("--test-scores", path)]
    assert command("report", *audited, *words, "--out", "c.html").code == 0
    loss = measured_losses(scores)[0]
    html = Path("c.html").read_text()
    assert f'<td class="number">{loss:.4f}</td>' in html
    # The models bear one name, so the files name the audits.
    assert "<td>a/audit.json</td>" in html


def test_figures_as_files(command, audited):
    first, _ = audited
    losses = ("--test-loss", 1.0, "--test-loss", 2.0)
    for out, words in {
        "histogram.pdf": ("a", "--format", 1, "--kind", "histogram"),
        "estimates.svg": (*audited, "--skew-normal"),
        "utility.png": (*audited, "--kind", "utility", "--copies", 1, *losses),
    }.items():
        done = command("plot", *words, "--out", out)
        assert done.code == 0, done.err
        assert Path(out).stat().st_size > 1000
    assert command("plot", first, "--format", 2, "--out", "g.svg").code == 2
    assert not Path("g.svg").exists()


def test_what_cannot_be_compared_is_said(command, audited):
    data = json.loads(Path("b/audit.json").read_text())
    data["canaries"] = data["canaries"][:-1]
    Path("b/audit.json").write_text(json.dumps(data))
    done = command("plot", *audited, "--out", "f.svg")
    assert done.code == 2
    assert "error: B cannot be compared with A: the number of" in done.err
    assert command("report", *audited, "--out", "c.html").code == 0
    assert "No two of these audits can be compared" in Path("c.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--label x", "--label: 1 label for 2"),
        ("--test-loss 1 --test-loss nan", "--test-loss: a test loss of nan"),
        ("--test-scores a/scores.jsonl", "1 test loss for 2 audits"),
        ("--test-scores a/scores.jsonl --test-scores test.jsonl", "test.jsonl:1: is no score"),
        ("--test-loss 1 --test-scores a/scores.jsonl", "are both given"),
        ("--label \udcff --label b", "--label: has bytes that are no UTF-8"),
        ("--test-scores a/scores.jsonl " * 2 + "--out a/scores.jsonl", "is read by this command"),
        ("history.json", "history.json: is the history of a training, which is shown alone"),
        ("--out b/audit.json", "is read by this command"),
    ],
)
def test_words_that_do_not_fit_leave_every_file_input(command, audited, words, message):
    Path("old.html").write_text("old")
    make_history(moments=1).save("history.json")
    before = files(Path())
    done = command("report", *audited, "--force", "--out", "old.html", *words.split())
    assert done.code == 2
    assert message in done.err
    assert files(Path()) == before
