"""Tests as an annex to a data protection file: which attacks were tried, and which were not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from canary.errors import InputError
from canary.records.about import About
from canary.records.files import ANNEX, PAGES, atomic_write
from canary.records.validation import brief, file_path
from canary.reports.document import (
    Block,
    Bullets,
    Facts,
    Heading,
    Report,
    Section,
    Table,
    Text,
    in_a_row,
    said,
    said_in_one,
    sentence,
    words_of,
)
from canary.reports.evidence import (
    MISSING,
    Evidence,
    Trial,
    kinds_of,
    mixed_models,
    models_of,
    renamed,
)
from canary.reports.html_page import page_of
from canary.reports.markdown import markdown_of
from canary.reports.tested_results import read_evidence
from canary.statistics.numbers import count, duration

THREATS: Mapping[str, str] = {
    "extraction": "43",
    "queries": "43",
    "membership": "55",
    "attributes": "55",
    "exfiltration": "55",
    "regurgitation": "55",
    "inversion": "55",
    "reconstruction": "55",
}
"""What EDPB Opinion 28/2024 names, and in which paragraph."""

_DECIDED = (
    "Released, or not released",
    "Why, and by which page (report number)",
    "Statement on the training data: by whom, when",
    "Statement on the limit: set by whom, when",
    "Statement that the tested model is the one in use: by whom, when",
)
_SIGNED = ("Name and role", "Place and date", "Signature")

ENDINGS = {".md": (ANNEX,), ".html": PAGES}
"""Endings of an annex, and what it may replace."""


def write_annex(
    results: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    model_name: str | None = None,
    corpus_name: str | None = None,
    auditor: str | None = None,
) -> Path:
    """Write an annex to a data protection file, after Opinion 28/2024 of the EDPB.

    It lists the attacks that the Opinion names, and for each whether it was tried, with which
    access, what came out, when and by whom, or that it was not tested. It is evidence for an
    assessment and draws no legal conclusion. No secret and no text of a person is in it.

    Parameters
    ----------
    results : sequence
        Audits, exposures, extractions, samples, membership, order or forgetting tests, verdicts of
        `canary.check` on them, and what `canary.verify` counted of the secrets of an audit; or the
        files that commands wrote of them.
    path : path-like
        The file to write, ``.md`` or ``.html``; readable by its owner only.
    model_name, corpus_name, auditor : str, optional
        What the model and its training data are called, and who tested it, in place of what the
        results say. Of deletion tests alone, `corpus_name` is what was to be forgotten.

    Returns
    -------
    Path
        `path`. On one day, the same results give the same bytes.

    Raises
    ------
    InputError
        If the name has another ending, or there is a result that is no such test.
    RecordError
        If a file is damaged, or of a version that did not write what an annex needs.
    OutputError
        If the file cannot be written. What was there before is left as it was.
    """
    target = file_path(path, "path", cure="give the file that the annex is to be in")
    ending = check_ending(target)
    tests = read_evidence(results, model=model_name, corpus=corpus_name, auditor=auditor)
    made = annex_of(tests)
    text = page_of(made)
    if ending == ".md":
        number = sha256(text.encode()).hexdigest()[:8]
        made = replace(made, about={**made.about, "Report number": number})
        text = f"<!-- canary: annex -->\n\n{markdown_of(made, level=1)}"
    atomic_write(target, text, private=True, replaces=ENDINGS[ending])
    return target


def check_ending(path: Path) -> str:
    """The ending of an annex; an InputError if it is another one."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(
            f"an annex is not written as {brief(path.suffix)}",
            cure=f"let the name end with {' or '.join(ENDINGS)}",
            where=str(path),
        )
    return ending


def annex_of(tests: Sequence[Evidence]) -> Report:
    """The annex on some tests."""
    trials = [(test, trial) for test in tests for trial in test.trials]
    models = models_of(tests)
    name = models[0] if len(models) == 1 else "an AI model"
    untested = said("annex.untested", **kinds_of(tests))
    worst = min(tests, key=_severity)
    return Report(
        title=f"Annex: memorization tests of {name}",
        label=worst.answer.label,
        tone=worst.answer.tone,
        about={"Made on": About.today().date},
        sentences=[_overall(trials), *said("annex.evidence")],
        notes=mixed_models(tests),
        decide=_decide(trials, worst),
        sections=[
            Section("purpose", "About this annex", said("annex.purpose")),
            Section("readers", "Who may read this", [Bullets(_readers(tests))]),
            Section("short", "What came out",
                    [*_costs(trials), Bullets([*_short(trials), *_weaker(trials)])]),
            Section("tests", "The tests", [_tests(trials), *_sent(tests)]),
            Section("attacks", "The attacks that the Opinion names", [*_coverage(trials)]),
            *_details(tests),
            Section("untested", "What was not tested", [Bullets(untested)]),
            Section("controller", "What the controller adds",
                    [*said("annex.adds"), Bullets(said("annex.controller"))]),
            Section("decision", "The decision", [Facts(dict.fromkeys(_DECIDED, "…" * 12))]),
            Section("words", "Words", [Bullets(said("annex.words", **kinds_of(tests)))]),
            Section("signature", "Signature", [Facts(dict.fromkeys(_SIGNED, "…" * 12))]),
        ],
    )  # fmt: skip


