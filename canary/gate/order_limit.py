"""A limit on the p-value of an order test: was a test set in the training data?"""

from __future__ import annotations

from typing import Any

from canary.gate.exposure_limit import check_level
from canary.gate.subjects import nothing_to_check
from canary.gate.verdict import Finding, Outcome, Policy, Verdict
from canary.membership.order_result import RANDOM, Order
from canary.records.versioned_json import digest_of
from canary.statistics.numbers import clean, probability

_NO_PROOF = (
    "this test never shows that a test set was not in the training data, only that its order was "
    "not learned; let undecided pass (--undecided pass) if that is enough, and test its texts as "
    "well (canary membership text)"
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
    if p > level:
        told, cure = f"{told}, above the limit of {level:g}", _NO_PROOF
    elif result.alarms:
        told, cure = f"{told}, but {result.alarms[0]}", RANDOM
    else:
        outcome = "failed"
        told += f", at most the limit of {level:g}: the model was trained on these texts"
        cure = (
            "do not report results of the model on this test set; remove it from the training "
            "data, or give another test set"
        )
    finding = Finding(
        "membership", "order of the test set", outcome, told, cure, limit=level, value=p
    )
    return Verdict(
        (finding,), undecided, result.notes,
        title="Check of an order test",
        about={
            "Result": clean(result.file) if result.file else "not named",
            "Limit": f"p-value of the order above {level:g}",
        },
        tested=result, digests=(digest_of(result.to_dict()),),
    )  # fmt: skip
