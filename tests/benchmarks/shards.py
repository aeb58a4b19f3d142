"""A corpus of many shards from the first file to the last: made, injected, killed, stripped.

    python tests/benchmarks/shards.py [--gigabytes 20] [--shards 200] [--workers 2] [--kills 4]
                                      [--folder FOLDER]

Runs the commands as a user does. In FOLDER (three times the size is needed there) it writes
JSON lines of about 1,000 bytes, of which one in a hundred repeats an earlier text, and then

1. injects; the command is killed with signal 9 at random moments, every second time one worker
   alone, and given again;
2. verifies: each canary has its copies;
3. keeps each text once, by this script's own table of digests, and verifies again: `lost` counts
   the copies that are missing, which must be those that the de-duplication took;
4. strips, and compares each shard with its first bytes.

Seconds are on the clock, the kills and the second start included. `peaks_mib` is the largest
memory of one process of each command. (Linux: it reads /proc.) One JSON line.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import options, show

from canary.corpus.canaries import CanarySet, generate

WORDS = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "are", "they", "have"]
LINE = 1000
REPEATED = 100
BODIES = 5000


def write(folder: Path, size: int, shards: int) -> int:
    """The shards; returns the number of records."""
    rng = random.Random(0)
    bodies = [
        " ".join(rng.choice(WORDS) + "." * (rng.random() < 0.1) for _ in range(LINE // 4))
        for _ in range(BODIES)
    ]
    folder.mkdir()
    number = 0
    for shard in range(shards):
        with (folder / f"part-{shard:05}.jsonl").open("w") as file:
            written = 0
            while written < size // shards:
                # A record in a hundred says what an earlier one says.
                told = number - 50 if number % REPEATED == 0 and number else number
                text = f"Entry {told}. {bodies[told % BODIES]}"
                written += file.write(f'{{"id": {number}, "text": "{text}"}}\n')
                number += 1
    return number


def deduplicate(source: Path, target: Path) -> int:
    """Copy the records whose text is new; returns how many were left out."""
    target.mkdir()
    seen: set[bytes] = set()
    left_out = 0
    for path in sorted(source.glob("*.jsonl")):
        with path.open("rb") as lines, (target / path.name).open("wb") as out:
            for line in lines:
                text = json.loads(line)["text"]
                digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
                if digest in seen:
                    left_out += 1
                else:
                    seen.add(digest)
                    out.write(line)
    return left_out


class Commands:
    """Runs `canary` and remembers seconds and the peak of memory of each command."""

    def __init__(self, workers: int) -> None:
        self.workers = ["--workers", str(workers), "--json"]
        self.seconds: dict[str, float] = {}
        self.peaks_mib: dict[str, float] = {}

    def run(self, name: str, *words: object, kill_after: float = 0, alone: bool = False) -> Any:
        """Its exit code and JSON; `kill_after` seconds it, or one worker of it alone, is killed."""
        command = [sys.executable, "-m", "canary", *map(str, words), *self.workers]
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as out:
            running = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
            killed = not kill_after
            while running.poll() is None:
                workers = descendants(running.pid)
                self.look(name, [running.pid, *workers])
                if not killed and time.perf_counter() - began > kill_after:
                    killed = True
                    os.kill(random.choice(workers) if alone and workers else running.pid, 9)
                time.sleep(0.05)
            assert running.stderr is not None
            said = running.stderr.read()
            out.seek(0)
            text = out.read()
        self.seconds[name] = round(self.seconds.get(name, 0) + time.perf_counter() - began, 1)
        if running.returncode not in (0, 2, -signal.SIGKILL):
            raise SystemExit(f"{' '.join(command)}: {running.returncode}\n{said}")
        return running.returncode, json.loads(text) if text else None

    def look(self, name: str, processes: list[int]) -> None:
        for process in processes:
            try:
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:
                continue
            if found := re.search(r"VmHWM:\s*(\d+) kB", status):
                peak = round(int(found[1]) / 1024, 1)
                self.peaks_mib[name] = max(self.peaks_mib.get(name, 0), peak)


def descendants(process: int) -> list[int]:
    """The worker processes below one, without the keeper of its semaphores."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in map(int, path.read_text().split()):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)  # noqa: PERF401
        except OSError:
            continue
    return found


def main() -> None:
    given = options(gigabytes=20.0, shards=200, workers=2, kills=4, folder="")
    with tempfile.TemporaryDirectory(dir=given.folder or None) as name:
        folder = Path(name)
        source, out, once, back = (folder / n for n in ("source", "out", "once", "back"))
        began = time.perf_counter()
        records = write(source, int(given.gigabytes * 1e9), given.shards)
        made = time.perf_counter() - began
        canaries: CanarySet = generate(
            ["The random number is {digit:9}.", "My key is {letter:12}."],
            repetitions=[1, 16, 256],
            per_repetition=4,
            seed=0,
        )
        kept = folder / "canaries.json"
        canaries.save(kept)
        commands = Commands(given.workers)
        rng, kills = random.Random(0), 0
        inject = ("inject", source, "--canaries", kept, "--out", out)
        while kills < given.kills:
            code, _ = commands.run(
                "inject",
                *inject,
                kill_after=rng.uniform(0.3, 0.3 + 3 * given.gigabytes),
                alone=kills % 2 == 1,
            )
            kills += 1
            if code == 0:
                break
        if not (folder / "out.placements.json").exists():
            commands.run("inject", *inject)
        code, counted = commands.run("verify", "verify", out, "--canaries", kept)
        assert code == 0, counted
        began = time.perf_counter()
        left_out = deduplicate(out, once)
        commands.seconds["de-duplicate"] = round(time.perf_counter() - began, 1)
        code, lost = commands.run("verify again", "verify", once, "--canaries", kept)
        assert code == 2
        shutil.rmtree(once)
        commands.run("strip", "strip", out, "--canaries", kept, "--out", back)
        names = sorted(path.name for path in source.glob("*.jsonl"))
        same = filecmp.cmpfiles(source, back, names, shallow=False)[0]
        assert same == names
    show(
        "shards",
        gigabytes=given.gigabytes,
        shards=given.shards,
        workers=given.workers,
        records=records,
        kills=kills,
        made=round(made, 1),
        seconds=commands.seconds,
        peaks_mib=commands.peaks_mib,
        left_out=left_out,
        lost={"causes": lost["causes"], "found": [one["found"] for one in lost["canaries"]]},
    )


if __name__ == "__main__":
    main()
