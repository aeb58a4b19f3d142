"""How all benchmarks report a figure: its median and how far it went; and the peak of memory."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path


def spread(name: str, values: Sequence[float], *, digits: int = 3) -> dict[str, float]:
    """The median over the rounds under `name`, and the least and the most beside it."""
    return {
        name: round(statistics.median(values), digits),
        f"{name}_least": round(min(values), digits),
        f"{name}_most": round(max(values), digits),
    }


def peak_mib() -> float:
    """The peak of this process's memory so far. (Linux: it reads /proc.)

    Not getrusage: its peak begins with that of the process from which this one came.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 1024
