"""Two runs of inject with one --out at once: corpus and placements are of one of them."""

from __future__ import annotations

import json
import subprocess
import sys

from canary.corpus.canaries import generate

RUN = """
import sys
from contextlib import redirect_stdout
from canary.cli.main import run
folder, seed, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
words = ["inject", f"{folder}/corpus.jsonl", "--canaries", f"{folder}/canaries.json"]
with redirect_stdout(sys.stderr):
    run([*words, "--out", f"{folder}/first{seed}.jsonl"])  # what is imported on the way
print("ready", flush=True)
for at in range(rounds):
    sys.stdin.readline()
    out = ["--force", "--out", f"{folder}/out{at}.jsonl"]
    with redirect_stdout(sys.stderr):
        code = run([*words, *out, "--seed", seed])
    print(code, flush=True)
"""


def test_two_runs_at_once_leave_no_mixture(tmp_path):
    rounds = 4
    canaries = generate("my pin {digit:6}", repetitions=[4], per_repetition=4, seed=0)
    canaries.save(tmp_path / "canaries.json")
    corpus = [{"text": f"text {number}"} for number in range(400)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path), str(seed), str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for seed in (1, 2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    codes = []
    for _ in range(rounds):
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        codes.append({int(process.stdout.readline()) for process in processes})
    for process in processes:
        process.communicate(timeout=60)
    assert all(0 in both and both <= {0, 2} for both in codes)
    for at in range(rounds):
        rows = (tmp_path / f"out{at}.jsonl").read_text().splitlines()
        placed = json.loads((tmp_path / f"out{at}.jsonl.placements.json").read_text())
        for canary in canaries.injected:
            lines = placed["lines"][canary.id]
            texts = {json.loads(rows[line - 1])["text"] for line in lines}
            assert texts == {canaries.text(canary)}, (at, placed["seed"])
    assert not list(tmp_path.glob(".*"))