def _severity(test: Evidence) -> tuple[bool, ...]:
    """The worst test first: memorized, then a warning, what is open, and what went wrong."""
    tone, warned = test.answer.tone, bool(getattr(test.tested, "unplanted", 0))
    ranks = tone != "memorized", not warned, tone != "undecided", tone != "suspect"
    return *ranks, not test.answer.decide


def _decide(trials: Sequence[tuple[Evidence, Trial]], worst: Evidence) -> list[Text]:
    """What follows from the worst test, as its own page says it, and that others say more."""
    number = next(n for n, (test, _) in enumerate(trials, 1) if test is worst)
    own = [text for text in worst.answer.decide if "--" not in words_of(text)]  # no options here
    several = len({id(test) for test, _ in trials}) > 1
    calm = worst.answer.tone not in ("memorized", "undecided", "suspect")
    told = said("annex.decide", number=number, several=several, own=own or calm)
    return [*own, *told]


def _readers(tests: Sequence[Evidence]) -> list[Text]:
    """What may not be circulated, and what may."""
    return [
        *said("annex.readers", **kinds_of(tests), natural=any(test.natural for test in tests)),
    ]


def _overall(trials: Sequence[tuple[Evidence, Trial]]) -> Text:
    """In how many tests the model was found to have memorized, before anything else."""
    first = [(n, test) for n, (test, trial) in enumerate(trials, 1) if trial is test.trials[0]]
    found = [str(n) for n, test in first if test.report.tone == "memorized"]
    values: dict[str, object] = {"found": found and count(len(found))}
    values |= {"which": in_a_row(found) if found else ""}
    others = len(first) - len(found)
    open_ = [str(n) for n, test in first if test.report.tone == "undecided"]
    values |= {"open": len(open_), "open_which": in_a_row(open_) if open_ else "",
               "open_one": len(open_) == 1, "open_more": len(open_) > 1}  # fmt: skip
    return said_in_one("annex.overall", all=len(first),
                       one=len(found) == 1, several=len(found) > 1,
                       others=found and others, joined=_joined(trials), **values)  # fmt: skip


def _joined(trials: Sequence[tuple[Evidence, Trial]]) -> str:
    """Which tests come from one result, so that there are more tests than results."""
    numbers: dict[int, list[str]] = {}
    for number, (test, _) in enumerate(trials, 1):
        numbers.setdefault(id(test), []).append(str(number))
    each = [f"tests {in_a_row(some)}" for some in numbers.values() if len(some) > 1]
    joined = "; ".join(each)
    return joined[:1].upper() + joined[1:]


def _costs(trials: Sequence[tuple[Evidence, Trial]]) -> list[Block]:
    """Each attack with its access, what it cost if that is known, and what came out."""
    rows = []
    known = any(any(test.cost) for test, _ in trials)
    for number, (test, trial) in enumerate(trials, 1):
        cost = test.cost
        least = "at least " if cost.at_least else ""
        costs = (
            f"{least}{count(cost.requests)}" if cost.requests else "none",
            f"about {count(cost.prompt_tokens)}" if cost.prompt_tokens else "–",
            duration(cost.seconds) if cost.seconds else "not recorded",
        )
        first = trial is test.trials[0]
        rows.append(
            (
                f"Test {number}. {trial.heading}",
                _access(test),
                *((costs if first else ("in the test above",) * 3) if known else ()),
                test.report.label if first else words_of(trial.results[0]),
            )
        )
    if not known:
        columns: tuple[str, ...] = ("Attack", "Access", "Result")
        return [Table("Attacks", columns, rows, style="words")]
    columns = ("Attack", "Access", "Requests", "Tokens in prompts", "Time", "Result")
    return [Table("Attacks and what they cost", columns, rows, style="words"), *said("annex.cost")]


def _access(test: Evidence) -> str:
    return test.about.get("Access") or sentence("annex.no_server")


def _short(trials: Sequence[tuple[Evidence, Trial]]) -> Iterator[Text]:
    for number, (test, trial) in enumerate(trials, 1):
        label = f"{test.report.label}. " if trial is test.trials[0] else ""
        rests = f" {words_of(test.report.basis)}" if label and test.report.basis else ""
        access = _access(test)
        heading = f"{trial.heading}, {access}" if label else trial.heading
        yield f"Test {number}. {heading}. {label}{words_of(trial.results[0])}{rests}"


