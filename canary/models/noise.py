"""How far a model's numbers move when only the arithmetic changes.

The same token has slightly different log-probabilities in batches of different sizes and
computed from a held state instead of the whole row. Costs closer than that are ties.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.answered import not_finite
from canary.models.language_model import FloatArray, Ints, LanguageModel, ModelFacts
from canary.models.probing import chain_log_probs, random_rows, row_table
from canary.statistics.number_checks import LN2

_SAFETY = 4.0
_ROWS, _TOKENS = 32, 24
# Of the effect of dropping the prefix: what held states may change, and what a batch may
# where nothing is held (weights of 8 bits scale activations by the batch's largest).
_TOLERANCE, _LOOSE_TOLERANCE = 1e-3, 0.1

_UNSOUND = {
    "batch": "gives other numbers in another batch",
    "state": "gives other numbers below a held state than in whole rows",
    "future": "looks ahead: earlier tokens depend on later ones",
}

EPSILON = {"float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Rounding of the numbers of each dtype, relative."""

_CEILING = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}


def rounding(facts: ModelFacts) -> float:
    """Most that rounding moves the log-probability of a token, in nats."""
    return _CEILING.get(facts.dtype, _CEILING["float32"])


def with_measured_noise(model: Any, facts: ModelFacts) -> ModelFacts:
    """`facts` with `noise_bits_per_token` measured on random rows.

    The largest difference in the sum over a row of 24 tokens between one batch of 32
    rows, single rows, and a walk with held states, times a safety factor of 4 and spread
    over its tokens; at least 4 units of float32's rounding per token, and one of the model's
    own dtype: where all these rows happen to round alike, others do not. Costs about 3,000
    token computations.

    Raises
    ------
    ModelError
        If the model gives NaN or infinite numbers, or differences that are no rounding:
        a model that looks ahead, forgets its states, or is never the same twice. Also if
        it takes a single token at once.
    """
    model.facts = facts  # the probes below read the vocabulary and the length limit
    ids = random_rows(model, _ROWS, _TOKENS, seed=0)
    length = ids.shape[1]
    if length < 2:
        raise ModelError(
            f"the model {facts.name!r} takes 1 token at once, so it prices none: a token's "
            "probability follows from those before it",
            cure="check the length limit in its config (n_positions, max_position_embeddings)",
        )
    whole = row_table(model, ids)
    single = np.concatenate([row_table(model, [row]) for row in ids[:8]])
    siblings = ids[:3].copy()
    siblings[:, : length // 2] = ids[0, : length // 2]
    rows, chain = row_table(model, siblings), chain_log_probs(model, siblings, split=length // 2)
    if not all(np.isfinite(part).all() for part in (whole, single, rows, chain)):
        raise not_finite(facts.name)
    by_batch, by_state = whole[:8] - single, rows - chain
    _check_sound(model, ids, whole, {"batch": by_batch, "state": by_state})
    worst = max(
        float(np.abs(by_batch.sum(axis=1)).max()) / (length - 1),
        float(np.abs(by_state.sum(axis=1)).max()) / (length - 1),
        EPSILON["float32"],
    )
    noise = max(_SAFETY * worst, EPSILON.get(facts.dtype, 0.0))
    return replace(facts, noise_bits_per_token=noise / LN2)


def remeasure_noise(model: Any) -> None:
    """Give a model whose weights have changed the noise that it has now, in its facts.

    The facts are as before if it fails.

    Raises
    ------
    ModelError
        As `with_measured_noise`.
    """
    facts = model.facts
    model.facts = with_measured_noise(model, facts)


def _check_sound(
    model: LanguageModel, ids: Ints, whole: FloatArray, differences: dict[str, NDArray[Any]]
) -> None:
    """Refuse a model whose differences are too large to be rounding.

    They are judged beside what dropping the first half of a row changes, and beside the
    rounding of the dtype.
    """
    length = ids.shape[1]
    changed = ids.copy()
    changed[:, -2] = np.roll(ids[:, -2], 1)  # the last token is never read, only asked for
    differences["future"] = (row_table(model, changed) - whole)[:, : length - 3]
    half = length // 2
    alone = row_table(model, ids[:, half - 1 :])
    effect = float(np.abs(alone - whole[:, half - 1 :]).max(initial=0.0))
    for cause, difference in differences.items():
        strict = cause == "future" or "reuse" in model.facts.capabilities
        share = _TOLERANCE if strict else _LOOSE_TOLERANCE
        allowed = max(share * effect, rounding(model.facts))
        worst = float(np.abs(difference).max(initial=0.0))
        if worst > allowed:
            raise ModelError(
                f"the model {model.facts.name!r} {_UNSOUND[cause]} (the log-probability of a "
                f"token moves by {worst:.2g} nats, rounding explains {allowed:.2g})",
                cure="give a causal language model in evaluation mode whose states carry "
                "everything that came before",
            )
