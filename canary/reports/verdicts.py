"""A verdict for programs and pages that show the outcome of builds: JUnit XML and Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from canary.audits.audit_setup import with_control
from canary.audits.extraction import Extraction
from canary.gate.attacks_written import Attacks
from canary.gate.check_result import percent_like
from canary.gate.extraction_limit import NOT_DRAWN
from canary.gate.forgetting_limit import Compared
from canary.gate.verdict import Finding, Verdict, group_name
from canary.gate.watched import IN_BATCHES
from canary.passages.sampled import Sampled
from canary.records.files import JUNIT, MARKDOWN, atomic_write
from canary.reports.advice import advice, cures, decisions, share_of_records, unsaid
from canary.reports.audit_report import notes, outcome
from canary.reports.builders import report_of, section, sections_of
from canary.reports.document import (
    Block,
    Figure,
    Heading,
    Report,
    Section,
    Table,
    Text,
    said,
    words_of,
)
from canary.reports.evidence import TO_FORGET, TRAINED_ON
from canary.reports.forgetting_report import of_deletion
from canary.reports.limit_choice import limit_words
from canary.reports.limits import basis_of_verdict, judged, label_of, sure_of_medians, tone_of
from canary.reports.markdown import markdown_of
from canary.reports.saved_tests import label_of_test
from canary.reports.sentences import answer
from canary.reports.wording import about_of, before_of, called, ended, folded, limit_given
from canary.statistics.numbers import bits, bits_between, clean, plural
from canary.statistics.numbers import copies as copied

_MOST_ROWS = 25
_REST = "The report has the rest (--report FILE; in Python canary.report)."
_FORBIDDEN = re.compile("[\ufffe\uffff]")  # XML has no such characters


def junit(verdict: Verdict) -> str:
    """A JUnit test suite with one test case per finding, and a skipped one per group left out.

    Memorized and failed are failures. Undecided is a failure of the type ``undecided``, and a
    skipped test where undecided passes. Notes are properties and text of the suite; a weak limit
    is also text of the one case that a pass rests on.
    """
    fatal = {"memorized", "failed", *(["undecided"] if verdict.undecided == "fail" else [])}
    outcomes = [finding.outcome for finding in verdict.findings]
    failures = sum(outcome in fatal for outcome in outcomes)
    left_out = [copies for copies in verdict.left_out if copies != verdict.control]
    numbers = {
        "tests": len(outcomes) + len(left_out),
        "failures": failures,
        "errors": 0,
        "skipped": len(outcomes) + len(left_out) - failures - outcomes.count("passed"),
        "time": 0,
    }
    suites = ET.Element("testsuites")
    counts = {name: str(number) for name, number in numbers.items()}
    suite = ET.SubElement(suites, "testsuite", {"name": "canary", **counts})
    known = audited_lines(verdict)
    said = [*filter(None, [verdict.warning]), *verdict.notes]
    noted = ET.SubElement(suite, "properties") if said or known else suite
    for line in known:
        ET.SubElement(noted, "property", name="audited", value=xml_text(line))
    for note in said:
        ET.SubElement(noted, "property", name="note", value=xml_text(note))
    for finding in verdict.findings:
        case = ET.SubElement(suite, "testcase", classname=_class_name(finding.check),
                             name=xml_text(finding.subject), time="0")  # fmt: skip
        properties = ET.SubElement(case, "properties")
        for name in ("outcome", "limit", "value", "lower", "upper", "confidence", "chance"):
            if (value := getattr(finding, name)) is not None:
                ET.SubElement(properties, "property", name=name, value=str(value))
        if finding.outcome in fatal:
            message = xml_text(finding.sentence)
            told = ET.SubElement(case, "failure", type=finding.outcome, message=message)
            told.text = xml_text("\n".join([finding.in_short, *_lines(finding)]))
        elif finding.outcome == "undecided":
            ET.SubElement(case, "skipped", message=xml_text(finding.in_short))
        else:
            told = ET.SubElement(case, "system-out")
            weak = [f"note: {clean(verdict.warning)}"] * bool(
                verdict.warning and finding is verdict.reason
            )
            told.text = xml_text("\n".join([finding.sentence, *weak]))
    for copies in left_out:
        name = group_name(copies)
        case = ET.SubElement(
            suite, "testcase", classname=_class_name("left out"), name=name, time="0"
        )
        ET.SubElement(case, "skipped", message="left out of the check")
    made = report_of(verdict)
    texts: list[Text] = [
        *made.sentences,
        made.basis,
        *_first(verdict, made),
        *_notes(verdict),
        _REST,
    ]
    lines = [f"{made.label}.", *filter(None, map(words_of, texts))]
    ET.SubElement(suite, "system-out").text = xml_text("\n".join(lines))
    return xml_of(suites)


def xml_of(suites: ET.Element) -> str:
    """A JUnit document as text."""
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, "unicode")}\n'


def _class_name(check: str) -> str:
    """Of a test case: some systems end a name at the first space."""
    return f"canary.{check.replace(' ', '-')}"


@report_of.register
def verdict_report(verdict: Verdict) -> Report:
    """The report of the audits that were judged, with the limit and what is said of it."""
    audits = [with_control(audit, verdict.control) for audit in verdict.audits]
    bits_allowed, sure = verdict.limit_bits, sure_of_medians(verdict)
    details = [d for a in audits if a.start is not None for d in ended(a.start.notes)]
    about, given = dict(verdict.about), limit_given(verdict.date, verdict.limit_by)
    if audits:
        limit = f"{limit_words(verdict, bits=False)}; {given}"
        about = about_of(*audits) | before_of(*audits) | {"Limit": limit}
    elif verdict.tested is not None:
        limit = f"{about.get('Limit', 'not recorded')}; {given}"
        data = TO_FORGET if isinstance(verdict.tested, Compared) else TRAINED_ON
        about = about_of(verdict.tested, corpus=data) | about | {"Limit": limit}
    blocks: list[Block] = []
    actions: list[Text] = []
    for number, audit in enumerate(audits, 1):
        which = f"Audit {number}: " if len(audits) > 1 else ""
        blocks += [Heading(which + (audit.model_name or "not named"))] if which else []
        blocks += (
            replace(block, name=f"{which}{block.name}") if isinstance(block, Figure) else block
            for block in outcome(audit, bits_allowed, each=sure)
        )
        actions += advice(audit, verdict)
    if not audits:  # their pages have limits in guesses
        blocks.append(_limits(verdict))
    tested = verdict.tested
    passed_attacks = isinstance(tested, Attacks) and verdict.outcome == "passed"
    how = tested.not_made[1] if isinstance(tested, Attacks) and passed_attacks else ""
    stronger = ended([f"make the stronger attacks: {how}"] if how else [])
    placed = [f.outcome for f in verdict.findings if f.check == "context"]
    verified = bool(placed) and set(placed) == {"passed"}
    seen = any(note.startswith(IN_BATCHES) for note in verdict.notes)
    # The answer asks what came before the secrets then, and a note would ask again.
    seen = seen or (verdict.reason.check == "start token" and len(verdict.audits) == 1)
    noted = [n for a in audits for n in notes(a, (), verified=verified, seen=seen)]
    return Report(
        title="Memorization audit of "
        + " and ".join(dict.fromkeys(called(a.model_name, "a language model") for a in audits))
        if audits
        else verdict.title,
        label=label_of(verdict),
        tone=tone_of(verdict),
        about=about,
        sentences=[*judged(verdict), *_own(verdict)],
        basis=basis_of_verdict(verdict),
        decide=[
            *dict.fromkeys(d for audit in audits for d in decisions(audit, verdict)),
            *share_of_records(verdict),
            *_decided(verdict),
            *said(
                "limit.decide",
                weak=how,
                statement=passed_attacks,
                green=passed_attacks and not how,
            ),
            *([] if verdict.limit_by else said("limit.unset")),
        ],
        notes=[*dict.fromkeys([*noted, *(n for n in ended(verdict.notes) if n not in details)])],
        outcome=blocks,
        actions=[
            *dict.fromkeys(actions if audits else [*stronger, *cures(verdict), *_mended(verdict)]),
            *([] if verdict.limit_by else said("limit.by")),
        ],
        unsaid=[*unsaid(*audits, calm=verdict.outcome != "memorized"), *_other(verdict)]
        if audits
        else _unsaid(tested),
        brief=[*dict.fromkeys(details)],
        sections=[*sections_of(verdict), *(sections_of(audits[0]) if len(audits) == 1 else ())],
    )


def _decided(verdict: Verdict) -> Sequence[Text]:
    """What follows for who decides from a limit on a test without an audit."""
    if verdict.audits or verdict.tested is None:
        return []
    if isinstance(verdict.tested, Extraction) or NOT_DRAWN in verdict.reason.sentence:
        return report_of(verdict.tested).decide
    if isinstance(verdict.tested, Sampled) and verdict.outcome == "passed":
        came = bool(verdict.tested.came_out().texts.hits)
        kind = "secrets" if verdict.tested.planted else "texts"
        return said("samples.decide", within=True, none=not came, calm=not came, files=True,
                    stated=not came, kind=kind, came=came)  # fmt: skip
    deletion, outcome = isinstance(verdict.tested, Compared), verdict.outcome
    red, undecided = outcome in ("memorized", "failed"), outcome == "undecided"
    return said(
        "limit.decide", red=red and not deletion, deletion=red and deletion, again=undecided,
        open=undecided and not deletion, deletion_open=undecided and deletion,
    )  # fmt: skip


def _unsaid(tested: object) -> Sequence[Text]:
    """What a limit on a test without an audit does not say."""
    if isinstance(tested, Sampled):
        chat, came = bool(tested.settings["chat"]), bool(tested.came_out().texts.hits)
        return said("samples.unsaid", chat=chat, out=came, greedy=tested.greedy)
    return said("limit.unsaid") if isinstance(tested, Attacks) else ()


def _mended(verdict: Verdict) -> Sequence[Text]:
    """What the page of an extraction says that makes a model memorize less."""
    found = verdict.outcome == "memorized" and isinstance(verdict.tested, Extraction)
    return report_of(verdict.tested).actions if found else []


def _other(verdict: Verdict) -> Sequence[Text]:
    """What the page of the same audit says that has no limit, where it is red and this is not."""
    own = answer(verdict.audits[0])
    if len(verdict.audits) > 1 or verdict.outcome == "memorized" or own.verdict != "memorized":
        return []
    control = verdict.control
    rest = with_control(verdict.audits[0], control)
    alone = control and answer(rest).verdict != "memorized"
    return said("limit.other", own=own.label, control=alone, copies=copied(control or 1))


def _own(verdict: Verdict) -> Sequence[Text]:
    """What the report of the same test says, and that a limit is about no more than it names."""
    if not isinstance(verdict.tested, Attacks | Compared):
        return []
    label, limit = label_of_test(verdict.tested), verdict.about.get("Limit", "")
    passed = verdict.outcome == "passed"
    values: dict[str, object] = {}
    if passed and isinstance(verdict.tested, Attacks):
        values = {"attacks": len(verdict.tested.attacks), "weak": verdict.tested.not_made[0]}
    told: list[Text] = [*said("limit.own", own=label, passed=passed, limit=limit, **values)]
    if isinstance(verdict.tested, Compared):
        told += of_deletion(verdict.tested)
    return told


def _limits(verdict: Verdict) -> Table:
    """Each limit, and what did not pass beside them."""
    rows = []
    for finding in verdict.ordered:
        rate = finding.check in ("AUC", "TPR")
        none = "no trace" if finding.check == "forgetting" else "none"
        low, high, limit, value = (
            gap
            if n is None
            else f"{percent_like(n, finding.limit or 1.0)} %"
            if rate
            else f"{n:.3g}"
            for n, gap in zip(
                (finding.lower, finding.upper, finding.limit, finding.value),
                ("?", "?", none, "none"),
                strict=True,
            )
        )
        value = f"rho {value}" if finding.check == "forgetting" else value
        between = f"{value} ({low} to {high})" if {low, high} != {"?"} else value
        rows.append((finding.subject, limit, between, finding.outcome))
    columns = ("What was tested", "Limit", "Measured", "Outcome")
    return Table("Limits and what was measured", columns, rows, style="words")


@section(Verdict, "How the limit was judged", specialist=True)
def findings(verdict: Verdict) -> Iterator[Block]:
    """All of them."""
    rows = [(f.outcome, f.check, f.subject, f.in_short) for f in verdict.findings]
    yield Table("Findings", ("outcome", "check", "of", "finding"), rows, style="words")


@section(Verdict, "")
def canaries(verdict: Verdict) -> Iterator[Section]:
    """The canaries that each finding rests on which did not pass."""
    for number, finding in enumerate(verdict.findings, 1):
        if finding.outcome == "passed" or not finding.canaries:
            continue
        rows: list[tuple[str, ...]] = [
            (
                *(c.id, str(c.repetitions)),
                f"at least {bits(c.lower_bits)}" if c.bits is None else bits(c.bits),
                bits_between(c.lower_bits, c.upper_bits),
            )
            for c in finding.canaries[:_MOST_ROWS]
        ]
        heading = f"{finding.check}, {finding.subject}"
        columns: tuple[str, ...] = ("canary", "copies", "exposure, bits", "interval")
        if all(row[-1] == row[-2] for row in rows):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        table = Table(heading, columns, rows)
        more = len(finding.canaries) - _MOST_ROWS
        rest = [f"and {more} more"] if more > 0 else []
        yield Section(f"finding-{number}", heading, [*folded(table), *rest], specialist=True)


def markdown(result: Any) -> str:
    """A verdict, or another result, as Markdown for the summary of a CI job or a comment.

    Of a verdict the rest of the report is folded.
    """
    made, first = report_of(result), None
    if isinstance(result, Verdict):
        first = _first(result, made)
        sections = [replace(part, specialist=False) for part in sections_of(result)]
        made = replace(made, title=result.outcome, sections=sections)
    # A later run knows the file as its own by the first word.
    return markdown_of(replace(made, title=f"canary: {made.title}"), first=first)


def _first(verdict: Verdict, made: Report) -> list[str]:
    """What a page of builds shows with the answer: the limit, and what to do."""
    limit, cure = made.about.get("Limit", ""), clean(verdict.reason.cure)
    named = {"Limit": limit, "What to do": cure and f"{cure[0].upper()}{cure[1:]}."}
    tested = [f"Checked: {line}" for line in audited_lines(verdict)]
    return [*(f"{name}: {words}" for name, words in named.items() if words), *tested]


def audited_lines(verdict: Verdict) -> list[str]:
    """Of each audit: its model, the version of the weights, and when it was made."""
    lines = []
    for audit in verdict.audits:
        version = f", weights {audit.model_version}" if audit.model_version else ""
        made = (
            f"audited on {audit.about.date}" if audit.about.date else "audited at an unknown date"
        )
        lines.append(clean(f"{called(audit.model_name, 'a language model')}{version}, {made}"))
    return lines


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
    atomic_write(path, junit(verdict), private=True, replaces=(JUNIT,))
    return Path(path)


def write_markdown(verdict: Verdict, path: str | os.PathLike[str]) -> Path:
    """`markdown` into a file, atomically."""
    atomic_write(path, markdown(verdict), private=True, replaces=(MARKDOWN,))
    return Path(path)


def _notes(verdict: Verdict) -> list[str]:
    """What the audits note, a line each."""
    every = [*filter(None, [verdict.warning]), *verdict.notes]
    return [f"note: {clean(note)}" for note in every]


def _lines(finding: Finding) -> list[str]:
    """The canaries that a finding rests on, a line each."""
    lines = [
        f"{c.id}: {plural(c.repetitions, 'copy', 'copies')}, "
        f"exposure {bits_between(c.lower_bits, c.upper_bits)} bits"
        for c in finding.canaries[:_MOST_ROWS]
    ]
    more = len(finding.canaries) - _MOST_ROWS
    return [*lines, f"and {more} more"] if more > 0 else lines


def xml_text(text: str) -> str:
    """Text that XML can hold, line by line."""
    return _FORBIDDEN.sub("", "\n".join(clean(line) for line in text.split("\n")))