def _weaker(trials: Sequence[tuple[Evidence, Trial]]) -> list[Text]:
    """That tests of one model may find more or less, where several found other numbers."""
    several = sum("regurgitation" in trial.threats for _, trial in trials) > 1
    return [*said("annex.weaker")] if several else []


def _tests(trials: Sequence[tuple[Evidence, Trial]]) -> Table:
    own = renamed([test for test, _ in trials])
    rows = []
    for number, (test, trial) in enumerate(trials, 1):
        facts = test.facts(trial)
        if own and test.own_name not in (
            "",
            facts["Model"],
        ):  # else tests of several models look like those of one
            facts["Model"] += f" (in the result: {test.own_name})"
        rows.append({"Test": f"Test {number}", **facts})
    columns = [name for name in ("Test", *MISSING) if any(name in row for row in rows)]
    cells = [[row.get(name, "–") for name in columns] for row in rows]
    return Table("The tests", columns, cells, style="words")


def _sent(tests: Sequence[Evidence]) -> list[Text]:
    """How many requests all tests of servers sent, test by test."""
    each, number = [], 1
    for test in tests:
        last = number + len(test.trials) - 1
        which = f"test {number}" if last == number else f"tests {number} to {last}"
        each += [f"{which} sent {test.sent:,}"] if test.sent else []
        number = last + 1
    if not each:
        return []
    kept = any(";" in test.about.get("Sent", "") for test in tests)
    folders: dict[str, int] = {}
    limits: dict[str, int] = {}
    for test in tests:
        folder, number, allowed = test.in_all
        if folder:
            folders[folder] = max(folders.get(folder, 0), number)
            limits[folder] = max(limits.get(folder, 0), allowed)
    sent = sum(test.sent for test in tests)
    whole = sum(folders.values()) + sum(test.sent for test in tests if not test.in_all[0])
    counted = all(test.in_all[0] for test in tests if test.sent)  # else no limit is one of all
    allowed = sum(limits.values()) if counted and all(limits.values()) else 0
    words = {"sent": sent, "each": ", ".join(each), "all": folders and whole, "allowed": allowed}
    return [said_in_one("annex.sent", **words, uncounted=kept and not folders)]


def _coverage(trials: Sequence[tuple[Evidence, Trial]]) -> Iterator[Block]:
    yield from said("annex.coverage")
    language = kinds_of([test for test, _ in trials])["language"]
    rows = []
    shown: set[str] = set()
    for threat, paragraph in THREATS.items():
        name, what, why_not = said(f"threat.{threat}", language=language)
        mine = [n for n, (_, trial) in enumerate(trials, 1) if threat in trial.threats]
        found: dict[str, list[int]] = {}
        for n in mine:
            label = trials[n - 1][0].report.label
            found.setdefault("as above" if label in shown else label, []).append(n)
        told = [f"{_numbered(of)}: {label}" for label, of in found.items()]
        if len(found) == 1:
            told = [label[0].upper() + label[1:] for label in found]
        shown.update(found)
        rows.append(
            (
                name,
                what,
                paragraph,
                f"In part: {_numbered(mine).lower()}",
                ". ".join(told) + ".",
            )
            if mine
            else (name, what, paragraph, "No", why_not)
        )
    columns = ("Attack", "What it is", "Paragraph", "Tested", "What came out, or why not")
    yield Table("The attacks that the Opinion names", columns, rows, style="words")


def _numbered(tests: Sequence[int]) -> str:
    return f"Test{'s' if len(tests) > 1 else ''} {in_a_row(map(str, tests))}"


def _details(tests: Sequence[Evidence]) -> Iterator[Section]:
    number = 0
    for test in tests:
        for trial in test.trials:
            number += 1
            blocks: list[Block] = [Heading("What was done"), trial.method]
            if test.proof and trial is test.trials[0]:
                blocks += [Heading("What shows that the secrets were planted"), Facts(test.proof)]
            blocks += [Heading("What the attacker has"), trial.access]
            label: list[Block] = []
            if trial is test.trials[0]:
                label = [f"{test.report.label}."]
                label += [test.report.basis] if test.report.basis else []
            blocks += [Heading("What came out"), *label, *trial.results, *trial.tables]
            if trial is test.trials[-1]:
                if notes := [*test.report.notes]:
                    blocks += [Heading("Notes for the engineers"), Bullets(notes)]
                blocks += [Heading("What this does not say"), Bullets(test.report.unsaid)]
                facts = {"File": test.source or "given in memory, not read from a file"}
                if test.own_name not in ("", test.about.get("Model", "")):
                    facts["What this file calls the model"] = test.own_name
                blocks += [Heading("Where the numbers are"), Facts({**facts, **test.made_with})]
            yield Section(f"test-{number}", f"Test {number}: {trial.heading}", blocks)
