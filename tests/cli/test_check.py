"""`canary check` as a build uses it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_line import files
from gate_audits import SET, TEXT, exact, extraction

from canary.corpus.canaries import generate
from canary.gate.check_audit import new_baseline

PASSED = {1: [1.0] * 8, 0: [1.0] * 4}
AUDITS = {
    "passed": {"groups": PASSED, "extractions": [extraction({})]},
    "memorized": {"groups": {16: [20.0] * 8, 0: [1.0] * 4}},
    "undecided": {"groups": {4: [8.0, 12.0] * 4, 0: [1.0] * 4}},
    "more": {"groups": {1: [9.0] * 8, 0: [1.0] * 4}},
    "suspect": {"groups": {16: [1.0] * 8, 0: [20.0] * 8}},
    "suspect too": {"groups": {16: [20.0] * 8, 0: [20.0] * 8}},
    "left-out": {"groups": PASSED, "canaries_in_corpus": False},
    "folder/audit": {"groups": PASSED},
    **{f"seed{s}": {"groups": {4: [3.0 + s] * 4}, "fingerprint": f"{s:064}"} for s in range(6)},
}
LOST = {
    "kind": "canary verify",
    "schema": 1,
    "column": "text",
    "records": 5,
    "formats": [TEXT],
    "causes": [],
    "fingerprint": SET,
    "before": "",
    "follows": "",
    "others": 0,
    "canaries": [{"id": f"canary-{i}", "expected": 1, "found": 0} for i in range(1, 9)]
    + [{"id": f"control-{i}", "expected": 0, "found": 0} for i in range(1, 5)],
}
LIMIT = ("--max-exposure-bits", 10)
WRITE = ("--baseline", "base.json", "--update-baseline")


@pytest.fixture
def audits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name, made in AUDITS.items():
        exact(made["groups"], **{k: v for k, v in made.items() if k != "groups"}).save(
            f"{name}.json"
        )
    generate("The code is {digit:9}", repetitions=[1], per_repetition=2, seed=0).save("set.json")
    Path("lost.json").write_text(json.dumps(LOST))
    new_baseline(exact(PASSED)).save("kept.json")


@pytest.mark.parametrize(
    ("name", "code"), [("passed", 0), ("memorized", 1), ("undecided", 3), ("missing", 2)]
)
def test_exit_codes_and_the_verdict_first(command, audits, name, code):
    outcome = command("check", f"{name}.json", *LIMIT, "--trust-injection")
    assert outcome.code == code
    assert (outcome.err == "") == (code != 2)
    assert "What to do:" not in outcome.out
    assert len(outcome.out.splitlines()) <= 8
    more = command("check", f"{name}.json", *LIMIT, "--trust-injection", "--verbose")
    assert more.out.startswith(outcome.out)
    assert ("What to do" in more.out) == (code != 2)
    assert ("“If it fails or is undecided”" in outcome.out) == (code in (1, 3))
    assert outcome.out.count("note: ") == (2 if name == "passed" else 0)
    unchecked = "note: Nobody checked that the canaries were in the training data"
    assert (unchecked in outcome.out) == (code == 0)
    assert ("give --verification what canary verify --json printed" in outcome.out) == (code == 0)
    said = outcome.out + outcome.err
    assert said.startswith("error: missing.json: cannot" if code == 2 else f"{name}: ")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("undecided.json --max-exposure-bits 10 --undecided pass", 0, "undecided, which passes"),
        ("memorized.json --max-exposure-bits 10 --undecided pass", 1, "memorized: "),
        ("folder --max-exposure-bits 10 --trust-injection", 0, "passed: "),
        (
            "passed.json --max-exposure-bits 10 --trust-injection --statistic maximum",
            *(0, "one or more exceed it in 0.78 % of audits"),
        ),
        ("passed.json --no-extraction --trust-injection", 0, "passed: "),
        ("folder --no-extraction", 2, "run canary audit again with --extraction-budget"),
    ],
)
def test_options_reach_the_judgement(command, audits, words, code, said):
    outcome = command("check", *words.split())
    assert outcome.code == code
    assert said in (outcome.err if code == 2 else outcome.out)


def test_suspect_controls_are_printed_whatever_the_verdict_is(command, audits):
    outcome = command("check", "suspect too.json", *LIMIT)
    assert outcome.code == 1
    first, second, *_ = outcome.out.splitlines()
    assert first.startswith("memorized: the median exposure")
    assert second.startswith("undecided: 8 controls, never put into the corpus, look learned")
    assert "find out whether copies of them reached the training data" in second
    # A finding that is printed already is not printed again.
    outcome = command("check", "suspect.json", *LIMIT, "--trust-injection")
    assert (outcome.code, outcome.out.count("look learned, ")) == (3, 0)
    assert outcome.out.count("never put into the corpus, look learned") == 1


def test_canaries_that_nothing_shows_were_trained_on(command, audits):
    """Never injected, or never verified: a low number alone is no pass."""
    outcome = command("check", "passed.json", *LIMIT)
    assert outcome.code == 3
    assert outcome.out.startswith("undecided: nothing shows that the canaries were in the training")
    assert "--verification FILE" in outcome.out
    assert "--trust-injection" in outcome.out


def test_baseline(command, audits):
    outcome = command("check", "passed.json", *WRITE[:2])
    assert outcome.code == 2
    assert "--update-baseline" in outcome.err
    outcome = command("check", "passed.json", *WRITE)
    assert (outcome.code, outcome.err) == (0, "")
    assert "The baseline of 1 audit is in base.json\n" in outcome.out
    assert "No limit was given, so nothing was checked" in outcome.out
    # The same audit again, as where the training ran and the audit did not.
    outcome = command("check", "passed.json", *WRITE[:2], "--trust-injection")
    assert outcome.code == 3
    assert "the audit and the baseline are of the same weights" in outcome.out
    exact(PASSED, fingerprint="b" * 64).save("again.json")
    outcome = command("check", "again.json", *WRITE[:2], "--trust-injection")
    assert outcome.code == 0
    assert "baseline" in outcome.out
    assert "controls" not in outcome.out.splitlines()[0]
    outcome = command("check", "more.json", *WRITE[:2])
    assert outcome.code == 1
    assert "8.0 bits more than in the baseline" in outcome.out
    # Other limits still hold while a baseline is written.
    assert command("check", "memorized.json", *WRITE, *LIMIT).code == 1
    assert command("check", "memorized.json", *WRITE, "--json").document["audits"] == 1
    assert command("check", "memorized.json", *WRITE[:2]).code == 3
    now = [f"seed{number}.json" for number in range(3, 6)]
    assert command("check", "seed0.json", "seed1.json", "seed2.json", *WRITE).code == 0
    outcome = command("check", *now, *WRITE[:2])
    assert outcome.code == 1
    assert "3 seeds against 3, p = 0.05 by permutation" in outcome.out
    outcome = command("check", *now[:2], *WRITE[:2])
    assert outcome.code == 2
    assert "three seeds or more" in outcome.err


UPDATE = "--update-baseline --baseline"
TEN = "--max-exposure-bits 10"
BAD = {
    "passed.json": "there is nothing to check; give a limit: --max-exposure-bits 4",
    "passed.json --max-exposure-bits nan": "error: --max-exposure-bits: a limit of nan bits",
    "passed.json --max-exposure-bits 40": "no exposure could exceed the limit of 40 bits",
    "passed.json --max-p nan": "error: --max-p: a limit of nan on p-values makes no sense",
    "passed.json --max-epsilon 1": "error: --max-epsilon: a limit on epsilon needs the canary set",
    f"passed.json {TEN} --guesses 4": "guesses given, and no limit on epsilon that would heed it",
    f"passed.json {TEN} --delta 0.1": "give --max-epsilon as well, or leave delta out",
    f"passed.json {TEN} --canaries set.json": "error: --max-epsilon: canaries given, and no limit "
    "on epsilon that would heed it; give --max-epsilon as well, or leave canaries out",
    "passed.json --max-epsilon 1 --canaries set.json": "error: --canaries: no coin was tossed for "
    "any canary: a fixed list of canaries gives no bound on epsilon; draw the set with "
    "coin_flips=True (canary generate --coin-flips)",
    "passed.json --update-baseline": "name the file with --baseline",
    f"passed.json {TEN} --repetitions 4": "error: --repetitions: no canary has 4 copies",
    f"passed.json {TEN} --repetitions four": "no list of whole numbers",
    f"passed.json {TEN} --require-learned 1,4": "'--require-learned': give one whole number, such",
    "passed.json --max-exposure-bits 1,4": "'--max-exposure-bits': give one number, such as 0.5",
    f"passed.json {TEN} --baseline memorized.json": "is not a canary baseline document",
    f"passed.json {TEN} --junit passed.json": "is read by this command",
    f"passed.json {TEN} --junit a.xml --markdown a.xml": "another result of this command",
    f"passed.json {TEN} --verification passed.json": "is not a canary verify document",
    f"passed.json {TEN} --confidence nan": "confidence must be between 0 and 1",
    # What cannot be judged makes no baseline, and replaces none.
    f"passed.json {TEN} {UPDATE} passed.json": "is read by this command",
    f"passed.json --max-p 5 {UPDATE} kept.json": "on p-values makes no sense",
    f"passed.json {TEN} --repetitions 999 {UPDATE} kept.json": "no canary has 999 copies",
    f"passed.json --verification lost.json {UPDATE} new.json": "none of 8 canaries is in",
    f"passed.json {TEN} --verification lost.json {UPDATE} kept.json": "none of 8 canaries is in",
    f"suspect.json {UPDATE} new.json": "look learned",
    f"suspect.json {TEN} {UPDATE} kept.json": "look learned",
    f"left-out.json {UPDATE} new.json": "left out of the corpus on purpose",
    f"passed.json --repetitions 1 {UPDATE} kept.json": "judges nothing, so --repetitions would be",
    f"passed.json --junit a.xml --undecided pass {UPDATE} new.json": "--junit, --undecided would",
    f"passed.json --verification absent.json {UPDATE} kept.json": "absent.json",
    f"passed.json --trust-injection {UPDATE} new.json": "so --trust-injection would be ignored",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input(command, audits, words):
    before = files(Path())
    outcome = command("check", *shlex.split(words))
    assert outcome.code == 2
    assert BAD[words] in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
    after = {name: held for name, held in files(Path()).items() if b"Could not be" not in held}
    assert after == before


@pytest.mark.parametrize("wrong", ["broken", "gone", "passed.json --update"])
def test_without_a_verdict_the_files_of_an_earlier_one_say_so(command, audits, wrong):
    outputs = ("--junit", "v.xml", "--markdown", "v.md", "--report", "v.html")
    Path("broken.json").write_text("{}")
    good = ("check", "passed.json", *LIMIT, "--trust-injection", *outputs)
    assert command(*good).code == 0
    kept = Path("mine.md")
    kept.write_text("my notes")
    words = ["passed.json", "--update-baseline"] if "--update" in wrong else [f"{wrong}.json"]
    failed = command("check", *words, *LIMIT, "--trust-injection", *outputs)
    assert failed.code == 2
    reason = failed.err.strip().removeprefix("error: ")
    case = ET.parse("v.xml").find(".//testcase/error")
    assert case.get("message") == f"Could not be checked: {reason}"
    assert Path("v.md").read_text().startswith("## canary: no verdict\n\n**Could not be checked: ")
    for file in ("v.md", "v.html"):
        assert "passed" not in Path(file).read_text().replace("passed.json", "")
        assert Path(file).stat().st_mode & 0o77 == 0
    command("check", "gone.json", *LIMIT, "--markdown", "mine.md")
    assert kept.read_text() == "my notes"  # what is not ours is not replaced
    assert command(*good).code == 0
    assert "passed" in Path("v.md").read_text()
