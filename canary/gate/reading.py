"""The saved files of this package, read by what they say they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import cast

from canary.audits import audit_result, exposure_result, extraction, history
from canary.audits.audit_result import Audit
from canary.audits.exposure_result import Exposures
from canary.audits.extraction import Extraction
from canary.audits.history import History
from canary.corpus import canaries, placements, verification
from canary.corpus import duplicates as counted
from canary.corpus.canaries import CanarySet
from canary.corpus.duplicates import Duplicates
from canary.corpus.placements import Placements
from canary.corpus.verification import Verification
from canary.errors import RecordError
from canary.gate import baselines
from canary.gate.baselines import Baseline
from canary.membership import order_result
from canary.membership.order_result import Order
from canary.passages import result as verbatim
from canary.passages import sampled
from canary.passages.result import Verbatim
from canary.passages.sampled import Sampled
from canary.records.record import Document
from canary.records.validation import brief
from canary.records.versioned_json import kind_of, load_document

KINDS: Mapping[str, type[Document]] = {
    canaries.KIND: CanarySet,
    placements.KIND: Placements,
    verification.KIND: Verification,
    audit_result.KIND: Audit,
    exposure_result.KIND: Exposures,
    extraction.KIND: Extraction,
    history.KIND: History,
    baselines.KIND: Baseline,
    order_result.KIND: Order,
    verbatim.KIND: Verbatim,
    sampled.KIND: Sampled,
    counted.KIND: Duplicates,
}
"""What is read back, by the kind that its file names."""


REPORTED = (
    exposure_result.KIND,
    extraction.KIND,
    order_result.KIND,
    verbatim.KIND,
    sampled.KIND,
)
"""Kinds of results besides audits and histories that have a report of their own."""


Saved = (
    CanarySet
    | Placements
    | Verification
    | Audit
    | Exposures
    | Extraction
    | History
    | Baseline
    | Order
    | Verbatim
    | Sampled
    | Duplicates
)


def read(path: str | os.PathLike[str]) -> Saved:
    """Read a file that canary saved, except classifier attacks and forgetting.

    Give the path of those (``membership.json``, ``models.json``, ``forgetting.json``) to
    `canary.check`, or to ``canary check`` and ``canary report --annex``.

    Parameters
    ----------
    path : path
        A canary set, its placements, a verification (``canary verify --json``), an audit,
        exposures, an extraction, the history of a training, a baseline, a test of an order, of
        passages, or of samples, or a count of copies.

    Returns
    -------
    CanarySet, Placements, Verification, Audit, Exposures, Extraction, History, Baseline, Order, \
    Verbatim, Sampled, Duplicates
        What the file says that it is.

    Raises
    ------
    RecordError
        If the file is missing, damaged, too new, or of a kind that is not read back.

    Examples
    --------
    >>> audit = canary.read("audit/audit.json")  # doctest: +SKIP
    >>> verified = canary.read("verified.json")  # doctest: +SKIP
    >>> canary.check(audit, max_exposure_bits=10, verification=verified)  # doctest: +SKIP
    """
    kind = kind_of(path) or "canary"
    if kind not in KINDS:
        load_document(path, kind, sys.maxsize)  # says what is wrong with the file
        raise RecordError(
            f"holds a {brief(kind)}, which is not read back",
            cure="give the path of a membership or forgetting test to canary.check; or "
            f"read one of {', '.join(KINDS)}",
            where=str(path),
        )
    return cast(Saved, KINDS[kind].load(path))
