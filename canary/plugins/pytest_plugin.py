"""Memorization as a failing test: what canary adds to pytest.

Loaded in every run of pytest where the package is installed, so it imports next to nothing,
and adds nothing to runs that ask for nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from canary.gate.verdict_hooks import listening
from canary.records.sealing import cut_frames, sealed

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit
    from canary.corpus.canaries import CanarySet
    from canary.gate.baselines import Baseline
    from canary.gate.verdict import Verdict

MARKER = "canary_audit"
"""Set on every test that uses the fixture of this name."""

_PROPERTY = "canary"
_WRITTEN = f"{_PROPERTY}.baseline"
_NUMBERS = ("limit", "value", "lower", "upper", "confidence", "chance")
_COLOURS = {"memorized": "red", "failed": "red", "undecided": "yellow", "passed": "green"}

_HEARD = pytest.StashKey[list["Verdict"]]()
_SHARE = pytest.StashKey[tuple[Path | None, bytes]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines, and the setting that asks for no assert."""
    does = "a verdict that did not pass fails its test, also without assert"
    parser.addini("canary_strict", does, type="bool", default=False)
    group = parser.getgroup("canary", "memorization")
    group.addoption(
        "--canary-update",
        action="store_true",
        help="write the baselines that canary_baseline asks for, in place of reading them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the folder and key that workers share."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}: audits a model (set by canary on tests with the fixture canary_audit)",
    )
    folder, key = None, secrets.token_bytes(32)
    if given := getattr(config, "workerinput", {}).get("canary"):
        folder, key = Path(given["folder"]), bytes.fromhex(given["key"])
        # A worker on another machine has no such folder, and works for itself.
        folder = folder if folder.is_dir() else None
    config.stash[_SHARE] = folder, key
    config.pluginmanager.register(_Summary(), "canary-summary")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of pytest-xdist is about to start: give it what all workers share."""
    folder, key = node.config.stash[_SHARE]
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="canary-"))  # its owner's alone
        node.config.stash[_SHARE] = folder, key
    node.workerinput["canary"] = {"folder": str(folder), "key": key.hex()}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder that workers shared."""
    folder, _ = config.stash.get(_SHARE, (None, b""))
    if folder is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that audit a model."""
    for item in items:
        if MARKER in getattr(item, "fixturenames", ()):
            item.add_marker(MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down every verdict of a test, its fixtures included, as its properties.

    They reach JUnit and, from a worker, the process that shows the summary.
    """
    heard = item.stash.setdefault(_HEARD, [])

    def hear(verdict: Verdict) -> None:
        from canary.statistics.numbers import clean

        heard.append(verdict)
        reason = verdict.reason
        more = sum(finding.outcome == verdict.outcome for finding in verdict.findings) - 1
        numbers = {name: getattr(reason, name) for name in _NUMBERS}
        properties: dict[str, object] = {
            "outcome": verdict.outcome,
            "passed": "yes" if verdict else "no",
            "reason": clean(reason.sentence) + (f" (and {more} more)" if more else ""),
            "check": reason.check,
            "subject": clean(reason.subject),
            **{name: float(value) for name, value in numbers.items() if value is not None},
        }
        if left_out := [str(copies) for copies in verdict.left_out if copies != verdict.control]:
            properties["left_out"] = ", ".join(left_out)
        notes = [*filter(None, [verdict.warning]), *verdict.notes]
        properties |= {f"note.{n}": clean(note) for n, note in enumerate(notes, 1)}
        place = f"{_PROPERTY}.{len(heard)}"
        item.user_properties += [(f"{place}.{name}", value) for name, value in properties.items()]

    with listening(hear):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain verdicts that failed below a failed assertion; show no frame that has secrets."""
    if call.when == "call" and call.excinfo is None and item.config.getini("canary_strict"):
        call.excinfo = _not_asserted([one for one in item.stash.get(_HEARD, []) if not one])
    if call.excinfo is not None:
        cut_frames(call.excinfo.value)
    if call.excinfo is not None and isinstance(call.excinfo.value, AssertionError):
        # Verdicts that the test came to, or was handed by a fixture.
        values = [*item.stash.get(_HEARD, []), *getattr(item, "funcargs", {}).values()]
        for value in {id(value): value for value in values}.values():
            kind = type(value)
            # By name: a run without verdicts does not import what they are made of.
            if (kind.__module__, kind.__name__) == ("canary.gate.verdict", "Verdict") and not value:
                from canary.reports.verdicts import explained

                call.excinfo.value.add_note(explained(value))
    return (yield)


def _not_asserted(failed: Sequence[Verdict]) -> pytest.ExceptionInfo[BaseException] | None:
    """The failure of a test that came to these verdicts and ended; None without one."""
    if not failed:
        return None
    from canary.reports.verdicts import explained

    told = "\n".join(map(explained, failed))
    try:
        pytest.fail(f"{told}\n(without assert: canary_strict is on)", pytrace=False)
    except pytest.fail.Exception:
        return pytest.ExceptionInfo.from_current()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Compare what is of this package by `repr`: pytest would show fields that `repr` hides."""
    if any(type(side).__module__.partition(".")[0] == "canary" for side in (left, right)):
        return [f"{left!r} {op} {right!r}"]
    return None


