"""What `canary plan --model` says before, against what the same methods take afterwards.

    python tests/benchmarks/forecast.py [--model FOLDER] [--format FORMAT ...]
    python tests/benchmarks/forecast.py --model FOLDER --whole --start-token TOKEN

Without --model, an LSTM of characters with random weights. `--whole` compares with a whole
audit of 20 canaries and 200 draws, with its checks, each in a process of its own for its peak of
memory, after loading; with an extraction that spends its budget; and with a verbatim pass of 50
texts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pydoc_data.topics import topics

import torch
from character_lstm import character_lstm
from figures import Clock, show

from canary.audits.auditing import audit
from canary.audits.choosing import METHODS
from canary.audits.extracting import extract
from canary.audits.forecast import forecast
from canary.audits.method import Cost
from canary.audits.question import AuditOptions, questions_of
from canary.corpus.canaries import generate
from canary.models.language_model import peak_memory
from canary.models.loading import load
from canary.passages.passages_forecast import passages_forecast
from canary.passages.verbatim import verbatim

WHOLE = "The random number is {digit:9}"
TOP = 48  # candidates that the extraction searches
METHOD = {"audit": "uniform draws", "extraction": "extraction"}


def one(step: str, folder: str, start: str, spent: int) -> None:
    """A forecast, or what was forecast, in this process alone."""
    torch.set_num_threads(1)
    model, found = load(folder), {}
    texts = [topics[name][:700] for name in sorted(topics) if len(topics[name]) > 800][:50]
    if step == "verbatim":
        found["said"] = passages_forecast(model, texts, start_token=start).seconds
    canaries = generate(WHOLE, repetitions=(1, 4), per_repetition=2, controls=16, seed=0)
    with Clock() as clock:
        if step == "said":
            options = AuditOptions(draws=200, start_token=start)
            said = forecast(model, canaries, options, extraction_budget=spent)
            found = {m.method: vars(m) for m in said.parts if not m.reason}
            found["checks"] = said.check_seconds
        elif step == "audit":
            made = audit(model, canaries, draws=200, method="sampling", start_token=start)
            found["queries"] = made.formats[0].queries
        elif step == "extraction":
            asked = {"budget": spent, "top": TOP, "start_token": start}
            found["queries"] = extract(model, WHOLE, **asked).queries
        else:
            found["windows"] = len(verbatim(model, texts, start_token=start).texts)
    found |= {"clock": clock.wall, "processor": clock.cpu, "bytes": peak_memory(model)}
    print(json.dumps(found))


def whole(folder: str, start: str, spent: int) -> None:
    found = {}
    for step in ("said", "audit", "extraction", "verbatim"):
        command = [sys.executable, __file__, "--model", folder, "--start-token", start]
        command += ["--spent", str(spent)]
        done = subprocess.run([*command, "--step", step], stdout=subprocess.PIPE, check=True)
        found[step] = json.loads(done.stdout.splitlines()[-1])
    figures = {}
    for step, method in METHOD.items():
        said, was = found["said"][method], found[step]
        figures[step] = {
            "queries": [said["queries"], was["queries"]],
            "processor": [round(said["processor_seconds"], 1), round(was["processor"], 1)],
            "clock": [round(said["seconds"], 1), round(was["clock"], 1)],
            "megabytes": [round(said["bytes"] / 1e6), round(was["bytes"] / 1e6)],
            "said_over_taken": round(said["processor_seconds"] / was["processor"], 2),
        }
    was = found["verbatim"]
    figures["verbatim"] = {
        "windows": was["windows"],
        "clock": [round(was["said"], 1), round(was["clock"], 1)],
        "megabytes": round(was["bytes"] / 1e6),
        "said_over_taken": round(was["said"] / was["clock"], 2),
    }
    show("forecast", checks=round(found["said"]["checks"], 1), said_and_taken=figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--format", action="append")
    parser.add_argument("--methods", default="enumeration,sampling,importance,rank")
    parser.add_argument("--budget", type=int, default=1_200_000)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--start-token")
    parser.add_argument("--spent", type=int, default=10_000)  # queries of the extraction
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--step")
    asked = parser.parse_args()
    if asked.step:
        one(asked.step, asked.model, asked.start_token, asked.spent)
    elif asked.whole:
        whole(asked.model, asked.start_token, asked.spent)
    else:
        alone(asked)


def alone(asked: argparse.Namespace) -> None:
    """The methods, without the checks of an audit."""
    model = load(asked.model) if asked.model else character_lstm(threads=1)[1]
    ratios = {}
    for format in asked.format or ["the code is {digit:6}"]:
        canaries = generate(format, repetitions=(1, 4), per_repetition=8, controls=16, seed=0)
        options = AuditOptions(budget=asked.budget, draws=asked.draws, start_token=None)
        expected = forecast(model, canaries, options)
        said = {m.method: m for m in expected.methods}
        for method in asked.methods.split(","):
            (question,) = questions_of(model, canaries, replace(options, method=method))
            kind = next(
                m for m in METHODS.values() if m.answers == (method,) or method in m.answers
            )
            cost = kind.cost(question)
            if not isinstance(cost, Cost):
                continue  # it does not fit
            with Clock() as taken:
                found = kind.measure(question, cost)
            was, checks = said[kind.name], expected.check_seconds  # here on the method alone
            ratios[f"{format}: {method}"] = {
                "queries": round(was.queries / found.queries, 2),
                "processor": round((was.processor_seconds - checks) / max(taken.cpu, 1e-9), 2),
                "clock": round((was.seconds - checks) / max(taken.wall, 1e-9), 2),
                "megabytes": [round(was.bytes / 1e6), round(peak_memory(model) / 1e6)],
            }
    show("forecast", said_over_taken=ratios)


if __name__ == "__main__":
    main()
