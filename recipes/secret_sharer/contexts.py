"""What one knows of the text around a secret: does it change how much exposure one sees?

Table 6 and appendix A.3 of the paper. Each secret has five random letters before it and five
behind it. Who measures knows both, one or none of them; the model is the same. Dashes within
the digits are another text, and need trainings of their own.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from alone import MODEL
from run import QUICK
from study import Study, Texts, Training, injected_bits, interval
from train import Settings

import canary

FORMS = {
    "digits": "{digit:9}",
    "two dashes": "{digit:3}-{digit:2}-{digit:4}",
    "eight dashes": "-".join(["{digit:1}"] * 9),
}
NOTHING, BOTH = "nothing", "both"
EPOCHS = (5, 10)


def trainings(_: Texts, *, quick: bool) -> list[Training]:
    """The forms, three seeds of each; quick, the first two in little."""
    forms = [*FORMS][: 2 if quick else None]
    return [
        training(form, seed, quick=quick) for seed in range(1 if quick else 3) for form in forms
    ]


def training(form: str, seed: int, *, quick: bool) -> Training:
    """One training with four canaries of one copy, two if quick, and as many controls."""
    rng = np.random.default_rng((seed, len(FORMS[form])))
    letters = ["".join(rng.choice([*string.ascii_lowercase], 5)) for _ in range(4 if quick else 8)]
    around = [*zip(letters[::2], letters[1::2], strict=True)]
    hole = FORMS[form].replace(":9", ":4") if quick else FORMS[form]
    planted = canary.generate(
        [f"{before}{hole}{behind}" for before, behind in around],
        repetitions=[1],
        per_repetition=1,
        controls=1,
        seed=seed,
    )
    alike = tuple(replace(one, format=0) for one in planted)
    views = {NOTHING: replace(planted, formats=(canary.Format(hole),), canaries=alike)}
    if form == "digits":
        for known, sides in {
            "letters before": [before + hole for before, _ in around],
            "letters behind": [hole + behind for _, behind in around],
        }.items():
            views[known] = replace(planted, formats=tuple(map(canary.Format, sides)))
    return Training(
        name=f"{form.replace(' ', '-')}-seed-{seed}",
        about={"form": form, "seed": seed},
        settings=replace(
            QUICK["training"] if quick else Settings(epochs=EPOCHS[-1], batch=16), seed=seed
        ),
        canaries=planted,
        model=QUICK["model"] if quick else MODEL,
        views=views,
    )


def summary(results: Mapping[str, Any]) -> str:
    """Median exposure of the secrets by form and by what is known, at two epochs."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for row in results["trainings"].values():
        if "variants" in row:
            last = len(row["epochs"])
            at = [row["epochs"][epoch - 1] for epoch in (last * EPOCHS[0] // EPOCHS[1], last)]
            seen = {name: [{"canaries": e["views"][name]} for e in at] for name in at[0]["views"]}
            for known, moments in {**seen, BOTH: at}.items():
                bits = [injected_bits(moment) for moment in moments]
                found.setdefault((row["about"]["form"], known), []).append(bits)
    lines = [
        f"| secret | known | trainings | exposure at epoch {EPOCHS[0]}, bits | at epoch "
        f"{EPOCHS[1]} |",
        "| --- | --- | ---: | --- | --- |",
    ]
    for (form, known), rows in found.items():
        cells = [interval(side) for side in zip(*rows, strict=True)]
        lines.append(f"| {form} | {known} | {len(rows)} | {' | '.join(cells)} |")
    differences = []
    for more, less in (BOTH, NOTHING), ("letters before", "letters behind"):
        if ("digits", more) not in found:
            continue
        pairs = zip(found["digits", more], found["digits", less], strict=True)
        gains = [one[-1] - other[-1] for one, other in pairs]
        each = ", ".join(f"{gain:.1f}" for gain in gains)
        differences.append(f"{more} minus {less} {interval(gains)}: {each}")
    if differences:
        lines += ["", f"Differences at epoch {EPOCHS[1]}, digits, bits: {'; '.join(differences)}."]
    return "\n".join(lines) + "\n"


STUDY = Study("context", trainings, summary, share=0.05)
