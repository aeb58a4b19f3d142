"""What a card or an annex says of an audit: its attacks, and what shows that it had secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from canary.audits.audit_result import Audit
from canary.audits.group_medians import median_bits
from canary.audits.search_ranks import with_search
from canary.errors import InputError
from canary.gate.verdict import Verdict
from canary.records.versioned_json import digest_of
from canary.reports.builders import report_of
from canary.reports.document import said_in_one, sentence
from canary.reports.evidence import Evidence, Metric, Trial
from canary.reports.limits import basis_of, learned_copies, only_some_learned, planting
from canary.reports.recovery import recovered, searched, table
from canary.reports.wording import (
    about_of,
    access_of,
    cost_of,
    exposure_table,
    in_words,
    requests_sent,
    sent_in_all,
)
from canary.statistics.numbers import copies, count, plural


class _Judged(Protocol):
    @property
    def rests_on(self) -> str: ...


def best_basis(verdicts: Sequence[_Judged], *, counted: bool) -> str:
    """What shows best that all secrets were planted, besides what the model learned."""
    known = {verdict.rests_on for verdict in verdicts} | ({"verified"} if counted else set())
    return next((one for one in ("watched", "verified", "trusted") if one in known), "")


def audited(audit: Audit) -> Evidence:
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
        [*trials_of(audit)],
        in_words({name: facts[name] for name, facts in kept.items() if name in facts}),
        digest_of(audit.to_dict()),
        audits=(audit,),
        sent=requests_sent(audit),
        in_all=sent_in_all(audit),
        cost=cost_of(audit),
    )


def trials_of(
    audit: Audit, verdicts: Sequence[Verdict] = (), *, counted: bool = False
) -> Iterator[Trial]:
    """An audit as one attack, or two; with verdicts, what is above the limit of the first."""
    served, kind = audit.model.get("device") == "served", "Planted secrets"
    if audit.natural:
        kind = "Secrets that were not drawn at random"
    threats = ("extraction", "regurgitation", *(("queries",) if served else ()))
    access = said_in_one("trial.audit.access", served=served, access=access_of(audit))
    groups = {n: group for n, group in audit.by_repetitions().items() if n}
    by_search = [*searched(audit)]
    sizes = sorted({priced.space_size for priced in audit.formats})
    ends = [copies(n) for n in (min(groups, default=0), max(groups, default=0))]
    method = said_in_one(
        "trial.planted.method",
        natural=audit.natural,
        **{planted(audit, best_basis(verdicts, counted=counted)): True},
        planted=len(audit.injected),
        copies=" to ".join(dict.fromkeys(ends)),
        sizes=" to ".join(map(count, dict.fromkeys((sizes[0], sizes[-1])))),
        controls=len(audit.controls),
    )
    best = with_search(audit)
    intro = said_in_one("outcome.secrets")  # in `method`
    bits = verdicts[0].limit_bits if verdicts else None
    yield Trial(
        f"{kind}: how many guesses an attacker needs",
        threats,
        kind,
        method,
        access,
        [text for text in recovered(best, bits) if text not in (intro, *by_search)],
        [
            shown
            for at in sorted({c.format for c in best.canaries})
            for shown in (table(best, at, bits), exposure_table(best, at))
        ],
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


def planted(audit: Audit, rests_on: str) -> str:
    """How it is known that all secrets were in the training data: a line of the method."""
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


def with_count(test: Evidence, found: str) -> Evidence:
    """An audit with the count of its secrets, and what follows from it where there is no limit."""
    audit, report = test.audits[0], test.report
    if planting(audit) == "unknown" and report.basis:
        report = replace(report, label=sentence("annex.if_read"))
    if report.basis:
        report = replace(report, basis=basis_of(audit, "verified"))
    return replace(test, report=report, trials=[*trials_of(audit, counted=True)], counted=found)
