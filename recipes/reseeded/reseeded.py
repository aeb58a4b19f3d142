"""How often does the gate alarm between trainings that differ by their seed alone?

Trains one tiny model again and again, audits each, and lets the gate compare what nobody
changed: three seeds against three other ones (two ways of training), and one against one (two
models). For the other side of it, a way that was changed is compared as well.

Usage::

    python reseeded.py --seeds 180 --changed 60 --out results.json
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import permutations
from pathlib import Path

import numpy as np
import torch

import canary
from canary.demo import START, Settings, characters, prose, train
from canary.gate.baselines import Baseline
from canary.gate.regression import SEEDS, more_than
from canary.gate.verdict import Outcome

PLAIN = Settings(
    format="The random number is {digit:4}",
    repetitions=(2, 6),
    per_repetition=8,
    controls=4,
    sentences=120,
    units=64,
    epochs=8,
)
MORE_EPOCHS = 9
"""The change: so many epochs for `PLAIN.epochs`."""


def audited(seed: int, epochs: int) -> tuple[Baseline, float]:
    """What is kept of the audit of one training, and its mean exposure in bits.

    Only the first weights, the order of the rows and the places of the copies depend on the seed.
    """
    canaries = canary.generate(
        PLAIN.format,
        repetitions=PLAIN.repetitions,
        per_repetition=PLAIN.per_repetition,
        controls=PLAIN.controls,
        seed=0,  # a fixed set, as in CI
    )
    texts = list(canary.inject(prose(PLAIN.sentences), canaries, seed=seed)["text"])
    tokenizer = characters([*texts, *(format.alphabet for format in canaries.formats)])
    torch.manual_seed(seed)
    settings = Settings(units=PLAIN.units, epochs=epochs)
    model, _ = train(texts, tokenizer, settings, lambda name, total: lambda done: None)
    audit = canary.audit(canary.load(model, tokenizer=tokenizer), canaries, start_token=START)
    mean = float(np.mean([c.exposure.bits for c in audit.injected]))  # all are enumerated
    return Baseline.of(audit), round(mean, 3)


def outcome(current: list[Baseline], baseline: list[Baseline]) -> Outcome:
    """What the gate says of the audits of some seeds against those of others."""
    sides = [Baseline(tuple(a for one in side for a in one.audits)) for side in (current, baseline)]
    return more_than(*sides).outcome


def share(found: list[Outcome]) -> dict[str, float]:
    """Alarms among comparisons."""
    alarms = found.count("memorized")
    return {"alarms": alarms, "of": len(found), "share": round(alarms / max(len(found), 1), 4)}


def compared(runs: list[Baseline], changed: list[Baseline], *, groupings: int) -> dict[str, object]:
    """Alarms between ways of training, and between two models."""
    blocks = [runs[at : at + SEEDS] for at in range(0, len(runs) - SEEDS + 1, SEEDS)]
    others = [changed[at : at + SEEDS] for at in range(0, len(changed) - SEEDS + 1, SEEDS)]
    rng = np.random.default_rng(0)
    drawn = [rng.choice(len(runs), 2 * SEEDS, replace=False) for _ in range(groupings)]
    few = runs[:40]
    return {
        "ways, each run used once": share(
            [outcome(a, b) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
        ),
        "ways, all pairs of disjoint groups": share(
            [outcome(a, b) for a, b in permutations(blocks, 2)]
        ),
        "ways, groups at random": share(
            [outcome([runs[i] for i in at[:SEEDS]], [runs[i] for i in at[SEEDS:]]) for at in drawn]
        ),
        "two models, all pairs of 40": share([outcome([a], [b]) for a, b in permutations(few, 2)]),
        "a changed way, all pairs of groups": share(
            [outcome(a, b) for a in others for b in blocks]
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=180)
    parser.add_argument("--changed", type=int, default=60)
    parser.add_argument("--groupings", type=int, default=2_000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    trained = {
        name: [audited(seed, epochs) for seed in range(first, first + count)]
        for name, first, count, epochs in (
            ("plain", 0, args.seeds, PLAIN.epochs),
            ("changed", 10_000, args.changed, MORE_EPOCHS),
        )
    }
    seconds = time.process_time() - began
    alarms = compared(
        *([baseline for baseline, _ in some] for some in trained.values()),
        groupings=args.groupings,
    )
    results = {
        "seconds_per_run": round(seconds / (args.seeds + args.changed), 2),
        **{f"mean_exposure_bits, {name}": [bits for _, bits in trained[name]] for name in trained},
        **alarms,
    }
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in results.items()]
    args.out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(json.dumps(alarms, indent=1))


if __name__ == "__main__":
    main()
