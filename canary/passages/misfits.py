"""Why passages may not come out of a model that memorized them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from canary.models.english import above_chance
from canary.statistics.numbers import clean
from canary.tokens.starts import start_flag

WITHOUT_TEMPLATE = (
    "the tokenizer has a chat template, and passages were measured as plain text, without it"
)


def left_out(kind: str, documents: int, short: int, repeated: int, passage: str) -> list[str]:
    """Notes on texts that were not measured."""
    notes, of = [], f"of {documents:,} {kind}"
    if short:
        notes.append(f"{short:,} {of} are shorter than {passage} and were not looked at")
    if repeated:
        notes.append(f"{repeated:,} {of} repeat another and were measured once")
    return notes


def doubts_of(
    bits: float | None, model: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """What is doubtful, and the cure, of texts whose tokens cost this many `bits` each."""
    doubts = []
    uniform = math.log2(model.get("vocabulary") or 1)
    if bits is not None and uniform and not above_chance(bits, uniform):
        problem = "the model finds the texts no more likely than random tokens "
        problem += f"({bits:.1f} bits per token; {uniform:.1f} where all are equally probable)"
        doubts.append((problem, "make sure that it is trained, and that this is its tokenizer"))
    if start := settings.get("usual_start"):
        problem = "no start token was named, and nothing came before the passages; a model that "
        problem += f"was trained with {clean(start)} before each text may repeat less without it"
        cure = f"measure again with {start_flag(start)}, or with {start_flag(None)} if nothing "
        doubts.append((problem, cure + "came before a text in training"))
    return tuple(doubts)
