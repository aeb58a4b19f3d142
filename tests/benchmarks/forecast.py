"""What `canary plan --model` says before, against what the same methods take afterwards.

    python tests/benchmarks/forecast.py [--model FOLDER] [--format FORMAT ...]

Without --model, an LSTM of characters with random weights.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from character_lstm import character_lstm
from figures import show

from canary.audits.choosing import METHODS
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
    ratios = {}
    for format in asked.format or ["the code is {digit:6}"]:
        canaries = generate(format, repetitions=(1, 4), per_repetition=8, controls=16, seed=0)
        options = AuditOptions(budget=asked.budget, draws=asked.draws, start_token=None)
        said = {m.method: m for m in forecast(model, canaries, options).methods}
        for method in asked.methods.split(","):
            (question,) = questions_of(model, canaries, replace(options, method=method))
            kind = next(
                m for m in METHODS.values() if m.answers == (method,) or method in m.answers
            )
            cost = kind.cost(question)
            if not isinstance(cost, Cost):
                continue  # it does not fit
            clock, processor = time.perf_counter(), time.process_time()
            found = kind.measure(question, cost)
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            was = said[kind.name]
            ratios[f"{format}: {method}"] = {
                "queries": round(was.queries / found.queries, 2),
                "processor": round(was.processor_seconds / max(processor, 1e-9), 2),
                "clock": round(was.seconds / max(clock, 1e-9), 2),
                "megabytes": [round(was.bytes / 1e6), round(peak_bytes(model) / 1e6)],
            }
    show("forecast", said_over_taken=ratios)


if __name__ == "__main__":
    main()
