"""Coverage and cost of the probability of coming near a suffix.

    python tests/benchmarks/near.py [--cases 1000] [--width 80] [--seed 7] [--text 1]

Each case is a table model that has memorized a text more or less, whose exact mass is known. With
``--text 1`` edits are those of characters.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from figures import options, show

from canary.models.decoding import Scheme
from canary.models.language_model import Context, Rows
from canary.passages.edits import TokenAutomaton
from canary.passages.near_walk import near_mass
from canary.passages.text_edits import TextAutomaton, Vocabulary
from canary.scoring.batcher import Batcher

sys.path.append(str(Path(__file__).parents[1] / "support"))

from chains import chain_model, exact_mass, exact_text_mass

WORDS = [b"a", b"e", b" th", b" the", b"re", b" ca", b"t", b" sat", b"on", b" on", b" mat", None]


def case(seed: int, width: int, text: int):
    """The truth, an estimate, and the length of the suffix."""
    rng = np.random.default_rng(seed)
    length, edits = int(rng.integers(8, 16)), int(rng.integers(1, 4))
    sizes = {"vocabulary": int(rng.integers(4, 14)), "states": int(rng.integers(3, 12))}
    if text:
        length, edits = int(rng.integers(5, 9)), int(rng.integers(1, 6))
        sizes = {"vocabulary": len(WORDS), "states": int(rng.integers(3, 6))}
    model, suffix = chain_model(rng, length=length, sure=rng.uniform(0.3, 0.9), **sizes)
    if text:
        suffix = np.where(suffix == len(WORDS) - 1, 0, suffix).astype(np.int32)
    batcher, scheme = Batcher(model), Scheme()
    automaton = TokenAutomaton(suffix, edits)
    if text:
        automaton = TextAutomaton(suffix, edits, Vocabulary(WORDS))
    rows = Rows.of([[0, *suffix.tolist()]])
    logs = batcher.decoded(rows, [scheme]).log_probs[:, 0].astype(np.float64)
    with model.open(Context(np.zeros(1, np.int32)), memory_bytes=2**24) as walker:
        options = {"scheme": scheme, "log_probs": logs, "width": width, "rng": rng}
        return (
            exact_text_mass(model, suffix, edits, WORDS)
            if text
            else exact_mass(model, suffix, edits),
            near_mass(walker, batcher, automaton, **options),
            length,
        )


def main() -> None:
    given = options(cases=1000, width=80, seed=7, text=0)
    above, below, errors, unhit = 0, 0, [], 0
    for number in range(given.cases):
        truth, found, length = case(10**6 * (given.seed + 1) + number, given.width, given.text)
        if found.exact:
            continue
        unhit += found.deviation == 0.0
        low, high = found.interval(0.95)
        above, below = above + (truth < low), below + (truth > high)
        plain = truth * (1 - truth) / (found.queries / length)
        errors.append((truth, plain / truth**2, ((found.mass - truth) / truth) ** 2))
    gains = {}
    for least, most in ((1e-3, 1e-2), (1e-2, 0.1), (0.1, 1.0)):
        mine = [each for each in errors if least < each[0] <= most]
        if mine:
            gain = sum(plain for _, plain, _ in mine) / sum(error for *_, error in mine)
            gains[f"masses {least:g} to {most:g}"] = {"cases": len(mine), "gain": gain}
    show(
        "near",
        cases_with_draws=len(errors),
        in_which_no_draw_hit=int(unhit),
        covered_by_95_percent_intervals=1 - (above + below) / max(len(errors), 1),
        intervals_above_the_truth=int(above),
        intervals_below_it=int(below),
        queries_of_samples_of_equal_deviation=gains,
    )


if __name__ == "__main__":
    main()
