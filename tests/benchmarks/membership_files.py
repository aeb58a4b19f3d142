"""Membership attacks on outputs that lie on disk, read piece by piece.

    python tests/benchmarks/membership_files.py [--samples 1000000] [--classes 1000]

Writes float16 logits of a target, and of a shadow of a tenth of the samples, to a temporary
folder (2 bytes a number: 2.2 GB as it stands), and then does all with them in a fresh process:
reading and checking, signals, eleven attacks with their thresholds and scores, evaluation in all
and by class, risk scores by bins and by kernels. Wall-clock seconds, processor seconds of all
threads, the load of the machine, and the peak of the process's memory beside the size of the
files; it fails if the peak passes that size and 2 GiB. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from spread import peak_mib

from canary.membership.risk import risk_scores
from canary.membership.shadow_survey import survey
from canary.signals.measuring import measure

ROWS = 10_000


def write(path, samples, classes, rng):
    """An .npz file, without holding it."""
    labels = rng.integers(0, classes, samples)
    member = rng.random(samples) < 0.5
    # Each piece is the same noise with its rows moved on: to draw is what takes long.
    noise = rng.standard_normal((min(ROWS, samples), classes), np.float32)
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("logits.npy", "w", force_zip64=True) as file:
            header = {"descr": "<f2", "fortran_order": False, "shape": (samples, classes)}
            np.lib.format.write_array_header_1_0(file, header)
            for at in range(0, samples, ROWS):
                part = slice(at, min(at + ROWS, samples))
                rows = np.roll(noise, at // ROWS, axis=1)[: part.stop - at]
                rows[np.arange(len(rows)), labels[part]] += 5 + 3 * member[part]
                file.write(rows.astype(np.float16).tobytes())
        for name, array in (("labels", labels), ("member", member)):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array)


def work(folder) -> None:
    """What is measured."""
    began = time.perf_counter(), time.process_time()
    target, shadow = (measure(folder / f"{name}.npz") for name in ("target", "shadow"))
    read = time.perf_counter() - began[0], time.process_time() - began[1]
    survey(target, shadow)
    risk_scores(target, shadow=shadow, smooth=True)
    print(
        json.dumps(
            {
                "seconds": round(time.perf_counter() - began[0], 2),
                "cpu_seconds": round(time.process_time() - began[1], 2),
                "reading_seconds": round(read[0], 2),
                "reading_cpu_seconds": round(read[1], 2),
                "peak_mib": round(peak_mib()),
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "target.npz", options.samples, options.classes, rng)
        write(folder / "shadow.npz", max(options.samples // 10, 100), options.classes, rng)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        done = subprocess.run(
            [sys.executable, __file__, "--work", name], check=True, capture_output=True, text=True
        )
    found = json.loads(done.stdout)
    assert found["peak_mib"] < size + 2048
    print(
        json.dumps(
            {
                "benchmark": "membership_files",
                "samples": options.samples,
                "classes": options.classes,
                **found,
                "files_mib": round(size),
                "load": round(os.getloadavg()[0], 1),
            }
        )
    )


if __name__ == "__main__":
    main()
