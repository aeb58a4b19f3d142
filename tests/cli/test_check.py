"""`canary check` and `canary plan` as a build uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import files
from gate_audits import SET, TEXT, exact, extraction

from canary.corpus.canaries import generate

PASSED = {1: [1.0] * 8, 0: [1.0] * 4}
MEMORIZED = {16: [20.0] * 8, 0: [1.0] * 4}
UNDECIDED = {4: [8.0, 12.0] * 4, 0: [1.0] * 4}

LIMIT = ("--max-exposure-bits", 10)


@pytest.fixture
def audits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, groups in (("passed", PASSED), ("memorized", MEMORIZED), ("undecided", UNDECIDED)):
        exact(groups, extractions=[extraction({})]).save(f"{name}.json")
    Path("folder").mkdir()
    exact(PASSED).save("folder/audit.json")
    generate("The code is {digit:9}", repetitions=[1], per_repetition=2, seed=0).save("set.json")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "code"), [("passed", 0), ("memorized", 1), ("undecided", 3), ("missing", 2)]
)
def test_exit_codes_and_one_line(command, audits, name, code):
    outcome = command("check", f"{name}.json", *LIMIT, "--trust-injection")
    assert (outcome.code, outcome.out) == (code, "")
    assert len(outcome.err.splitlines()) == (3 if name == "passed" else 1)
    assert ("note: that the canaries were in the training data is" in outcome.err) == (code == 0)
    assert ("give --verification what canary verify --json printed" in outcome.err) == (code == 0)
    assert outcome.err.startswith("error: missing.json: cannot" if code == 2 else f"{name}: ")


def test_undecided_may_pass(command, audits):
    outcome = command("check", "undecided.json", *LIMIT, "--undecided", "pass")
    assert outcome.code == 0
    assert outcome.err.startswith("undecided, which passes here: ")
    assert command("check", "memorized.json", *LIMIT, "--undecided", "pass").code == 1


def test_the_folder_of_an_audit(command, audits):
    assert command("check", "folder", *LIMIT, "--trust-injection").code == 0


def test_canaries_that_nothing_shows_were_trained_on(command, audits):
    """Never injected, or never verified: a low number alone is no pass."""
    outcome = command("check", "passed.json", *LIMIT)
    assert outcome.code == 3
    assert outcome.err.startswith("undecided: nothing shows that the canaries were in the training")
    assert "--verification FILE" in outcome.err
    assert "--trust-injection" in outcome.err


def test_maximum_prints_its_null_rate(command, audits):
    words = (*LIMIT, "--trust-injection", "--statistic", "maximum")
    outcome = command("check", "passed.json", *words)
    assert outcome.code == 0
    assert "one or more exceed it in 0.78 % of audits" in outcome.err


def test_no_extraction(command, audits):
    assert command("check", "passed.json", "--no-extraction", "--trust-injection").code == 0
    outcome = command("check", "folder", "--no-extraction")
    assert outcome.code == 2
    assert "run canary audit again with --extraction-budget" in outcome.err


def test_baseline(command, audits):
    update = ("--baseline", "base.json", "--update-baseline")
    outcome = command("check", "passed.json", "--baseline", "base.json")
    assert outcome.code == 2
    assert "--update-baseline" in outcome.err
    outcome = command("check", "passed.json", *update)
    assert (outcome.code, outcome.err) == (0, "The baseline, 1 audit, is in base.json\n")
    outcome = command("check", "passed.json", "--baseline", "base.json", "--trust-injection")
    assert outcome.code == 0
    assert "baseline" in outcome.err
    assert "controls" not in outcome.err
    exact({1: [9.0] * 8, 0: [1.0] * 4}).save("more.json")
    outcome = command("check", "more.json", "--baseline", "base.json")
    assert outcome.code == 1
    assert "8.0 bits more than in the baseline" in outcome.err
    # Other limits still hold while a baseline is written.
    assert command("check", "memorized.json", *update, *LIMIT).code == 1
    assert command("check", "memorized.json", *update, "--json").document["audits"] == 1
    assert command("check", "memorized.json", "--baseline", "base.json").code == 0


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


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("passed.json", "--max-p", 5), "on p-values makes no sense"),
        (("passed.json", *LIMIT, "--repetitions", "999"), "no canary has 999 copies"),
        (("passed.json", "--verification", "lost.json"), "8 of 12 canaries did not survive"),
        (
            ("passed.json", *LIMIT, "--verification", "lost.json"),
            "8 of 12 canaries did not survive",
        ),
        (("suspect.json",), "look learned"),
        (("suspect.json", *LIMIT), "look learned"),
        (("left-out.json",), "left out of the corpus on purpose"),
        (
            ("passed.json", "--repetitions", "1"),
            "judges nothing, so --repetitions would be ignored",
        ),
        (
            ("passed.json", "--junit", "a.xml", "--undecided", "pass"),
            "--junit, --undecided would be",
        ),
        (("passed.json", "--verification", "absent.json"), "absent.json"),
        (("passed.json", "--trust-injection"), "so --trust-injection would be ignored"),
    ],
)
def test_what_cannot_be_judged_makes_no_baseline(command, audits, words, message, there):
    exact({16: [1.0] * 8, 0: [20.0] * 8}).save("suspect.json")
    exact(PASSED, canaries_in_corpus=False).save("left-out.json")
    Path("lost.json").write_text(json.dumps(LOST))
    update = ("--baseline", "base.json", "--update-baseline")
    if there:
        assert command("check", "memorized.json", *update).code == 0
    before = files(Path())
    outcome = command("check", *words, *update)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert files(Path()) == before


def test_seeds_of_a_way_of_training(command, audits):
    for seed in range(6):
        bits = [3.0 + seed] * 4
        exact({4: bits}, fingerprint=f"{seed:064}").save(f"seed{seed}.json")
    before, now = (tuple(f"seed{s}.json" for s in part) for part in (range(3), range(3, 6)))
    assert command("check", *before, "--baseline", "base.json", "--update-baseline").code == 0
    outcome = command("check", *now, "--baseline", "base.json")
    assert outcome.code == 1
    assert "3 seeds against 3, p = 0.05 by permutation" in outcome.err
    outcome = command("check", *now[:2], "--baseline", "base.json")
    assert outcome.code == 2
    assert "three seeds or more" in outcome.err


def test_verification(command, audits):
    chosen = generate(TEXT, repetitions=[1], per_repetition=8, controls=4, seed=0)
    chosen.save("canaries.json")
    for name, bits in (("passed", 1.0), ("memorized", 20.0)):
        groups = {1: [bits] * 8, 0: [1.0] * 4}
        exact(groups, canary_set=chosen.fingerprint).save(f"{name}.json")
    rows = [json.dumps({"text": chosen.text(c)}) + "\n" for c in chosen.injected]
    for name, kept in (("whole", rows), ("lost", rows[:-2])):
        Path(f"{name}.jsonl").write_text("".join(kept))
        found = command("verify", f"{name}.jsonl", "--canaries", "canaries.json", "--json")
        Path(f"{name}.json").write_text(found.out)
    passed = command("check", "passed.json", *LIMIT, "--verification", "whole.json")
    assert passed.code == 0
    assert "note: 8 of 8 canaries (8 copies) are in the corpus of whole.json; it" in passed.err
    outcome = command("check", "passed.json", *LIMIT, "--verification", "lost.json")
    assert outcome.code == 2
    assert "2 of 12 canaries did not survive" in outcome.err
    memorized = command("check", "memorized.json", *LIMIT, "--verification", "lost.json")
    assert memorized.code == 1
    assert "2 of 12 canaries did not survive" in memorized.err
    assert "so this is not the file that the training read" in memorized.err
    exact(PASSED).save("other.json")
    other = command("check", "other.json", *LIMIT, "--verification", "whole.json")
    assert other.code == 2
    assert "--verification: whole.json is of another canary set than other.json" in other.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "there is nothing to check; give a limit, such as --max-exposure-bits 10"),
        (
            ("--max-exposure-bits", "nan"),
            "error: --max-exposure-bits: a limit of nan bits makes no sense",
        ),
        (("--max-exposure-bits", "40"), "no exposure could exceed the limit of 40 bits"),
        (("--max-p", "nan"), "error: --max-p: a limit of nan on p-values makes no sense"),
        (("--max-epsilon", "1"), "error: --max-epsilon: a limit on epsilon needs the canary set"),
        ((*LIMIT, "--guesses", "4"), "guesses given, and no limit on epsilon that would heed it"),
        ((*LIMIT, "--delta", "0.1"), "give --max-epsilon as well, or leave delta out"),
        (
            (*LIMIT, "--canaries", "set.json"),
            "error: --max-epsilon: canaries given, and no limit on epsilon that would heed it; "
            "give --max-epsilon as well, or leave canaries out",
        ),
        (
            ("--max-epsilon", "1", "--canaries", "set.json"),
            "error: --canaries: no coin was tossed for any canary: a fixed list of canaries gives "
            "no bound on epsilon; draw the set with coin_flips=True (canary generate --coin-flips)",
        ),
        (("--update-baseline",), "name the file with --baseline"),
        ((*LIMIT, "--repetitions", "4"), "error: --repetitions: no canary has 4 copies"),
        ((*LIMIT, "--repetitions", "four"), "no list of whole numbers"),
        ((*LIMIT, "--baseline", "memorized.json"), "is not a canary baseline document"),
        ((*LIMIT, "--baseline", "passed.json", "--update-baseline"), "is read by this command"),
        ((*LIMIT, "--junit", "passed.json"), "is read by this command"),
        ((*LIMIT, "--junit", "a.xml", "--markdown", "a.xml"), "another result of this command"),
        ((*LIMIT, "--verification", "passed.json"), "is not a canary verify document"),
        ((*LIMIT, "--confidence", "nan"), "confidence must lie between 0 and 1"),
    ],
)
def test_bad_input(command, audits, words, message):
    before = files(Path())
    outcome = command("check", "passed.json", *words)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
    assert files(Path()) == before


def test_plan(command):
    words = ("The code is {digit:9}", "--exposure-bits", 4, "--max-exposure-bits", 10)
    outcome = command("plan", *words, "--json")
    assert outcome.code == 0
    assert len(outcome.err.splitlines()) == 6
    assert outcome.document["space_size"] == 10**9
    assert outcome.document["canaries_for_evidence"] >= 2
    assert command("plan", "no hole").code == 2
    assert command("plan", "{digit:9}", "--power", "nan").code == 2
    refused = command("plan", "{digit:9}", "--max-exposure-bits", 40)
    assert refused.err.startswith("error: --max-exposure-bits: ")
