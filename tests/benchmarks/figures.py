"""How all benchmarks read their options, take their times, and print their figures."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def options(**defaults: Any) -> argparse.Namespace:
    """What the command line says of each option, by name, or its default.

    Numbers and texts have the type of their default; of a list there may be any number, of a list
    of one type none by default; a tuple is all the choices there are. False is a flag.
    """
    parser = argparse.ArgumentParser()
    for name, default in defaults.items():
        about: dict[str, Any] = {"type": type(default), "default": default}
        if default is False:
            about = {"action": "store_true"}
        elif isinstance(default, tuple):
            about = {"nargs": "*", "choices": default, "default": default}
        elif isinstance(default, list):
            kinds = [one for one in default if isinstance(one, type)]
            kind = kinds[0] if kinds else type(default[0])
            about = {"nargs": "+", "type": kind, "default": [] if kinds else default}
        parser.add_argument(f"--{name.replace('_', '-')}", **about)
    return parser.parse_args()


def show(benchmark: str, **figures: Any) -> None:
    """Print the one line of JSON."""
    print(json.dumps({"benchmark": benchmark, **figures}))


class Clock:
    """Seconds of a block: of the processor, of all threads, and on the clock."""

    cpu = wall = 0.0

    def __enter__(self) -> Clock:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu = time.process_time() - self._began[0]
        self.wall = time.perf_counter() - self._began[1]


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """What it gives, and its processor seconds."""
    with Clock() as clock:
        found = work()
    return found, clock.cpu


def over(seconds: Sequence[float], others: Sequence[float]) -> list[float]:
    """Ratios, round by round."""
    return [a / b for a, b in zip(seconds, others, strict=True)]


def middle(values: Sequence[float], digits: int = 0) -> float:
    """The median over the rounds."""
    return round(statistics.median(values), digits or None)


def spread(name: str, values: Sequence[float], *, digits: int = 3) -> dict[str, float]:
    """The median over the rounds under `name`, and the least and the most beside it."""
    return {
        name: middle(values, digits),
        f"{name}_least": round(min(values), digits),
        f"{name}_most": round(max(values), digits),
    }


def child() -> list[str] | None:
    """What `fresh` was given, in its process; None elsewhere."""
    return sys.argv[2:] if sys.argv[1:2] == ["--child"] else None


def fresh(script: str, *words: object) -> Any:
    """What a script prints, as JSON, in a process of its own that is told so."""
    command = [sys.executable, script, "--child", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def peak_mib() -> float:
    """The peak of this process's memory so far. (Linux: it reads /proc.)

    Not getrusage: its peak begins with that of the process from which this one came.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 1024
