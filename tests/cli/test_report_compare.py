"""Reports and figures of several audits, on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import shows_secret

from canary.audits.auditing import audit
from canary.corpus.canaries import CanarySet, generate
from canary.reports.losses import measured_losses
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


def test_audits_side_by_side(command, audited, drawn):
    given = ("--label", "no <dropout>", "--label", "dropout 0.5", "--test-loss", "4.25",
             "--test-loss", "4.5", "--out", "c.html", "--json")  # fmt: skip
    done = command("report", *audited, *given)
    assert done.code == 0, done.err
    assert done.document == {"kind": "canary report", "schema": 1, "out": "c.html"}
    html = Path("c.html").read_text()
    for shown in ("Comparison of 2 memorization audits", "no &lt;dropout&gt;", "4.2500", "4.5000"):
        assert shown in html
    assert "A and B are audits of the same weights." in html
    assert not shows_secret(html + done.err)


def test_the_folder_of_an_audit_names_it(command, audited):
    for words in (("report", "a", "b"), ("plot", "a", "--format", "1")):
        done = command(*words, "--out", "c.svg" if words[0] == "plot" else "c.html")
        assert done.code == 0, done.err
    empty = Path("empty")
    empty.mkdir()
    assert command("report", empty, "--out", "d.html").code == 2


def test_measured_losses_are_those_of_the_scores(command, audited):
    scores = [f"{name}/scores.jsonl" for name in "ab"]
    words = [word for path in scores for word in ("--test-scores", path)]
    assert command("report", *audited, *words, "--out", "c.html").code == 0
    loss = measured_losses(scores)[0]
    html = Path("c.html").read_text()
    assert f'<td class="number">{loss:.4f}</td>' in html
    # The models bear one name, so the files name the audits.
    assert "<td>a/audit.json</td>" in html
    assert "<td>b/audit.json</td>" in html


def test_figures_as_files(command, audited):
    first, _ = audited
    losses = ("--test-loss", 1.0, "--test-loss", 2.0)
    for out, words in {
        "histogram.pdf": (first, "--kind", "histogram"),
        "lines.png": audited,
        "estimates.svg": (*audited, "--skew-normal"),
        "utility.svg": (*audited, "--kind", "utility", "--copies", 1, *losses),
    }.items():
        done = command("plot", *words, "--out", out, "--json")
        assert done.code == 0, done.err
        assert done.document == {"kind": "canary plot", "schema": 1, "out": out}
        assert Path(out).stat().st_size > 1000
    assert Path("lines.png").read_bytes()[:4] == b"\x89PNG"


def test_formats_are_counted_from_1(command, audited):
    first, _ = audited
    assert command("plot", first, "--format", 1, "--out", "f.svg").code == 0
    done = command("plot", first, "--format", 2, "--out", "g.svg")
    assert done.code == 2
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
        (("--test-loss", "1"), "1 test loss for 2 audits; give one for each audit"),
        (("--label", "x"), "error: --label: 1 label for 2 audits"),
        (
            ("--test-loss", "1", "--test-loss", "nan"),
            "error: --test-loss: a test loss of nan is none",
        ),
        (("--test-scores", "a/scores.jsonl"), "1 test loss for 2 audits"),
        (
            ("--test-scores", "a/scores.jsonl", "--test-scores", "test.jsonl"),
            "test.jsonl:1: is no score of a text",
        ),
        (
            ("--test-scores", "a/scores.jsonl", "--test-scores", "short.jsonl"),
            "short.jsonl: its scores (1 texts",
        ),
        (
            ("--test-loss", "1", "--test-scores", "a/scores.jsonl"),
            "--test-loss and --test-scores are both given; give one of them",
        ),
        (("--label", "\udcff", "--label", "b"), "--label: has bytes that are no UTF-8 text"),
    ],
)
def test_words_that_do_not_fit_input(command, audited, words, message):
    scores = Path("a/scores.jsonl").read_text().splitlines(keepends=True)
    Path("short.jsonl").write_text(scores[0])
    Path("old.html").write_text("old")
    done = command("report", *audited, *words, "--force", "--out", "old.html")
    assert done.code == 2
    assert message in done.err
    assert Path("old.html").read_text() == "old"


def test_nothing_that_is_read_is_written(command, audited):
    for out, words in {
        "b/audit.json": audited,
        "a/scores.jsonl": (*audited, *(2 * ("--test-scores", "a/scores.jsonl"))),
    }.items():
        before = Path(out).read_bytes()
        for name in ("report", "plot"):
            done = command(name, *words, "--out", out)
            assert done.code == 2
            assert "is read by this command" in done.err
            assert Path(out).read_bytes() == before
