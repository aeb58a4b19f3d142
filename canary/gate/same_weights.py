"""Whether audits are of the weights that a model has now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from canary.audits.audit_result import Audit
from canary.errors import InputError
from canary.models.loading import load
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


def _dtype(audit: Audit) -> str | None:
    known = str(audit.model.get("dtype") or "")
    return known if known in ("float32", "bfloat16", "float16") else None
