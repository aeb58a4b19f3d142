"""The pytest plugin in real runs of pytest: what it shows, keeps and leaves alone."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pytest_projects import Project

from canary.corpus.canaries import generate

JUDGED = """\
import canary
import pytest
from gate_audits import exact

LOW, HIGH = [1.0, 2, 0.5, 1, 2, 1, 1, 0.5], [15.0, 17, 18, 12, 19, 18, 20, 21]
AUDIT = exact({1: LOW, 16: HIGH, 0: LOW})
FEW = exact({1: [8.0, 12.0]})


@pytest.fixture(scope="session")
def verdict():
    return canary.check(AUDIT, max_exposure_bits=10)


def test_memorized():
    assert canary.check(AUDIT, max_exposure_bits=10)


def test_passed():
    assert canary.check(AUDIT, max_exposure_bits=25)


def test_undecided():
    assert canary.check(FEW, max_exposure_bits=10)


def test_undecided_that_passes():
    assert canary.check(FEW, max_exposure_bits=10, undecided="pass")


def test_first_of_a_fixture(verdict):
    assert verdict


def test_second_of_a_fixture(verdict):
    assert verdict


def test_expected():
    assert not canary.check(AUDIT, max_exposure_bits=10)


def test_two(subtests):
    for limit in (10, 25):
        with subtests.test(limit=limit):
            assert canary.check(AUDIT, max_exposure_bits=limit)


def test_error():
    assert canary.check(FEW)
"""

EXPLAINED = """\
E       canary: memorized
E       - memorized: the median exposure of canaries with 16 copies (8 canaries, each end 90 % \
sure) is 15.0 bits or more, above the limit of 10
E           canary-16: 16 copies, exposure 21.0 bits
E           canary-15: 16 copies, exposure 20.0 bits
"""


def section(said: str, name: str) -> str:
    """What stands below a heading of pytest's."""
    found = re.search(rf"^=+ {name} =+$\n(.*?)(?=^=+ )", said, re.MULTILINE | re.DOTALL)
    assert found, said
    return found[1]


def failure(said: str, name: str) -> str:
    found = re.search(
        rf"^_+ {re.escape(name)} _+$\n(.*?)(?=^(?:__+|==+) )", said, re.MULTILINE | re.DOTALL
    )
    assert found, said
    return found[1]


def explains(said: str) -> None:
    for name in ("test_memorized", "test_first_of_a_fixture", "test_second_of_a_fixture"):
        assert EXPLAINED in failure(said, name)
        assert "What to do: fewer copies (de-duplication)" in failure(said, name)
        assert failure(said, name).count("canary: memorized") == 1
    assert len(re.findall(r"^E +canary: memorized$", said, re.MULTILINE)) == 4  # one of a subtest
    undecided = failure(said, "test_undecided")
    assert "E       canary: undecided" in undecided
    assert "What to do: 4 that agree would do" in undecided
    assert "there is nothing to check" in failure(said, "test_error")
    assert "(<Audit of 16 canaries and 8 controls>, max_exposure_bits=10)" in said


def has_a_line_for_each_verdict(said: str) -> None:
    shown = section(said, "canary").splitlines()
    lines = sorted(line for line in shown if "test_judged.py::" in line)
    noted = set()  # the note of several verdicts is below the first of them
    for line, after in pairwise([*shown, ""]):
        if "test_judged.py::" not in line:
            continue
        expected = "test_expected: " in line  # it asserts that the model memorized
        told = "the test passed all the same: assert the verdict itself, not its outcome"
        told += ", or set canary_strict = true"
        assert (after.strip() == told) is expected
        passed = line.startswith("passed")
        shown_by = "note: the limit is weak: " if passed else "note: the canaries with 1 copy"
        passes = passed or "undecided_that_passes" in line
        assert after.strip().startswith(shown_by) is (passes and shown_by not in noted)
        noted |= {shown_by} if passes else set()
    above = (
        "the median exposure of canaries with 16 copies (8 canaries, each end 90 % sure) is 15.0 "
        "bits or more"
    )
    told = [re.split(r" +test_judged\.py::", line, maxsplit=1) for line in lines]
    of_fixtures = [one for one in told if "of_a_fixture" in one[1]]
    others = [(outcome, rest) for outcome, rest in told if "of_a_fixture" not in rest]
    assert len(of_fixtures) == 1
    assert [(outcome, rest.partition(":")[0]) for outcome, rest in others] == [
        ("memorized", "test_expected"),
        ("memorized", "test_memorized"),
        ("memorized", "test_two"),
        ("passed", "test_passed"),
        ("passed", "test_two"),
        ("undecided", "test_undecided"),
        ("undecided", "test_undecided_that_passes"),
    ]
    assert others[1][1] == f"test_memorized: {above}, above the limit of 10"
    assert others[3][1].endswith("within the limit of 25 (and 2 more)")


