"""How all benchmarks report a figure: its median and how far it went."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(name: str, values: Sequence[float], *, digits: int = 3) -> dict[str, float]:
    """The median over the rounds under `name`, and the least and the most beside it."""
    return {
        name: round(statistics.median(values), digits),
        f"{name}_least": round(min(values), digits),
        f"{name}_most": round(max(values), digits),
    }
