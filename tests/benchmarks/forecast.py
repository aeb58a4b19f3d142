"""What `canary plan --model` says before, against what the same methods take afterwards.

    python tests/benchmarks/forecast.py [--model FOLDER] [--format FORMAT ...]

Without --model, an LSTM of characters with random weights.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from character_lstm import character_lstm

from canary.audits.auditing import METHODS
from canary.audits.forecast import forecast, peak_bytes
from canary.audits.method import Cost
from canary.audits.question import AuditOptions, questions_of
from canary.corpus.canaries import generate
from canary.models.loading import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--format", action="append")
    parser.add_argument("--methods", default="enumeration,sampling,importance,rank")
    parser.add_argument("--budget", type=int, default=1_200_000)
    parser.add_argument("--draws", type=int, default=20_000)
    asked = parser.parse_args()
    model = load(asked.model) if asked.model else character_lstm(threads=1)[1]
    print(model.facts)
    for format in asked.format or ["the code is {digit:6}"]:
        canaries = generate(format, repetitions=(1, 4), per_repetition=8, controls=16, seed=0)
        options = AuditOptions(budget=asked.budget, draws=asked.draws, start_token=None)
        began = time.perf_counter()
        said = {m.method: m for m in forecast(model, canaries, options).methods}
        print(f"{format}: forecast in {time.perf_counter() - began:.1f} s")
        for method in asked.methods.split(","):
            (question,) = questions_of(model, canaries, replace(options, method=method))
            kind = next(
                m for m in METHODS.values() if m.answers == (method,) or method in m.answers
            )
            cost = kind.cost(question)
            if not isinstance(cost, Cost):
                print(f"  {method}: {cost.reason}")
                continue
            clock, processor = time.perf_counter(), time.process_time()
            found = kind.measure(question, cost)
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            was = said[kind.name]
            print(
                f"  {method}: queries {was.queries:,} / {found.queries:,} = "
                f"{was.queries / found.queries:.2f}; processor {was.processor_seconds:.1f} / "
                f"{processor:.1f} s = {was.processor_seconds / processor:.2f}; clock "
                f"{was.seconds:.1f} / {clock:.1f} = {was.seconds / clock:.2f}; bytes "
                f"{was.bytes / 1e6:,.0f} / {peak_bytes(model) / 1e6:,.0f} MB"
            )


if __name__ == "__main__":
    main()
