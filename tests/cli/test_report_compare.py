"""Reports and figures of several audits, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import files
from gate_audits import exact, extraction
from histories import make_history

from canary.cli.compared import _apart
from canary.reports.comparison import measured_losses


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """Two audits, and what their models were scored."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate("ab"):
        Path(name).mkdir()
        exact({1: [1.0 + number] * 4, 0: [1.0] * 4}, fingerprint=name * 64).save(
            Path(name, "audit.json")
        )
        rows = [{"line": i, "px_bits": 9.0 + number + i, "tokens": 3} for i in (1, 2)]
        Path(name, "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("test.jsonl").write_text('{"text": "some words"}\n{"text": "more of them"}\n')
    make_history(moments=1).save("history.json")
    Path("m.json").write_text('{"kind": "canary membership"}')
    return ("a/audit.json", "b/audit.json")


def test_folders_labels_and_measured_losses(command, audited):
    scores = [f"{name}/scores.jsonl" for name in "ab"]
    words = [word for path in scores for word in ("--test-scores", path)]
    labels = ("--label", "<x>", "--label", "y")
    assert command("report", "a", "b", *labels, *words, "--out", "c.html").code == 0
    html = Path("c.html").read_text()
    assert "&lt;x&gt;" in html
    assert f'<td class="number">{measured_losses(scores)[0]:.4f}</td>' in html
    # The models bear one name, so what differs between the files names the audits.
    assert command("report", *audited, "--out", "d.html").code == 0
    assert "<dt>A</dt><dd>a (weights" in Path("d.html").read_text()
    Path("empty").mkdir()
    assert command("report", "empty", "--out", "e.html").code == 2


def test_figures_as_files(command, audited):
    losses = ("--test-loss", 1.0, "--test-loss", 2.0)
    for out, words in {
        "exposure.pdf": ("a", "--format", 1),
        "utility.png": (*audited, "--kind", "utility", "--repetitions", 1, *losses),
    }.items():
        done = command("plot", *words, "--out", out)
        assert done.code == 0, done.err
        assert Path(out).stat().st_size > 1000
    assert command("plot", "a", "--format", 2, "--out", "g.svg").code == 2
    assert not Path("g.svg").exists()


def test_what_cannot_be_compared_is_said(command, audited):
    exact({1: [1.0] * 3, 0: [1.0] * 4}).save("b/audit.json")
    done = command("plot", *audited, "--out", "f.svg")
    assert done.code == 2
    assert "error: B cannot be compared with A: the number of" in done.err
    assert command("report", *audited, "--out", "c.html").code == 0
    assert "No two of these audits can be compared" in Path("c.html").read_text()


def test_results_of_several_kinds_go_into_an_annex(command, audited):
    extraction({1: "canary-1"}).save("e.json")
    Path("x.json").write_text(json.dumps({"kind": "canary exposure"}))
    for other, name in (("e.json", "an extraction"), ("x.json", "exposures")):
        done = command("report", "a/audit.json", other, "--out", "c.html")
        assert done.code == 2
        assert f"{other}: this is {name}, and only audits" in done.err
        assert "write one document with --annex annex.html" in done.err
    alike = command("report", "e.json", "e.json", "--out", "c.html")
    assert "compare the intervals of the same number" in alike.err
    assert not Path("c.html").exists()


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
        ("history.json", "history.json: is the history of a training, which cannot be compared"),
        (
            "m.json",
            "m.json: this is a membership test, and only audits, or only membership tests, are",
        ),
        ("--out b/audit.json", "is read by this command"),
    ],
)
def test_words_that_do_not_fit_leave_every_file_input(command, audited, words, message):
    before = files(Path())
    done = command("report", *audited, "--force", "--out", "old.html", *words.split())
    assert done.code == 2
    assert message in done.err
    assert files(Path()) == before


