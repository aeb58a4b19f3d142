"""What a card or an annex says of membership and forgetting tests, by what is written of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canary.gate.attacks_written import Attacks, Interval, Part
from canary.gate.check_result import document_of, read_part
from canary.gate.forgetting_limit import Compared
from canary.gate.subjects import subject_of
from canary.membership.forgetting_result import ANSWERS
from canary.records.about import About
from canary.records.versioned_json import digest_of
from canary.reports.attack_tiles import ends_of
from canary.reports.document import (
    Report,
    Table,
    Text,
    basis,
    said,
    said_in_one,
    sentence,
    words_of,
)
from canary.reports.evidence import TO_FORGET, TRAINED_ON, Cost, Evidence, Metric, Trial
from canary.reports.forgetting_report import claim_of, of_deletion
from canary.reports.wording import ended, in_words
from canary.statistics.numbers import count, percent_of, plural, probability
from canary.statistics.roc import Estimate

_ROLES = {
    "query": "of models that were trained on the data",
    "calibration": "of models that never saw the data",
    "retrained": "of models that were trained again without the data",
    "unseen": "of the tested model on samples that it never saw",
}


@dataclass(frozen=True)
class _Named(Part):
    name: str = ""
    fingerprint: str = ""
    device: str = ""


@dataclass(frozen=True)
class _Sizes(Part):
    source: str = ""
    members: int = 0
    nonmembers: int = 0


@dataclass(frozen=True)
class _Membership(Attacks):
    strongest: str = ""
    target: _Sizes | None = None
    model: _Named | None = None
    reference: _Named | None = None
    models: tuple[_Named, ...] = ()
    targets: tuple[int, ...] = ()
    members: int = 0
    nonmembers: int = 0
    samples: int = 0
    samples_judged: int = 0
    requests_in_this_run: int = 0
    requests_in_all_runs: int = 0
    requests_allowed: int = 0
    answers_in: str = ""
    requests_without_earlier_answers: int = 0
    prompt_tokens_in_this_run: int = 0
    prompt_tokens_without_earlier_answers: int = 0
    seconds_in_this_run: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Forgetting(Compared):
    target: float | None = None
    retrained: tuple[float, ...] | None = None
    floor: float | None = None
    target_source: str = ""
    target_fingerprint: str = ""
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def saved_test(result: Any) -> Evidence:
    """Of a membership or forgetting test, or of its file."""
    document, file = document_of(result)
    digest = digest_of(document)
    if subject_of(result) == "a forgetting test":
        return _forgetting(read_part(_Forgetting, document, file), digest)
    return _membership(read_part(_Membership, document, file), digest)


def _membership(found: _Membership, digest: str) -> Evidence:
    kind = "shadow" if found.target else "models" if found.models else "texts"
    sizes = found.target or _Sizes("", found.members, found.nonmembers)
    method = said_in_one(
        f"trial.{kind}.method",
        members=sizes.members,
        others=sizes.nonmembers,
        models=len(found.models),
        samples=found.samples_judged or found.samples,
    )
    signals = {one.signal for one in found.attacks}
    access = said_in_one(
        "trial.membership.access",
        label=signals == {"correctness"},
        weights="gradient-norm" in signals,
        scores=signals - {"correctness", "gradient-norm"},
        shadow=kind == "shadow",
        models=kind == "models",
        alone=kind == "models" and "P" in {one.name for one in found.attacks},
        reference=found.reference,
        served=found.model and found.model.device == "served",
        access=sentence("access.served", whole=True),
    )
    label = label_of_test(found)
    given = [*found.doubts, *filter(None, (found.warning, found.length_warning))]
    doubts = dict.fromkeys(given)  # a warning may be a doubt as well
    results: list[Text] = [
        said_in_one("trial.membership.doubt", doubt=_inner(doubt)) for doubt in doubts
    ]
    metrics: list[Metric] = []
    if found.outcome in ("identified", "not identified") and not found.doubts:
        sentences, metrics = _reached(found)
        results = [*sentences, *results]
    if found.outcome == "not identified":
        results.append(said_in_one("trial.membership.caveat"))
    what = "texts" if kind == "texts" else "samples"
    read: Text = ""
    if found.outcome in ("identified", "not identified") and not found.doubts:
        seen = found.dataset is not None and found.dataset.outcome == "seen"
        fact = f"the model was trained on these {what}"
        read = basis("shown" if seen else "taken", fact, "this result")
        if found.outcome == "not identified":
            results.append(sentence("survey.rests", one=what.removesuffix("s")))
    names = {"shadow": Path(sizes.source).name, "texts": found.model.name if found.model else ""}
    name = names.get(kind) or f"{count(len(found.targets))} of {plural(len(found.models), 'model')}"
    facts = {} if found.model is None else {"Fingerprint (SHA-256)": found.model.fingerprint}
    trial = Trial(
        "Membership inference: recognizing training data",
        ("membership",),
        "Training samples and other samples",
        *(method, access, results),
        metrics=metrics,
    )
    made = Report(
        title="Membership test",
        label=label,
        tone="memorized" if found.outcome == "identified" and not found.doubts else "undecided",
        sentences=results,
        basis=read,
        notes=ended(found.notes),
        unsaid=said("survey.unsaid", open=found.outcome in ("void", "undecided"),
                    void=found.outcome == "void", calm=found.outcome == "not identified",
                    targets=max(len(found.targets), 1),
                    one=kind != "texts" and len(found.targets) < 2,
                    what=what),
    )  # fmt: skip
    made_with = facts | _software(found.versions)
    about = _named(found.about, name)
    if found.model and found.model.device == "served":
        about["Access"] = sentence("access.served", whole=True)
    sent = found.requests_in_this_run
    in_all = found.answers_in, found.requests_in_all_runs, found.requests_allowed
    cost = Cost(
        found.requests_without_earlier_answers or sent,
        found.prompt_tokens_without_earlier_answers or found.prompt_tokens_in_this_run,
        found.seconds_in_this_run,
    )
    return Evidence(
        made, about, [trial], made_with, digest, tested=found, sent=sent, in_all=in_all, cost=cost,
        of="language" if kind == "texts" else "classifier",
    )  # fmt: skip


def _reached(found: _Membership) -> tuple[list[Text], list[Metric]]:
    """What the strongest attack reaches where mistakes are fewest, and in pairs."""
    attacks = found.attacks
    named = {one.name: one for one in attacks}
    best = named.get(found.strongest, attacks[0])
    texts: list[Text] = []
    metrics: list[Metric] = []
    lead = best if found.surest is None else named.get(found.surest.name, best)
    if rates := lead.corrected.tpr_at_fpr:
        asked = (
            max(rate.asked_fpr for rate in rates)
            if found.surest is None
            else found.surest.asked_fpr
        )
        at = min(rates, key=lambda rate: abs(rate.asked_fpr - asked))
        few = percent_of(at.asked_fpr, digits=None)
        ties = at.lower <= at.asked_fpr and found.not_measured(at.asked_fpr)
        texts.append(
            said_in_one(
                f"trial.membership.{'ties' if ties else 'few_mistakes'}",
                fpr=few,
                attacks=len(attacks),
                best=lead.name,
                tpr=percent_of(at.value),
                ends=_ends(at, found),
            )
        )
        what = f"True positive rate of the attack {lead.name} at a false positive rate of {few}"
        kind = f"membership_tpr_at_fpr_{at.asked_fpr:g}"
        metrics.append(Metric(kind, what, *_rounded(at, found)))
    best = max(attacks, key=lambda one: one.corrected.auc.value)
    auc = best.corrected.auc
    texts.append(
        said_in_one(
            "trial.membership.result", auc=percent_of(auc.value), best=best.name,
            ends=_ends(auc, found),
        )
    )  # fmt: skip
    what = (
        f"AUC of the membership attack {best.name}, the highest of {plural(len(attacks), 'attack')}"
    )
    return texts, [*metrics, Metric("membership_auc", what, *_rounded(auc, found))]


def _ends(reached: Interval, found: _Membership) -> str:
    ends = ends_of(Estimate(reached.value, reached.lower, reached.upper))
    return f"{ends} at {percent_of(found.confidence, digits=None)} confidence"


def _rounded(reached: Interval, found: _Membership) -> tuple[float, dict[str, float | str]]:
    more = {"lower": reached.lower, "upper": reached.upper, "confidence": found.confidence}
    return round(reached.value, 4), {name: round(value, 4) for name, value in more.items()}


def _forgetting(found: _Forgetting, digest: str) -> Evidence:
    kind, answer = found.outcome, ANSWERS[found.outcome]
    label = label_of_test(found)
    more = said("trial.forgetting.more", **{kind: True})
    upper = "no upper end" if found.upper is None else f"{found.upper:.2f}"
    sure = percent_of(found.confidence, digits=None)
    rho = f"{found.rho:.2f} ({found.lower:.2f} to {upper} at {sure} confidence)"
    measured = (
        [] if found.void else said("trial.forgetting.result", rho=rho, p=probability(found.p))
    )
    results: list[Text] = [
        *more,
        *of_deletion(found),
        *measured,
    ]
    sizes = {
        "samples": found.samples,
        "calibration": len(found.calibration),
        "query": found.query_models,
    }
    ends: dict[str, float | str] = {"lower": round(found.lower, 4), "confidence": found.confidence}
    if found.upper is not None:
        ends["upper"] = round(found.upper, 4)
    trial = Trial(
        "Deletion: traces of data that was to be removed",
        (),
        "Data that was to be removed",
        said_in_one("trial.forgetting.method", **sizes),
        said_in_one("trial.forgetting.access"),
        results,
        tables=[] if found.void else [_beside_others(found)],
        metrics=[] if found.void else [
            Metric("forgetting_rho", "Ratio rho of forgetting (about 1 if the data was never seen)",
                   round(found.rho, 4), ends),
            Metric("forgetting_p", "p-value of forgetting", round(found.p, 6)),
        ],
    )  # fmt: skip
    made = Report(
        title="Forgetting test",
        label=label,
        tone="memorized" if answer == "not forgotten" else "undecided",
        sentences=results,
        basis=claim_of(kind, found.auc),
        notes=ended(found.notes),
        unsaid=[
            *said("forgetting.unsaid", samples=found.samples, known=answer == "not forgotten",
                  done=answer in ("forgotten", "no trace found")),
            *said("trial.forgetting.unsaid"),
        ],
    )  # fmt: skip
    answers = found.target_fingerprint and {
        "Answers of the tested model": Path(found.target_source).name or "given in memory",
        "Fingerprint of these answers (SHA-256)": found.target_fingerprint,
    }
    made_with = {**(answers or {}), **_others(found.answers), **_software(found.versions)}
    about = _named(found.about, data=TO_FORGET)
    return Evidence(made, about, [trial], made_with, digest, tested=found, of="")


def _others(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The files of the answers beside the target's, and the fingerprint of what is in them."""
    facts = {}
    for role, what in _ROLES.items():
        if role in answers:
            files = [*map(str, answers[role]["files"])]
            named = ", ".join(files if len(files) < 5 else [files[0], "…", files[-1]])
            number, digest = plural(len(files), "file"), answers[role]["fingerprint"]
            facts[f"Answers {what} ({number})"] = f"{named}; SHA-256 of the losses {digest}"
    return facts