def has_properties(path: Path) -> None:
    found = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in ET.parse(path).iter("testcase")
        if case.find("properties") is not None
    }
    memorized = found["test_memorized"]
    words = {"outcome": "memorized", "passed": "no", "check": "exposure"}
    words |= {"subject": "canaries with 16 copies"}
    assert {name: memorized[f"canary.1.{name}"] for name in words} == words
    assert float(memorized["canary.1.limit"]) == 10
    assert float(memorized["canary.1.lower"]) == pytest.approx(15, abs=1e-3)
    assert 0 < float(memorized["canary.1.chance"]) < 1e-9
    assert found["test_undecided_that_passes"]["canary.1.passed"] == "yes"
    assert found["test_two"]["canary.2.outcome"] == "passed"
    assert "test_error" not in found


def test_a_verdict_without_assert_fails_its_test_if_the_setting_says_so(tmp_path):
    """Off by default; a pass, an undecided one that may pass and an xfail mark stay."""
    silent = "\n\ndef test_silent():\n    canary.check(AUDIT, max_exposure_bits=10)\n"
    silent += "\n\n@pytest.mark.xfail(strict=False)\ndef test_marked():\n    test_silent()\n"
    chosen = ("-k", "silent or marked or test_passed or that_passes")
    project = Project(tmp_path, test_judged=JUDGED + silent)
    assert project.inside(*chosen)[0] == 0
    code, said = project.inside(*chosen, "-o", "canary_strict=true")
    assert code == 1
    told = failure(said, "test_silent")
    assert "canary: memorized" in told
    assert "What to do: fewer copies" in told
    assert "canary_strict is on" in told
    assert "the test passed all the same" not in said
    assert "1 failed, 2 passed" in said
    assert "1 xfailed" in said


def test_verdicts_are_explained_listed_and_in_junit(tmp_path):
    project = Project(tmp_path, test_judged=JUDGED)
    code, said = project.inside("--junitxml", "junit.xml")
    assert code == 1
    assert "warning" not in said.lower()
    explains(said)
    has_a_line_for_each_verdict(said)
    has_properties(project.folder / "junit.xml")


LEFT_OUT = """\
import canary
from gate_audits import exact

AUDIT = exact({1: [1.0, 2, 0.5, 1, 2, 1, 1, 0.5], 4: [9.0] * 8, 16: [15.0] * 8})


def test_left_out():
    assert canary.check(AUDIT, max_exposure_bits=25, repetitions=[16])
"""


def test_notes_are_listed_and_groups_that_were_left_out_are_properties(tmp_path):
    project = Project(tmp_path, test_left_out=LEFT_OUT)
    code, said = project.inside("--junitxml", "junit.xml")
    assert code == 0
    notes = re.findall(r"^ +note: (.*)$", section(said, "canary"), re.MULTILINE)
    assert len(notes) == 3
    assert notes[0].startswith("the limit is weak: ")
    assert notes[1].startswith("canaries with 1, 4 copies were left out")
    found = {p.get("name"): p.get("value") for p in ET.parse(project.folder / "junit.xml").iter()}
    assert found["canary.1.left_out"] == "1, 4"
    assert [found[f"canary.1.note.{n}"] for n in (1, 2, 3)] == notes


ATTACKED = """\
import canary
from classifiers import measured_outputs
from canary.membership.shadow_survey import survey

FOUND = survey(measured_outputs(1), measured_outputs(2), attacks="loss", fprs=[0.1])


def test_failed():
    assert canary.check(FOUND, max_auc=0.51)


def test_passed():
    assert canary.check(FOUND, max_auc=0.99)
"""


def test_verdicts_on_membership_are_explained_and_listed(tmp_path):
    code, said = Project(tmp_path, test_attacked=ATTACKED).inside()
    assert code == 1
    shown = failure(said, "test_failed")
    assert "E       canary: failed" in shown
    assert "What to do: train again so that less is memorized" in shown
    lines = [line for line in section(said, "canary").splitlines() if "::" in line]
    assert [line.split("::")[0].split() for line in lines] == [
        ["failed", "test_attacked.py"],
        ["passed", "test_attacked.py"],
    ]
    assert "the AUC of the attack loss is" in lines[0]


BARE = """\
import sys


def test_nothing(pytestconfig, request):
    assert pytestconfig.pluginmanager.has_plugin("canary")
    assert not {"numpy", "scipy", "torch", "transformers"} & set(sys.modules)
    assert request.node.user_properties == []
"""


OTHER = """\
def test_build(record_testsuite_property, request):
    for name in ("canary.2024.build", "canary.1.outcome", "canary", "canary.1"):
        request.node.user_properties.append((name, "rolled back"))
"""


def test_runs_without_verdicts_and_properties_of_others_are_left_alone(tmp_path):
    project = Project(tmp_path, test_bare=BARE, test_other=OTHER)
    done = project.pytest("--junitxml", "junit.xml")
    assert done.returncode == 0, done.stdout
    assert " canary " not in done.stdout
    assert "rolled back" not in done.stdout
    bare, other = ET.parse(project.folder / "junit.xml").iter("testcase")
    assert bare.find("properties") is None
    assert len(list(other.iter("property"))) == 4


