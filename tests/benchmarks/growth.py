"""Time and memory of enumeration as the space grows a thousandfold.

    python tests/benchmarks/growth.py [--digits 5 6 7 8] [--batch 1024]

The model and the clock are those of `character_lstm.py`. All numbers of five, six, seven and
eight digits are enumerated, each in a fresh process whose peak of memory is taken: 11,110 to
11,111,110 queries. The batch size is fixed, so that all walk alike. One JSON line: for each
size queries, seconds, microseconds per query and the peak in MiB; `exponent` is that of the
growth of seconds with queries, from the first size to the last (1 is linear), and
`growth_mib` by how much the peak grows. (Linux: it reads /proc.)
"""

from __future__ import annotations

import json
import math

from character_lstm import character_lstm, digits_tree
from figures import Clock, child, fresh, options, peak_mib, show

from canary.models.language_model import Context
from canary.scoring.batcher import Batcher
from canary.search.enumerate import enumerate_leaves

MEMORY_BYTES = 2**26
MOST_GROWTH_MIB = 16


def enumerated(digits: int, batch: int) -> dict[str, float]:
    _, model = character_lstm(threads=1)
    tree, batcher = digits_tree(model, digits), Batcher(model, batch_size=batch)
    queries = 0
    with Clock() as clock, model.open(Context(tree.context), memory_bytes=MEMORY_BYTES) as walker:
        for leaves, spent in enumerate_leaves(tree, walker, batcher):
            queries += spent
            leaves.costs.min(initial=0.0)
    return {
        "digits": digits,
        "queries": queries,
        "seconds": round(clock.cpu, 3),
        "microseconds_per_query": round(1e6 * clock.cpu / queries, 2),
        "peak_mib": round(peak_mib(), 1),
    }


def main() -> None:
    if (words := child()) is not None:
        print(json.dumps(enumerated(*map(int, words))))
        return
    given = options(digits=[5, 6, 7, 8], batch=1024)
    sizes = [fresh(__file__, digits, given.batch) for digits in given.digits]
    first, last = sizes[0], sizes[-1]
    growth = last["peak_mib"] - first["peak_mib"]
    exponent = math.log(last["seconds"] / first["seconds"]) / math.log(
        last["queries"] / first["queries"]
    )
    show(
        "growth",
        batch=given.batch,
        sizes=sizes,
        exponent=round(exponent, 3),
        growth_mib=round(growth, 1),
    )
    assert growth < MOST_GROWTH_MIB, sizes


if __name__ == "__main__":
    main()