def _beside_others(found: _Forgetting) -> Table:
    """Rho of the tested model, and of those for comparison."""
    mean = statistics.fmean(found.calibration)
    upper = "no upper end" if found.upper is None else f"{found.upper:.2f}"
    sure = percent_of(found.confidence, digits=None)
    trained = ("Reference (trained on the data)", "0 by definition", "none")
    if found.floor is not None:
        floor, number = f"{found.floor / mean:.2f}", plural(found.query_models, "model")
        trained = ("References (trained on the data), from each other", floor, f"none ({number})")
    rows = [
        ("Tested model", f"{found.rho:.2f}", f"{found.lower:.2f} to {upper} ({sure} confidence)"),
        trained,
    ]
    others = {"Reference (never saw the data)": found.calibration}
    if found.retrained:
        others["Reference (trained again without the data)"] = found.retrained
    for name, distances in others.items():
        ends = f"{min(distances) / mean:.2f} to {max(distances) / mean:.2f}"
        number = plural(len(distances), "model")
        rows.append((name, f"{statistics.fmean(distances) / mean:.2f}", f"{ends} ({number})"))
    named = words_of(said("trial.forgetting.table")[0])
    return Table(named, ("Model", "rho", "Interval, or range of models"), rows)


def label_of_test(found: Attacks | Compared) -> str:
    """What a membership or forgetting test says itself, with or without a limit."""
    if isinstance(found, Compared):
        return sentence("trial.forgetting.label", **{found.outcome: True})
    outcome: str = "undecided" if found.doubts and found.outcome != "void" else found.outcome
    if found.only_on_average:
        unmeasured = found.surest is not None and found.not_measured(found.surest.asked_fpr)
        outcome = "ties" if unmeasured else "on_average"
    weak = outcome in ("on_average", "ties", "not identified") and found.not_made[0]
    return sentence("trial.membership.label", **{outcome.replace(" ", "_"): True}, weak=weak)


def _named(about: About, own: str = "", data: str = TRAINED_ON) -> dict[str, str]:
    """What was tested; `own` is what a model is called that has no name."""
    return {
        "Model": about.model or own,
        data: about.corpus,
        "Date": about.date,
        "Tested by": about.auditor,
    }


def _software(versions: Mapping[str, str]) -> dict[str, str]:
    return in_words({"versions": versions}) if versions else {}


def _inner(note: str) -> str:
    """A note within a sentence."""
    return note[:1].lower() + note[1:].removesuffix(".")
