"""Memorization as a failing test: what canary adds to pytest.

Loaded in every run of pytest where the package is installed, so it imports next to nothing,
and adds nothing to runs that ask for nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from canary.gate.verdict_hooks import listening
from canary.records.sealing import cut_frames

if TYPE_CHECKING:
    from canary.audits.audit_result import Audit
    from canary.gate.baselines import Baseline
    from canary.gate.verdict import Verdict

MARKER = "canary_audit"
"""Set on every test that uses the fixture of this name."""

_FIXTURE = "canary_audit"
_PROPERTY = "canary"
_WRITTEN = f"{_PROPERTY}.baseline"
_NUMBERS = ("limit", "value", "lower", "upper", "confidence", "chance")
_COLOURS = {"memorized": "red", "undecided": "yellow", "passed": "green"}

_HEARD = pytest.StashKey[list["Verdict"]]()
_SHARE = pytest.StashKey[tuple[Path | None, bytes]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    group = parser.getgroup("canary", "memorization")
    group.addoption(
        "--canary-update",
        action="store_true",
        help="write the baselines that canary_baseline asks for, in place of reading them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the folder that workers share."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}: audits a model (set by canary on tests with the fixture canary_audit)",
    )
    config.stash[_SHARE] = _share(config)
    config.pluginmanager.register(_Summary(), "canary-summary")


def _share(config: pytest.Config) -> tuple[Path | None, bytes]:
    """Where this process finds audits of others, and the key of the run."""
    given = getattr(config, "workerinput", {}).get("canary")
    if given is None:
        return None, secrets.token_bytes(32)
    folder = Path(given["folder"])
    # A worker on another machine has no such folder, and works for itself.
    return folder if folder.is_dir() else None, bytes.fromhex(given["key"])


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
        if _FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down every verdict of a test, its fixtures included, as its properties.

    They reach JUnit and, from a worker, the process that shows the summary.
    """
    heard = item.stash.setdefault(_HEARD, [])

    def hear(verdict: Verdict) -> None:
        heard.append(verdict)
        item.user_properties.extend(_properties(len(heard), verdict))

    with listening(hear):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain verdicts that failed below a failed assertion; show no frame that has secrets."""
    if call.excinfo is not None:
        cut_frames(call.excinfo.value)
    if call.excinfo is not None and isinstance(call.excinfo.value, AssertionError):
        failed = [verdict for verdict in _verdicts(item) if not verdict]
        if failed:
            from canary.reports.verdicts import explained

            for verdict in failed:
                call.excinfo.value.add_note(explained(verdict))
    return (yield)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Compare what is of this package by `repr`: pytest would show fields that `repr` hides."""
    if any(type(side).__module__.partition(".")[0] == "canary" for side in (left, right)):
        return [f"{left!r} {op} {right!r}"]
    return None


def _verdicts(item: pytest.Item) -> list[Verdict]:
    """Those that a test came to, or was handed by a fixture."""
    given = getattr(item, "funcargs", {}).values()
    found = [*item.stash.get(_HEARD, []), *(one for one in given if _is_verdict(one))]
    return list({id(verdict): verdict for verdict in found}.values())


def _is_verdict(value: object) -> bool:
    kind = type(value)
    return (kind.__module__, kind.__qualname__) == ("canary.gate.verdict", "Verdict")


def _properties(number: int, verdict: Verdict) -> list[tuple[str, object]]:
    from canary.statistics.numbers import clean

    reason = verdict.reason
    more = sum(finding.outcome == verdict.outcome for finding in verdict.findings) - 1
    told: dict[str, object] = {
        "outcome": verdict.outcome,
        "passed": "yes" if verdict else "no",
        "reason": clean(reason.sentence) + (f" (and {more} more)" if more else ""),
        "check": reason.check,
        "subject": clean(reason.subject),
    }
    for name in _NUMBERS:
        value = getattr(reason, name)
        if value is not None:
            told[name] = float(value)
    if verdict.notes:
        told["notes"] = " ".join(map(clean, verdict.notes))
    return [(f"{_PROPERTY}.{number}.{name}", value) for name, value in told.items()]


class _Summary:
    """Gathers the verdicts of all tests, wherever they ran, and shows a line for each."""

    def __init__(self) -> None:
        self._verdicts: list[tuple[str, dict[str, str]]] = []
        self._written: list[str] = []
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:  # a subtest has the id of its test
            self._failed.add(report.nodeid)
        if report.when != "teardown":  # the properties of a test are whole only then
            return
        found: dict[str, dict[str, str]] = {}
        for name, value in report.user_properties:
            prefix, number, field = (*str(name).split(".", 2), "", "")[:3]
            if name == _WRITTEN:
                self._written.append(str(value))
            elif prefix == _PROPERTY and number.isdecimal():
                found.setdefault(number, {})[field] = str(value)
        # Properties of others may have such names, too.
        whole = [told for told in found.values() if told.get("outcome") in _COLOURS]
        self._verdicts += [(report.nodeid, told) for told in whole if "reason" in told]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._verdicts and not self._written:
            return
        terminalreporter.section("canary")
        for test, told in self._verdicts:
            outcome = told["outcome"]
            terminalreporter.write(f"{outcome:<9}", **{_COLOURS[outcome]: True})
            terminalreporter.line(f" {test}: {told['reason']}")
            if told.get("passed") == "no" and test not in self._failed:
                terminalreporter.line(
                    "          the test passed all the same: a verdict fails nothing without assert"
                )
            if "notes" in told:
                terminalreporter.line(f"          note: {told['notes']}")
        for path in sorted(set(self._written)):
            terminalreporter.line(f"baseline written: {path}")


@pytest.fixture(scope="session")
def canary_audit(pytestconfig: pytest.Config) -> Callable[..., Audit]:
    """Audit a model, once in a run: ``canary_audit(model, canaries, **options)``.

    Takes what ``canary.audit`` takes, and ``extractions=True`` for limits on extraction. The
    same model with the same canaries and options is audited once, even if several workers of
    pytest-xdist ask for it.
    """
    from canary.plugins.shared_audits import SharedAudits

    return SharedAudits(*pytestconfig.stash[_SHARE]).audit


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
            return made
        if not place.exists():
            pytest.fail(
                f"there is no baseline yet ({place}); make it with: pytest --canary-update, "
                "and keep it in your repository",
                pytrace=False,
            )
        return Baseline.load(place)

    return baseline
