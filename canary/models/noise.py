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
from canary.models.base import Children, Context, LanguageModel, ModelFacts, Nodes, Rows

__all__ = ["chain_log_probs", "not_finite", "with_measured_noise"]

_SAFETY = 4.0
_ROWS = 32
_TOKENS = 24
_EPSILON = {"float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def with_measured_noise(model: Any, facts: ModelFacts) -> ModelFacts:
    """`facts` with `noise_bits_per_token` measured on random rows.

    The largest difference per token between one batch of 32 rows, single rows, and a
    walk with held states, times a safety factor of 4; at least 4 units of the dtype's
    rounding. Costs about 2,000 token computations.

    Raises
    ------
    ModelError
        If the model gives NaN or infinite numbers.
    """
    model.facts = facts  # the probes below read the vocabulary and the length limit
    rng = np.random.default_rng(0)
    length = min(_TOKENS, facts.length_limit or _TOKENS)
    ids = rng.integers(0, min(facts.vocabulary, model.tokenizer.size), (_ROWS, length))
    whole = model.score(Rows.of(ids.tolist())).reshape(_ROWS, length - 1)
    single = np.stack([model.score(Rows.of([row])) for row in ids[:8].tolist()])
    chain = chain_log_probs(model, ids[0], split=length // 2)
    if not all(np.isfinite(part).all() for part in (whole, single, chain)):
        raise not_finite(facts.name)
    worst = max(
        float(np.abs(whole[:8] - single).max()),
        float(np.abs(whole[0] - chain).max()),
        _EPSILON.get(facts.dtype, _EPSILON["float32"]),
    )
    return replace(facts, noise_bits_per_token=_SAFETY * worst / float(np.log(2)))


def not_finite(name: str) -> ModelError:
    """The error for a model whose log-probabilities are NaN or infinite."""
    return ModelError(
        f"the model {name!r} gives log-probabilities that are not finite numbers",
        cure="check the checkpoint (did its training diverge?), or load it with dtype float32",
    )


def chain_log_probs(
    model: LanguageModel, ids: NDArray[np.int64], *, split: int
) -> NDArray[np.float64]:
    """Log-probabilities of a row's tokens, the first `split` as context, then one by one.

    Returns
    -------
    array of shape (len(ids) - 1,), nats
    """
    context = Context(ids[:split].astype(np.int32))
    below = ids[split:].astype(np.int32)
    found: list[float] = []
    memory = max(64 * model.memory().bytes_per_held_token, 1) * (len(below) + 1)
    with model.open(context, memory_bytes=memory) as walker:
        handle = np.full(1, -1, np.int64)
        found.extend(float(p) for p in walker.context_log_probs)
        for depth in range(len(below)):
            held = handle
            at = np.full(1, depth, np.int64)
            step = walker.expand(
                Nodes(below[None, : max(depth, 1)], at, at, held),
                Children(below[depth : depth + 1]),
            )
            found.append(float(step.log_probs[0, 0]))
            handle = step.handles
    return np.array(found)
