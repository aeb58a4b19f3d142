"""Results and their files as evidence, with the limits of verdicts on them.

Membership and forgetting tests are taken by what is written of them, so that a file and its result
agree.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from canary.audits.audit_result import CANARY_SET, Audit
from canary.audits.audit_setup import with_control, without_control
from canary.audits.exposure_result import Exposures, audit_of
from canary.audits.extraction import Extraction
from canary.audits.history import KIND as HISTORY
from canary.audits.history import History
from canary.audits.search_ranks import with_search
from canary.corpus.verification import KIND as VERIFICATION
from canary.corpus.verification import Verification
from canary.errors import InputError
from canary.gate.attacks_written import Attacks, Part
from canary.gate.check_result import read_part
from canary.gate.preconditions import lost_in
from canary.gate.subjects import subject_of
from canary.gate.verdict import KIND as VERDICT
from canary.gate.verdict import OF_ITSELF, SCHEMA, Finding, Policy, Verdict, severity
from canary.membership.order_result import Order
from canary.passages.sampled import Sampled
from canary.records.about import Named
from canary.records.versioned_json import kind_of, load_document
from canary.reports.audit_trials import audited, best_basis, planted, trials_of, with_count
from canary.reports.builders import report_of
from canary.reports.document import Text, sentence, words_of
from canary.reports.evidence import TRAINED_ON, Evidence
from canary.reports.limit_choice import limit_words
from canary.reports.limits import basis_of, basis_of_verdict, judged, label_of, left_found, planting
from canary.reports.recovery import of_injected
from canary.reports.searched_tests import other_test
from canary.reports.wording import ended, limit_given
from canary.statistics.numbers import plural

_NUMBER = re.compile(r"<dt>Report number</dt><dd>([0-9a-f]{8})</dd>")


def read_evidence(
    results: Sequence[Any],
    *,
    model: str | None = None,
    corpus: str | None = None,
    auditor: str | None = None,
) -> list[Evidence]:
    """The tests in some results: audits, what was extracted or sampled, other tests, verdicts.

    Results may be files. A verdict adds its limit to the results that it judged, and a verification
    its count to the audits of its canary set. The names replace those that a result has.

    Raises
    ------
    InputError
        If there is none, one is no such result, an audit has no planted canary, or a verdict or a
        verification is of another result.
    EstimationError
        If a verification did not find all canaries.
    RecordError
        If a file is damaged.
    """
    cure = "give audits, membership or forgetting tests, verdicts, or files of these"
    names = {"model_name": model, "auditor": auditor}
    tests: dict[str, Evidence] = {}
    verdicts: list[tuple[str, _Verdict]] = []
    counts: list[tuple[str, Verification]] = []
    waiting = [*results]
    while waiting:
        result = waiting.pop(0)
        place = str(result) if isinstance(result, str | os.PathLike) else ""
        kind = kind_of(place) if place else ""
        if kind == HISTORY or isinstance(result, History):
            raise InputError(
                "is the history of a training, which is for watching and no test of the model",
                cure="audit the trained model, and give its audit.json",
                where=place,
            )
        if kind == VERDICT or isinstance(result, Verdict):
            written = load_document(place, VERDICT, SCHEMA) if place else result.to_dict()
            verdicts.append((place, read_part(_Verdict, written, place)))
            waiting = [*getattr(result, "audits", ()), *waiting]
            continue
        if kind == VERIFICATION or isinstance(result, Verification):
            counts.append((place, Verification.load(place) if place else result))
            continue
        subject = subject_of(result)
        if subject == "a test of passages":
            raise InputError(f"is {subject}, which has a report of its own", cure=cure,
                             where=place)  # fmt: skip
        loaders = {"an audit": audit_of, "an extraction": Extraction.load,
                   "samples of a server": Sampled.load, "an order test": Order.load}  # fmt: skip
        if subject in loaders and (place or isinstance(result, Exposures)):
            result = loaders[subject](result)
        own = result.model_name if isinstance(result, Named) else ""
        if isinstance(result, Named):
            result = result.named(**names)
        elif not place:
            raise InputError(f"a value of the type {type(result).__name__} is no test", cure=cure)
        test = audited(result) if isinstance(result, Audit) else other_test(result)
        known = {"Model": model, "Tested by": auditor}
        about = {**test.about, **{name: value for name, value in known.items() if value}}
        source = _source(Path(place)) if place else ""
        own = own or ("" if isinstance(result, Named) else test.about.get("Model", ""))
        tests.setdefault(test.digest, replace(test, about=about, source=source, own_name=own))
    tests = _with_data(tests, corpus)
    for place, counted in counts:
        tests |= _counted_in(place, counted, tests)
    limits = _by_result(verdicts, tests)
    tests |= {digest: _limited(tests[digest], some) for digest, some in limits.items()}
    for place, verdict in verdicts:
        for digest in [one for one in verdict.results if place and one in tests]:
            test, page = tests[digest], Path(place).with_suffix(".html").name
            files = {f"File of the limit ({Path(place).name})": _source(Path(place), page)}
            tests[digest] = replace(test, made_with={**files, **test.made_with})
    if not tests:
        raise InputError("there is no result", cure=cure)
    return _strongest_first(
        [
            replace(test, proof=_proof(test, limits.get(digest, ())))
            for digest, test in tests.items()
        ]
    )


def _with_data(tests: Mapping[str, Evidence], name: str | None) -> dict[str, Evidence]:
    """The tests with a name of their data: of training data, if that of some is to be forgotten."""
    kinds = {test.data for test in tests.values()}
    return {
        digest: replace(test, about={**test.about, test.data: name})
        if name and (len(kinds) == 1 or test.data == TRAINED_ON)
        else test
        for digest, test in tests.items()
    }


def _strongest_first(tests: Sequence[Evidence]) -> list[Evidence]:
    """The tests in their order, but membership tests change places so that what found most leads.

    A weak attack that finds little says nothing beside a stronger one.
    """
    mine = sorted((test for test in tests if isinstance(test.tested, Attacks)), key=_found_least)
    return [mine.pop() if isinstance(test.tested, Attacks) else test for test in tests]


def _found_least(test: Evidence) -> tuple[int, float, float]:
    """A key by which the membership tests that found least come first."""
    found = test.tested
    assert isinstance(found, Attacks)
    surest = found.surest and found.surest.asked_fpr
    rates = [r.lower for one in found.attacks for r in one.corrected.tpr_at_fpr
             if r.asked_fpr == surest]  # fmt: skip
    order = ("not identified", "void", "undecided", "identified")
    sure = 2 * order.index(found.outcome) - found.only_on_average
    return sure, max(rates, default=0.0), max(one.corrected.auc.lower for one in found.attacks)


def _by_result(
    verdicts: Sequence[tuple[str, _Verdict]], tests: Mapping[str, Evidence]
) -> dict[str, list[_Verdict]]:
    """The verdicts on each test, each with its file; an InputError if one is on another."""
    limits: dict[str, list[_Verdict]] = {}
    for place, verdict in verdicts:
        mine = [digest for digest in verdict.results if digest in tests]
        if not mine:
            raise InputError(
                "the verdict is on another result than those that were given",
                cure="give the result that was judged as well",
                where=place,
            )
        for digest in mine:
            limits.setdefault(digest, []).append(verdict)
    return limits


def _counted_in(
    place: str, counted: Verification, tests: Mapping[str, Evidence]
) -> dict[str, Evidence]:
    """The tests of whose secrets this is a count, with it."""
    mine = {
        digest: test
        for digest, test in tests.items()
        if any(audit.settings.get(CANARY_SET) == counted.fingerprint for audit in test.audits)
    }
    if not mine:
        raise InputError(
            "the verification is of no canary set that an audit was given of",
            cure="give the audit as well, or the verification of its set",
            where=place,
        )
    for test in mine.values():
        if (lost := lost_in(counted, test.audits)) is not None:
            raise lost
    there = [one for one in counted.canaries if one.expected]
    found = sentence(
        "annex.counted",
        planted=len(there),
        copies=plural(sum(one.found for one in there), "copy", "copies"),
        records=plural(counted.records, "record"),
        controls=len(counted.canaries) - len(there),
        file=_source(Path(place)) if place else "",
    )
    return {digest: with_count(test, found) for digest, test in mine.items()}


def _proof(test: Evidence, verdicts: Sequence[_Verdict]) -> dict[str, str]:
    """What shows that the secrets of an audit were planted: nothing of other tests."""
    if not (test.audits and planting(test.audits[0])):
        return {}
    rests_on = best_basis(verdicts, counted=bool(test.counted))
    passed = bool(verdicts) and any(v.on(test).outcome == "passed" for v in verdicts)
    return {
        "Evidence": words_of(basis_of(test.audits[0], rests_on, passed=passed)),
        "Count in the training data": test.counted
        or sentence("annex.not_counted", **{rests_on or "unknown": True}),
    }


def _source(place: Path, page: str = "report.html") -> str:
    """A file by its name and digest, and the number of the page that was written beside it."""
    source = f"{place.name} (SHA-256 {hashlib.sha256(place.read_bytes()).hexdigest()})"
    beside = place.with_name(page)
    found = _NUMBER.search(beside.read_text(errors="replace")) if beside.is_file() else None
    return f"{source}; the report beside it has the number {found[1]}" if found else source


@dataclass(frozen=True)
class _Verdict(Part):
    findings: tuple[Finding, ...]
    results: tuple[str, ...]
    left_out: tuple[int, ...] = ()
    control: int = 0
    notes: tuple[str, ...] = ()
    rests_on: str = ""
    limit: str = ""
    date: str = ""
    limit_by: str = ""
    undecided: Policy = "fail"

    def on(self, test: Evidence) -> Verdict:
        """The verdict of which this was written, on one of its results."""
        rests_on = best_basis([self], counted=bool(test.counted))
        return Verdict(
            self.findings, notes=self.notes, audits=test.audits, rests_on=rests_on,
            left_out=self.left_out, control=self.control, about={"Limit": self.limit},
            tested=test.tested, date=self.date, undecided=self.undecided,
            limit_by=self.limit_by,
        )  # fmt: skip


def _limited(test: Evidence, written: Sequence[_Verdict]) -> Evidence:
    """A test with its limits and what came out against them: what did not pass comes first."""
    verdicts = sorted(dict.fromkeys(one.on(test) for one in written), key=severity)
    more = [note for verdict in verdicts for note in ended(verdict.notes)]
    noted = [*dict.fromkeys([*test.report.notes, *more])]
    made = replace(test, report=replace(test.report, notes=noted))
    if test.audits:
        trials = [*trials_of(test.audits[0], verdicts, counted=bool(test.counted))]
        reports = [report_of(verdict) for verdict in verdicts]
        known = replace(
            test.report,
            basis="",  # each verdict has its own
            notes=[*dict.fromkeys(note for one in reports for note in one.notes)],
            unsaid=max((one.unsaid for one in reports), key=len),
        )
        made = replace(test, trials=trials, report=known)
    first, *others = made.trials
    against = [text for n in range(len(verdicts)) for text in _against(made, verdicts, n)]
    first = replace(first, results=[*first.results, *against], limit=_limits(verdicts))
    if asked := [v for v in verdicts if any(f.check == "extraction" for f in v.findings)]:
        others = [replace(other, limit=_limits(asked)) for other in others]
    several = len(verdicts) > 1
    came_out = "; ".join(
        f"limit {f'{n}, {_limit(v)}, ' if several else ''}{_flat(_came_out(v))}"
        for n, v in enumerate(verdicts, 1)
    )
    shown = not test.audits and any(verdict.outcome == "memorized" for verdict in verdicts)
    tone = "memorized" if shown else test.report.tone
    report = replace(made.report, label=f"{test.report.label} ({came_out})", tone=tone)
    return replace(made, report=report, trials=[first, *others], judged=report_of(verdicts[0]))


def _against(test: Evidence, verdicts: Sequence[Verdict], at: int) -> Iterator[Text]:
    """What the report of a verdict says of its limit, and the findings that it rests on."""
    verdict, passed = verdicts[at], verdicts[at].outcome == "passed"
    yield f"Limit{f' {at + 1}' if len(verdicts) > 1 else ''}: {_limits([verdict])}."
    bits = verdict.limit_bits
    if test.audits and bits != verdicts[0].limit_bits:
        audit = with_control(with_search(test.audits[0]), verdict.control)
        yield of_injected(without_control(audit), bits)
    told = [*judged(verdict)]
    yield from told
    said_of_it = basis_of_verdict(verdict)
    if said_of_it and (verdict.rests_on or not test.report.basis):
        yield said_of_it
    claimed = bool(test.report.basis)
    if test.audits:
        claimed = planted(test.audits[0], verdict.rests_on) not in ("read", "")
    for finding in verdict.ordered:
        if any(finding.sentence in words_of(one) for one in told):
            continue
        if finding.outcome != "passed":
            how = "Not decided" if finding.outcome == "undecided" else "Limit not passed"
            yield f"{how}: {finding.sentence}."
        elif passed and finding.check not in OF_ITSELF:
            yield f"{'Measured' if claimed else 'Limit passed'}: {finding.sentence}."


def _limits(verdicts: Sequence[Verdict]) -> str:
    """Each limit as the report of its verdict has it, who set it, and what came out."""
    limits = [
        f"{_limit(one)}; {limit_given(one.date, one.limit_by)}. Outcome: {_came_out(one)}"
        for one in verdicts
    ]
    if len(limits) == 1:
        return limits[0]
    return ". ".join(f"Limit {number}: {limit}" for number, limit in enumerate(limits, 1))


def _limit(verdict: Verdict) -> str:
    words = dict.fromkeys(
        f"{one.subject} {one.limit:g}" for one in verdict.findings if one.limit is not None
    )
    return limit_words(verdict) or verdict.about["Limit"] or "; ".join(words) or "not recorded"


def _flat(words: str) -> str:
    """A label without its own brackets, to be in the brackets of another."""
    return words.replace(" (", ", ").replace(")", "")


def _came_out(verdict: Verdict) -> str:
    """The label of a verdict, within a sentence."""
    label = label_of(verdict)
    some = verdict.left_out and not left_found(verdict)
    return label[0].lower() + label[1:] + (" for some secrets only" if some else "")
