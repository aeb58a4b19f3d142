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

import json
import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from figures import Clock, child, fresh, options, peak_mib, show

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


def work(folder: Path) -> dict[str, float]:
    """What is measured."""
    with Clock() as clock:
        with Clock() as reading:
            target, shadow = (measure(folder / f"{name}.npz") for name in ("target", "shadow"))
        survey(target, shadow)
        risk_scores(target, shadow=shadow, smooth=True)
    return {
        "seconds": round(clock.wall, 2),
        "cpu_seconds": round(clock.cpu, 2),
        "reading_seconds": round(reading.wall, 2),
        "reading_cpu_seconds": round(reading.cpu, 2),
        "peak_mib": round(peak_mib()),
    }


def main() -> None:
    if (words := child()) is not None:
        print(json.dumps(work(Path(*words))))
        return
    given = options(samples=1_000_000, classes=1000)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "target.npz", given.samples, given.classes, rng)
        write(folder / "shadow.npz", max(given.samples // 10, 100), given.classes, rng)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        found = fresh(__file__, name)
    assert found["peak_mib"] < size + 2048
    load = round(os.getloadavg()[0], 1)
    show("membership_files", **vars(given), **found, files_mib=round(size), load=load)


if __name__ == "__main__":
    main()
