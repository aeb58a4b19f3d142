"""One canary of one copy: does company in its format change its exposure?

A pair of trainings decides: the same canary, first weights and order of the other lines, once
alone and once beside 23 canaries of its format (588 copies in all). The difference within a
pair is what company does; it has an interval over pairs, each with a canary, weights and
order of its own. One training gives one canary alone: a second one, in whatever format, would
be company, and a common trunk would show the canary less often. The company of a pair has
three more single copies, which show the spread over canaries within one training. A third
arm puts the company under another prefix, to separate the prefix from the digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from alone import FORMATS, MODEL
from run import FULL, QUICK
from study import Study, Texts, Training, interval

import canary

# Two arms are compared at every batch size; the third at the first one only, at the end.
PAIRS = ("alone", "shared")
OTHER_PREFIX = "other prefix"


def trainings(_: Texts, *, quick: bool) -> list[Training]:
    """The trainings in the order in which they answer the question."""
    batches, seeds = ((16,), (0, 1)) if quick else ((64, 128, 256), (0, 1, 2))
    planned = [
        *product(batches, seeds, PAIRS),
        *product(batches[:1], seeds[quick:], [OTHER_PREFIX]),
    ]
    return [training(batch, seed, arm, quick=quick) for batch, seed, arm in planned]


def training(batch: int, seed: int, arm: str, *, quick: bool) -> Training:
    """One arm of a pair. All arms of a batch size and seed have the same canary."""
    plan: Mapping[str, Any] = QUICK | {"repetitions": [1, 10]} if quick else FULL
    own = 1000 * seed + batch
    drawn = {name: plan[name] for name in ("repetitions", "per_repetition", "controls")}
    every = canary.generate(plan["format"], seed=own, **drawn)
    first, *others = every.injected
    alone = replace(every, canaries=(first, *every.controls))
    company = replace(every, canaries=tuple(others))
    if arm == OTHER_PREFIX:
        digits = plan["format"][plan["format"].index("{") :]
        other = FORMATS[1].replace("{digit:9}", digits)
        company = replace(company, formats=(canary.Format.of(other),))
    return Training(
        name=f"{arm.replace(' ', '-')}-batch-{batch}-seed-{seed}",
        about={"arm": arm, "batch": batch, "seed": seed},
        settings=replace(plan["training"], batch=batch, seed=own),
        canaries=alone,
        company=None if arm == "alone" else company,
        model=QUICK["model"] if quick else MODEL,
        curve=True,
    )


def summary(results: Mapping[str, Any]) -> str:
    """The canary's exposure in each arm, and the differences of pairs, with intervals."""
    found = {
        (row["about"]["batch"], row["about"]["seed"], row["about"]["arm"]): row["epochs"][-1]
        for row in results["trainings"].values()
        if "variants" in row
    }
    bits = {key: epoch["canaries"][0]["bits"] for key, epoch in found.items()}
    lines = [
        "| company | batch | test loss, nats/char | exposure of each canary alone → in company, "
        "bits | difference: mean (95 % interval), bits |",
        "| --- | ---: | ---: | --- | --- |",
    ]
    for arm in ("shared", OTHER_PREFIX):
        pairs = [key for key in bits if key[2] == arm and (*key[:2], "alone") in bits]
        batches = list(dict.fromkeys(batch for batch, _, _ in pairs))
        rows = [(str(b), [k for k in pairs if k[0] == b]) for b in batches]
        for name, keys in [*rows, ("all", pairs)] if len(rows) > 1 else rows:
            both = [(bits[*key[:2], "alone"], bits[key]) for key in keys]
            nats = np.mean([found[key]["test_nats"] for key in keys])
            shown = ", ".join(f"{alone:.1f} → {beside:.1f}" for alone, beside in both)
            less = interval([beside - alone for alone, beside in both])
            lines.append(f"| {arm} | {name} | {nats:.3f} | {shown} | {less} |")
    singles = [
        [c["bits"] for c in epoch["canaries"] if c["copies"] == 1]
        for key, epoch in found.items()
        if key[2] == "shared"
    ]
    if singles:
        within = np.sqrt(np.mean([np.var(bits, ddof=1) for bits in singles]))
        lines += [
            "",
            f"Single copies in the shared arm: {len(singles)} trainings of {len(singles[0])}; "
            f"mean {interval([float(np.mean(bits)) for bits in singles])} bits; standard "
            f"deviation over canaries within a training {within:.1f} bits.",
        ]
    return "\n".join(lines) + "\n"


STUDY = Study("one-copy", trainings, summary)
