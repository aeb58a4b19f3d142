"""Whether audits that count as seeds are of one training: their controls go together too closely.

Models that were trained apart agree on controls about as much within a group as between groups:
all learn which digits are frequent. Copies and checkpoints of one training agree far more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canary.audits.audit_result import CANARY_SET
from canary.reports.comparison import Strategy

_LEAST = 8
"""Controls without which a correlation says nothing."""

COPIES = 0.9995
"""A correlation as of one model in several precisions: float16 gives 1 - 1e-7, int8 0.9997."""

_HIGH = 0.9
_GAP, _SIGMAS = math.log(4.0) / 2.0, 2.5  # on Fisher's scale: a quarter of what is not shared


class Alike(NamedTuple):
    """Two audits of a group that go together, and how closely audits of other groups do."""

    one: Strategy
    other: Strategy
    correlation: float
    between: float


def alike_in(groups: Sequence[Sequence[Strategy]]) -> dict[int, Alike]:
    """For each group with audits that look like one training, the two that are closest."""
    across = [
        found
        for some, others in combinations(groups, 2)
        for pair in product(some, others)
        if (found := _correlation(*pair)) is not None
    ]
    if not across:
        return {}
    between, number = max(across)
    apart = max(_GAP, _SIGMAS / math.sqrt(number - 3))
    bar = max(_HIGH, math.tanh(math.atanh(min(between, 1.0 - 1e-12)) + apart))
    pairs = {
        at: max(
            (Alike(*pair, found[0], between) for pair in combinations(group, 2)
             if (found := _correlation(*pair)) is not None),
            key=lambda alike: alike.correlation, default=None,
        )
        for at, group in enumerate(groups)
    }  # fmt: skip
    return {at: found for at, found in pairs.items() if found and found.correlation >= bar}


def same_prices(one: Strategy, other: Strategy) -> bool:
    """Whether two audits give all canaries the same log-perplexities, but for rounding."""
    if not _one_set(one, other):
        return False
    noise = [f.noise_bits for f in one.audit.formats]
    return all(
        abs(mine.px_bits - theirs.px_bits) <= 2.0 * noise[mine.format]
        for mine, theirs in zip(one.audit.canaries, other.audit.canaries, strict=True)
    )


def _one_set(one: Strategy, other: Strategy) -> bool:
    sets = [each.audit.settings.get(CANARY_SET) for each in (one, other)]
    ids = [[c.id for c in each.audit.canaries] for each in (one, other)]
    return bool(sets[0]) and sets[0] == sets[1] and ids[0] == ids[1]


def _correlation(one: Strategy, other: Strategy) -> tuple[float, int] | None:
    """That of the log-perplexities of the controls within formats, and their number."""
    if not _one_set(one, other):
        return None
    mine, theirs = _centred(one), _centred(other)
    scale = float(np.linalg.norm(mine) * np.linalg.norm(theirs))
    if len(mine) < _LEAST or not (0.0 < scale < math.inf):
        return None
    return float(mine @ theirs) / scale, len(mine)


def _centred(one: Strategy) -> NDArray[np.float64]:
    """Log-perplexities of the controls, less the mean of their format."""
    parts = []
    for at in range(len(one.audit.formats)):
        bits = [c.px_bits for c in one.audit.by_repetitions(at).get(0, ())]
        parts += [np.array(bits) - np.mean(bits)] if bits else []
    return np.concatenate(parts) if parts else np.zeros(0)
