"""A verdict for programs and pages that show the outcome of builds: JUnit XML and Markdown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from canary.gate.verdict import Finding, Verdict
from canary.records.files import atomic_write
from canary.records.overwrite_guard import JUNIT, MARKDOWN
from canary.statistics.numbers import bits, bits_between, clean, plural

__all__ = ["explained", "junit", "markdown", "write_junit", "write_markdown"]

_MOST_ROWS = 25
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&])")
# GitHub, GitLab and their like read these in plain text: @name, #1, GH-1, !1, addresses, e-mail.
_CALLS = re.compile(
    r"(@|#(?=\w)|!(?=\d)|:(?=//)|\bGH-|\bwww(?=\.)|\bmailto:|\bxmpp:)", re.IGNORECASE
)
_FORBIDDEN = re.compile("[\ufffe\uffff]")  # XML has no such characters


def junit(verdict: Verdict) -> str:
    """A JUnit test suite with one test case per finding.

    Memorized is a failure. Undecided is a failure of the type ``undecided``, and a skipped
    test where undecided passes.
    """
    found = verdict.findings
    failed = [f for f in found if _fails(verdict, f)]
    skipped = sum(f.outcome == "undecided" for f in found) if verdict.undecided == "pass" else 0
    suite = ET.Element(
        "testsuite",
        name="canary",
        tests=str(len(found)),
        failures=str(len(failed)),
        errors="0",
        skipped=str(skipped),
        time="0",
    )
    for finding in found:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"canary.{finding.check}",
            name=_text(finding.subject),
            time="0",
        )
        properties = ET.SubElement(case, "properties")
        for note in verdict.notes:
            ET.SubElement(properties, "property", name="note", value=_text(note))
        for name in ("outcome", "limit", "value", "lower", "upper", "confidence", "chance"):
            value = getattr(finding, name)
            if value is not None:
                ET.SubElement(properties, "property", name=name, value=str(value))
        if _fails(verdict, finding):
            failure = ET.SubElement(
                case, "failure", type=finding.outcome, message=_text(finding.sentence)
            )
            failure.text = _text("\n".join([str(finding), *_lines(finding), *_notes(verdict)]))
        elif finding.outcome == "undecided":
            skip = ET.SubElement(case, "skipped", message=_text(str(finding)))
            skip.text = _text("\n".join(_notes(verdict))) or None
        else:
            told = "\n".join([finding.sentence, *_notes(verdict)])
            ET.SubElement(case, "system-out").text = _text(told)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, "unicode")}\n'


def markdown(verdict: Verdict) -> str:
    """A section of Markdown, for the summary of a CI job or a comment."""
    lines = [
        f"## canary: {verdict.outcome}",
        "",
        f"{_escaped(str(verdict.reason))}.",
        "",
        *(line for note in verdict.notes for line in (f"Note: {_escaped(note)}", "")),
        "| outcome | check | of | finding |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {f.outcome} | {f.check} | {_escaped(f.subject)} | {_escaped(str(f))} |"
        for f in verdict.findings
    ]
    for finding in verdict.findings:
        if finding.outcome == "passed" or not finding.canaries:
            continue
        lines += ["", f"### {finding.check}, {_escaped(finding.subject)}", ""]
        lines += ["| canary | copies | exposure, bits | interval |", "| --- | ---: | ---: | --- |"]
        lines += [
            f"| {_escaped(c.id)} | {c.repetitions} | "
            f"{'at least ' + bits(c.lower_bits) if c.bits is None else bits(c.bits)} | "
            f"{bits_between(c.lower_bits, c.upper_bits)} |"
            for c in finding.canaries[:_MOST_ROWS]
        ]
        if len(finding.canaries) > _MOST_ROWS:
            lines += ["", f"and {len(finding.canaries) - _MOST_ROWS} more"]
    return "\n".join(lines) + "\n"


def explained(verdict: Verdict) -> str:
    """Why a verdict is what it is, in lines: findings, their canaries, what to do, notes.

    Of a verdict that did not pass, only what did not.
    """
    passed = verdict.outcome == "passed"
    lines = [f"canary: {verdict.outcome}"]
    for finding in verdict.findings:
        if finding.outcome == "passed" and not passed:
            continue
        lines.append(f"- {finding.outcome}: {clean(finding.sentence)}")
        lines += [f"    {clean(line)}" for line in _lines(finding)]
        if finding.cure:
            lines.append(f"  What to do: {clean(finding.cure)}")
    lines += [f"- {note}" for note in _notes(verdict)]
    return "\n".join(lines)


def write_junit(verdict: Verdict, path: str | os.PathLike[str]) -> Path:
    """`junit` into a file, atomically."""
    atomic_write(path, junit(verdict), replaces=(JUNIT,))
    return Path(path)


def write_markdown(verdict: Verdict, path: str | os.PathLike[str]) -> Path:
    """`markdown` into a file, atomically."""
    atomic_write(path, markdown(verdict), replaces=(MARKDOWN,))
    return Path(path)


def _fails(verdict: Verdict, finding: Finding) -> bool:
    undecided = finding.outcome == "undecided" and verdict.undecided == "fail"
    return finding.outcome == "memorized" or undecided


def _notes(verdict: Verdict) -> list[str]:
    """What the audits note, a line each."""
    return [f"note: {clean(note)}" for note in verdict.notes]


def _lines(finding: Finding) -> list[str]:
    """The canaries that a finding rests on, a line each."""
    lines = [
        f"{c.id}: {plural(c.repetitions, 'copy', 'copies')}, "
        f"exposure {bits_between(c.lower_bits, c.upper_bits)} bits"
        for c in finding.canaries[:_MOST_ROWS]
    ]
    more = len(finding.canaries) - _MOST_ROWS
    return [*lines, f"and {more} more"] if more > 0 else lines


def _text(text: str) -> str:
    """Text that XML can hold, line by line."""
    return _FORBIDDEN.sub("", "\n".join(clean(line) for line in text.split("\n")))


def _escaped(text: str) -> str:
    """Untrusted text as one line of Markdown in which nothing is markup, or calls anybody.

    What a page would make a link of is parted by an empty comment, which nobody sees; a
    backslash alone does not stop the pages that look for names in the finished text.
    """
    parted = _CALLS.split(clean(text))
    escaped = [_MARKUP.sub(r"\\\1", part) for part in parted]
    return "".join(part + ("<!-- -->" if at % 2 else "") for at, part in enumerate(escaped))
