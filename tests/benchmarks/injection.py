"""Speed and memory of injection against reading and writing the lines unchanged.

    python tests/benchmarks/injection.py [--megabytes 32] [--line 600] [--rounds 3]

Writes a JSONL corpus of English-like lines, of a quarter of the size and of the whole
size, and times on the larger one: a Python loop that reads its lines and writes them;
`inject_file` without a look at the lines; with every line checked; spliced; `verify`;
`strip_file`. Processor time, not wall-clock time: the machine may be shared. The peak of
memory is that of a fresh process that injects, checked and spliced, at both sizes; it must
lie under 300 MiB and may not grow with the corpus, but for a few bytes for each record where
canaries are spliced. One JSON line: rates in MB per second of
processor time, their ratios to the plain loop, the peaks in MiB. (Linux: it reads /proc.)
"""

from __future__ import annotations

import filecmp
import json
import random
import tempfile
from pathlib import Path

from figures import child, fresh, middle, options, over, peak_mib, show, spread, timed

from canary.corpus.canaries import CanarySet, generate
from canary.corpus.injection import inject_file
from canary.corpus.stripping import strip_file
from canary.corpus.verification import verify

MOST_MIB = 300
MOST_GROWTH_MIB = 8

WORDS = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "are", "they", "have")


def write_corpus(path: Path, megabytes: int, length: int) -> None:
    rng = random.Random(0)
    lines = []
    for number in range(2000):
        words = []
        while sum(map(len, words)) < length - 60:
            words.append(rng.choice(WORDS) + (". " if rng.random() < 0.1 else " "))
        record = {"id": number, "text": "".join(words), "label": "a “label”"}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    block = "".join(lines).encode()
    with path.open("wb") as file:
        for _ in range(megabytes * 10**6 // len(block) + 1):
            file.write(block)


def plain(source: Path, target: Path) -> None:
    with source.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            out.write(line)


def main() -> None:
    if (words := child()) is not None:
        source, target, canaries, mode = words
        inject_file(source, target, CanarySet.load(canaries), mode=mode)
        print(peak_mib())
        return
    given = options(megabytes=32, line=600, rounds=3)
    canaries = generate(
        ["The random number is {digit:9}.", "My key is {letter:12}."],
        repetitions=[1, 16, 256],
        per_repetition=4,
        seed=0,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, source, target = (folder / f"{n}.jsonl" for n in ("small", "source", "target"))
        write_corpus(small, max(given.megabytes // 4, 1), given.line)
        write_corpus(source, given.megabytes, given.line)
        canaries.save(folder / "canaries.json")
        spliced, back = folder / "spliced.jsonl", folder / "back.jsonl"
        jobs = {
            "plain": lambda: plain(source, target),
            "unchecked": lambda: inject_file(source, target, canaries, check=False),
            "checked": lambda: inject_file(source, target, canaries),
            "spliced": lambda: inject_file(source, spliced, canaries, mode="splice"),
            "verify": lambda: verify(spliced, canaries),
            "strip": lambda: strip_file(spliced, back, canaries),
        }
        times: dict[str, list[float]] = {job: [] for job in jobs}
        for _ in range(given.rounds):
            for job, work in jobs.items():
                times[job].append(timed(work)[1])
        assert filecmp.cmp(back, source, shallow=False)
        megabytes = source.stat().st_size / 1e6
        # Of memory, in MiB, of a process that injects; what it loads beforehand included.
        peaks = {
            mode: [
                round(fresh(__file__, corpus, target, folder / "canaries.json", mode), 1)
                for corpus in (small, source)
            ]
            for mode in ("record", "splice")
        }
    figures = {
        job: {
            "rate": round(megabytes / middle(found, 6), 1),
            **spread("ratio", over(times["plain"], found)),
        }
        for job, found in times.items()
    }
    show(
        "injection",
        megabytes=round(megabytes, 1),
        line=given.line,
        jobs=figures,
        peaks_mib=peaks,
    )
    for before, after in peaks.values():
        assert after < MOST_MIB, peaks
        # A byte for each record where canaries are spliced, and what growing it leaves free.
        records = megabytes * 1e6 / given.line
        assert after - before < MOST_GROWTH_MIB + 8 * records / 2**20, peaks


if __name__ == "__main__":
    main()
