"""Results and their files as evidence, with the limits of verdicts on them.

Membership and forgetting tests are taken by what is written of them, so that a file and its result
agree.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from canary.audits.audit_result import Audit
from canary.audits.exposure_result import Exposures, audit_of
from canary.audits.extraction import Extraction
from canary.audits.group_medians import median_bits
from canary.audits.history import KIND as HISTORY
from canary.audits.history import History
from canary.audits.search_ranks import with_search
from canary.errors import InputError
from canary.gate.check_result import Part, read_part
from canary.gate.subjects import subject_of
from canary.gate.verdict import KIND as VERDICT
from canary.gate.verdict import OF_ITSELF, SCHEMA, Finding, Verdict, severity
from canary.passages.sampled import Sampled
from canary.records.about import Named
from canary.records.versioned_json import digest_of, kind_of, load_document
from canary.reports.builders import report_of
from canary.reports.document import Text, said_in_one
from canary.reports.evidence import Evidence, Metric, Trial
from canary.reports.limits import (
    basis_of_verdict,
    judged,
    label_of,
    learned_copies,
    left_found,
    limit_bits,
    limit_words,
    only_some_learned,
    planting,
)
from canary.reports.recovery import of_injected, recovered, searched, table
from canary.reports.searched_tests import other_test
from canary.reports.wording import about_of, ended, in_words
from canary.statistics.numbers import copies, count, plural


def read_evidence(
    results: Sequence[Any],
    *,
    model: str | None = None,
    corpus: str | None = None,
    auditor: str | None = None,
) -> list[Evidence]:
    """The tests in some results: audits, what was extracted or sampled, other tests, verdicts.

    Results may be files. A verdict adds its limit to the results that it judged. The names replace
    those that a result has.

    Raises
    ------
    InputError
        If there is none, one is no such result, an audit has no planted canary, or a verdict is
        on another result.
    RecordError
        If a file is damaged.
    """
    cure = "give audits, membership or forgetting tests, verdicts, or files of these"
    names = {"model_name": model, "corpus_name": corpus, "auditor": auditor}
    tests: dict[str, Evidence] = {}
    verdicts: list[tuple[str, _Verdict]] = []
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
        subject = subject_of(result)
        if subject in ("an order test", "a test of passages"):
            raise InputError(f"is {subject}, which has a report of its own", cure=cure,
                             where=place)  # fmt: skip
        loaders = {"an audit": audit_of, "an extraction": Extraction.load,
                   "samples of a server": Sampled.load}  # fmt: skip
        if subject in loaders and (place or isinstance(result, Exposures)):
            result = loaders[subject](result)
        own = result.model_name if isinstance(result, Named) else ""
        if isinstance(result, Named):
            result = result.named(**names)
        elif not place:
            raise InputError(f"a value of the type {type(result).__name__} is no test", cure=cure)
        test = _audited(result) if isinstance(result, Audit) else other_test(result)
        known = {"Model": model, "Training data": corpus, "Tested by": auditor}
        about = {**test.about, **{name: value for name, value in known.items() if value}}
        source = _source(Path(place)) if place else ""
        own = own or ("" if isinstance(result, Named) else test.about.get("Model", ""))
        tests.setdefault(test.digest, replace(test, about=about, source=source, own_name=own))
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
    tests |= {digest: _limited(tests[digest], some) for digest, some in limits.items()}
    if not tests:
        raise InputError("there is no result", cure=cure)
    return [*tests.values()]


def _source(place: Path) -> str:
    return f"{place.name} (SHA-256 {hashlib.sha256(place.read_bytes()).hexdigest()})"


@dataclass(frozen=True)
class _Verdict(Part):
    findings: tuple[Finding, ...]
    results: tuple[str, ...]
    left_out: tuple[int, ...] = ()
    control: int = 0
    notes: tuple[str, ...] = ()
    rests_on: str = ""
    limit: str = ""

    def on(self, test: Evidence) -> Verdict:
        """The verdict of which this was written, on one of its results."""
        return Verdict(
            self.findings, notes=self.notes, audits=test.audits, rests_on=self.rests_on,
            left_out=self.left_out, control=self.control, about={"Limit": self.limit},
        )  # fmt: skip


def _limited(test: Evidence, written: Sequence[_Verdict]) -> Evidence:
    """A test with its limits and what came out against them: what did not pass comes first."""
    verdicts = sorted(dict.fromkeys(one.on(test) for one in written), key=severity)
    more = [note for verdict in verdicts for note in ended(verdict.notes)]
    noted = [*dict.fromkeys([*test.report.notes, *more])]
    made = replace(test, report=replace(test.report, notes=noted))
    if test.audits:
        trials = [*_trials(test.audits[0], verdicts)]
        reports = [report_of(verdict) for verdict in verdicts]
        known = replace(
            test.report,
            basis="",  # each verdict has its own
            notes=[*dict.fromkeys(note for one in reports for note in one.notes)],
            unsaid=max((one.unsaid for one in (test.report, *reports)), key=len),
        )
        made = replace(test, trials=trials, report=known)
    first, *others = made.trials
    against = [text for n in range(len(verdicts)) for text in _against(made, verdicts, n)]
    first = replace(first, results=[*first.results, *against], limit=_limits(verdicts))
    if asked := [v for v in verdicts if any(f.check == "extraction" for f in v.findings)]:
        others = [replace(other, limit=_limits(asked)) for other in others]
    came_out = "; ".join(f"limit {_came_out(v)}" for v in verdicts)
    label = f"{test.report.label} ({came_out})"
    return replace(made, report=replace(made.report, label=label), trials=[first, *others])


def _against(test: Evidence, verdicts: Sequence[Verdict], at: int) -> Iterator[Text]:
    """What the report of a verdict says of its limit, and the findings that it rests on."""
    verdict, passed = verdicts[at], verdicts[at].outcome == "passed"
    yield f"Limit{f' {at + 1}' if len(verdicts) > 1 else ''}: {_limits([verdict])}."
    bits = limit_bits(verdict)
    if test.audits and bits != limit_bits(verdicts[0]):
        yield of_injected(with_search(test.audits[0]), bits)
    yield from judged(verdict)
    if said_of_it := basis_of_verdict(verdict):
        yield said_of_it
    claimed = bool(test.report.basis)
    if test.audits:
        claimed = _planted(test.audits[0], [verdict]) not in ("read", "")
    for finding in verdict.ordered:
        if finding.outcome != "passed":
            how = "Not decided" if finding.outcome == "undecided" else "Limit not passed"
            yield f"{how}: {finding.sentence}."
        elif passed and finding.check not in OF_ITSELF:
            yield f"{'Measured' if claimed else 'Limit passed'}: {finding.sentence}."


def _limits(verdicts: Sequence[Verdict]) -> str:
    """Each limit as the report of its verdict has it, who set it, and what came out."""
    limits = []
    for verdict in verdicts:
        words = dict.fromkeys(
            f"{one.subject} {one.limit:g}" for one in verdict.findings if one.limit is not None
        )
        limit = limit_words(verdict) or verdict.about["Limit"] or "; ".join(words)
        limits.append(
            f"{limit or 'not recorded'}; set by the person who ran the check. "
            f"Outcome: {_came_out(verdict)}"
        )
    if len(limits) == 1:
        return limits[0]
    return ". ".join(f"Limit {number}: {limit}" for number, limit in enumerate(limits, 1))


def _came_out(verdict: Verdict) -> str:
    """The label of a verdict, within a sentence."""
    label = label_of(verdict)
    some = verdict.left_out and not left_found(verdict)
    return label[0].lower() + label[1:] + (" for some secrets only" if some else "")


def _audited(audit: Audit) -> Evidence:
    """What a card or an annex says of an audit."""
    if not (audit.injected and audit.canaries_in_corpus):
        raise InputError(
            "the audit has no canary that was in the training data, so it tests no model",
            cure="plant canaries, train, and audit that model; or omit this audit",
            where=audit.file,
        )
    kept = {"fingerprint": audit.model, "versions": audit.settings}
    return Evidence(
        report_of(audit),
        about_of(audit),
        [*_trials(audit)],
        in_words({name: facts[name] for name, facts in kept.items() if name in facts}),
        digest_of(audit.to_dict()),
        audits=(audit,),
    )


def _trials(audit: Audit, verdicts: Sequence[Verdict] = ()) -> Iterator[Trial]:
    """An audit as one attack, or two; with verdicts, what is above the limit of the first."""
    served, kind = audit.model.get("device") == "served", "Planted secrets"
    if audit.natural:
        kind = "Secrets of the training data"
    threats = ("extraction", "regurgitation", *(("queries",) if served else ()))
    access = said_in_one("trial.audit.access", served=served)
    groups = {n: group for n, group in audit.by_repetitions().items() if n}
    by_search = [*searched(audit)]
    sizes = sorted({priced.space_size for priced in audit.formats})
    ends = [copies(n) for n in (min(groups, default=0), max(groups, default=0))]
    method = said_in_one(
        "trial.planted.method",
        natural=audit.natural,
        **{_planted(audit, verdicts): True},
        planted=len(audit.injected),
        copies=" to ".join(dict.fromkeys(ends)),
        sizes=" to ".join(map(count, dict.fromkeys((sizes[0], sizes[-1])))),
        controls=len(audit.controls),
    )
    best = with_search(audit)
    intro = said_in_one("outcome.secrets")  # in `method`
    bits = limit_bits(verdicts[0]) if verdicts else None
    yield Trial(
        f"{kind}: how many guesses an attacker needs",
        threats,
        kind,
        method,
        access,
        [text for text in recovered(best, bits) if text not in (intro, *by_search)],
        [table(best, at, bits) for at in sorted({c.format for c in best.canaries})],
        [*_medians(audit), *_counted(audit, kind, "recovered")],
    )
    if by_search:
        yield Trial(
            f"{kind}: a search that does not know them",
            threats,
            kind,
            said_in_one("trial.search.method"),
            access,
            by_search,
            metrics=[*_counted(audit, kind, "search_found")],
        )


def _planted(audit: Audit, verdicts: Sequence[Verdict]) -> str:
    """How it is known that all secrets were in the training data: a line of the method."""
    known = {verdict.rests_on for verdict in verdicts}
    rests_on = next((one for one in ("watched", "verified", "trusted") if one in known), "")
    kind = planting(audit, rests_on)
    if kind == "shown" and audit.settings.get("canaries_in_corpus") is not True:
        some = only_some_learned(audit) or not learned_copies(audit)
        others = {"verified": "checked", "trusted": "claimed", "": "unknown"}
        kind = others.get(rests_on, kind) if some else kind
    return kind if kind in ("checked", "claimed", "unknown", "") else "read"


def _counted(audit: Audit, kind: str, name: str) -> Iterator[Metric]:
    known = audit.metrics()
    tried = count(int(known.get("canary/search_guesses", 0)))
    what = {
        "recovered": "recovered within the first thousandth of all guesses",
        "search_found": f"among the first {tried} guesses of a search",
    }
    if (value := known.get(f"canary/{name}")) is not None:
        yield Metric(name, f"{kind} {what[name]}", value)


def _medians(audit: Audit) -> Iterator[Metric]:
    for repetitions, group in with_search(audit).by_repetitions().items():
        median, bound = median_bits([c.exposure for c in group])
        name = f"{repetitions}_copies" if repetitions else "controls"
        what = f"secrets with {plural(repetitions, 'copy', 'copies')}"
        yield Metric(
            f"exposure_{name}",
            f"Median exposure in bits of {what if repetitions else 'secrets never planted'}",
            round(median, 2),
            {"bound": "at least"} if bound else {},
        )
