"""Limits on p-values of whole files: was a test set in the training data?"""

from __future__ import annotations

from typing import Any

from canary.gate.exposure_limit import check_level
from canary.gate.subjects import nothing_to_check
from canary.gate.verdict import Finding, Outcome, Policy, Verdict, verdict_on
from canary.membership.order_result import RANDOM, Order
from canary.statistics.numbers import probability

REMOVE = (
    "do not report results of the model on these texts; remove them from the training data, or "
    "test on others"
)
NO_PROOF = (
    "such a test never shows that texts were not in the training data: give more of them, and "
    "decide whether undecided passes (--undecided pass)"
)


def check_order(given: Any, *, max_p: float | None, undecided: Policy) -> Verdict:
    """The verdict on an `Order` or its file; see `canary.check`. It never passes.

    Raises
    ------
    InputError
        If there is no limit, or it is out of range.
    RecordError
        If the file is damaged or too new.
    """
    if max_p is None:
        raise nothing_to_check("an order test")
    level = check_level(max_p)
    result = given if isinstance(given, Order) else Order.load(given)
    p = result.preference.p
    outcome: Outcome = "undecided"
    told = f"the p-value of the order of the test set is {probability(p)}"
    if result.alarms:
        told, cure = f"{told}, but {result.alarms[0]}", RANDOM
    elif p > level:
        told, cure = f"{told}, above the limit of {level:g}", NO_PROOF
    else:
        outcome = "failed"
        told += f", at most the limit of {level:g}: the model was trained on these texts"
        cure = REMOVE
    finding = Finding(
        "membership", "order of the test set", outcome, told, cure, limit=level, value=p
    )
    return verdict_on(
        *("an order test", [finding], undecided, result.notes),
        about={"Limit": f"p-value of the order above {level:g}"},
        tested=result, source=(result.to_dict(), result.file),
    )  # fmt: skip


def all_members(found: Any, level: float) -> Finding:
    """Whether texts of the members' file were in the training data. It never passes.

    `found` are the `canary.gate.check_result.Attacks` of a test.
    """
    told, p = "the result has no test of all members at once", None
    cure = "repeat canary membership text with this version of canary"
    outcome: Outcome = "undecided"
    if (test := found.dataset) is not None:
        p = test.p
        told = f"the p-value of all members at once is {probability(p)}"
        against = (*found.doubts, found.warning if test.outcome == "void" else None)
        doubt = next(filter(None, (*against, found.length_warning)), None)
        if p > level:
            told, cure = f"{told}, above the limit of {level:g}", NO_PROOF
        if doubt is not None:
            told += f", {'and' if p > level else 'but'}: {doubt.removesuffix('.')}"
            cure = "correct the input as this says, and repeat the attacks"
        elif p <= level:
            told += f", at most the limit of {level:g}: the model was trained on texts of this file"
            outcome, cure = "failed", REMOVE
    return Finding("membership", "all members", outcome, told, cure, limit=level, value=p)
