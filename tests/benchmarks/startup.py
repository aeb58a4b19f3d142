"""How long `import canary` and `canary --help` take.

    .venv/bin/python tests/benchmarks/startup.py

Prints one line of JSON: seconds over `runs` fresh processes. `import_seconds`
is the import alone, `help_seconds` the whole command as a user waits for it, and
`python_seconds` what an interpreter that does nothing takes of that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from figures import Clock, options, show, spread

IMPORT = "import time; t = time.perf_counter(); import canary; print(time.perf_counter() - t)"


def wall(*command: str) -> float:
    with Clock() as clock:
        subprocess.run(command, check=True, capture_output=True)
    return clock.wall


def imported() -> float:
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    runs = options(runs=9).runs
    command = str(Path(sys.executable).with_name("canary"))
    wall(command, "--help")  # the first run writes the bytecode
    show(
        "startup",
        runs=runs,
        **spread("import_seconds", [imported() for _ in range(runs)]),
        **spread("help_seconds", [wall(command, "--help") for _ in range(runs)]),
        **spread("python_seconds", [wall(sys.executable, "-c", "pass") for _ in range(runs)]),
    )


if __name__ == "__main__":
    main()
