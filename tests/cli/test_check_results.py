"""`canary check` of what `canary membership` and `canary forgotten` wrote, as a build uses it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from classifiers import save_models, save_outputs
from command_line import files
from gate_audits import exact

ATTACKED = "m/membership.json"


@pytest.fixture
def results(command, tmp_path, monkeypatch):
    """Of a classifier whose members stand out, of models, and of one that forgot nothing."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("target", "shadow", "other"), 1):
        save_outputs(Path(f"{name}.npz"), seed, samples=1000)
    pair = ("--target", "target.npz", "--shadow", "shadow.npz", "--attacks", "loss")
    assert command("membership", "attack", *pair, "--fpr", "0.1", "--out", "m").code == 0
    save_models(tmp_path, 4)
    models = [f"model{number}.npz" for number in range(4)]
    assert command("membership", "models", *models, "--attacks", "P", "--out", "n").code == 0
    rng, labels = np.random.default_rng(0), np.arange(300) % 4
    for name, gap in (("query", 5), ("knows", 5), ("never", 1)):
        logits = rng.normal(size=(300, 4))
        logits[np.arange(300), labels] += gap
        np.savez(f"{name}.npz", logits=logits, labels=labels)
    words = ("--query-model", "query.npz", "--target", "knows.npz", "--calibration", "never.npz")
    assert command("forgotten", *words, "--out", "f").code == 0
    exact({1: [1.0] * 8, 0: [1.0] * 4}).save("audit.json")


def test_names_are_on_the_page_and_in_the_markdown(command, results):
    names = ("--model-name", "risk-1", "--corpus-name", "persons-2025", "--auditor", "A. Auditor")
    limit = ("check", ATTACKED, "--max-auc", 0.55)
    command(*limit, "--markdown", "a.md", "--report", "a.html", *names)
    command(*limit, "--markdown", "alone.md", *names)
    for file in ("a.md", "a.html", "alone.md"):
        text = Path(file).read_text()
        assert all(name in text for name in names[1::2]), file
        assert "not named" not in text
        assert "corpus-name" not in text
    assert command(*limit, *names).code == 2


def test_verdicts_and_their_files(command, results):
    outcome = command(
        *("check", ATTACKED, "--max-auc", 0.55, "--max-tpr-at-fpr", "0.1=0.15", "--json"),
        *("--junit", "a.xml", "--markdown", "a.md", "--report", "a.html"),
    )
    assert (outcome.code, outcome.document["outcome"]) == (1, "failed")
    assert [one["check"] for one in outcome.document["findings"]] == ["AUC", "TPR"]
    found = json.loads(Path(ATTACKED).read_text())["attacks"][0]["corrected"]
    for one, wanted in zip(
        outcome.document["findings"], (found["auc"], found["tpr_at_fpr"][0]), strict=True
    ):
        assert [one[key] for key in ("value", "lower", "upper")] == [
            wanted[key] for key in ("value", "lower", "upper")
        ]
    assert outcome.err.startswith("failed: the AUC of the attack loss is 80.")
    assert 'type="failed"' in Path("a.xml").read_text()
    assert Path("a.md").read_text().startswith("## canary: failed")
    page = Path("a.html").read_text()
    assert "Check of a membership test" in page
    assert "true positive rate of at most 15 % at a false positive rate of 10 %" in page
    # A later verdict replaces them.
    assert outcome.err.endswith("in a.html\nThe verdict is in a.xml\nThe verdict is in a.md\n")
    again = command("check", ATTACKED, "--max-auc", 0.99, "--junit", "a.xml", "--markdown", "a.md")
    assert again.code == 0, again.err
    assert "The verdict is in a.xml in place of an earlier one" in again.out
    assert again.out.startswith("passed against these attacks only (not made: ")
    assert "): the AUC of the attack loss is 80." in again.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (f"{ATTACKED} --max-tpr-at-fpr 0.001=0.02", 3, "repeat the attacks with --fpr 0.001"),
        (f"{ATTACKED} --max-tpr-at-fpr 0.001=0.02 --undecided pass", 0, "which passes here"),
        ("n/models.json --max-auc 0.99", 0, "(LiRA and RMIA)): the AUC of the attack P is"),
        ("f/forgetting.json --forgotten", 1, "failed: the query set is not forgotten: rho is"),
    ],
)
def test_exit_codes(command, results, words, code, said):
    outcome = command("check", *words.split())
    assert outcome.code == code, outcome.err
    assert said in outcome.out


