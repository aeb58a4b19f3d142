"""Runs the studies of the recipe, one after the other, in one process.

Usage::

    python studies.py --data DIR --work WORK                 all of them, in order
    python studies.py one-copy --data DIR --work WORK        one of them
    python studies.py one-copy --work WORK --quick           in little, on Python's prose

Each study says its hours first and keeps `results.json` and `summary.md` in its folder of WORK,
which must be outside the repository. Started again, it goes on where it was.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from pathlib import Path

import batches
import contexts
import dp_sgd
import one_copy
import optimizers
import orders
import other_networks
import overtraining
import regularization
import strategies
import torch
import words
from study import run

MODULES = (
    one_copy,
    regularization,
    batches,
    orders,
    optimizers,
    strategies,
    other_networks,
    contexts,
    dp_sgd,
)
STUDIES = {
    study.name: study
    for study in (
        *(module.STUDY for module in MODULES),
        words.WORDS,
        words.CHARACTERS,
        overtraining.TOO_LONG,
        overtraining.FIRST,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--data", type=Path, help="holds ptb/; not needed with --quick")
    parser.add_argument("--work", type=Path, required=True, help="outside the repository")
    parser.add_argument("--quick", action="store_true", help="in little, four digits")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    unknown = sorted(set(args.studies) - set(STUDIES))
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such study; choose from {', '.join(STUDIES)}")
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    with (args.work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"{args.work}: another process is working there; read its log")
        for name in args.studies or STUDIES:
            print(run(STUDIES[name], args.data, args.work / name, quick=args.quick))


if __name__ == "__main__":
    main()
