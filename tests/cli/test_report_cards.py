"""`canary report --annex --model-card` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gate_audits import exact

from canary.membership import forgetting_result
from canary.membership.forgetting import forgotten
from canary.records.versioned_json import dump_document

GROUPS = {16: [20.0] * 8, 0: [1.0] * 8}


@pytest.fixture
def audited(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    exact(GROUPS).save(Path("a", "audit.json"))
    return "a"


def test_an_annex_and_a_card_with_the_limit_of_a_check(command, audited):
    checked = command("check", audited, "--max-exposure-bits", 9, "--trust-injection", "--json")
    Path("verdict.json").write_text(checked.out)
    Path("README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    words = ("report", audited, "verdict.json", "--annex", "annex.md", "--model-card", "README.md")
    names = ("--corpus-name", "letters", "--auditor", "R. Roe", "--model-name", "net")
    done = command(*words, *names, "--out", "page.html", "--json")
    # A page is of audits alone.
    assert done.code == 2
    done = command(*words, *names, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["annex"] == "annex.md"
    # The headline comes first, whatever was written.
    assert "The model memorized planted secrets (limit not passed: easier to find" in done.err
    page = command("report", audited, "--out", "page.html")
    assert page.out.startswith("The model memorized planted secrets.\nThe report is page.html")
    exact(GROUPS, fingerprint="b" * 64).save(Path("b.json"))
    two = command("report", audited, "b.json", "--out", "two.html")
    assert two.out.partition("\n")[0].endswith(".")
    assert two.out.partition("\n")[2].startswith("The report is two.html")
    for name in ("annex.md", "README.md"):
        text = Path(name).read_text()
        assert "exposure of at most 9 bits" in text
        assert "letters" in text
        assert "R. Roe" in text
    before = Path("README.md").read_bytes()
    again = command("report", audited, "--model-card", "README.md")
    assert again.code == 2
    assert "--force" in again.err
    assert Path("README.md").read_bytes() == before
    assert command(*words, *names, "--force").code == 0
    assert Path("README.md").read_bytes() == before


def test_results_of_different_models_are_named_on_the_terminal(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        exact(GROUPS, fingerprint=name * 64).named(model_name=f"net-{name}").save(f"{name}.json")
    done = command("report", "a.json", "b.json", "--model-name", "net", "--model-card", "card.md")
    assert done.code == 0, done.err
    assert "The results name different models: net-a, net-b." in done.out + done.err


def test_a_name_of_data_is_not_of_what_was_to_be_forgotten_beside_other_tests(command, audited):
    losses = np.random.default_rng(0).exponential(1.0, (4, 50))
    found = forgotten([losses[0] / 9], losses[1], list(losses[2:]), resamples=9)
    dump_document(Path("f.json"), forgetting_result.KIND, 1, found.to_dict())
    words = ("report", "f.json", "--annex", "a.md", "--corpus-name", "letters", "--force")
    hint = "Name the data to be forgotten with --corpus-name of canary forgotten"
    alone, both = command(*words), command(*words, audited)
    assert hint not in alone.err + alone.out
    assert hint in both.err + both.out
    page = command("report", "f.json", "--out", "f.html")
    assert page.code == 2
    for part in ("f.json: this is a forgetting test", "run the test again", "--annex"):
        assert part in page.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to write; give --out, --annex or --model-card"),
        (("--annex", "a.md", "--label", "x"), "for the page that compares audits"),
        (("--annex", "a.pdf"), "is not written as '.pdf'; let the name end with .md or .html"),
        (("--annex", "a.md", "--model-card", "a.md"), "where another result of this command goes"),
        (("--annex", "a/audit.json"), "is not written as '.json'"),
        (("--model-card", "a/audit.json"), "is read by this command"),
    ],
)
def test_what_cannot_be_written(command, audited, words, message):
    done = command("report", audited, *words)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")
    assert [path.name for path in Path().iterdir()] == ["a"]
