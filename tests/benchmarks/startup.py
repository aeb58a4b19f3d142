"""How long `import canary` and `canary --help` take.

    .venv/bin/python tests/benchmarks/startup.py

Prints one line of JSON: seconds over `runs` fresh processes. `import_seconds`
is the import alone, `help_seconds` the whole command as a user waits for it, and
`python_seconds` what an interpreter that does nothing takes of that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from spread import spread

IMPORT = "import time; t = time.perf_counter(); import canary; print(time.perf_counter() - t)"


def wall(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def imported() -> float:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    command = str(Path(sys.executable).with_name("canary"))
    wall([command, "--help"])  # the first run writes the bytecode
    measured = {
        "import_seconds": [imported() for _ in range(runs)],
        "help_seconds": [wall([command, "--help"]) for _ in range(runs)],
        "python_seconds": [wall([sys.executable, "-c", "pass"]) for _ in range(runs)],
    }
    figures = {"benchmark": "startup", "runs": runs}
    for name, times in measured.items():
        figures |= spread(name, times)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