def test_groups_of_seeds(command, tmp_path, monkeypatch):
    """By folders, by a pattern and by files; the answer is printed."""
    monkeypatch.chdir(tmp_path)
    for way, more in (("with", 0.0), ("plain", 5.0)):
        for seed in range(3):
            Path(way, str(seed)).mkdir(parents=True)
            exact(
                {4: [6.0 + more + 0.1 * seed] * 4, 0: [1.0] * 4}, fingerprint=f"{way}{seed}"
            ).save(Path(way, str(seed), "audit.json"))
            nested = Path("nested", way, f"s{seed}", "audit/audit.json")  # beside the model
            nested.parent.mkdir(parents=True)
            nested.write_bytes(Path(way, str(seed), "audit.json").read_bytes())
    files = ",".join(f"plain/{seed}/audit.json" for seed in range(3))
    for others in ("plain", "plain/*", "plain/?/audit.json", "nested/plain", files):
        words = ("--group", "with=with", "--group", f"no decay={others}")
        done = command("report", *words, "--out", "seeds.html", "--force")
        assert done.code == 0, done.err
        assert done.out.startswith("'with' memorizes less")
        assert "4 copies: with 6.1 bits (5.9 to 6.3), no decay 11.1 bits (10.9 to 11.3)" in done.out
    assert "no decay" in Path("seeds.html").read_text()
    losses = [word for loss in range(6) for word in ("--test-loss", 1.0 + loss)]
    done = command("report", *words, *losses, "--out", "losses.html")
    assert "loss on new text, in nats per token: with 2.000 (0.314 to 3.686), no deca" in done.out
    utility = ("--kind", "utility", "--out", "utility.svg")
    assert command("plot", *words, *losses, *utility).code == 0
    assert command("plot", *words, "--out", "seeds.svg").code == 0
    assert command("plot", "plain", "--out", "plain.svg").code == 0
    two = ("with/0", "plain/0", "--label", "decay", "--label", "no decay")
    assert "(A: decay, B: no decay)." in command("report", *two, "--out", "two.html").out
    for wrong, message in {
        ("--group", "with"): "--group: 'with' has no =",
        ("--group", "with=nothing/*"): "elsewhere need a quoted pattern",
        ("--group", "with=with/0,with/1,with/0"): "an audit is given twice",
        ("with/0", *words): "audits are given as files and by --group",
        (): "there is no audit",
        (*words, "--label", "a"): "--label is not for groups",
        (*words, "--annex", "annex.md"): "groups have a page only",
    }.items():
        done = command("report", *wrong, "--out", "wrong.html")
        assert done.code == 2
        assert message in done.err
    assert not Path("wrong.html").exists()


def test_several_trainings_in_one_figure_of_a_size(command, audited):
    make_history(moments=2, seed=1).save("other.json")
    words = ("--axis", "bits", "--size", "3.3,2.6", "--repetitions", 1)
    done = command("plot", "history.json", "other.json", *words, "--out", "h.svg")
    assert done.code == 0, done.err
    drawn = Path("h.svg").read_text()
    assert 'viewBox="0 0 237.6 187.2"' in drawn
    assert command("plot", "a", "--axis", "guesses", "--out", "a.svg").code == 0
    group = ("--group", "x=history.json", "--group", "y=other.json")
    assert command("plot", *group, "--out", "g.svg").code == 0
    for size in ("3", "x,y", "0.1,3", "3,1000"):
        done = command("plot", "a", "--size", size, "--out", "no.svg")
        assert done.code == 2
        assert "--size: a size of" in done.err
    assert not Path("no.svg").exists()


def test_paths_are_called_by_what_sets_them_apart():
    for paths, called in (
        (("/runs/a/audit.json", "/runs/b/audit.json"), ["a", "b"]),
        (("runs/a/x/audit.json", "runs/b/audit.json"), ["a/x", "b"]),
        (("a", "a/b"), ["a", "a/b"]),
        (("a.json",), ["a.json"]),
    ):
        assert _apart([Path(path) for path in paths]) == called