BASELINE = """\
import canary
from gate_audits import exact


def audit(bits):
    return exact({4: [bits] * 8})


def test_same(canary_baseline):
    one = audit(6.0)
    assert canary.check(one, baseline=canary_baseline(one, "baselines/same.json"))


def test_seeds(canary_baseline):
    found = [exact({4: [b] * 4}, fingerprint=str(b)) for b in (4.0, 5.0, 6.0)]
    assert canary.check(found, baseline=canary_baseline(found, "baselines/seeds.json"))
"""


def test_baselines_are_written_when_asked_and_missed_by_the_name_of_the_flag(tmp_path):
    project = Project(tmp_path, test_baseline=BASELINE)
    folder = project.folder / "baselines"
    folder.mkdir()
    code, said = project.inside()
    assert code == 1
    assert f"there is no baseline yet ({folder / 'same.json'})" in said
    assert "make it with: pytest --canary-update" in said
    assert not any(folder.iterdir())

    code, said = project.inside("--canary-update")
    assert code == 0, said
    written = section(said + "=== end", "canary")
    assert f"baseline written: {folder / 'same.json'}" in written
    assert f"baseline written: {folder / 'seeds.json'}" in written
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert json.loads(kept["same.json"])["kind"] == "canary baseline"
    assert len(json.loads(kept["seeds.json"])["audits"]) == 3

    # More than there: told, and the baselines stay as they are.
    changed = BASELINE.replace("audit(6.0)", "audit(9.0)")
    (project.folder / "test_baseline.py").write_text(changed)
    code, said = project.inside()
    assert code == 1
    assert "baseline written" not in said
    assert re.search(r"^memorized +test_baseline.py::test_same", said, re.MULTILINE)
    assert kept == {path.name: path.read_bytes() for path in folder.iterdir()}


HOOKS = """\
import os
import stat
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def counted():
    # Every audit that is really computed leaves a line; it takes long enough to be waited for.
    import canary.audits.auditing
    import canary.models.loading
    from gate_audits import exact

    def audit(model, canaries, **options):
        with (HERE / "computed").open("a") as file:
            print(model, options, file=file)
        time.sleep(0.5)
        return exact({1: [3.0] * 4})

    patch = pytest.MonkeyPatch()
    patch.setattr(canary.audits.auditing, "audit", audit)
    patch.setattr(canary.models.loading, "load", lambda model: Path(model).name)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def seen(request, worker_id):
    yield
    given = getattr(request.config, "workerinput", {}).get("canary")
    if given:
        folder = Path(given["folder"])
        (HERE / f"worker-{worker_id}").write_text(str(folder))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())]
        assert modes[0] == 0o700
"""

SHARED = """\
import canary
import pytest

CANARIES = canary.generate("The code is {digit:6}", repetitions=[1], per_repetition=4, seed=0)


@pytest.mark.parametrize("number", range(6))
def test_shared(canary_audit, number):
    first = canary_audit("model", CANARIES, draws=1000)
    assert first is canary_audit("model", CANARIES, draws=1000)
    assert len(first.injected) == 4


def test_without_an_audit():
    pass


def test_a_set_of_another_format():
    canary.CanarySet.from_fills("the key is {digit:4}", [c.fill for c in CANARIES])
"""


@pytest.mark.slow
def test_workers_share_audits_and_tell_of_verdicts_and_baselines(tmp_path):
    files = {"test_shared": SHARED, "test_judged": JUDGED, "test_baseline": BASELINE}
    project = Project(tmp_path, conftest=HOOKS, **files)
    for name in ("model", "baselines"):
        (project.folder / name).mkdir()
    (project.folder / "model" / "weights").write_bytes(b"1")
    words = ("-n", "2", "--canary-update", "--showlocals", "--junitxml", "junit.xml")
    done = project.pytest(*words)
    assert done.returncode == 1, done.stdout
    shared = generate("The code is {digit:6}", repetitions=[1], per_repetition=4, seed=0)
    said = done.stdout + done.stderr + (project.folder / "junit.xml").read_text()
    assert "test_a_set_of_another_format" in said
    assert not any(c.fill in said for c in shared)
    assert (project.folder / "computed").read_text() == "model {'draws': 1000}\n"
    workers = list(project.folder.glob("worker-*"))
    assert len(workers) == 2
    (folder,) = {path.read_text() for path in workers}
    assert not Path(folder).exists()  # gone with the run
    explains(done.stdout)
    has_a_line_for_each_verdict(done.stdout)
    has_properties(project.folder / "junit.xml")
    assert "baseline written: " in section(done.stdout, "canary")
    # Tests with audits are marked.
    _, said = project.inside("-m", "not canary_audit", "--co", "-q")
    assert "test_without_an_audit" in said
    assert "test_shared[" not in said
