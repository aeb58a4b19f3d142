"""What a card or an annex says of extractions, samples and order tests: no secret, and no text."""

from __future__ import annotations

from typing import Any, Literal

from canary.audits.extraction import Extraction
from canary.membership.order_result import Order
from canary.passages.sampled import Sampled
from canary.records.versioned_json import digest_of
from canary.reports.builders import report_of
from canary.reports.document import Figure, Report, Table, said_in_one
from canary.reports.evidence import Evidence, Metric, Trial
from canary.reports.extraction_report import leads, planted_in
from canary.reports.saved_tests import saved_test
from canary.reports.wording import (
    about_of,
    access_of,
    cost_of,
    in_words,
    requests_sent,
    sent_in_all,
)
from canary.statistics.numbers import count


def other_test(result: Any) -> Evidence:
    """Of a result that is no audit, or of the file of a membership or forgetting test."""
    if isinstance(result, Extraction):
        return _extracted(result.hidden())
    if isinstance(result, Order):
        return _ordered(result)
    return _sampled(result) if isinstance(result, Sampled) else saved_test(result)


def _extracted(found: Extraction) -> Evidence:
    made, planted = report_of(found), planted_in(found)
    served = found.model.get("device") == "served"
    out = sum(c.canary in planted for c in found.candidates)
    method = said_in_one(
        "trial.extract.method",
        queries=found.queries,
        top=found.top,
        size=count(found.space_size),
        known=planted,
        planted=len(planted),
        unknown=not planted,
    )
    said_of = leads(found, planted) if found.candidates else f"{found.verdict().capitalize()}."
    trial = Trial(
        "Extraction: a search that does not know the secrets",
        ("extraction", "regurgitation", *(("queries",) if served else ())),
        "Secrets that were not drawn at random" if found.natural else "Planted secrets",
        method,
        said_in_one("trial.audit.access", served=served, access=access_of(found)),
        [said_of, *(made.sentences[:1] if found.unplanted or (found.natural and out) else ())],
        metrics=[
            Metric("search_found", f"Secrets among the first {found.top} guesses of a search", out)
        ]
        if planted
        else [],
    )
    return _evidence(
        made, found, trial, secrets="found" if found.natural else "planted" if planted else ""
    )


def _sampled(found: Sampled) -> Evidence:
    made, share = report_of(found), found.came_out().texts
    planted: Literal["planted", "found", ""] = (
        "found" if found.natural else "planted" if found.planted else ""
    )
    figures = [block.table for block in made.outcome if isinstance(block, Figure)]
    tables = [block for block in (*figures, *made.brief) if isinstance(block, Table)]
    chat = bool(found.settings.get("chat"))
    what = "Secrets" if found.planted else "Passages"
    ends = {"lower": share.lower, "upper": share.upper, "confidence": share.confidence}
    trial = Trial(
        "Sampling: what the model writes when it is asked",
        ("extraction", "queries", "regurgitation"),
        {"planted": "Planted secrets", "found": "Secrets that were not drawn at random"}.get(
            planted, "Texts of the training data"
        ),
        said_in_one(
            "trial.sample.method",
            secrets=found.planted,
            passages=not found.planted,
            number=share.windows,
            samples=found.samples,
        ),
        said_in_one("trial.sample.access", chat=chat, completions=not chat),
        made.sentences,
        tables,
        [
            Metric(
                "samples_came_out",
                f"{what} that came out word for word",
                round(share.value, 6),
                {name: round(end, 6) for name, end in ends.items()},
            )
        ],
    )
    versions = {"versions": found.settings["versions"]} if "versions" in found.settings else {}
    digest = digest_of(found.to_dict())
    made_with = in_words(versions)
    return Evidence(
        made, about_of(found), [trial], made_with, digest, secrets=planted, tested=found,
        sent=requests_sent(found), in_all=sent_in_all(found), cost=cost_of(found),
    )  # fmt: skip


def _ordered(found: Order) -> Evidence:
    made = report_of(found)
    trial = Trial(
        "Membership inference: the order of a test set",
        ("membership",),
        "Texts of a test set, in their published order",
        said_in_one(
            "order.method",
            before=found.before,
            after=found.after,
            orders=found.preference.shuffles + 1,
        ),
        said_in_one(
            "trial.membership.access",
            scores=True,
            served=found.model.get("device") == "served",
            access=access_of(found),
            reference=found.reference,
        ),
        made.sentences,
        [block.table for block in made.outcome if isinstance(block, Figure) and block.table],
    )
    return _evidence(made, found, trial)


def _evidence(
    made: Report,
    found: Extraction | Order,
    trial: Trial,
    *,
    secrets: Literal["planted", "found", ""] = "",
) -> Evidence:
    facts = {"fingerprint": found.model, "versions": found.settings}
    return Evidence(
        made,
        about_of(found),
        [trial],
        in_words({name: of[name] for name, of in facts.items() if name in of}),
        digest_of(found.to_dict()),
        secrets=secrets,
        tested=None if isinstance(found, Extraction) else found,
        sent=requests_sent(found),
        in_all=sent_in_all(found),
        cost=cost_of(found),
    )
