"""One canary of one copy: does company in its format change its exposure?

A pair of trainings decides: the same four canaries of one copy, each in a format of its own, the
same first weights and order of the other lines. In one of the two, two of the formats have 24
more canaries each, 588 copies. The difference within a pair is what company does; it has
an interval over pairs, each with canaries, weights and order of its own. The two formats without
company show what the same lines do under another prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from run import FULL, QUICK
from study import MODEL, Study, Texts, Training, difference, interval, own_formats

import canary

EPOCHS = 6
ARMS = ("alone", "shared")


def trainings(texts: Texts, *, quick: bool) -> list[Training]:
    """The trainings, pair by pair."""
    batches, seeds = ((16,), (0, 1)) if quick else ((64, 128, 256), (0, 1, 2))
    return [
        training(texts, batch, seed, arm, quick=quick)
        for batch, seed, arm in product(batches, seeds, ARMS)
    ]


def training(texts: Texts, batch: int, seed: int, arm: str, *, quick: bool) -> Training:
    """One arm of a pair. Both arms of a batch size and seed have the same canaries."""
    plan: Mapping[str, Any] = QUICK | {"repetitions": [1, 10]} if quick else FULL
    own = 1000 * seed + batch
    alone = own_formats(texts, own, quick=quick, count=4)
    beside = len(alone.formats) // 2
    company = canary.generate(
        alone.formats[:beside],
        repetitions=plan["repetitions"],
        per_repetition=plan["per_repetition"],
        controls=0,
        seed=own + 1,
    )
    epochs = plan["training"].epochs if quick else EPOCHS
    return Training(
        name=f"{arm}-batch-{batch}-seed-{seed}",
        about={"arm": arm, "batch": batch, "seed": seed, "with_company": beside},
        settings=replace(plan["training"], batch=batch, seed=own, epochs=epochs),
        canaries=alone,
        company=None if arm == "alone" else company,
        model=QUICK["model"] if quick else MODEL,
        curve=True,
    )


def summary(results: Mapping[str, Any]) -> str:
    """The canaries' exposure in each arm, and the differences of pairs, with intervals."""
    arms: dict[str, dict[tuple[int, int], Mapping[str, Any]]] = {arm: {} for arm in ARMS}
    beside = 0
    for row in results["trainings"].values():
        if "variants" in row:
            about = row["about"]
            arms[about["arm"]][about["batch"], about["seed"]] = row["epochs"][-1]
            beside = about["with_company"]
    pairs = [pair for pair in arms["shared"] if pair in arms["alone"]]
    batches = list(dict.fromkeys(batch for batch, _ in pairs))
    rows = [(str(batch), [pair for pair in pairs if pair[0] == batch]) for batch in batches]
    lines = [
        "| company in | batch | test loss, nats/char | exposure of each canary, bits, alone → in "
        "company | difference: mean (95 % interval), bits |",
        "| --- | ---: | --- | --- | --- |",
    ]
    own = 2 * beside
    for where, part in ("the same format", slice(beside)), ("other formats", slice(beside, own)):
        for name, of_it in [*rows, ("all", pairs)] if len(rows) > 1 else rows:
            bits = [[single_copies(arms[arm][pair])[part] for arm in ARMS] for pair in of_it]
            loss = (np.mean([arms[arm][pair]["test_nats"] for pair in of_it]) for arm in ARMS)
            shown = "; ".join(
                ", ".join(f"{a:.1f} → {b:.1f}" for a, b in zip(*arm, strict=True)) for arm in bits
            )
            more = interval([float(np.mean(b) - np.mean(a)) for a, b in bits])
            nats = " → ".join(f"{one:.3f}" for one in loss)
            lines.append(f"| {where} | {name} | {nats} | {shown} | {more} |")
    if len(batches) > 1:
        curves = {
            batch: [
                row["epochs"]
                for row in results["trainings"].values()
                if "variants" in row and row["about"]["arm"] == "alone"
                if row["about"]["batch"] == batch
            ]
            for batch in batches
        }
        lines += ["", *at_equal_loss(curves)]
    company = [single_copies(epoch)[own:] for epoch in arms["shared"].values()]
    if company:
        within = np.sqrt(np.mean([np.var(bits, ddof=1) for bits in company]))
        mean = interval([float(np.mean(bits)) for bits in company])
        lines += [
            "",
            f"Single copies of the company: {len(company)} trainings of {len(company[0])}; mean "
            f"{mean} bits; standard deviation over canaries within a training {within:.1f} bits.",
        ]
    return "\n".join(lines) + "\n"


def at_equal_loss(curves: Mapping[int, Sequence[Sequence[Mapping[str, Any]]]]) -> list[str]:
    """Table of the exposure of each batch size, alone, at a test loss that every training reaches.

    `curves` has the epochs of each training; values between two epochs are interpolated.
    """
    reached = max(epochs[-1]["test_nats"] for rows in curves.values() for epochs in rows)
    if any(epochs[0]["test_nats"] < reached for rows in curves.values() for epochs in rows):
        return [f"No loss that all pass: one ends at {reached:.3f}, another begins below it."]
    lines = [
        f"| batch | trainings | epochs until the test loss is {reached:.3f} | exposure there, bits "
        "| against the first row | at the end |",
        "| ---: | ---: | ---: | --- | --- | --- |",
    ]
    first: list[float] = []
    for batch, rows in curves.items():
        passes, there = np.transpose([passing(epochs, reached) for epochs in rows]).tolist()
        ends = [float(np.mean(single_copies(epochs[-1]))) for epochs in rows]
        lines.append(
            f"| {batch} | {len(rows)} | {np.mean(passes):.1f} | {interval(there)} "
            f"| {difference(there, first)} | {interval(ends)} |"
        )
        first = first or there
    return lines


def passing(epochs: Sequence[Mapping[str, Any]], nats: float) -> list[float]:
    """The epoch in which the test loss first falls to `nats`, and the mean exposure there."""
    after = next(place for place, epoch in enumerate(epochs) if epoch["test_nats"] <= nats)
    around = epochs[max(after - 1, 0) : after + 1]
    losses = [-epoch["test_nats"] for epoch in around]
    values = [e["epoch"] for e in around], [np.mean(single_copies(e)) for e in around]
    return [float(np.interp(-nats, losses, of_epochs)) for of_epochs in values]


def single_copies(epoch: Mapping[str, Any]) -> list[float]:
    """Exposures of the single copies: those of the pair first, then those of the company."""
    return [one["bits"] for one in epoch["canaries"] if one["copies"] == 1]


STUDY = Study("one-copy", trainings, summary)
