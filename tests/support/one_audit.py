# ruff: noqa: T201
"""How much of the package one audit passes through: functions and files.

``python tests/support/one_audit.py`` loads a small recurrent model, audits a space of 1,000,
writes its summary and report, and prints how many functions in how many files were called.
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
from collections import Counter
from pathlib import Path

from small_models import character_tokenizer, recurrent_module

import canary

PACKAGE = Path(canary.__file__).parent


def main_job(canaries, folder):
    model = canary.load(recurrent_module("LSTM"), tokenizer=character_tokenizer())
    audit = canary.audit(model, canaries, start_token=None)
    audit.summary()
    canary.report(audit, folder / "report.html")


def passed_through(folder):
    """(file, line, function) of the package that the audit calls; lambdas are left out."""
    canaries = canary.generate("my code is {digit:3}", repetitions=[1, 4], seed=1)
    main_job(canaries, folder)  # imports what it needs: class bodies look like functions
    profile = cProfile.Profile()
    profile.runcall(main_job, canaries, folder)
    called = set()
    for path, line, name in pstats.Stats(profile).stats:
        if path.startswith(str(PACKAGE)) and not name.startswith("<"):
            called.add((str(Path(path).relative_to(PACKAGE)), line, name))
    return called


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        called = passed_through(Path(folder))
    files = Counter(path for path, _, _ in called)
    print(f"{len(called)} functions in {len(files)} files")
    for path, count in sorted(files.items()):
        print(f"{count:4d} {path}")
