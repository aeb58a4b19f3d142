"""How far a model's numbers move when only the arithmetic changes.

The same token has slightly different log-probabilities in batches of different sizes and
computed from a held state instead of the whole row. Costs closer than that are ties.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError, NotFiniteError
from canary.models.language_model import Children, Context, LanguageModel, ModelFacts, Nodes, Rows
from canary.statistics.units import LN2

__all__ = [
    "CEILING",
    "EPSILON",
    "NOISE_TOKENS",
    "chain_log_probs",
    "no_log_probs",
    "not_finite",
    "not_normalised",
    "remeasure_noise",
    "with_measured_noise",
]

_SAFETY = 4.0
_ROWS = 32
# Of the effect of dropping the prefix: what held states may change, and what a batch may
# where nothing is held (weights of 8 bits scale activations by the batch's largest).
_TOLERANCE, _LOOSE_TOLERANCE = 1e-3, 0.1
NOISE_TOKENS = 24
"""Length of the rows on which noise is measured."""

CEILING = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}
"""Most that rounding moves the log-probability of a token, in nats, by dtype."""

_UNSOUND = {
    "batch": "gives other numbers in another batch",
    "state": "gives other numbers below a held state than in whole rows",
    "future": "looks ahead: earlier tokens depend on later ones",
}

EPSILON = {"float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Rounding of the numbers of each dtype, relative."""


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
    rng = np.random.default_rng(0)
    length = min(NOISE_TOKENS, facts.length_limit or NOISE_TOKENS)
    if length < 2:
        raise ModelError(
            f"the model {facts.name!r} takes 1 token at once, so it prices none: a token's "
            "probability follows from those before it",
            cure="check the length limit in its config (n_positions, max_position_embeddings)",
        )
    ids = rng.integers(0, min(facts.vocabulary, model.tokenizer.size), (_ROWS, length))
    whole = model.score(Rows.of(ids.tolist())).reshape(_ROWS, length - 1)
    single = np.stack([model.score(Rows.of([row])) for row in ids[:8].tolist()])
    siblings = ids[:3].copy()
    siblings[:, : length // 2] = ids[0, : length // 2]
    rows = model.score(Rows.of(siblings.tolist())).reshape(len(siblings), length - 1)
    chain = chain_log_probs(model, siblings, split=length // 2)
    if not all(np.isfinite(part).all() for part in (whole, single, rows, chain)):
        raise not_finite(facts.name)
    _check_sound(model, ids, whole, {"batch": whole[:8] - single, "state": rows - chain})
    worst = max(
        float(np.abs((whole[:8] - single).sum(axis=1)).max()) / (length - 1),
        float(np.abs((rows - chain).sum(axis=1)).max()) / (length - 1),
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
    model: LanguageModel,
    ids: NDArray[np.int64],
    whole: NDArray[np.float32],
    differences: dict[str, NDArray[Any]],
) -> None:
    """Refuse a model whose differences are too large to be rounding.

    They are judged beside what dropping the first half of a row changes, and beside the
    rounding of the dtype: `CEILING`.
    """
    length = ids.shape[1]
    changed = ids.copy()
    changed[:, -2] = np.roll(ids[:, -2], 1)  # the last token is never read, only asked for
    again = model.score(Rows.of(changed.tolist())).reshape(whole.shape)
    differences["future"] = (again - whole)[:, : length - 3]
    half = length // 2
    alone = model.score(Rows.of(ids[:, half - 1 :].tolist())).reshape(len(ids), -1)
    effect = float(np.abs(alone - whole[:, half - 1 :]).max(initial=0.0))
    rounding = CEILING.get(model.facts.dtype, CEILING["float32"])
    for cause, difference in differences.items():
        strict = cause == "future" or "reuse" in model.facts.capabilities
        allowed = max((_TOLERANCE if strict else _LOOSE_TOLERANCE) * effect, rounding)
        worst = float(np.abs(difference).max(initial=0.0))
        if worst > allowed:
            raise ModelError(
                f"the model {model.facts.name!r} {_UNSOUND[cause]} (the log-probability of a "
                f"token moves by {worst:.2g} nats, rounding explains {allowed:.2g})",
                cure="give a causal language model in evaluation mode whose states carry "
                "everything that came before",
            )


def not_finite(name: str) -> NotFiniteError:
    """The error for a model whose log-probabilities are NaN or infinite."""
    return NotFiniteError(
        f"the model {name!r} gives log-probabilities that are not finite numbers",
        cure="check the checkpoint (did its training diverge?), or load it with dtype float32",
    )


def no_log_probs(name: str, values: NDArray[Any]) -> ModelError:
    """The error for numbers of which some are no log-probabilities."""
    highest = float(values.max(initial=-np.inf))  # NaN if one is
    if not np.isfinite(highest):
        return not_finite(name)
    return ModelError(
        f"the model {name!r} gives {highest:.3g} nats for a log-probability, which is above 0",
        cure="have its adapter give log-probabilities (a log-softmax, in nats), not logits",
    )


def not_normalised(name: str, total: float) -> ModelError:
    """The error for a model whose next tokens have a `total` probability above 1."""
    return ModelError(
        f"the model {name!r} gives next tokens that have a probability of {total:.6g} together, "
        "which is more than 1",
        cure="have its adapter normalise them: a log-softmax over the vocabulary, in float32",
    )


def chain_log_probs(
    model: LanguageModel, ids: NDArray[np.int64], *, split: int
) -> NDArray[np.float64]:
    """Log-probabilities of rows' tokens, the first `split` as context, then one by one.

    Parameters
    ----------
    model : LanguageModel
    ids : int64 array of shape (n, length)
        Rows whose first `split` tokens are the same; they are walked in a batch.
    split : int

    Returns
    -------
    array of shape (n, length - 1), nats
    """
    context = Context(ids[0, :split].astype(np.int32))
    below = ids[:, split:].astype(np.int32)
    n, depths = below.shape
    found = np.empty((n, ids.shape[1] - 1))
    memory = max(64 * model.memory().bytes_per_held_token, 1) * n * (depths + 1)
    with model.open(context, memory_bytes=memory) as walker:
        handles = np.full(n, -1, np.int64)
        found[:, : split - 1] = walker.context_log_probs
        for depth in range(depths):
            at = np.full(n, depth, np.int64)
            step = walker.expand(
                Nodes(below[:, : max(depth, 1)], at, at, handles),
                Children(below[:, depth], np.arange(n + 1)),
            )
            found[:, split - 1 + depth] = step.log_probs
            handles = step.handles
    return found