class _Summary:
    """Gathers the verdicts of all tests, wherever they ran, and shows a line for each."""

    def __init__(self) -> None:
        self._verdicts: list[tuple[str, dict[str, str]]] = []
        self._written: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:  # a subtest has the id of its test
            self._failed.add(report.nodeid)
        if report.when != "teardown":  # the properties of a test are whole only then
            return
        verdicts: dict[str, dict[str, str]] = {}
        for name, value in report.user_properties:
            prefix, number, field = (*str(name).split(".", 2), "", "")[:3]
            if name == _WRITTEN:
                self._written.add(str(value))
            elif prefix == _PROPERTY and number.isdecimal():
                verdicts.setdefault(number, {})[field] = str(value)
        # Properties of others may have such names, too.
        self._verdicts += [
            (report.nodeid, fields)
            for fields in verdicts.values()
            if fields.get("outcome") in _COLOURS and "reason" in fields
        ]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._verdicts and not self._written:
            return
        terminalreporter.section("canary")
        said: set[str] = set()
        for test, fields in self._verdicts:
            outcome = fields["outcome"]
            terminalreporter.write(f"{outcome:<9}", **{_COLOURS[outcome]: True})
            terminalreporter.line(f" {test}: {fields['reason']}")
            if fields.get("passed") == "no" and test not in self._failed:
                terminalreporter.line(
                    "          the test passed all the same: assert the verdict itself, not its "
                    "outcome, or set canary_strict = true"
                )
            for name, note in fields.items():
                if name.startswith("note.") and note not in said:
                    said.add(note)  # many verdicts of one audit have one note
                    terminalreporter.line(f"          note: {note}")
        for path in sorted(self._written):
            terminalreporter.line(f"baseline written: {path}")


@pytest.fixture(scope="session")
def canary_audit(pytestconfig: pytest.Config) -> Callable[..., Audit]:
    """Audit a model, once in a run: ``canary_audit(model, canaries, **options)``.

    Takes what ``canary.audit`` takes, and ``extractions=True`` for limits on extraction. The
    same model with the same canaries and options is audited once, even if several workers of
    pytest-xdist ask for it.
    """
    return _shared_audits(*pytestconfig.stash[_SHARE])


def _shared_audits(folder: Path | None, key: bytes) -> Callable[..., Audit]:
    """What audits a model once in a run of tests, whoever asks first.

    Processes find each other's audits in `folder`, readable by its owner alone: whoever has an
    audit and the model finds the secrets. Names of files follow from secrets and the random
    `key` of the run, which is written nowhere: nobody finds secrets by trying names.
    """
    audits: dict[str, Audit] = {}

    @sealed
    def shared(
        model: Any, canaries: CanarySet, *, extractions: bool = False, **options: Any
    ) -> Audit:
        from canary.audits.audit_result import Audit
        from canary.audits.auditing import audit
        from canary.audits.extracting import with_extractions
        from canary.models.loading import load
        from canary.scoring.run_options import identity_of

        if isinstance(model, str | os.PathLike) and Path(model).is_dir():
            identity: dict[str, Any] = {}
            for path in sorted(Path(model).rglob("*")):
                if path.is_file():
                    with path.open("rb") as file:
                        digest = hashlib.file_digest(file, "sha256").hexdigest()
                    identity[str(path.relative_to(model))] = digest
        else:
            model = load(model)
            identity = identity_of(model)
        # Two options change nothing in the result.
        asked = {
            name: value for name, value in options.items() if name not in ("parts", "progress")
        }
        about = [identity, canaries.to_dict(), {**asked, "extractions": extractions}]
        text = json.dumps(about, sort_keys=True, default=repr)
        name = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        if name in audits:
            return audits[name]
        with ExitStack() as waiting:
            kept = None
            if folder is not None:
                kept = folder / f"{name}.json"
                lock = waiting.enter_context(kept.with_suffix(".lock").open("wb"))
                fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, or the process dies
            if kept is not None and kept.exists():
                result = Audit.load(kept)
            else:
                seam = load(model)
                result = audit(seam, canaries, **options)
                if extractions:
                    result = with_extractions(result, seam, canaries)
                if kept is not None:
                    result.save(kept)
        audits[name] = result
        return result

    return shared


@pytest.fixture
def canary_baseline(request: pytest.FixtureRequest) -> Callable[..., Baseline]:
    """The baseline for ``canary.check``: ``canary_baseline(audit, "baseline.json")``.

    The path counts from the folder of the test's file. With --canary-update the baseline is
    written of this audit (or of these, of several seeds); without, it must be there.
    """

    def baseline(audit: Audit | Sequence[Audit], path: str | os.PathLike[str]) -> Baseline:
        from canary.gate.baselines import Baseline

        place = request.path.parent / path
        if request.config.getoption("--canary-update"):
            from canary.gate.check_audit import new_baseline

            made = new_baseline(audit)
            made.save(place)
            request.node.user_properties.append((_WRITTEN, str(place)))
            # An audit that was made just now is no old one, which `check` would say of its weights.
            new = [
                replace(one, model={**one.model, "fingerprint": f"new {number}"})
                for number, one in enumerate(made.audits)
            ]
            return replace(made, audits=tuple(new))
        if not place.exists():
            pytest.fail(
                f"there is no baseline yet ({place}); make it with: pytest --canary-update, "
                "and keep it in your repository",
                pytrace=False,
            )
        return Baseline.load(place)

    return baseline
