"""Canaries of many copies that are learned no better than those of few: was the corpus changed?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from canary.audits.audit_result import CanaryResult, combined_p
from canary.audits.group_medians import by_copies, median_bits
from canary.statistics.learned_parts import SHOWN_LEARNED
from canary.statistics.numbers import plural

_FEWEST = 4  # canaries of a number of copies
_TIMES = 8  # as many copies, or more, as those with the fewest
_NO_BETTER = 0.25  # p-value of a rank test above which many copies are no better than few
_MARK = "no better. So it is if the corpus was de-duplicated"
_ROOM_BITS = 2.0  # that the median of the fewest copies is below what could be seen


def is_on_copies(note: str) -> bool:
    """Whether a note of an audit is that of `note_on_copies`."""
    return _MARK in note


def note_on_copies(tested: Sequence[CanaryResult]) -> str | None:
    """That canaries with the fewest copies look learned, and those with the most no better.

    So it is after de-duplication: each was read once. `tested` are injected canaries of an audit
    with p-values. None where groups are too small or too alike in copies, or where more could not
    have been seen.
    """
    from scipy.stats import mannwhitneyu

    groups = by_copies(tested)
    if len(groups) < 2:
        return None
    few, many = min(groups), max(groups)
    low, high = ([c.exposure for c in groups[n]] for n in (few, many))
    if many < _TIMES * few or min(len(low), len(high)) < _FEWEST:
        return None
    # Canaries that are ranked for certain take each other's ranks.
    ranked = math.log2(len(tested))
    seen = (math.log2(e.draws) if e.draws else e.space_bits - ranked for e in (*low, *high))
    median, bound = median_bits(low)
    if bound or median > min(seen) - _ROOM_BITS:
        return None
    learned = combined_p(groups[few])
    if learned is None or learned.p_value > SHOWN_LEARNED:
        return None
    places = [[e.place_bits for e in group] for group in (high, low)]
    if mannwhitneyu(*places, alternative="greater").pvalue <= _NO_BETTER:
        return None
    return (
        f"Canaries with {plural(few, 'copy', 'copies')} look learned, and those with "
        f"{plural(many, 'copy', 'copies')} {_MARK} "
        "after canary inject: then each was read once, and nothing is known of more copies. "
        "canary verify counts the copies in the files that training read"
    )