BAD = {
    f"{ATTACKED} --max-exposure-bits 10": "error: --max-exposure-bits cannot "
    "be asked of a membership test; the limits of a membership test are --max-auc, "
    "--max-tpr-at-fpr and --max-p",
    "f/forgetting.json --forgotten --trust-injection": "--trust-injection cannot be asked of",
    "f/forgetting.json --forgotten --min-rho 0.8": "--forgotten asks for the answer of the "
    "test, and --min-rho for a limit on rho",
    "audit.json --max-exposure-bits 10 --trust-members": "--trust-members cannot be asked of an",
    f"{ATTACKED} --forgotten": "cannot be asked of a membership test",
    f"{ATTACKED}": "there is nothing to check; give a limit: --max-auc 0.6 or --max-tpr-at-fpr",
    f"{ATTACKED} --max-auc 0.4": "error: --max-auc: a limit of 0.4 on the AUC makes no sense",
    f"{ATTACKED} --max-tpr-at-fpr 0.02": "expected a false positive rate and a limit, got '0.02'",
    f"{ATTACKED} --max-tpr-at-fpr 0.1=0.2 --max-tpr-at-fpr .1=0.9": "error: --max-tpr-at-fpr: two "
    "limits at one false positive rate",
    f"{ATTACKED} --max-tpr-at-fpr a=b": "error: --max-tpr-at-fpr: expected a false positive rate",
    f"{ATTACKED} --max-tpr-at-fpr 1%=5%": "as shares, got '1%=5%'; write 0.01=0.05",
    f"{ATTACKED} {ATTACKED} --max-auc 0.6": "is a membership test, and several results were given",
    f"audit.json {ATTACKED} --max-auc 0.6": "is a membership test, and several results were given",
    f"{ATTACKED} --max-auc 0.6 --baseline b.json --update-baseline": "cannot be asked of a "
    "membership test",
    f"{ATTACKED} --max-auc 0.6 --junit {ATTACKED}": "is read by this command",
    "f/forgetting.json --max-auc 0.6": "--max-auc cannot be asked of a forgetting test; the limits "
    "of a forgetting test are --forgotten and --min-rho",
    "audit.json --max-auc 0.6": "--max-auc cannot be asked of an audit; the limits of an audit are "
    "--max-exposure-bits, --max-p, --no-extraction, --baseline and",
    "audit.json --max-exposure-bits 10 --forgotten": "cannot be asked of an audit",
}


def test_bad_input(command, results):
    before = files(Path())
    for words, said in BAD.items():
        outcome = command("check", *shlex.split(words))
        assert outcome.code == 2, words
        assert said in " ".join(outcome.err.split()), words
    assert files(Path()) == before


def test_membership_tests_are_compared(command, results):
    Path("o").mkdir()
    pair = ("--target", "other.npz", "--shadow", "shadow.npz", "--attacks", "loss", "--fpr", "0.1")
    assert command("membership", "attack", *pair, "--out", "o", "--force").code == 0
    both = (ATTACKED, "o/membership.json")
    outcome = command("report", *both, "--label", "a", "--label", "b", "--out", "leaks.html")
    assert outcome.code == 0, outcome.err
    assert "Comparison of 2 membership tests" in Path("leaks.html").read_text()
    losses = ("--test-loss", "1", "--test-loss", "2")
    assert command("report", *both, *losses, "--out", "never.html").code == 2
    outcome = command("report", ATTACKED, "n/models.json", "--out", "never.html")
    assert "the tests are of different kinds" in outcome.err
