"""Whether audits are of the weights that a model has now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.gate.verdict import Finding, Verdict
from canary.models.loading import load
from canary.records.shards import finished_pieces
from canary.records.weight_files import FOLDER, rewritten
from canary.statistics.numbers import clean

_SHOWN = 12  # digits of a fingerprint, as reports have them


def check_weights(audits: Sequence[Audit], model: Any) -> None:
    """Refuse audits of other weights than those of a model, or of the folder of one.

    Raises
    ------
    InputError
        If there are several audits, an audit does not know its weights, or they are others.
    """
    if model is None:
        return
    (audit,) = audits if len(audits) == 1 else (None,)
    if audit is None:
        raise InputError(
            "a model was given to compare with, and several audits",
            cure="check each audit with its model",
            where="model",
        )
    known = str(audit.model.get("fingerprint") or "")
    if not known or audit.model.get("device") == "served":
        raise InputError(
            "the audit does not know the weights of its model, so they cannot be compared",
            cure="audit the files of the model, or leave the model out",
            where="model",
        )
    path = isinstance(model, str | os.PathLike)
    facts = load(model, dtype=_dtype(audit)).facts if path else load(model).facts
    if facts.fingerprint != known:
        raise InputError(
            f"{clean(audit.file or 'the audit')} is of other weights ({known[:_SHOWN]}, audited "
            f"{audit.about.date or 'at an unknown date'}) than this model "
            f"({facts.fingerprint[:_SHOWN]})",
            cure="audit this model (canary audit MODEL --out FOLDER) and check that audit; with "
            "--factory for a model of your own (in Python, give the loaded model)",
            where="model",
        )


def of_files(verdict: Verdict) -> Verdict:
    """The verdict on a result that is no audit, undecided if its model has other files now."""
    settings = getattr(verdict.tested, "settings", {})
    findings = other_files([verdict.tested], model_option=False) if FOLDER in settings else []
    return replace(verdict, findings=(*findings, *verdict.findings)) if findings else verdict


def other_files(results: Sequence[Any], *, model_option: bool = True) -> list[Finding]:
    """That the weight files which results were made of are others now; empty if they are the same.

    Or if they are not there, as they were named, or an earlier version made the results. Of
    several results of one folder, trained again and again, the files need be those of one.

    Parameters
    ----------
    results : sequence
        Of what has ``settings`` and an ``about``.
    model_option : bool
        Whether these results can be compared with a model (`check_weights`).
    """
    folders: dict[str, list[Any]] = {}
    for result in results:
        if FOLDER in result.settings:
            folders.setdefault(str(result.settings[FOLDER]), []).append(result)
    findings = []
    for folder, made in folders.items():
        if not all(rewritten(result.settings) for result in made):
            continue
        told = (
            f"the weight files in {clean(folder)} are not those that were tested on "
            f"{clean(made[-1].about.date) or 'an unknown date'}, so this result is of another model"
        )
        cure = "test the model that is there, and check that result" + model_option * (
            "; if the files were only copied or converted, give the folder with --model (in Python "
            "model), which compares the weights"
        )
        findings.append(Finding("training data", "weights", "undecided", told, cure))
    return findings


def stopped_runs(audits: Sequence[Audit]) -> list[str]:
    """That a run of `canary audit` was stopped in the folder of an audit's file, if one was."""
    parts = dict.fromkeys(Path(audit.file).with_name("parts") for audit in audits if audit.file)
    return [
        f"A run of canary audit was stopped and left {clean(str(place))}. If it began after the "
        "audit, this verdict is on an earlier one; else only report.html is missing. Run that "
        "command again."
        for place in parts
        if finished_pieces(place)
    ]


def _dtype(audit: Audit) -> str | None:
    known = str(audit.model.get("dtype") or "")
    return known if known in ("float32", "bfloat16", "float16") else None
