"""Which stronger attacks a test did not make: a calm result is one against its own attacks only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from canary.membership.attacks import ATTACKS
from canary.statistics.numbers import plural

Kind = Literal["shadow", "models", "texts"]
"""Of a test: by a shadow, by many models, or of texts."""

REFERENCES = "attacks with many reference models (LiRA and RMIA)"
"""The strongest on a classifier."""

_TRAIN = (
    "train models like the target on random halves of the same samples, for example 16, and give "
    "the outputs of all to canary membership models (in Python "
    "canary.survey_models)"
)


def not_made(kind: Kind, names: Collection[str]) -> tuple[str, str]:
    """The stronger attacks that are not among `names`, and how to make them; empty if none."""
    if kind == "texts":
        if "reference" in names:
            return "", ""
        return (
            "the attack reference, which compares with another model",
            "repeat the test with --reference, a similar model that was not trained on the members "
            "(in Python reference=)",
        )
    if kind == "models":
        if not any(name.startswith(("lira", "rmia")) for name in names):
            return REFERENCES, "repeat the test with --attacks all (in Python attacks)"
        if any(name.startswith("lira-online") or name == "rmia" for name in names):
            return "", ""
        return (
            "the online attacks of LiRA and RMIA",
            "give models of which some were trained on each sample and some were not, as random "
            "halves are, and repeat the test with --attacks all (in Python attacks)",
        )
    left = [
        name for name, attack in ATTACKS.items()
        if attack.judge is None and attack.signal != "gradient-norm" and name not in names
    ]  # fmt: skip
    if not left:
        return REFERENCES, _TRAIN
    more = f"{plural(len(left), 'other attack')} with a shadow"
    return (
        f"{REFERENCES}, and {more}",
        f"{_TRAIN}. Make the others with --attacks all, on outputs of all classes",
    )
