"""A model asked about itself by random rows, and how far its numbers move by arithmetic alone.

The same token has slightly different log-probabilities in batches of different sizes and
computed from a cached state instead of the whole row. Costs closer than that are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canary.errors import ModelError
from canary.models.answered import not_finite, shaped_scores
from canary.models.facts import ModelFacts
from canary.models.language_model import (
    Children,
    Context,
    FloatArray,
    Ints,
    LanguageModel,
    Nodes,
    Rows,
    Walker,
)
from canary.records.progress import phase
from canary.statistics.number_checks import LN2

_SAFETY = 4.0
_ROWS, _AGAIN, _TOKENS = 24, 8, 24
_ROOMY = 2**24
# Of the effect of dropping the prefix: what cached states may change, and what a batch may
# where nothing is held (weights of 8 bits scale activations by the batch's largest).
_TOLERANCE, _LOOSE_TOLERANCE = 1e-3, 0.1

_UNSOUND = {
    "batch": "gives other numbers in another batch",
    "state": "gives other numbers below a cached state than in whole rows",
    "shorter": "gives other numbers for a token when its row ends sooner: does it look ahead, or "
    "crop its input?",
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
    rows, single rows, and a walk with cached states, times a safety factor of 4 and spread
    over its tokens; at least 4 units of float32's rounding per token, and one of the model's
    own dtype: where all these rows happen to round alike, others do not. Costs about 1,300
    token computations.

    Raises
    ------
    ModelError
        If the model gives NaN or infinite numbers, or differences that are no rounding:
        a model that looks ahead, forgets its states, or is never the same twice. Also if
        it takes a single token at once.
    """
    phase(f"Measuring the rounding of {facts.name}")
    model.facts = facts  # the probes below read the vocabulary and the length limit
    ids = random_rows(model, _ROWS, _TOKENS, seed=0)
    length = ids.shape[1]
    if length < 2:
        raise ModelError(
            f"the model {facts.name!r} takes 1 token at once, so it scores none: a token's "
            "probability follows from those before it",
            cure="check the length limit in its config (n_positions, max_position_embeddings)",
        )
    half = length // 2
    changed = ids[:_AGAIN].copy()
    changed[:, -2] = np.roll(changed[:, -2], 1)  # the last token is never read, only asked for
    # One batch of 32: rows and changed rows differ by the change alone.
    table = row_table(model, np.concatenate([ids, changed]))
    whole, other = table[:_AGAIN], table[_ROWS:]
    single = np.concatenate([row_table(model, [row]) for row in ids[:_AGAIN]])
    siblings = ids[:3].copy()
    siblings[:, :half] = ids[0, :half]
    rows, chain = row_table(model, siblings), chain_log_probs(model, siblings, split=half)
    if not all(np.isfinite(part).all() for part in (table, single, rows, chain)):
        raise not_finite(facts.name)
    differences = {
        "batch": whole - single,
        "future": (other - whole)[:, : length - 3],
        "state": rows - chain,
    }
    # What dropping the first half of a row changes says what is much.
    alone = row_table(model, ids[:_AGAIN, half - 1 :])
    effect = float(np.abs(alone - whole[:, half - 1 :]).max(initial=0.0))
    # Numbers of 16 bits are rounded by more where they are larger, as of rare tokens.
    units = _SAFETY * EPSILON.get(facts.dtype, 0.0) * float(np.abs(table).max())
    for cause, difference in differences.items():
        strict = cause == "future" or "reuse" in facts.capabilities
        share = _TOLERANCE if strict else _LOOSE_TOLERANCE
        allowed = max(share * effect, rounding(facts), units)
        worst = float(np.abs(difference).max(initial=0.0))
        if worst > allowed:
            fault = "shorter" if cause == "state" and not strict else cause
            raise ModelError(
                f"the model {facts.name!r} {_UNSOUND[fault]} (the log-probability of a token "
                f"moves by {worst:.2g} nats, rounding explains {allowed:.2g})",
                cure="give a causal language model in evaluation mode whose states carry "
                "everything that came before, and keep nothing in the module between calls"
                + ", and whose logits of position i are for token i + 1, in every call"
                * (cause == "state")
                + "; or audit the model as it was before it was quantised" * bool(facts.weights),
            )
    sums = [np.abs(differences[cause].sum(axis=1)).max() for cause in ("batch", "state")]
    per_token = max(float(max(sums)) / (length - 1), EPSILON["float32"])
    noise = max(_SAFETY * per_token, EPSILON.get(facts.dtype, 0.0))
    return replace(facts, noise_bits_per_token=noise / LN2)


def remeasure_noise(model: Any, **changed: Any) -> None:
    """Give a model whose weights have changed the noise that it has now, in its facts.

    `changed` are other facts to replace. All are as before if it fails, as `with_measured_noise`
    does.
    """
    facts = model.facts
    try:
        facts = with_measured_noise(model, replace(facts, **changed))
    finally:
        model.facts = facts


def random_rows(model: LanguageModel, count: int, length: int, *, seed: int) -> Ints:
    """Rows of random tokens, of shape (count, length); shorter if the model takes no more."""
    size = min(model.facts.vocabulary, model.tokenizer.size)
    width = min(length, model.facts.length_limit or length)
    return np.random.default_rng(seed).integers(0, size, (count, width))


def row_table(model: LanguageModel, rows: Any) -> FloatArray:
    """Log-probabilities of rows of one length, from a single call; (rows, length - 1), nats.

    A ModelError if the model does not give one number for each scored token.
    """
    asked = Rows.of(np.asarray(rows).tolist())
    return shaped_scores(model.score(asked), asked, model).reshape(len(rows), -1)


def opened(model: LanguageModel, context: Any, *, states: int = 256) -> Walker:
    """A walker below a context, with memory for at least as many states."""
    memory = max(_ROOMY, states * model.memory().bytes_per_held_token)
    return model.open(Context(np.asarray(context, np.int32)), memory_bytes=memory)


def nodes_of(
    paths: Sequence[Sequence[int]], *, priced: int | None = None, handles: Ints | None = None
) -> Nodes:
    """Nodes of paths of any lengths; all of their tokens have a price unless said."""
    lengths = np.array([len(path) for path in paths], np.int64)
    padded = np.zeros((len(paths), max(int(lengths.max()), 1)), np.int32)
    for row, path in zip(padded, paths, strict=True):
        row[: len(path)] = path
    return Nodes(
        padded,
        lengths,
        lengths if priced is None else np.full(len(paths), priced, np.int64),
        np.full(len(paths), -1, np.int64) if handles is None else handles,
    )


def chain_log_probs(model: LanguageModel, ids: Ints, *, split: int) -> NDArray[np.float64]:
    """Nats of rows' tokens, priced one by one below a context; shape (n, length - 1).

    Parameters
    ----------
    model : LanguageModel
    ids : int64 array of shape (n, length)
        Rows that are walked in a batch; their first `split` tokens are the same, the context.
    split : int
    """
    n, length = ids.shape
    below, handles = np.empty((n, length - split)), np.full(n, -1, np.int64)
    with opened(model, ids[0, :split], states=4 * n * (length - split + 1)) as walker:
        context = np.tile(walker.context_log_probs, (n, 1))
        for at in range(split, length):
            nodes = nodes_of(ids[:, split:at].tolist(), handles=handles)
            own = Children(ids[:, at].astype(np.int32), np.arange(n + 1))
            step = walker.expand(nodes, own)
            below[:, at - split], handles = step.log_probs, step.handles
    return np.concatenate([context, below], axis=1)
