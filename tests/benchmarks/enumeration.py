"""Rate of enumeration against the bare model step, round by round in one run.

    python tests/benchmarks/enumeration.py [--digits 6] [--rounds 5] [--threads 2]

The model, the bare step and the clock are those of `character_lstm.py`. A round times the
bare step at several batch sizes and keeps the best, then enumerates all 10^digits
candidates. One JSON line: queries per second of both, their ratio with its spread, and
which share of the enumeration lay outside the model's forward, and outside of the model and
the gathering of its states.
"""

from __future__ import annotations

from character_lstm import TimedWalker, WalkTimes, bare_rate, character_lstm, digits_tree
from figures import options, show

from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves


def main() -> None:
    given = options(bare=0.4, digits=6, rounds=5, threads=2)
    module, model = character_lstm(threads=given.threads)
    tree, batcher, times = digits_tree(model, given.digits), Batcher(model), WalkTimes(module)
    for _ in range(given.rounds):
        times.bare.append(bare_rate(module, given.bare))
        with model.open(Context(tree.context), memory_bytes=2**29) as opened:
            walker, queries = TimedWalker(opened), 0
            with times.of(walker) as clock:
                for leaves, spent in enumerate_leaves(tree, walker, batcher):
                    queries += spent
                    leaves.costs.min(initial=0.0)
        times.rates.append(queries / clock.cpu)
    show(
        "enumeration",
        queries=queries,
        threads=given.threads,
        batch=batcher._nodes.size,
        **times.beside_bare(),
    )


if __name__ == "__main__":
    main()
